"""The verb `audit`: read everything, look for copies, run the attacks, score where private data are given."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from bayesrecon.auditing.channel import Channel
from bayesrecon.auditing.columns import look_at_columns
from bayesrecon.auditing.copies import find_copies
from bayesrecon.auditing.draws import draws_finding, draws_remedies, start
from bayesrecon.auditing.opened import Opened, open_release
from bayesrecon.auditing.private import Private, read_private
from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.precision import in_float64
from bayesrecon.results.audit import Audit, Finding, Thresholds, ordered, with_score
from bayesrecon.types import Model, Progress


@in_float64
def audit(
    source: Any,
    model: Model | None = None,
    *,
    data: Any = None,
    known: Mapping[str, Any] | None = None,
    unit: str | None = None,
    remedies: bool = True,
    thresholds: Thresholds | None = None,
    name: str | None = None,
    key: int = 0,
    progress: Progress | None = None,
    trusted: bool = False,
) -> Audit:
    """What publishing a file would give away.

    Plain copies of data are looked for without a model. With one, side channels are run as attacks: log densities by
    the value kernel (`lp_t - log pi0(theta_t) - log |det| = sum_n l(theta_t, x_n) + c`), pointwise log likelihoods and
    predictive draws record by record, and the draws themselves by `recover`. No attack sees `data`.

    Args:
        source: a netCDF file or zarr directory of ArviZ; a CmdStan CSV file or a list of them, one a chain; a CmdStanPy
            fit; a NumPyro MCMC; an InferenceData or DataTree; posteriordb's JSON or zip; a NumPy archive; a dictionary
            of arrays `(chains, draws, *shape)`.
        model: the model behind the draws; files by `bayesrecon fit` name theirs.
        data: the private data, `{column: (N,)}` or the path of a table: findings are then scored against them.
        known: `{field: (N, *shape)}` that an attacker knows row by row.
        unit: the known field with one record for each of its values.
        remedies: also predict and measure what thinning and rounding would leave.
        thresholds: what counts as severe.
        key: seeds everything random.
        progress: called with a label and the fraction done.
        trusted: the file is your own: no limits on time and memory.

    Returns:
        An `Audit` with `findings`, `severity`, `to_dict()`, `to_dataframe()` and `save_report(path)`.

    Raises:
        BayesreconError: a source that cannot be read, draws that are not of this model, data that do not fit it.

    >>> import numpy as np
    >>> found = audit({"mu": np.random.default_rng(0).normal(size=(2, 50)), "x": np.ones((2, 50, 1)) * np.arange(9.0)})
    >>> found.severity, found.findings[0].title
    ('high', 'posterior/x is the same in every draw')
    """
    began = time.perf_counter()
    limits = thresholds or Thresholds()
    contents = read_contents(source, name=name, progress=progress, trusted=trusted)
    model = model or _stored_model(contents)
    private = read_private(data, model)
    warnings = list(contents.notes)
    found = find_copies(contents, _named(private)) if private else find_copies(contents)
    if model is None or contents.draws is None:
        found += look_at_columns(contents, key)
        if contents.draws is None and not found:
            raise BayesreconError(f"{contents.name}: there are no draws (no group 'posterior') and no data to look for")
        warnings.append(
            "there are no draws (no group 'posterior'): only copies were looked for"
            if contents.draws is None
            else "without a model (--model) draws, log densities and predictions were not attacked"
        )
    else:
        more, notes = _attacks(contents, model, known or {}, unit, remedies, limits, key, progress)
        found += more
        warnings += notes
    if private is not None:
        found = [_scored(f, private, model, tuple(known or ()), unit) for f in found]
    settings = {
        "model": model.name if model else None,
        "model_settings": dict(model.settings) if model else {},
        "data": private.stamp if private else None,
        "known": sorted(known or ()),
        "unit": unit,
        "remedies": remedies,
        "key": key,
    }
    return Audit(
        findings=ordered(found),
        name=contents.name,
        format=contents.format,
        model=model.name if model else None,
        draws=0 if contents.draws is None else contents.draws.chains * contents.draws.length,
        files=tuple(asdict(f) for f in contents.files),
        settings=settings,
        thresholds=limits,
        warnings=tuple(dict.fromkeys(warnings)),
        seconds=time.perf_counter() - began,
        used=model,
    )


def merge(audits: Sequence[Audit]) -> Audit:
    """Audits of several files as one; findings say which file they are of."""
    if len(audits) == 1:
        return audits[0]
    findings = [replace(f, where=tuple(f"{a.name}: {w}" for w in f.where)) for a in audits for f in a]
    first = audits[0]
    return replace(
        first,
        findings=ordered(findings),
        name=", ".join(a.name for a in audits),
        format=", ".join(dict.fromkeys(a.format for a in audits)),
        model=", ".join(dict.fromkeys(a.model for a in audits if a.model)) or None,
        draws=sum(a.draws for a in audits),
        files=tuple(f for a in audits for f in a.files),
        warnings=tuple(f"{a.name}: {w}" for a in audits for w in a.warnings),
        seconds=sum(a.seconds for a in audits),
    )


def channels() -> tuple[Channel, ...]:
    """All that is attacked in a file besides its draws, in order."""
    return tuple(sorted(discover("bayesrecon.auditing.channels", "CHANNEL"), key=lambda channel: channel.rank))


def _attacks(
    contents: Contents,
    model: Model,
    known: Mapping[str, Any],
    unit: str | None,
    remedies: bool,
    limits: Thresholds,
    key: int,
    progress: Progress | None,
) -> tuple[list[Finding], list[str]]:
    """Every attack that the contents allow; one that cannot be run is a warning, not an end."""
    release, kept = open_release(contents, model)
    findings: list[Finding] = []
    warnings: list[str] = list(release.notes)
    reference, recovery = Reference(model.fields, {k: np.asarray(v) for k, v in known.items()}), None
    try:
        recovery, reference = start(release, known, unit, key, progress)
        warnings += recovery.warnings
        tried = draws_remedies(release, recovery, known, key) if remedies else ()
        finding = draws_finding(recovery, unit, limits, tried)
        findings += [finding] if finding else []
    except BayesreconError as error:
        warnings.append(f"the draws alone were not attacked: {error}")
    opened = Opened(contents, model, release, kept, reference, recovery, known, limits, remedies, key, progress)
    for channel in channels():
        try:
            more, notes = channel.attack(opened)
        except BayesreconError as error:
            more, notes = [], [f"{channel.name}: {error}"]
        findings += more
        warnings += notes
    if not any(f.kind == "log-likelihood" for f in findings):
        findings += look_at_columns(contents, key)
    return findings, warnings


def _stored_model(contents: Contents) -> Model | None:
    from bayesrecon.posteriors.sources import stored_model

    if contents.draws is None or "bayesrecon_model" not in contents.draws.attributes:
        return None
    return stored_model(contents.draws)


def _named(private: Private) -> Callable[[Any], str | None]:
    """Which private column an array is."""
    from bayesrecon.auditing.scoring import column_of

    return lambda values: column_of(values, private.columns)


def _scored(finding: Finding, private: Private, model: Model | None, known: Sequence[str], unit: str | None) -> Finding:
    """The finding with the truth beside it. Attacks are over when this is called."""
    from bayesrecon.auditing.scoring import match_records, measured_remedies
    from bayesrecon.evaluate.truth import true_statistics

    if model is None or private.records is None or not finding.evidence:
        return finding
    truth = true_statistics(model, private.records, known=tuple(known), unit=unit)
    fields = {f: v for f, v in finding.records.items() if f in private.records}
    data = {f: private.records[f] for f in fields}
    score = match_records(fields, data) if fields else None
    return with_score(finding, score, truth, measured_remedies(finding, truth, data))

"""The verb `audit`: read everything, look for copies, run the attacks, score where private data are given."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from bayesrecon.auditing.columns import look_at_columns
from bayesrecon.auditing.copies import find_copies
from bayesrecon.auditing.effort import Effort, budget_of
from bayesrecon.auditing.fits import audit_fit
from bayesrecon.auditing.held import PASS_A_MODEL, attack_of, held, not_run, without_attack
from bayesrecon.auditing.private import Private, read_private
from bayesrecon.auditing.stages import Stage, stages
from bayesrecon.auditing.tables import table_to_audit
from bayesrecon.errors import BayesreconError, Interrupted
from bayesrecon.models.door import model_of
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.door import is_fit, release_of
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.summaries import is_table
from bayesrecon.precision import in_float64
from bayesrecon.results.audit import Audit, Finding, NotRun, Thresholds, ordered, with_score
from bayesrecon.types import Model, Progress, Release


@in_float64
def audit(
    source: Any,
    model: Any = None,
    *,
    data: Any = None,
    known: Mapping[str, Any] | None = None,
    remedies: bool = True,
    effort: Effort = "quick",
    thresholds: Thresholds | None = None,
    name: str | None = None,
    key: int = 0,
    progress: Progress | None = None,
    report: Callable[[Finding], None] | None = None,
    **which: Any,
) -> Audit:
    """What publishing a file, a fit or a table of estimates would give away.

    Plain copies of data are looked for without a model, and what a model would open is listed with its severity; the
    verdict is then "incomplete". With one, side channels are run as attacks: log densities by
    the value kernel (`lp_t - log pi0(theta_t) - log |det| = sum_n l(theta_t, x_n) + c`), pointwise log likelihoods and
    predictive draws record by record, and the draws themselves by `recover`. No attack sees `data`.

    Args:
        source: a netCDF file or zarr directory of ArviZ; a CmdStan CSV file or a list of them, one a chain; a CmdStanPy
            fit; a NumPyro MCMC; an InferenceData or DataTree; posteriordb's JSON or zip; a NumPy archive; a dictionary
            of arrays `(chains, draws, *shape)`; or what `read_contents(..., trusted=True)` read without limits. Or a
            fit: a trained parameter of `bayesrecon.posteriors` (a variational fit, a mode with its covariance), a
            result of statsmodels, an estimator of scikit-learn, or a CSV table or DataFrame of estimates.
        model: the model behind the draws, a `Model`, a shipped name, a PyMC or Bambi model; files by `bayesrecon fit`
            name theirs.
        data: the private data, `{column: (N,)}` or the path of a table: findings are then scored against them.
        known: `{field: (N, *shape)}` that an attacker knows row by row.
        remedies: also tell what thinning and rounding would leave, after everything was attacked.
        effort: "quick" measures remedies until 45 seconds after the beginning, the severest findings' first; the others
            are predicted by theory, or said not to be tried. "full" measures every one, which may take many minutes.
        thresholds: what counts as severe.
        key: seeds everything random.
        progress: called with a label and the fraction done.
        report: called with each finding as it is found, before remedies are tried.
        which: of draws `unit`, the known field with one record for each of its values; of a table of estimates
            `correlations`, `response`, `jacobian` and `draws`, as in `posteriors.from_table`.

    Returns:
        An `Audit` with `findings`, `severity`, `verdict` ("incomplete" where an attack is among `not_run`),
        `to_dict()`, `to_dataframe()` and `save_report(path)`.

    Raises:
        BayesreconError: a source that cannot be read, draws that are not of this model, data that do not fit it.
        Interrupted: a `KeyboardInterrupt` once attacks were under way; its `so_far` is the audit until then, whose
            verdict is "incomplete".

    >>> import numpy as np
    >>> found = audit({"mu": np.random.default_rng(0).normal(size=(2, 50)), "x": np.ones((2, 50, 1)) * np.arange(9.0)})
    >>> found.severity, found.findings[0].title
    ('high', 'posterior/x is the same in every draw')
    >>> found.verdict, found.not_run[0].attack, found.not_run[0].reason
    ('incomplete', 'draws', 'no model was given')
    """
    began = time.perf_counter()
    limits, budget = thresholds or Thresholds(), budget_of(effort, began)
    unit = which.pop("unit", None)
    if (fit := _fit_of(source, model, which)) is not None:
        if unit is not None:
            raise BayesreconError("unit= has no part in the audit of a fit; recover(release, unit=...) takes it")
        given: dict[str, Any] = {"known": known, "remedies": remedies, "effort": effort, "thresholds": limits}
        fitted = audit_fit(fit[0], **fit[1], **given, key=key, progress=progress)
        private = read_private(data, fitted.used)
        if private is not None:
            scored = tuple(_scored(f, private, fitted.used, tuple(known or ()), None) for f in fitted.findings)
            fitted = replace(fitted, findings=scored, settings={**fitted.settings, "data": private.stamp})
        return fitted if name is None else replace(fitted, name=name)
    contents = read_contents(source, name=name, progress=progress)
    model = _stored_model(contents) if model is None else model_of(model)
    private = read_private(data, model)
    copies = find_copies(contents, _named(private)) if private else find_copies(contents)
    settings = {
        "model": model.name if model else None,
        "model_settings": dict(model.settings) if model else {},
        "data": private.stamp if private else None,
        "known": sorted(known or ()),
        "unit": unit,
        "remedies": remedies,
        "effort": effort,
        "key": key,
    }

    def result(stage: Stage) -> Audit:
        findings = list(stage.findings)
        if private is not None:
            findings = [_scored(f, private, model, tuple(known or ()), unit) for f in findings]
        return Audit(
            findings=ordered(findings),
            name=contents.name,
            format=contents.format,
            model=model.name if model else None,
            draws=0 if contents.draws is None else contents.draws.chains * contents.draws.length,
            files=tuple(asdict(f) for f in contents.files),
            settings=settings,
            thresholds=limits,
            warnings=tuple(dict.fromkeys((*contents.notes, *stage.warnings))),
            seconds=time.perf_counter() - began,
            used=model,
            not_run=tuple(dict.fromkeys(stage.untried)),
        )

    if model is None or contents.draws is None:
        more, untried, note = _unopened(contents, key)
        if contents.draws is None and not copies and not more:
            raise BayesreconError(f"{contents.name}: there are no draws (no group 'posterior') and no data to look for")
        _tell(report, (*copies, *more))
        return result(Stage((*copies, *more), (note,), tuple(untried)))
    last, shown = Stage(tuple(copies), (), ()), 0
    try:
        for stage in stages(
            contents,
            model,
            known=known or {},
            unit=unit,
            budget=budget if remedies else None,
            thresholds=limits,
            key=key,
            progress=progress,
        ):
            last = replace(stage, findings=(*copies, *stage.findings))
            _tell(report, last.findings[shown:])
            shown = len(last.findings)
    except KeyboardInterrupt:
        raise Interrupted(result(_with_held(contents, model, last))) from None
    return result(_with_held(contents, model, last))


def _tell(report: Callable[[Finding], None] | None, found: Iterable[Finding]) -> None:
    for finding in found if report is not None else ():
        report(finding)  # type: ignore[misc]


def _with_held(contents: Contents, model: Model, stage: Stage) -> Stage:
    """And what is in the file for attacks that were not run."""
    missed = {n.attack for n in stage.untried}
    closed = [f for f in held(contents, model, stage.findings) if attack_of(f) in missed or not attack_of(f)]
    return replace(stage, findings=(*stage.findings, *closed), untried=(*stage.untried, *without_attack(closed)))


def _fit_of(source: Any, model: Any, table: Mapping[str, Any]) -> tuple[Release | None, dict[str, Any]] | None:
    """The release of a fit or a table, and how it is audited; None for what holds draws."""
    if is_table(source):
        if model is None:
            raise BayesreconError(f"a table of estimates needs its model= {', '.join(ESTIMATORS)}, or one of its own")
        return table_to_audit(source, model, **table)
    if table:
        raise BayesreconError(f"{next(iter(table))}= belongs to a table of estimates with standard errors")
    source = getattr(source, "release", source)  # of a `Trained`
    if not isinstance(source, Release) and not is_fit(source):
        return None
    release = release_of(source, model)
    if release.temperature:
        raise BayesreconError(
            f"{release.name} is a release of draws: audit what is published of them, the file or a dictionary of arrays"
        )
    return release, {}


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
        not_run=tuple(replace(n, attack=f"{a.name}: {n.attack}") for a in audits for n in a.not_run),
        seconds=sum(a.seconds for a in audits),
    )


def _unopened(contents: Contents, key: int) -> tuple[list[Finding], list[NotRun], str]:
    """What is there to be opened where nothing can be: findings, what was not tried, and a warning."""
    findings = look_at_columns(contents, key)
    closed = held(contents, found=findings)
    if contents.draws is None:
        reason = "there are no draws in the file (no group 'posterior')"
        remedy = "audit it together with the draws, or drop it"
        note = "there are no draws (no group 'posterior'): only copies were looked for"
    else:
        reason, remedy = "no model was given", PASS_A_MODEL
        note = "without a model (--model) draws, log densities and predictions were not attacked"
    untried = [not_run(f, reason, remedy) for f in (*findings, *closed) if attack_of(f)]
    return findings + closed, untried + without_attack(closed), note


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

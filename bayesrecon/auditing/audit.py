"""The verb `audit`: read everything, search for copies of data, run the attacks, and score the results."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.auditing.acro_outputs import audits_of_acro
from bayesrecon.auditing.assembly import (
    Stage,
    merge,
    named,
    scored,
    scored_table,
    unopened,
    with_accounts,
    with_data,
    with_sensitive_values,
)
from bayesrecon.auditing.cell_totals import dominance_of_draws
from bayesrecon.auditing.channel import channels
from bayesrecon.auditing.density_columns import Numbers
from bayesrecon.auditing.draw_findings import draws_finding, draws_remedies, start
from bayesrecon.auditing.effort import Budget, Effort, Open, budget_of, unmeasured_note
from bayesrecon.auditing.fit_findings import FitOptions, audit_fit, knowledge_settings, look_at_estimates
from bayesrecon.auditing.input import contents_and_model
from bayesrecon.auditing.look import Look
from bayesrecon.auditing.opened import Opened, open_release
from bayesrecon.auditing.plain_channels import INCALCULABLE, READING, not_computed, run_plain_channels
from bayesrecon.auditing.pointwise import look_at_columns
from bayesrecon.auditing.private_data import read_private
from bayesrecon.auditing.saved_fits import attack_fits
from bayesrecon.auditing.sensitive_values import DRAWS
from bayesrecon.auditing.several_tables import TablesOptions, audits_of_tables, one_for_each_model
from bayesrecon.auditing.table_remedies import TableOptions, table_to_audit
from bayesrecon.auditing.units import units_not_tried
from bayesrecon.errors import BayesreconError, Interrupted
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.problem import Problem
from bayesrecon.json_types import Json
from bayesrecon.knowledge import KNOWS, Knows, of_model, refuse_renamed
from bayesrecon.model import Model, Progress
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.posteriors.approximated.cmdstan_distributions import is_cmdstan_approximation
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.conversion import is_fit, release_of
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.posteriors.printed.acro import is_acro
from bayesrecon.posteriors.printed.summaries import is_table
from bayesrecon.precision import in_float64
from bayesrecon.releases import OneAtom, PosteriorDraws, Release
from bayesrecon.results.audit import Audit, ordered
from bayesrecon.results.findings import LEVELS, Finding, NotRun, Thresholds
from bayesrecon.results.recovery import Recovery
from bayesrecon.running.threads import on_one_thread

_OTHERS = "pass the model that made these draws, including its prior, and draws with all their digits"
_MEND = "correct what the reason names, or drop these values"
_AGAIN = "run it again and let it end"
_STOPPED = "the audit was interrupted"
_SHARES = (0.5, 0.4)  # shares of the progress bar for the draws and for all channels; the rest is for remedies


@in_float64
@on_one_thread
@np.errstate(over="ignore", invalid="ignore")  # extreme numbers are examined like any others
def audit(
    source: object,
    model: object = None,
    *,
    data: Mapping[str, Array] | str | os.PathLike[str] | None = None,
    known: Mapping[str, Array] | None = None,
    remedies: bool | Effort = True,
    thresholds: Thresholds | None = None,
    name: str | None = None,
    key: int = 0,
    progress: Progress | None = None,
    **which: Any,
) -> Audit:
    """What publishing a file, a fit or a table of estimates would reveal about the private data.

    Without a model, the audit searches for plain copies of data, and lists values that a model makes attackable. The
    verdict is then "incomplete". With a model, it attacks the draws with `recover`, and also the side channels. Log
    densities are inverted with the value kernel (`lp_t - log pi0(theta_t) - log |det| = sum_n l(theta_t, x_n) + c`),
    and pointwise log likelihoods and predictive draws record by record. No attack sees `data`.

    Args:
        source: what would be published. It can be a release of `bayesrecon.posteriors`; a netCDF file or zarr directory
            of ArviZ; a CmdStan CSV file or a list of them, one per chain; a CmdStanPy fit; a NumPyro MCMC; an
            InferenceData or DataTree; JSON or zip of posteriordb; a NumPy archive; or a dictionary of arrays `(chains,
            draws, *shape)`. It can be a saved object of R (`.rds`, `.RData`) or of Python (pickle, joblib, torch,
            skops, safetensors, ONNX, PMML); such objects are parsed, never loaded. It can be a fit: a result of
            statsmodels, an estimator of scikit-learn, a printed table (`posteriors.from_table`), a DataFrame of
            estimates, or `results.json` of ACRO. Tables in a list are audited one by one and together. What
            `read_leaves(..., trusted=True)` returns was read without limits.
        model: the model behind the draws: a `Model`, the name of a shipped model, a PyMC or Bambi model, or the path of
            a Stan program. Files written by `bayesrecon fit` and by R's interfaces to Stan name their model.
        data: the private data, `{column: (N,)}` or the path of a table. Findings are scored against them.
        known: `{field: (N, *shape)}`, fields that an attacker knows row by row.
        remedies: whether to report what thinning and rounding would leave, after all attacks. "quick", or True,
            measures remedies until 45 seconds of CPU time after the start of the audit, those of the most severe
            findings first. The other remedies are predicted by theory or reported as not tried. "full" measures all of
            them, which may take many minutes.
        thresholds: what counts as severe.
        key: seed of everything random.
        progress: called with a label and the completed fraction. If it has a method `found`, this is called with each
            finding as it is found, before remedies are tried.
        which: what else an attacker knows (`Knows`): `total`, `domain`, `factors`, and for draws `unit`. For draws also
            `public`: names or places of what may stay, with wildcards, such as "prior_sd" or "constant_data/*". For a
            table of estimates also `correlations`, `response`, `formula`, `jacobian` and `draws` as in
            `posteriors.from_table`, and `column`, which names one or several of the table's models.

    Returns:
        An `Audit` with `findings`, `severity`, `verdict` ("incomplete" if any attack is in `not_run`), `to_dict()`,
        `to_dataframe()` and `save_report(path)`.

    Raises:
        BayesreconError: the source cannot be read, the draws are not of this model, or the data do not fit the model.
        Interrupted: a `KeyboardInterrupt` after attacks had started. Its `so_far` is the audit up to then, with the
            verdict "incomplete".

    >>> import numpy as np
    >>> mu, ages = np.random.default_rng(0).normal(size=(2, 50)), np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
    >>> found = audit({"mu": mu, "x": np.ones((2, 50, 1)) * ages})
    >>> found.severity, found.findings[0].title
    ('high', 'posterior/x is the same in every draw')
    >>> found.verdict, found.not_run[0].attack, found.not_run[0].reason
    ('incomplete', 'draws', 'no model was given')
    """
    began = time.perf_counter()
    effort = remedies if isinstance(remedies, str) else "quick"
    limits, budget = thresholds or Thresholds(), budget_of(effort)
    refuse_renamed(which, "audit")
    allowed = tuple(which.pop("public", ()))
    stated_knowledge = {"known": known or None, **{k: which.pop(k) for k in KNOWS if k in which}}
    knows = cast(Knows, {k: v for k, v in stated_knowledge.items() if v is not None})
    unit = knows.get("unit")
    if isinstance(source, str | Path) and is_acro(source):
        return merge(audits_of_acro(source, audit, limits, remedies=remedies, key=key, progress=progress, **knows))
    if isinstance(which.get("column"), list | tuple):
        source = one_for_each_model(source, which)
    if isinstance(source, list | tuple) and len(source) > 1 and all(map(is_table, source)):
        shared: TablesOptions = {"remedies": remedies, "thresholds": limits, "key": key, "progress": progress}
        audits, more, closed = audits_of_tables(source, model, which, knows, table_to_audit, audit, shared)
        merged = merge(audits)
        return replace(merged, findings=ordered([*merged.findings, *more]), not_run=(*merged.not_run, *closed))
    fit_options: FitOptions = {
        "remedies": bool(remedies),
        "effort": effort,
        "thresholds": limits,
        "key": key,
        "progress": progress,
    }
    if (fit := _fit_of(source, model, which)) is not None:
        if unit is not None:
            raise BayesreconError("unit= is not used in the audit of a fit; recover(release, unit=...) takes it")
        if allowed:
            raise BayesreconError(
                "public= is not used in the audit of a fit: it names what may stay in a file of draws"
            )
        fitted = audit_fit(fit[0], **fit[1], knows=knows, **fit_options)
        fitted = with_data(fitted, data, tuple(known or ()))
        if is_cmdstan_approximation(source):
            fitted = _with_file(fitted, audit(read_leaves(source), data=data, remedies=remedies, key=key))
        return fitted if name is None else replace(fitted, name=name)
    stated = model is not None
    contents, model, missing = contents_and_model(source, model, name, progress)
    if model is None and knows.keys() - {"known"} and contents.saved is None and not contents.estimates:
        keywords = ", ".join(f"{name}=" for name in knows if name != "known")
        raise BayesreconError(f"{keywords} describes a model's records; pass the model= behind {contents.name}")
    try:
        private = read_private(data, model)
    except BayesreconError:
        if stated or contents.program is None:
            raise
        private = read_private(data, None)  # a program in the file may have other names for the columns
    look = Look(contents, model, named(private, contents), key)
    copies, unseen = run_plain_channels(look, allowed, progress)
    tables, closed = look_at_estimates(contents, knows, **fit_options)
    copies += [f if used is None else scored_table(f, used, data, tuple(known or ())) for f, used in tables]
    unseen += closed
    settings = {
        "model": model.name if model else None,
        "model_settings": dict(model.settings) if model else {},
        "data": private.stamp if private else None,
        **knowledge_settings(knows),
        "unit": unit,
        "public": list(allowed),
        "remedies": bool(remedies),
        "effort": effort,
        "key": key,
    }

    def result(stage: Stage) -> Audit:
        stage = with_accounts(look, replace(stage, untried=(*stage.untried, *unseen)), allowed)
        findings = list(stage.findings)
        if private is not None:
            findings = [scored(f, private, model, tuple(known or ()), _unit_field(knows)) for f in findings]
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

    if contents.saved is not None:
        if model is not None:
            raise BayesreconError(f"{contents.name} is a saved object, which has its own model; omit model=")

        def attack(release: Release) -> Audit:
            audited = audit_fit(release, knows=of_model(knows, release.about), **fit_options)
            with suppress(BayesreconError):  # the data lack a column of this fit, and were compared unchanged
                audited = with_data(audited, data, ())
            return audited

        attacked = attack_fits(contents, attack)
        _announce(progress, (*copies, *attacked.findings))
        return result(Stage((*copies, *attacked.findings), attacked.warnings, attacked.untried))
    if model is None or contents.draws is None:
        more, untried, note = unopened(contents, key, copies)
        held = any(e.role or e.kind in ("array", "labels", "bytes", "text") for e in contents.entries)
        if contents.draws is None and not (copies or more or contents.unread or held):
            raise BayesreconError(f"{contents.name}: there are no draws (no group 'posterior') and no data to look for")
        _announce(progress, (*copies, *more))
        return result(Stage((*copies, *more), tuple(filter(None, (missing, note))), tuple(untried)))
    last, reported = Stage(tuple(copies), (), ()), 0
    try:
        for stage in _stages(
            contents,
            model,
            knows=knows,
            budget=budget if remedies else None,
            thresholds=limits,
            key=key,
            progress=progress,
        ):
            last = replace(stage, findings=(*copies, *stage.findings))
            _announce(progress, last.findings[reported:])
            reported = len(last.findings)
    except KeyboardInterrupt:
        raise Interrupted(result(with_sensitive_values(contents, model, last))) from None
    return result(with_sensitive_values(contents, model, last))


def _fit_of(source: object, model: object, table: Json) -> tuple[Release | None, TableOptions] | None:
    """The release of a fit or a table, and options for its audit; None if the source contains draws."""
    if is_table(source):
        if not isinstance(model, str | Model):
            raise BayesreconError(f"a table of estimates needs its model= {', '.join(ESTIMATORS)}, or your own")
        return table_to_audit(source, model, **table)
    if table:
        raise BayesreconError(f"{next(iter(table))}= belongs to a table of estimates with standard errors")
    source = getattr(source, "release", source)  # of a `Trained`
    if isinstance(source, OneAtom) or is_fit(source) or (model is not None and is_cmdstan_approximation(source)):
        release = release_of(source, model)
        return release, {"name": release.name}
    return None


def _with_file(fitted: Audit, file: Audit) -> Audit:
    """Merge the audit of a distribution with the audit of the file that contains it."""
    # The draws of such a file are those of the distribution, which was audited.
    others = (n for n in file.not_run if n.attack != DRAWS and (n.attack, n.where) != (READING, ("draws",)))
    return replace(
        fitted,
        findings=ordered([*fitted.findings, *(f for f in file.findings if f.kind != DRAWS)]),
        not_run=tuple(dict.fromkeys((*fitted.not_run, *others))),
        files=file.files,
        seconds=fitted.seconds + file.seconds,
    )


def _unit_field(knows: Knows) -> str | None:
    """The field that identifies the units; None if there is none, or several do together."""
    unit = knows.get("unit")
    return unit if isinstance(unit, str) else None


def _announce(progress: Progress | None, findings: Iterable[Finding]) -> None:
    if (announce := getattr(progress, "found", None)) is not None:
        for finding in findings:
            announce(finding)


def _stages(
    contents: Contents,
    model: Model,
    *,
    knows: Knows,
    budget: Budget | None,
    thresholds: Thresholds,
    key: int,
    progress: Progress | None,
) -> Iterator[Stage]:
    """Run every attack that the contents allow. Attacks that cannot be run are listed.

    Args:
        contents, model: the file and its model.
        knows: what an attacker knows.
        budget: time for remedies; None tries none.
        thresholds: what counts as severe.
        key: seed of everything random.
        progress: called with a label and the completed fraction.
    """
    available, skipped = channels()
    known, unit = knows.get("known") or {}, knows.get("unit")
    findings: list[Finding | Open] = []
    warnings: list[str] = []
    untried: list[NotRun] = [*skipped]

    def now(remaining: Iterable[str]) -> Stage:
        closed = tuple(f.finding if isinstance(f, Open) else f for f in findings)
        missing = (NotRun(name, _STOPPED, _AGAIN) for name in remaining)
        return Stage(closed, (*warnings, *map(str, untried)), (*untried, *missing))

    yield now([DRAWS, *(c.name for c in available)])
    release, positions = open_release(contents, model)
    warnings += release.notes
    reference, recovery = Reference(model.fields, {k: np.asarray(v) for k, v in known.items()}), None
    try:
        problem, recovery = start(release, knows, key, _part(progress, "the draws", 0.0, _SHARES[0]))
        reference = problem.reference
        warnings += recovery.warnings
        finding = draws_finding(recovery, _unit_field(knows), thresholds) if recovery.consistent else None
        if finding is not None:
            findings.append(_open_draws(finding, release, problem, recovery, key))
        dominated, unseen = dominance_of_draws(problem, recovery, ("posterior",))
        findings += dominated
        warnings += unseen
        untried += [NotRun(DRAWS, failure, _OTHERS, ("posterior",)) for failure in recovery.failures]
    except BayesreconError as error:
        untried.append(NotRun(DRAWS, f"the draws alone were not attacked: {error}", _MEND, ("posterior",)))
    except INCALCULABLE as error:
        untried.append(not_computed(DRAWS, error))
    yield now(c.name for c in available)
    numbers = Numbers(contents, model, release, positions, reference, key)
    opened = Opened(contents, model, release, positions, reference, recovery, known, thresholds, key, numbers)
    for i, channel in enumerate(available):
        done = _part(progress, channel.name, _SHARES[0] + i / len(available) * _SHARES[1], _SHARES[1] / len(available))
        if done is not None:
            done("", 0.0)
        try:
            more, notes = channel.attack(replace(opened, progress=done))
        except BayesreconError as error:
            more, notes = [], [NotRun(channel.name, str(error), _MEND)]
        except INCALCULABLE as error:
            more, notes = [], [not_computed(channel.name, error)]
        findings += more
        warnings += [note for note in notes if isinstance(note, str)]
        untried += [note for note in notes if isinstance(note, NotRun)]
        yield now([*(c.name for c in available[i + 1 :]), "the rest of the audit"])
    if unit is None:
        untried += units_not_tried(opened)
    if not any((f.finding if isinstance(f, Open) else f).kind == "log-likelihood" for f in findings):
        findings += look_at_columns(contents, key)
    if budget is not None:
        # Remedies for the most severe findings come first, as long as there is time.
        for i in sorted(range(len(findings)), key=lambda i: -_level(findings[i])):
            yield now(["remedies"])
            finding = findings[i]
            if isinstance(finding, Open):
                if progress is not None:
                    progress("trying remedies", sum(_SHARES) + (1 - sum(_SHARES)) * i / len(findings))
                findings[i] = finding.closed(budget)
        closed = [f for f in findings if isinstance(f, Finding)]
        warnings += filter(None, [unmeasured_note(closed)])
    yield now(())


def _open_draws(finding: Finding, release: PosteriorDraws, problem: Problem, recovery: Recovery, key: int) -> Open:
    return Open(finding, lambda budget: draws_remedies(release, problem, recovery, key, budget), first=True)


def _level(finding: Finding | Open) -> int:
    return LEVELS.index((finding.finding if isinstance(finding, Open) else finding).severity)


def _part(progress: Progress | None, attack: str, begin: float, width: float) -> Progress | None:
    """A progress function for one attack that reports the progress of the whole audit."""
    if progress is None:
        return None
    return lambda label, fraction: progress(
        f"attacking {attack}{': ' if label else ''}{label}", begin + width * min(max(fraction, 0.0), 1.0)
    )

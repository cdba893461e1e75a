"""Attacks on fits: a mode with its covariance, a table, a variational fit, a trained parameter, saved statistics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from bayesrecon.attacks.deletion.missing_record import missing_record_of
from bayesrecon.auditing.dominance import dominance
from bayesrecon.auditing.effort import Budget, budget_of, unmeasured_note
from bayesrecon.auditing.look import Asked, Determined, Fit, Look
from bayesrecon.auditing.small_counts import KIND as SMALL
from bayesrecon.auditing.small_counts import Count, counts_of, small_counts
from bayesrecon.auditing.stage import Stage
from bayesrecon.auditing.wording import PRIOR, items, places
from bayesrecon.errors import BayesreconError, Note, labelled
from bayesrecon.estimation.recovered import recovered
from bayesrecon.factors import Factor, families
from bayesrecon.inexact import NO_CORRELATIONS, Limit
from bayesrecon.knowledge import Knows, check_knowledge, of_model
from bayesrecon.model import Model, Progress
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.posteriors.approximated.normal import unpack
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.fits.mixed import from_known_covariance
from bayesrecon.posteriors.printed.coarser import estimates_alone, fewer_digits
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.posteriors.printed.estimates_in_files import Estimates
from bayesrecon.posteriors.printed.footers import cell
from bayesrecon.posteriors.printed.summaries import from_table, of_estimator
from bayesrecon.posteriors.roles import ESTIMATE
from bayesrecon.precision import in_float64
from bayesrecon.releases import Derived, Release, TrainedParameter, refuse_others
from bayesrecon.results.audit import ordered
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy, Severity, Thresholds
from bayesrecon.results.recovery import Recovery, Row

_DIGITS = (4, 3, 2)  # numbers of digits that are tried
_LISTED = 2  # number of statistics for which a remedy is reported
_KNOWING = "nothing is determined for an attacker who knows nothing else, and no knowledge was stated"
_TABLE = "estimates"
_PUBLISH = "publish a table of what readers need, and audit that"
_ALONE = "it has coefficients without their covariance, which alone determine no statistic of the data"
_SAY = "state what an attacker may know (known=), or compare it with a second fit of nearly the same data"
_SIZE, _SCALARS = 4, 16  # largest number of columns per estimate in a matrix, and of single numbers
_TELL = "state what an attacker may know: known= with the columns {}, total= or domain="
_MEND = "correct what the check names"
_HOW = "directly, by this release alone"
_VAGUE = 0.05  # if a presumption leaves n with a larger relative width, it is not reported
_NAMED = 8  # largest number of statistics named in a sentence
_PLAIN = ("real", "interval", "integer")  # kinds of domains for which more is presumed
_BEYOND = 1.5  # multiple of the smallest number of records that is used to see what knowing n would reveal
_MISSING = "missing record"
_PASS = "pass every field of all other records (known=), or omit known="
_CLOSE = 0.1  # a record counts as recovered up to this error, relative to its size
_COUNT = "n["  # how names of counts of a level or a cell begin


Score = Callable[[tuple[Finding, ...], Model, Asked], tuple[Finding, ...]]
"""Function that scores findings of a fit against the private data, with the fit's own model."""


@in_float64
def attack_fit(
    fit: Fit, asked: Asked, progress: Progress | None = None, determined: dict[str, Determined] | None = None
) -> Stage:
    """Attack a trained parameter: a fit, or a table of estimates. What it determines is added to `determined`.

    >>> import bayesrecon
    >>> release = bayesrecon.posteriors.gaussian(
    ...     bayesrecon.models.load("kidscore_momiq"), [25.8, 0.61, 2.9], np.diag([36.0, 0.0036, 0.0012]), jacobian=True
    ... )
    >>> attack_fit(Fit(release), Asked()).untried[0].attack  # no data have uncorrelated estimates here
    'fit'
    """
    if fit.release is None:
        return Stage(untried=fit.untried)
    knows = cast(Knows, {k: v for k, v in asked.knows.items() if v is not None})
    tells_all = set(knows.get("known") or ()) == set(fit.release.model.fields)
    if tells_all:
        stage = _last_record(fit.release, knows, fit.untried)
    else:
        recovery = recovered(fit.release, **knows, key=asked.key, progress=progress).judged()
        if determined is not None:
            determined[fit.place] = Determined(tuple(recovery))
        stage = _attacked(fit, recovery, knows, asked)
    found = tuple(replace(f, where=fit.where or f.where) for f in stage.findings)
    return Stage(found, stage.warnings, tuple(replace(n, where=fit.where or n.where) for n in stage.untried))


def _attacked(fit: Fit, recovery: Recovery, knows: Knows, asked: Asked) -> Stage:
    """What follows from a fit for an attacker who does not know all records."""
    assert fit.release is not None
    release, limits, budget, untried = fit.release, asked.thresholds, budget_of(asked.effort), fit.untried
    if recovery.whole:  # correlations would reveal nothing more
        untried = tuple(n for n in untried if not n.reason.startswith(NO_CORRELATIONS))
    untried += tuple(NotRun(fit.attack, failure, _MEND, (release.name,)) for failure in recovery.failures)
    tried = (alternatives_of(release) if fit.alternatives is None else fit.alternatives) if asked.remedies else {}

    unclear: dict[NotRun, None] = {}

    def finding(rows: list[Row], recovery: Recovery, knows: Knows) -> Finding:
        one = _finding(rows, recovery, fit.attack, limits)
        if one.severity != "high" and asked.several and asked.effort == "quick":
            return replace(one, remedies=tuple(Remedy(action, untried=True) for action in tried))
        return replace(one, remedies=_tried_out(recovery, rows, tried, knows, asked, budget))

    def cells(recovery: Recovery, knows: Knows, needs: str, more: str) -> tuple[Finding, ...]:
        small = small_counts(counts_of(recovery, release.about, _HOW), limits, (release.name,), needs, more)
        dominated, open_ = dominance(release, recovery, knows, limits, needs, more)
        unclear.update(dict.fromkeys(open_))
        return *small, *dominated

    rows = _told(recovery, release)
    findings = [finding(rows, recovery, knows)] if rows else []
    notes: list[str] = []
    if not recovery.failures:
        more = f", if {recovery.ranges}" if recovery.ranges else ""
        findings += cells(recovery, knows, _resting(recovery, "the model"), more)
        if names := _with_the_number(release, knows):
            notes.append(f"if an attacker knows n (total=): {places(names, _NAMED)} are determined, too")
    before = {row.name for row in _stated(recovery)}
    for words, more_knows in _presumptions(release, knows, "n" in before):
        presumed = recovered(release, **more_knows, key=asked.key).judged()
        if presumed.failures:
            notes.append(Note(f"the table contradicts that {words}: {presumed.failures[0]}"))
            continue
        rows = _told(presumed, release)
        n = next((row for row in _stated(presumed) if row.name == "n"), None)
        vague = n is None or n.lower is None or n.upper is None or n.upper - n.lower > _VAGUE * n.upper
        needs = _resting(presumed, f"the model, and that {words}")
        new, in_cells = any(r.name not in before for r in rows), cells(presumed, more_knows, needs, f", if {words}")
        if vague or not (new or any(f.kind == SMALL for f in in_cells)):
            continue
        if new:
            one = finding(rows, presumed, more_knows)
            findings.append(replace(one, title=f"{one.title}, if {words}", needs=needs))
        findings += in_cells
        notes += [labelled(f"if {words}", line) for line in presumed.warnings if line not in recovery.warnings]
        break
    if not findings and not untried:
        names = ", ".join(name for field, one in release.about.fields.items() for name in one.columns or (field,))
        untried = (NotRun(fit.attack, _KNOWING, _TELL.format(names), (release.name,)),)
    note = unmeasured_note(findings)
    return Stage(ordered(findings), (*notes, *recovery.warnings, *([note] if note else [])), (*untried, *unclear))


def _finding(rows: list[Row], recovery: Recovery, attack: str, limits: Thresholds) -> Finding:
    count = next((r for r in rows if r.name == "n"), None)
    low, high = (None, None) if count is None else (count.lower, count.upper)
    between = ""
    if low is not None and high is not None and low < high:
        between = f"n between {low:.6g} and {high:.6g}, "
    severity = _severity(rows, limits)
    title = f"the {attack} gives statistics of the data" + " exactly" * (severity == "medium")
    summary, needs = f"{between}{len(rows)} of {len(recovery)} statistics determined", _resting(recovery, PRIOR)
    return Finding(attack, severity, title, (recovery.release,), summary, needs, items(rows))


def _severity(rows: Iterable[Row], limits: Thresholds) -> Severity:
    """The severity of statistics: medium if the number of records is exact."""
    rows = list(rows)
    counts = (r for r in rows if r.name == "n" and r.lower is not None and r.upper is not None)
    exact = any(r.upper - r.lower < 2 * limits.exact_count for r in counts)  # type: ignore[operator]
    return "medium" if exact else "low" if rows else "info"


def _told(recovery: Recovery, release: Release) -> list[Row]:
    """The statistics that were determined, without the number of records that the table itself prints."""
    table = getattr(release, "limits", None)
    counted = table.footer.records(len(table.coefficients)) if isinstance(table, Coded) else None
    printed = counted is not None and counted[0] == counted[1]
    return [row for row in _stated(recovery) if not (printed and row.name == "n")]


def _resting(recovery: Recovery, needs: str) -> str:
    """What an attack needs, including presumptions, in words."""
    return f"{needs}, and that {recovery.ranges}" if recovery.ranges else needs


def _stated(recovery: Recovery) -> list[Row]:
    """The statistics that were determined."""
    return [r for r in recovery if r.estimate is not None and r.verdict != "undetermined"]


def alternatives_of(release: Release) -> dict[str, Callable[[], Release]]:
    """Remedies for a mean with a covariance. Those that do not apply raise an error when they are tried."""
    fit = cast(Derived, release)
    return {
        **{f"print {k} digits": partial(fewer_digits, fit, k) for k in _DIGITS},
        "leave the correlations out": partial(_without_correlations, release),
        "publish the estimates alone": partial(estimates_alone, fit),
    }


def _tried_out(
    recovery: Recovery,
    rows: Sequence[Row],
    alternatives: Mapping[str, Callable[[], Release]],
    knows: Knows,
    asked: Asked,
    budget: Budget,
) -> tuple[Remedy, ...]:
    """Try every remedy for these statistics and repeat the attack. The most effective remedies come first.

    The measured error of a statistic is its shift plus its error before the remedy. The predicted error is the one that
    the attack states after the remedy. If the attack fails, nobody knows what is left.
    """
    results, unmeasured, seconds = [], [], recovery.seconds
    for action, make in alternatives.items():
        if not budget.allows(seconds):
            unmeasured.append(Remedy(action, untried=True))
            continue
        try:
            repeated, seconds = budget.timed(lambda make=make: recovered(make(), **knows, key=asked.key).judged())
        except BayesreconError:
            continue  # the remedy does not apply to this kind of release
        after, failed = {r.name: r for r in _stated(repeated)}, bool(repeated.failures)
        remaining = [after[r.name] for r in rows if r.name in after]
        leaves = None if failed else _severity(remaining, asked.thresholds)
        remedies = [_remedy(action, row, after.get(row.name), leaves, failed) for row in rows[:_LISTED]]
        summary = f"{action}: {len(remaining)} of {len(rows)} statistics remain determined"
        summary += ", because this attack then fails, which does not prove that others do" if failed else ""
        results.append((failed, len(remaining), [Remedy(summary, leaves=leaves), *remedies]))
    found = sorted(results, key=lambda r: r[:2])
    return (*(remedy for *_, group in found for remedy in group), *unmeasured)


def _remedy(action: str, row: Row, after: Row | None, leaves: Severity | None, failed: bool) -> Remedy:
    if after is None or after.estimate is None or row.estimate is None:
        why = "not stated by this attack" if failed else "not determined"
        return Remedy(f"{action}: {row.name} is then {why}", row.name, row.se, leaves=leaves)
    error = float(np.hypot(row.se or 0.0, after.estimate - row.estimate))
    return Remedy(action, row.name, row.se, after.se, error, leaves)


def _without_correlations(release: Release) -> Release:
    """A regression's estimates and standard errors without their correlations; an error for other models."""
    import pandas as pd

    model = release.about
    if model is release.model or model.name not in ESTIMATORS:
        raise BayesreconError(f"{release.name} is not a regression, so its table cannot be read without correlations")
    mean, factor = (np.asarray(x) for x in unpack(model, np.asarray(release.theta)[0]))
    errors = [cell(x, 17) for x in np.sqrt((factor**2).sum(axis=1))]
    names = [*(["const"] if model.settings["intercept"] else []), *model.settings["covariates"]]
    if model.name == "ols":
        names, errors[-1] = [*names, "sigma"], ""
    frame = pd.DataFrame({"estimate": [cell(x, 17) for x in mean], "std. error": errors}, index=names)
    return from_table(frame, model.name, response=str(model.settings["response"]), name=release.name)


def look_at_estimates(look: Look, score: Score | None = None) -> tuple[list[Finding], list[NotRun]]:
    """Attack the tables of estimates in a file: findings, each scored with its model, and what was not tried."""
    contents, asked = look.contents, look.asked
    findings: list[Finding] = []
    untried: list[NotRun] = []
    for estimates in contents.estimates:
        where = _places_of(contents, estimates)
        if estimates.of_draws and contents.draws is not None:
            continue  # the draws reveal more
        findings += findings_of(estimates, where, asked.thresholds)
        if estimates.statistics and not estimates.unsupported and estimates.covariance is None:
            continue
        what = f"{estimates.where} is {estimates.what}"
        if estimates.unsupported or estimates.covariance is None or estimates.values is None:
            reason = f"{what}: {estimates.unsupported or _ALONE}"
            untried.append(NotRun(_TABLE, reason, _PUBLISH if estimates.unsupported else _SAY, where))
            continue
        try:
            release = _release_of(estimates)
            known = replace(asked, knows=of_model(asked.knows, release.about))
            fit = Fit(release, _TABLE, where=where, place=estimates.where)
            stage = attack_fit(fit, known, look.progress, look.determined)
        except BayesreconError as error:
            untried.append(NotRun(_TABLE, f"{what}: {error}", _PUBLISH, where))
            continue
        title = f"{what}: its estimates give statistics of the data"
        named = (replace(f, title=title + " exactly" * f.title.endswith("exactly")) for f in stage.findings)
        findings += named if score is None else score(tuple(named), release.about, asked)
        untried += stage.untried
    return findings, untried


def releases_of_estimates(contents: Contents) -> Iterator[tuple[str, Release]]:
    """The places and releases of the tables of estimates in a file that determine totals."""
    for one in contents.estimates:
        if one.unsupported or one.covariance is None or one.values is None:
            continue
        with suppress(BayesreconError):  # the audit of the file says why there is none
            yield one.where, _release_of(one)


def _release_of(fit: Estimates) -> Release:
    if fit.kind == "mixed":
        return from_known_covariance(fit)
    assert fit.values is not None
    assert fit.covariance is not None
    numbers = fit.kind, fit.labels, fit.response, fit.values, fit.covariance, fit.scale, fit.where, fit.last_step
    return of_estimator(*numbers, penalty=fit.penalty)


def _places_of(contents: Contents, estimates: Estimates) -> tuple[str, ...]:
    """The places of a fit's estimates: arrays of their size if they were attacked, or else all of them."""
    entries = [e for e in contents.entries if e.role == ESTIMATE]
    if estimates.unsupported or estimates.values is None or estimates.covariance is None:
        begin = (f"{estimates.where}/", f"{estimates.where}@")
        return (estimates.where, *dict.fromkeys(e.where for e in entries if e.where.startswith(begin)))
    most = _SIZE * len(estimates.values) ** 2 + _SCALARS
    attacked = [e.where for e in entries if e.where.startswith(estimates.places) and np.size(e.values) <= most]
    return tuple(dict.fromkeys(attacked)) or (estimates.where,)


def findings_of(estimates: Estimates, where: tuple[str, ...], limits: Thresholds) -> list[Finding]:
    """One finding on all statistics of a fit, and one on each small count; none without statistics.

    Args:
        estimates: the fit.
        where: places of the numbers from which the statistics follow.
        limits: thresholds of the audit.
    """
    if not estimates.statistics:
        return []
    exact = sum(row.se == 0.0 for row in estimates.statistics)
    bounded = len(estimates.statistics) - exact
    finding = Finding(
        "estimates",
        "medium",
        f"{estimates.where} is {estimates.what}: what it keeps gives statistics of the data"
        + (" exactly" if exact else ""),
        where,
        f"{exact} statistics exactly" + (f", limits of {bounded} more" if bounded else "") + f": {estimates.because}",
        evidence=items(estimates.statistics),
        remedies=(Remedy(_PUBLISH, leaves="info"),),
    )
    counts = [
        Count(row.name.removeprefix(_COUNT).removesuffix("]"), row.estimate, row.lower, row.upper, "what the fit keeps")
        for row in estimates.statistics
        if row.name.startswith(_COUNT)
    ]
    return [finding, *small_counts(counts, limits, where, "nothing but the file")]


def _presumptions(release: Release, knows: Knows, counted: bool) -> list[tuple[str, Knows]]:
    """Presumptions about a regression's covariates beyond what the user stated, in words and as keywords.

    They are levels of a factor, or values 0 and 1, the most likely ones first, and are tried as if the user had stated
    them. If no data could have the printed standard errors under one, it is contradicted. If n is `counted` without
    presumptions, a release with equations needs none.
    """
    model = release.about
    if counted and getattr(release, "limits", None) is None:
        return []
    if model.name not in ESTIMATORS or knows.get("known") or not model.settings["intercept"]:
        return []
    stated = set(knows.get("domain") or {})
    coded = {column for f in _coded_factors(release) for column in f.columns}
    free = [
        str(c)
        for c in model.settings["covariates"]
        if c not in stated | coded and model.fields[c].domain.kind in _PLAIN and not knows.get("factors")
    ]
    groups = families(free)
    grouped = {column for factor in groups for column in factor.columns}
    ungrouped = [name for name in free if name not in grouped]
    presumed = []
    if groups:
        words = " and ".join(f"{', '.join(f.columns)} are levels of one factor" for f in groups)
        presumed.append((words, {**knows, "factors": {f.name: f for f in groups}}))
    for names in ([ungrouped] if ungrouped and not groups else []) + ([free] if groups else []):
        domain = {**(knows.get("domain") or {}), **dict.fromkeys(names, "binary")}
        verb = "is" if len(names) == 1 else "are"
        presumed.append((f"{', '.join(names)} {verb} 0 or 1", {**knows, "domain": domain}))
    return presumed


def _coded_factors(release: Release) -> tuple[Factor, ...]:
    limits = getattr(release, "limits", None)
    return limits.factors if isinstance(limits, Coded) else ()


def _with_the_number(release: Release, knows: Knows) -> tuple[str, ...]:
    """Further statistics of a table without correlations that are determined if the number of records is known."""
    limits = getattr(release, "limits", None)
    if limits is None or knows.get("total") is not None:
        return ()
    knowledge = check_knowledge(release.model, **knows)
    unknown_n = limits(knowledge.fields, None, knowledge.factors)
    smallest = unknown_n.get("n", Limit(1.0)).lower
    if not np.isfinite(smallest):
        return ()
    known_n = limits(
        knowledge.fields, float(round(max(_BEYOND * smallest, len(limits.coefficients) + 2))), knowledge.factors
    )
    if known_n.failures:
        return ()
    return tuple(
        name
        for name, limit in known_n.items()
        if name != "n" and limit.estimate is not None and unknown_n.get(name, Limit()).estimate is None
    )


def _last_record(release: Release, knows: Knows, untried: tuple[NotRun, ...]) -> Stage:
    """A finding on the record that is not among the known ones; none if the gradient has no remainder."""
    where, known = (release.name,), knows.get("known") or {}
    try:
        refuse_others(release, (TrainedParameter,), "the informed adversary", _PASS)
        missing = missing_record_of(release, known)
    except BayesreconError as error:
        return Stage(untried=(*untried, NotRun(_MISSING, str(error), _PASS, where)))
    values = np.concatenate([np.ravel(np.asarray(v, float)) for v in missing.record.values()])
    size = float(np.linalg.norm(values))
    if not np.isfinite(missing.error):
        reason = "; ".join(("a record remains, and its error has no bound", *missing.warnings[:1]))
        return Stage(untried=(*untried, NotRun(_MISSING, reason, _PASS, where)))
    close = missing.error < _CLOSE * max(size, 1.0)
    field = release.model.linear.x if release.model.linear is not None else ""
    evidence = tuple(
        _item(f"{name}[{i}]" if np.size(v) > 1 else name, float(x), missing.error if name == field else None)
        for name, v in missing.record.items()
        for i, x in enumerate(np.ravel(np.asarray(v, float)))
    )
    count = len(next(iter(known.values())))
    finding = Finding(
        _MISSING,
        "high" if close else "medium",
        "one record follows from all the others",
        where,
        f"from {count} records, the last one's {field} follows with an error of at most {missing.error:.2g}, if "
        "training ended at its optimum",
        "the model, and every record but one",
        evidence,
        records={name: np.asarray(v)[None] for name, v in missing.record.items()},
    )
    return Stage((finding,), (), untried)


def _item(name: str, value: float, error: float | None) -> Item:
    """A value, with an interval if its error has a bound."""
    lower, upper = (None, None) if error is None else (value - error, value + error)
    return Item(name, value, None, None, lower, upper, person=True)

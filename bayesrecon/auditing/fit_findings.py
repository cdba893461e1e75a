"""Attacks on a fit: a mode with its covariance, a table, a variational fit or a trained parameter."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Unpack, cast

import numpy as np

from bayesrecon.auditing.dominance import dominance
from bayesrecon.auditing.effort import Budget, budget_of, unmeasured_note
from bayesrecon.auditing.evidence import items
from bayesrecon.auditing.last_record import last_record, tells_all_fields
from bayesrecon.auditing.look import FitOptions
from bayesrecon.auditing.presumptions import presumptions, with_the_number
from bayesrecon.auditing.saved_statistics import findings_of
from bayesrecon.auditing.short_text import places
from bayesrecon.auditing.small_counts import counts_of, small_counts
from bayesrecon.auditing.stage import Stage
from bayesrecon.errors import BayesreconError, Note, labelled
from bayesrecon.estimation.recovered import recovered
from bayesrecon.inexact import NO_CORRELATIONS
from bayesrecon.knowledge import Knows, of_model
from bayesrecon.model import Model, Progress
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.posteriors.approximated.normal import unpack
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.fits.mixed import from_known_covariance
from bayesrecon.posteriors.printed.coarser import estimates_alone, fewer_digits
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.posteriors.printed.estimates_in_files import Estimates
from bayesrecon.posteriors.printed.numbers import cell
from bayesrecon.posteriors.printed.summaries import from_table, of_estimator
from bayesrecon.posteriors.roles import ESTIMATE
from bayesrecon.precision import in_float64
from bayesrecon.releases import Derived, Release
from bayesrecon.results.audit import ordered
from bayesrecon.results.findings import Finding, NotRun, Remedy, Thresholds
from bayesrecon.results.recovery import Recovery, Row

Alternative = tuple[str, Callable[[], Release]]
"""A remedy in words, and a function that returns the release after it."""

_DIGITS = (4, 3, 2)  # numbers of digits that are tried
_LISTED = 2  # number of statistics for which a remedy is reported
_KNOWING = "nothing is determined for an attacker who knows nothing else, and no knowledge was stated"
_TABLE = "estimates"
_PUBLISH = "publish a table of what readers need, and audit that"
_ALONE = "it has coefficients without their covariance, which alone determine no statistic of the data"
_SAY = "state what an attacker may know (known=), or compare it with a second fit of nearly the same data"
_SIZE, _SCALARS = 4, 16  # largest number of columns per estimate in a matrix, and of single numbers
_TELL = "pass known=, or use recover(release, domain=...) or reconstruct(release)"
_MEND = "correct what the check names"
_HOW = "directly, by this release alone"
_VAGUE = 0.05  # if a presumption leaves n with a larger relative width, it is not reported
_NAMED = 8  # largest number of statistics named in a sentence


@in_float64
def attack_fit(
    release: Release | None,
    *,
    attack: str = "fit",
    alternatives: Sequence[Alternative] | None = None,
    untried: tuple[NotRun, ...] = (),
    knows: Knows | None = None,
    remedies: bool = True,
    effort: str = "quick",
    thresholds: Thresholds | None = None,
    key: int = 0,
    progress: Progress | None = None,
) -> Stage:
    """Attack a trained parameter: a fit, or a table of estimates.

    Args:
        release: the fit; None if it determines nothing.
        attack: its name as an attack.
        alternatives: remedies to try. Defaults to those of `posteriors.coarser`.
        untried: attacks that cannot be tried.
        knows: what an attacker knows, as keywords of `recover`.
        remedies, effort, thresholds: as in `audit`.
        key, progress: as in `recover`.

    >>> import bayesrecon
    >>> release = bayesrecon.posteriors.gaussian(
    ...     bayesrecon.models.load("kidscore_momiq"), [25.8, 0.61, 2.9], np.diag([36.0, 0.0036, 0.0012]), jacobian=True
    ... )
    >>> attack_fit(release).untried[0].attack  # no data have uncorrelated estimates here
    'fit'
    """
    limits, budget = thresholds or Thresholds(), budget_of(effort)
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    knows = cast(Knows, {k: v for k, v in (knows or {}).items() if v is not None})
    if release is None:
        return Stage(untried=untried)
    if tells_all_fields(release, knows):
        findings, untried = last_record(release, knows, untried)
        return Stage(findings, (), untried)
    recovery = recovered(release, **knows, key=key, progress=progress).judged()
    warnings, rows = recovery.warnings, _told(recovery, release)
    if recovery.whole:  # correlations would reveal nothing more
        untried = tuple(n for n in untried if n.reason != NO_CORRELATIONS)
    untried += tuple(NotRun(attack, failure, _MEND, (release.name,)) for failure in recovery.failures)
    tried = (alternatives_of(release) if alternatives is None else alternatives) if remedies else ()
    if rows:
        findings = (_finding(rows, recovery, attack, limits, tried_out(recovery, rows, tried, knows, key, budget)),)
    hint: tuple[str, ...] = ()
    if not recovery.failures:
        needs, more = _resting(recovery, "the model"), f", if {recovery.ranges}" if recovery.ranges else ""
        counts = counts_of(recovery, release.about, _HOW)
        findings += tuple(small_counts(counts, limits.small_count, (release.name,), needs, more))
        findings += tuple(dominance(release, recovery, knows, needs, more))
        if names := with_the_number(release, knows):
            hint = (f"if an attacker knows n (total=): {places(names, _NAMED)} are determined, too",)
    presumed, notes = _presumed(release, recovery, attack, limits, knows, tried, key, budget)
    findings += presumed
    if not findings and not untried:
        untried = (NotRun(attack, _KNOWING, _TELL, (release.name,)),)
    findings = ordered(list(findings))
    note = unmeasured_note(list(findings))
    return Stage(findings, (*hint, *notes, *warnings, *([note] if note else [])), untried)


def _presumed(
    release: Release,
    recovery: Recovery,
    attack: str,
    limits: Thresholds,
    knows: Knows,
    alternatives: Sequence[Alternative],
    key: int,
    budget: Budget,
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Findings under presumptions that nobody stated, and a note on presumptions that the numbers contradict."""
    before = {row.name for row in stated(recovery)}
    findings: list[Finding] = []
    notes: list[str] = []
    for presumption in presumptions(release, knows, "n" in before):
        presumed = recovered(release, **presumption.knows, key=key).judged()
        if presumed.failures:
            notes.append(Note(f"the table contradicts that {presumption.words}: {presumed.failures[0]}"))
            continue
        rows = _told(presumed, release)
        new = [row for row in rows if row.name not in before]
        n = next((row for row in stated(presumed) if row.name == "n"), None)
        vague = n is None or n.lower is None or n.upper is None or n.upper - n.lower > _VAGUE * n.upper
        needs = _resting(presumed, f"the model, and that {presumption.words}")
        counts = counts_of(presumed, release.about, _HOW)
        small = small_counts(counts, limits.small_count, (release.name,), needs, f", if {presumption.words}")
        if vague or not (new or small):
            continue
        if new:
            remedies = tried_out(presumed, rows, alternatives, presumption.knows, key, budget)
            finding = _finding(rows, presumed, attack, limits, remedies)
            findings.append(replace(finding, title=f"{finding.title}, if {presumption.words}", needs=needs))
        findings += small
        findings += dominance(release, presumed, presumption.knows, needs, f", if {presumption.words}")
        notes += [
            labelled(f"if {presumption.words}", line) for line in presumed.warnings if line not in recovery.warnings
        ]
        break
    return tuple(findings), tuple(notes)


def _finding(
    rows: list[Row], recovery: Recovery, attack: str, limits: Thresholds, remedies: tuple[Remedy, ...]
) -> Finding:
    count = next((r for r in rows if r.name == "n"), None)
    bounded = count is not None and count.lower is not None and count.upper is not None
    exact = bounded and count.upper - count.lower < 2 * limits.exact_count  # type: ignore[operator,union-attr]
    between = f"n between {count.lower:.6g} and {count.upper:.6g}, " if bounded else ""  # type: ignore[union-attr]
    return Finding(
        attack,
        "medium" if exact else "low",
        f"the {attack} gives statistics of the data{' exactly' if exact else ''}",
        (recovery.release,),
        f"{between}{len(rows)} of {len(recovery)} statistics determined",
        _resting(recovery, "the model and its prior"),
        items(rows),
        remedies,
    )


def _told(recovery: Recovery, release: Release) -> list[Row]:
    """The statistics that were determined, without the number of records that the table itself prints."""
    table = getattr(release, "limits", None)
    counted = table.footer.records(len(table.coefficients)) if isinstance(table, Coded) else None
    printed = counted is not None and counted[0] == counted[1]
    return [row for row in stated(recovery) if not (printed and row.name == "n")]


def _resting(recovery: Recovery, needs: str) -> str:
    """What an attack needs, including presumptions, in words."""
    return f"{needs}, and that {recovery.ranges}" if recovery.ranges else needs


def stated(recovery: Recovery) -> list[Row]:
    """The statistics that were determined."""
    return [r for r in recovery if r.estimate is not None and r.verdict != "undetermined"]


def alternatives_of(release: Release) -> list[Alternative]:
    """Remedies for a mean with a covariance. Those that do not apply raise an error when they are tried."""
    fit = cast(Derived, release)
    rounded = [(f"print {k} digits", partial(fewer_digits, fit, k)) for k in _DIGITS]
    return [
        *rounded,
        ("leave the correlations out", lambda: without_correlations(release)),
        ("publish the estimates alone", lambda: estimates_alone(fit)),
    ]


def tried_out(
    recovery: Recovery,
    rows: Sequence[Row],
    alternatives: Sequence[Alternative],
    knows: Knows,
    key: int,
    budget: Budget,
) -> tuple[Remedy, ...]:
    """Try every remedy for these statistics and repeat the attack. The most effective remedies come first.

    The measured error of a statistic is its shift plus its error before the remedy. The predicted error is the one that
    the attack states after the remedy.
    """
    results, unmeasured, seconds = [], [], recovery.seconds
    for action, make in alternatives:
        if not budget.allows(seconds):
            unmeasured.append(Remedy(action, untried=True))
            continue
        try:
            repeated, seconds = budget.timed(lambda make=make: recovered(make(), **knows, key=key).judged())
        except BayesreconError:
            continue  # the remedy does not apply to this kind of release
        after = {r.name: r for r in stated(repeated)}
        remaining = sum(r.name in after for r in rows)
        remedies = [_remedy(action, row, after.get(row.name), bool(repeated.failures)) for row in rows[:_LISTED]]
        summary = f"{action}: {remaining} of {len(rows)} statistics remain determined"
        summary += ", because this attack then fails, which does not prove that others do" if repeated.failures else ""
        results.append((bool(repeated.failures), remaining, [Remedy(summary), *remedies]))
    ordered = sorted(results, key=lambda r: r[:2])
    return (*(remedy for *_, group in ordered for remedy in group), *unmeasured)


def _remedy(action: str, row: Row, after: Row | None, failed: bool) -> Remedy:
    if after is None or after.estimate is None or row.estimate is None:
        why = "not stated by this attack" if failed else "not determined"
        return Remedy(f"{action}: {row.name} is then {why}", row.name, row.se)
    error = float(np.hypot(row.se or 0.0, after.estimate - row.estimate))
    return Remedy(action, row.name, row.se, after.se, error)


def without_correlations(release: Release) -> Release:
    """A regression's estimates and standard errors without their correlations.

    Raises:
        BayesreconError: the model is not a regression.
    """
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


def look_at_estimates(
    contents: Contents, knows: Knows | None = None, **options: Unpack[FitOptions]
) -> tuple[list[tuple[Finding, Model | None]], list[NotRun]]:
    """Attack the tables of estimates in a file.

    Args:
        contents: the file.
        knows: what an attacker knows.
        options: options of `attack_fit`.

    Returns:
        Findings, each with its model or None, and attacks that were not tried.
    """
    findings: list[tuple[Finding, Model | None]] = []
    limits = options.get("thresholds") or Thresholds()
    untried: list[NotRun] = []
    for estimates in contents.estimates:
        where = places_of(contents, estimates)
        if estimates.of_draws and contents.draws is not None:
            continue  # the draws reveal more
        findings += [(finding, None) for finding in findings_of(estimates, where, limits)]
        if estimates.statistics and not estimates.unsupported and estimates.covariance is None:
            continue
        if estimates.unsupported or estimates.covariance is None or estimates.values is None:
            reason = f"{estimates.where} is {estimates.what}: {estimates.unsupported or _ALONE}"
            untried.append(NotRun(_TABLE, reason, _PUBLISH if estimates.unsupported else _SAY, where))
            continue
        try:
            release = _release_of(estimates)
            stage = attack_fit(release, attack=_TABLE, knows=of_model(knows or {}, release.about), **options)
        except BayesreconError as error:
            untried.append(NotRun(_TABLE, f"{estimates.where} is {estimates.what}: {error}", _PUBLISH, where))
            continue
        title = f"{estimates.where} is {estimates.what}: its estimates give statistics of the data"
        for finding in stage.findings:
            exact = " exactly" if finding.title.endswith("exactly") else ""
            findings.append((replace(finding, title=title + exact, where=where), release.about))  # type: ignore[arg-type]
        untried += [replace(n, where=where) for n in stage.untried]
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


def places_of(contents: Contents, estimates: Estimates) -> tuple[str, ...]:
    """The places of a fit's estimates: arrays of their size if they were attacked, or else all of them."""
    entries = [e for e in contents.entries if e.role == ESTIMATE]
    if estimates.unsupported or estimates.values is None or estimates.covariance is None:
        begin = (f"{estimates.where}/", f"{estimates.where}@")
        return (estimates.where, *dict.fromkeys(e.where for e in entries if e.where.startswith(begin)))
    most = _SIZE * len(estimates.values) ** 2 + _SCALARS
    attacked = [e.where for e in entries if e.where.startswith(estimates.places) and np.size(e.values) <= most]
    return tuple(dict.fromkeys(attacked)) or (estimates.where,)

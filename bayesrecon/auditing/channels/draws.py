"""The draws themselves: statistics, records of units, dominated sums, and what thinning and rounding would leave."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.auditing.dominance import dominance_of_draws
from bayesrecon.auditing.effort import FEWEST, Budget, Open
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.sensitive_values import DRAWS, DROP_DRAWS
from bayesrecon.auditing.stage import INCALCULABLE, not_computed
from bayesrecon.auditing.wording import independent, items
from bayesrecon.diagnostics import Z95, evenly
from bayesrecon.digits import round_to
from bayesrecon.disclosure.thinning import predicted_outlooks
from bayesrecon.divergence.score import touches
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import recovered
from bayesrecon.model import Model
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity, Thresholds
from bayesrecon.results.recovery import Recovery, Row

_THINNINGS = (1000, 300)  # numbers of draws that are tried; with fewer, statistics of most models cannot be solved for
_DIGITS = (3, 2)  # numbers of digits that are tried; more have no effect, and fewer leave no useful posterior
_SUBSETS = 80  # subsets of draws: enough to know an error to 8 %
_AMPLE = 10  # with at least this many draws per feature, theory gives the error of thinned draws
_LISTED = 2  # number of statistics for which a remedy is reported


def draws_finding(recovery: Recovery, unit: str | None, thresholds: Thresholds) -> Finding | None:
    """The finding from a recovery; None if no statistic is determined."""
    rows = [r for r in recovery if r.estimate is not None and r.verdict != "undetermined"]
    if not rows:
        return None
    units, sharp = _sharp(rows, unit, thresholds)
    of_units = [] if unit is None else _of_units(rows, unit, thresholds)
    groups = [] if unit is None else _groups(rows, unit, thresholds)
    severity = severity_left(recovery, unit, thresholds)
    title = "the draws give statistics of the data"
    summary = _summary(recovery)
    if groups:
        smallest = min(float(row.lower or 0) for row in groups)
        summary = f"totals of {len(groups)} groups ({unit}), the smallest of at least {smallest:.0f} records; {summary}"
    if units:
        title = f"the draws give the records of single units ({unit})"
        summary = f"{sharp} of {units} units' values are known better than by a guess; {summary}"
    elif severity == "medium":
        title = "the draws give statistics of the data exactly"
    return Finding(
        "draws",
        severity,
        title,
        ("posterior",),
        summary,
        "the model and its prior" + (f", and each unit's {unit}" if units else ""),
        tuple(replace(i, person=i.person or any(i.name == r.name for r in of_units)) for i in items(rows)),
        (Remedy(DROP_DRAWS, leaves="info"),),
    )


def severity_left(recovery: Recovery, unit: str | None, thresholds: Thresholds, wider: float = 1.0) -> Severity:
    """The severity of the draws if all errors were `wider` times as large."""
    rows = [r for r in recovery if r.estimate is not None and r.verdict != "undetermined"]
    units, sharp = _sharp(rows, unit, thresholds, wider)
    if units:
        return "high" if sharp >= thresholds.share * units else "medium"
    counts = [r.se for r in rows if r.se is not None and (r.name == "n" or r.name.startswith("n["))]
    return "medium" if any(wider * se < thresholds.exact_count for se in counts) else "low"


def _groups(rows: Iterable[Row], unit: str, thresholds: Thresholds) -> list[Row]:
    """The counts of values of a field that certainly have many records. Their totals are those of groups."""
    counts = [r for r in rows if r.name.startswith(f"n[{unit}=") and r.verdict == "determined"]
    return [r for r in counts if r.lower is not None and r.lower >= thresholds.small_count]


def _of_units(rows: Sequence[Row], unit: str, thresholds: Thresholds) -> list[Row]:
    """The statistics of single units, or of groups that may be small."""
    groups = tuple(r.name.removeprefix("n") for r in _groups(rows, unit, thresholds))
    return [r for r in rows if f"[{unit}=" in r.name and not r.name.startswith("n[") and not r.name.endswith(groups)]


def _sharp(rows: Sequence[Row], unit: str | None, thresholds: Thresholds, wider: float = 1.0) -> tuple[int, int]:
    """Number of values of single units, and of those that are known better than by a guess."""
    units = [] if unit is None else _of_units(rows, unit, thresholds)
    spread = float(np.std([r.estimate for r in units if r.estimate is not None])) or 1.0 if units else 1.0
    wide = 2 * Z95 * thresholds.vague * spread / wider
    return len(units), sum(r.lower is not None and r.upper is not None and r.upper - r.lower < wide for r in units)


def _summary(recovery: Recovery) -> str:
    by_name = {r.name: r for r in recovery}
    count = by_name.get("n")
    known = f"n = {count.estimate:.5g}{count.error}, " if count and count.estimate and count.se else ""
    return f"{recovery.draws} draws: {known}{_counted(recovery)}{independent(recovery.rank, recovery.gap)}"


def _counted(recovery: Recovery) -> str:
    """The fields whose categories are counted, with the number of categories and the typical error, in words."""
    errors: dict[str, list[float]] = {}
    for row in recovery:
        match = re.fullmatch(r"n\[([^=,]+)=[^=,]+\]", row.name)
        if match and row.verdict == "determined" and row.se is not None:
            errors.setdefault(match[1], []).append(row.se)
    return "".join(f"{len(se)} categories of {name} counted to ± {np.median(se):.2g}, " for name, se in errors.items())


def draws_remedies(
    release: PosteriorDraws,
    problem: Problem,
    recovery: Recovery,
    key: int,
    budget: Budget,
    left: Callable[[float], Severity],
) -> tuple[Remedy, ...]:
    """Remedies: fewer draws and fewer digits, with the predicted and the measured error of an attacker.

    Thinning is tried on subsets of nearly evenly spaced draws, and rounding on all draws. Errors are differences from
    the estimates from all draws, plus the errors of those estimates. If there are many draws per feature, the error of
    thinned draws is predicted from the influence series, and measured only with full effort.

    Args:
        left: the severity of the draws if errors are so many times as large.
    """
    rng = np.random.default_rng(key)
    names = [r.name for r in recovery if r.estimate is not None and r.se][:_LISTED]
    thinnings = [t for t in _THINNINGS if 3 * t <= release.size and t > 10 * release.model.dimension]
    if not names or problem.knowledge.known or not recovery.gap:
        return ()
    outlook = predicted_outlooks(problem, thinnings or (10,), _DIGITS)
    estimates = {r.name: (float(r.estimate), float(r.se)) for r in recovery if r.estimate is not None and r.se}
    remedies = []
    for digits in _DIGITS:
        rounded = _estimates(_rounded(release, digits), key) if budget.allows(recovery.seconds) else None
        action = f"round the draws to {digits} digits"
        for name in names:
            estimate, se = estimates[name]
            repeated = None if rounded is None else rounded.get(name)
            error = None if repeated is None else float(np.hypot(se, repeated - estimate))
            predicted = float(np.hypot(se, outlook[name].shift[digits]))
            remedies.append(Remedy(action, name, se, predicted, error, left(predicted / se)))
    for t in thinnings:
        expected = t >= _AMPLE * recovery.rank and not budget.thorough
        subsets = [] if expected else _tried_subsets(release, t, rng, key, budget, recovery.seconds)
        for name in names:
            estimate, se = estimates[name]
            values = [f[name] for f in subsets if f is not None and f.get(name) is not None]
            error = None
            if len(values) >= FEWEST:
                # Subsets share draws with the whole, so differences do not include the error of the whole.
                error = float(np.sqrt(float(np.mean((np.array(values, float) - estimate) ** 2)) + se**2))
            predicted = outlook[name].se[t]
            remedies.append(Remedy(f"keep {t} draws", name, se, predicted, error, left(predicted / se)))
    return tuple(sorted(remedies, key=lambda r: not r.action.startswith("keep")))


def _tried_subsets(
    release: PosteriorDraws, count: int, rng: np.random.Generator, key: int, budget: Budget, seconds: float
) -> list[dict[str, float | None] | None]:
    """Recoveries from as many subsets as time allows; none if they are too few to estimate an error."""
    if not budget.allows(FEWEST * seconds):
        return []
    recoveries = []
    for _ in range(_SUBSETS):
        if not budget.allows(seconds):
            break
        recovery, seconds = budget.timed(lambda: _estimates(_subset(release, count, rng), key))
        recoveries.append(recovery)
    return recoveries


def _estimates(release: PosteriorDraws | None, key: int) -> dict[str, float | None] | None:
    if release is None:
        return None
    try:
        return {r.name: r.estimate for r in recovered(release, key=key).judged()}
    except BayesreconError:
        return None


def _subset(release: PosteriorDraws, count: int, rng: np.random.Generator) -> PosteriorDraws:
    """`count` draws: one random draw from each of `count` intervals of equal length."""
    width = release.size / count
    return release.take(((np.arange(count) + rng.random(count)) * width).astype(int))


def _rounded(release: PosteriorDraws, digits: int) -> PosteriorDraws | None:
    """The release, read again after its parameters were printed with `digits` digits."""
    values = constrained(release)
    try:
        return from_draws(
            Draws({k: round_to(v, digits)[None] for k, v in values.items()}), plain(release), name="rounded"
        )
    except BayesreconError:
        return None


def plain(release: PosteriorDraws) -> Model:
    """The model without its preparation of published draws, which does not apply to these."""
    return release.model if release.model.prepare is None else replace(release.model, prepare=None)


def constrained(release: PosteriorDraws) -> dict[str, np.ndarray]:
    """Draws in the model's own parameters, `{name: (T, *shape)}`."""
    params = jax.vmap(release.model.constrain)(np.asarray(release.theta))
    return {k: np.asarray(v) for k, v in params.items()}


_OTHERS = "pass the model that made these draws, including its prior, and draws with all their digits"
_MEND = "correct what the reason names, or drop these values"
_WHERE = ("posterior",)


def find(look: Look) -> tuple[list[Finding | Open], list[str | NotRun]]:
    """Attack the draws alone, and ask for the unit of each record if an attacker could know it."""
    found, notes = _attacked(look)
    return found, [*notes, *_unit_is_open(look)]


def _attacked(look: Look) -> tuple[list[Finding | Open], list[str | NotRun]]:
    opened: Opened = look.opened
    outcome = opened.outcome
    notes: list[str | NotRun] = [*opened.release.notes]
    if isinstance(outcome, INCALCULABLE):
        return [], [*notes, not_computed(DRAWS, outcome)]
    if isinstance(outcome, Exception):
        return [], [*notes, NotRun(DRAWS, f"the draws alone were not attacked: {outcome}", _MEND, _WHERE)]
    problem, recovery = outcome
    findings: list[Finding | Open] = []
    unit, thresholds = look.asked.unit, opened.thresholds
    finding = draws_finding(recovery, unit, thresholds) if recovery.consistent else None
    if problem is None:
        return ([] if finding is None else [finding]), [*notes, *recovery.warnings]
    if finding is not None:
        left = partial(severity_left, recovery, unit, thresholds)
        remedies = partial(draws_remedies, opened.release, problem, recovery, opened.key, left=left)
        findings.append(Open(finding, remedies, first=True))
    dominated, unseen = dominance_of_draws(problem, recovery, _WHERE, thresholds)
    failures = [NotRun(DRAWS, failure, _OTHERS, _WHERE) for failure in recovery.failures]
    return [*findings, *dominated], [*notes, *recovery.warnings, *unseen, *failures]


_SINGLE = "records of single units"
_LEVELS = 32  # largest number of values that are examined, evenly spaced


def unit_fields(opened: Opened) -> list[str]:
    """Fields with finitely many values, each of which affects a coordinate of theta that no other value affects."""
    model, fields = opened.model, []
    theta = jnp.asarray(np.asarray(opened.release.theta)[0])
    record = opened.reference.draw(opened.rng, 1)
    for name, field in model.fields.items():
        levels = np.asarray(field.domain.levels, field.domain.dtype)
        if field.shape or len(levels) < 2:
            continue
        levels = levels[evenly(len(levels), _LEVELS)]
        records = {k: np.repeat(np.asarray(v), len(levels), axis=0) for k, v in record.items()} | {name: levels}
        moved = np.asarray(touches(model, theta, records))
        if moved[moved.sum(axis=1) == 1].any(axis=0).all():
            fields.append(name)
    return fields


def _unit_is_open(look: Look) -> list[NotRun]:
    """A `NotRun` if an attacker could know the unit of each record and the audit does not."""
    fields = unit_fields(look.opened) if look.asked.knows.get("unit") is None else []
    fields = [name for name in fields if not _are_groups(look.opened, name)]
    options = " or ".join(f"--unit {name}" for name in fields)
    reason = f"parameters belong to single values of {', '.join(fields)}, and no unit was stated"
    remedy = f"state the unit: {options}, with --known FILE if the design is public"
    return [NotRun(_SINGLE, reason, remedy, _WHERE)] if fields else []


def _are_groups(opened: Opened, field: str) -> bool:
    """Whether each value of a field certainly has many records, so that it is no single unit."""
    if opened.recovery is None or not opened.recovery.consistent:
        return False
    groups = _groups(opened.recovery, field, opened.thresholds)
    return len(groups) == len(opened.model.fields[field].domain.levels)


CHANNEL = Channel(DRAWS, find, 100, "model")

"""Attack on log densities: exact statistics, and the effect of rounding and thinning."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bayesrecon.attacks.sidechannels.density_recovery import DensityRecovery
from bayesrecon.attacks.sidechannels.resolution import below_arithmetic, resolution
from bayesrecon.auditing.density_columns import Series
from bayesrecon.auditing.effort import FEWEST, Budget, Open
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.sensitive_values import log_densities
from bayesrecon.auditing.severity import of_totals
from bayesrecon.auditing.wording import PRIOR, independent, items, to_drop
from bayesrecon.digits import decimal_step
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity
from bayesrecon.results.recovery import Recovery

_NAME = "log densities"
_GIVE = "log densities give statistics of the data"
_MOST = 3  # largest number of unnamed columns that are attacked; more reveal the same
# Remedies that are tried, from nearly useless ones to ones that leave little of the file, in steps of about three.
_ROUNDINGS = (6, 5, 4, 3)
_THINNINGS = (1000, 300, 100, 30)
_LISTED = 2  # number of statistics for which a remedy is reported
_EXACT = 1e4  # if errors are smaller by a larger factor, they are reported as exact


def find(look: Look) -> tuple[list[Open], list[NotRun]]:
    """Attack `lp__`, `lp`, minus `potential_energy`, and any other multiple of a log density."""
    opened: Opened = look.opened
    findings, untried = _by_name(look)
    reported = {where for f in findings for where in f.finding.where}
    exact = [s for s in opened.numbers.densities if not reported & set(s.where)]
    for series in exact[:_MOST]:
        finding = _by_numbers(look, series)
        findings += [] if finding is None else [finding]
    for series in exact[_MOST:]:
        findings.append(Open(_unattacked(series), lambda budget: ()))
    attacked = {where for f in findings for where in f.finding.where}
    return findings, [n for n in untried if not attacked & set(n.where)]


def _by_numbers(look: Look, series: Series) -> Open | None:
    """Attack a column that is an exact combination of the model's value functions, with the multiple that fits."""
    opened: Opened = look.opened
    names = " ".join(series.where).lower()
    twice = "dev" in names
    reading = opened.numbers.reading(series, likelihood=twice or "lik" in names, first=-2.0 if twice else 1.0)
    if reading is None:
        return None
    written = resolution(series.values[:, 0])
    written = replace(written, step=written.step / abs(reading.scale))
    release = opened.release.take(series.rows) if len(series.rows) < opened.release.size else opened.release
    release = replace(release, log_density=opened.numbers.full(series, reading))
    recovered = opened.of_density(release, written, look.progress)
    note = f"; read as {reading.words}: another factor would change the counts" if reading.words else ""
    return _open_finding(opened, recovered, series.where, note)


def _unattacked(series: Series) -> Finding:
    """The finding on a column beyond the number of columns that are attacked."""
    title, summary = f"{_GIVE} exactly", f"{series.where[0]} is a multiple of a log density of the model as well"
    return to_drop("log-density", of_totals(exact=True), title, series.where, summary, PRIOR)


def _by_name(look: Look) -> tuple[list[Open], list[NotRun]]:
    """Attack arrays that are named like a log density.

    They may be the potential energy instead, such as `lp` of PyMC with NumPyro's sampler. So if the values are not a
    log density of the model, the other sign is tried.
    """
    opened: Opened = look.opened
    release, where = opened.release, _where(opened)
    if release.log_density is None:
        if not where:
            return [], []
        return [], [NotRun(_NAME, "there is not exactly one per draw of the file", f"drop {', '.join(where)}", where)]
    where = where or ("log density",)
    log_density = np.asarray(release.log_density)
    if not np.isfinite(log_density).all() or np.ptp(log_density) == 0:
        reason = "they have missing values or only one value"
        return [], [NotRun(_NAME, reason, f"drop {', '.join(where)}", where)]
    recovered = _attacked(look, log_density)
    if not _fits(recovered, opened) or _is_turned(recovered):
        turned = _attacked(look, -log_density)
        recovered = turned if _fits(turned, opened) and not _is_turned(turned) else recovered
    if not _fits(recovered, opened):
        return [], [_misfit(opened, recovered, where)]
    return [_open_finding(opened, recovered, where)], []


def _misfit(opened: Opened, recovered: DensityRecovery, where: tuple[str, ...]) -> NotRun:
    """A `NotRun` for values that do not fit. With more features than draws they may still fit."""
    residuals = f"residuals of {recovered.misfit:.2g} times the rounding error"
    name, other = opened.model.name, "another prior, other data terms, or another model"
    if recovered.gap:
        reason = f"{', '.join(where)}: not the log density of {name} at these draws ({residuals}); {other}"
        return NotRun(_NAME, reason, "pass the model that made them, prior included, or drop them", where)
    reason = (
        f"{', '.join(where)}: {recovered.draws} of them do not determine the terms of a log density of {name} "
        f"({residuals}): it has more features than that, or they are of {other}"
    )
    return NotRun(_NAME, reason, "drop them: with more draws they may reveal statistics exactly", where)


def _open_finding(opened: Opened, recovered: DensityRecovery, where: tuple[str, ...], note: str = "") -> Open:
    written = recovered.resolution.label
    exact = any(r.name == "n" and r.se is not None and r.se < opened.thresholds.exact_count for r in recovered.rows)
    sharper = _sharper(recovered, opened.recovery)

    def left(wider: float) -> Severity:
        """The severity if errors are so many times as large."""
        counts = [r.se for r in recovered.rows if r.name == "n" and r.se is not None]
        return of_totals(any(wider * se < opened.thresholds.exact_count for se in counts), sharper / wider)

    summary = f"{recovered.draws} log densities at {written} determine "
    summary += independent(recovered.rank, bool(recovered.gap)) + (f": n = {_value(recovered, 'n')}" if exact else "")
    summary, evidence = summary + _in_words(sharper) + note, items(recovered.rows)
    title = _GIVE + " exactly" * exact
    finding = to_drop("log-density", left(1.0), title, where, summary, PRIOR, evidence=evidence)
    return Open(finding, partial(_density_remedies, recovered, opened.rng, left))


def _attacked(look: Look, log_density: np.ndarray) -> DensityRecovery:
    opened: Opened = look.opened
    release = replace(opened.release, log_density=log_density)
    written = resolution(log_density)
    step = np.sqrt(12) * opened.rounding(log_density[:, None])  # the rounding step with this standard deviation
    written = replace(written, step=np.hypot(written.step, step))
    return opened.of_density(release, written, look.progress)


def _fits(recovered: DensityRecovery, opened: Opened) -> bool:
    """Whether these are log densities of the model at the draws, up to rounding."""
    limit = opened.thresholds.misfit
    # Single-precision arithmetic adds errors, which the residuals show.
    return recovered.misfit <= (limit if recovered.resolution.digits else 1e3 * limit)


def _is_turned(recovered: DensityRecovery) -> bool:
    """Whether the sign is wrong, so that the number of records is negative.

    Minus a log density also fits if the prior and the determinant are combinations of the value functions.
    """
    return any(row.name == "n" and row.estimate is not None and row.estimate < 0 for row in recovered.rows)


def _density_remedies(
    recovered: DensityRecovery, rng: np.random.Generator, left: Callable[[float], Severity], budget: Budget
) -> tuple[Remedy, ...]:
    """Remedies: fewer digits of the log densities, and fewer draws."""
    remedies: list[Remedy] = []
    now = dict(zip(recovered.names, recovered.errors, strict=True))
    names = [name for name in recovered.names if now[name]][:_LISTED]
    columns = [recovered.names.index(name) for name in names]
    digits = recovered.resolution.digits or 17
    thinnings = [t for t in _THINNINGS if recovered.rank + 12 <= t and 3 * t <= recovered.draws]
    # The fastest remedies come first.
    plans = [(f"keep {t} draws", t, None) for t in reversed(thinnings)]
    plans += [(f"round the log density to {k} digits", None, k) for k in reversed(_ROUNDINGS) if k < digits]
    estimates = np.array([row.estimate for row in recovered.rows if row.name in recovered.names])
    for i, (action, count, k) in enumerate(plans):
        # If the rounding step is larger than the variation, there is nothing left to attack.
        if k is not None and np.median(decimal_step(recovered.given, k)) > 4 * recovered.given.std():
            remedies.append(Remedy(f"{action}: its values are then constant", leaves="info"))
            continue
        tried = recovered.tried(count, k, rng, budget.enough(len(plans) - i)) if budget.allows() else None
        if tried is None or len(tried.estimates) < FEWEST:
            remedies.append(Remedy(action, untried=True))
            continue
        measured = tried.measured(estimates, recovered.errors)
        sizes = [min(tried.predicted[j], measured[j]) / now[name] for j, name in zip(columns, names, strict=True)]
        leaves = left(max(float(min(sizes, default=1.0)), 1.0))
        for j, name in zip(columns, names, strict=True):
            trials = tried.estimates[:, j]
            predicted, remaining = float(tried.predicted[j]), float(measured[j])
            if below_arithmetic(predicted, float(estimates[j])):
                remedies.append(Remedy(f"{action}: {name} is still known to the last digit", leaves=left(1.0)))
                continue
            remedies.append(Remedy(action, name, float(now[name]), predicted, remaining, leaves, trials=trials))
    return tuple(remedies)


def _sharper(recovered: DensityRecovery, recovery: Recovery | None) -> float:
    """The median factor by which the errors are smaller than those from the draws alone."""
    if recovery is None:
        return 1.0
    draws = {row.name: row.se for row in recovery if row.se}
    ratios = [draws[r.name] / r.se for r in recovered.rows if r.se and draws.get(r.name)]
    return float(np.median(ratios)) if ratios else 1.0


def _in_words(sharper: float) -> str:
    """The factor in words. Above some thousands, the errors are those of arithmetic."""
    if sharper <= 1.5:
        return ""
    if sharper > _EXACT:
        return ", more than 10,000 times closer than the draws alone: as good as exactly"
    factor = f"{sharper:.2g}" if sharper < 100 else f"about {10 * round(sharper / 10):,}"
    return f", with errors {factor} times smaller than from the draws alone"


def _value(recovered: DensityRecovery, name: str) -> str:
    row = recovered[name]
    return f"{row.estimate:.8g} ± {row.se:.2g}"


def _where(opened: Opened) -> tuple[str, ...]:
    return tuple(v.where for v in log_densities(opened.contents, opened.model))


CHANNEL = Channel(_NAME, find, 110, "model")

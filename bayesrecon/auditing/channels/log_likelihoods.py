"""Attack on pointwise log likelihoods: every record from its own column."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bayesrecon.attacks.sidechannels.preimage import (
    IGNORED,
    PreImages,
    invert_columns,
    linear_response,
    standard_errors,
)
from bayesrecon.attacks.sidechannels.resolution import below_arithmetic, resolution
from bayesrecon.auditing.density_columns import Series
from bayesrecon.auditing.effort import Budget, Open
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.pointwise import look_at_columns
from bayesrecon.auditing.pointwise_arrays import MOST_RECORDS, counts_by_category, for_rows, relative_errors
from bayesrecon.auditing.severity import of_rows, of_share, of_totals
from bayesrecon.auditing.wording import places, to_drop
from bayesrecon.diagnostics import evenly, typical_error
from bayesrecon.digits import decimal_step, round_to
from bayesrecon.estimation.anchors import Reference
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy

_NAME = "log likelihoods"
# Multiples of a log likelihood, and the number of columns that they are tried on.
_SCALES, _FIRST = (1.0, -1.0, -2.0, 2.0), 12
# Remedies that are tried. A few draws are enough to recover a record, so stronger thinning would leave no file.
_ROUNDINGS = (5, 4, 3)
_THINNINGS = (300, 100)
_TRIED = 256  # number of records on which a remedy is measured
_ERRORS, _REPEATS = 512, 16  # number of errors for a median, and most repetitions of thinning if there are few records


def find(look: Look) -> tuple[Sequence[Finding | Open], list[NotRun]]:
    """Attack pointwise log likelihoods, whatever their name, and their sums over parts of the records."""
    opened: Opened = look.opened
    findings: list[Open] = []
    untried: list[NotRun] = []
    exact = opened.numbers.terms
    for variable in opened.contents.group("log_likelihood"):
        if not variable.per_draw:
            reason = f"{variable.where} is not of the file's draws: it was not inverted"
            untried.append(NotRun(_NAME, reason, f"drop {variable.where}", (variable.where,)))
            continue
        rows, values = opened.at(variable)
        attacked = _attack(opened, (variable.where,), rows, values.reshape(len(values), -1), 1.0)
        if isinstance(attacked, NotRun) and any(variable.where in s.where for s in exact):
            continue
        (untried if isinstance(attacked, NotRun) else findings).append(attacked)  # type: ignore[arg-type]
    reported = {where for f in findings for where in f.finding.where}
    for series in exact:
        if not reported & set(series.where):
            findings.append(_by_numbers(opened, series))
    return findings or look_at_columns(look.contents, look.key), untried


def _by_numbers(opened: Opened, series: Series) -> Open:
    """Attack columns that are exact combinations of the model's value functions, of one or several records each."""
    count = series.values.shape[1]
    for scale in _SCALES:
        first = series.values[:, evenly(count, _FIRST)] / scale
        if not isinstance(_attack(opened, series.where, series.rows, first, scale), NotRun):
            attacked = _attack(opened, series.where, series.rows, series.values / scale, scale)
            if isinstance(attacked, Open):
                return attacked
    weights = [
        opened.numbers.reading(replace(series, values=series.values[:, [k]]), True) for k in evenly(count, _FIRST)
    ]
    single = [w is not None and abs(w.count - 1) < 0.01 for w in weights]
    severity = of_rows(count) if np.mean(single) > 0.5 else of_totals(exact=True)
    content = "one record each, up to a constant" if np.mean(single) > 0.5 else "sums over parts of the records"
    title = f"{places(series.where, 3)} holds log likelihoods: {content}"
    summary = f"{count} columns are exact combinations of the value functions of {opened.model.name}: each gives sums "
    summary += "over its records"
    finding = to_drop("log-likelihood", severity or "medium", title, series.where, summary, "the model")
    return Open(finding, lambda budget: ())


def _attack(
    opened: Opened, where: tuple[str, ...], rows: np.ndarray, values: np.ndarray, scale: float
) -> Open | NotRun:
    """Recover records from their columns, or return the reason why not.

    Args:
        where: places of the values.
        rows: `(K,)` positions among the release's draws.
        values: `(K, N)`, one column per record.
        scale: the multiple of the log likelihood that the values are.
    """
    theta = np.asarray(opened.release.theta)[rows]
    place, drop = places(where), f"drop {places(where)}"
    chosen = evenly(values.shape[1], MOST_RECORDS)
    columns = values[:, chosen].T
    if not np.isfinite(columns).all() or len(theta) < 4:
        reason = f"{place} holds missing or infinite values, or too few draws: it was not inverted"
        return NotRun(_NAME, reason, drop, where)
    written = resolution(columns * scale)
    noise = np.maximum(written.sd / abs(scale), 4 * np.spacing(np.abs(columns)))
    noise = np.hypot(noise, opened.rounding(columns.T, rows)[:, None])
    reference = for_rows(opened, values.shape[1], chosen)
    inverted = invert_columns(opened.model.untempered, theta, columns, noise, reference, opened.rng)
    limit = opened.thresholds.misfit if written.digits else 1e4
    fits = inverted.misfit < limit
    if fits.mean() < 0.5:
        reason = (
            f"{place}: {1 - fits.mean():.0%} of its columns are not log likelihoods of {opened.model.name} "
            f"(residuals of {np.median(inverted.misfit):.2g} times the rounding error, in the median)"
        )
        return NotRun(_NAME, reason, f"pass the model that made them, or {drop}", where)
    relative = relative_errors(opened, inverted)

    def sharp(wider: float = 1.0) -> np.ndarray:
        """Records that are recovered if errors are so many times as large."""
        return fits & (wider * relative < opened.thresholds.record) & ~inverted.ambiguous

    finding = _records_finding(opened, where, values.shape[1], inverted, fits, sharp(), written.label)
    try_out = partial(_pointwise_remedies, opened, inverted, fits, theta, columns, noise, reference, sharp)
    return Open(finding, try_out)


def _records_finding(
    opened: Opened,
    where: tuple[str, ...],
    count: int,
    inverted: PreImages,
    fits: np.ndarray,
    sharp: np.ndarray,
    label: str,
) -> Finding:
    severity = of_share(sharp.mean(), 1.0, opened.thresholds.share)
    ambiguous = int((inverted.ambiguous & fits).sum())
    summary = (
        f"{int(sharp.sum())} of {len(inverted)} records{f' (of {count})' if len(inverted) < count else ''} "
        f"can be solved for from their columns at {label} ("
        + ", ".join(f"{f} to ±{np.median(np.ravel(se)):.2g}" for f, se in inverted.se.items())
        + " in the median)"
        + (f"; {ambiguous} have more than one solution" if ambiguous else "")
        + (f"; {int((~fits).sum())} did not fit and are left out" if not fits.all() else "")
    )
    return to_drop(
        "log-likelihood",
        severity,
        f"pointwise log likelihoods {'give the records' if severity == 'high' else 'can be inverted'}",
        where,
        summary,
        "the model",
        instead=f"drop {places(where)}: publish its sums (elpd, p_loo) instead",
        evidence=_record_items(opened, inverted),
        records={f: np.asarray(v)[fits] for f, v in inverted.records.items()},
        errors={f: np.asarray(v)[fits] for f, v in inverted.se.items()},
    )


def _pointwise_remedies(
    opened: Opened,
    inverted: PreImages,
    fits: np.ndarray,
    theta: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
    sharp: Callable[[float], np.ndarray],
    budget: Budget,
) -> tuple[Remedy, ...]:
    """Remedies: fewer digits and fewer draws, with the error of a field over some records.

    Predictions linearise about the recovered records. Rounding adds errors to the columns, and fewer draws leave larger
    standard errors. The current errors of the columns have the size of their residuals. Errors are medians.
    """
    rng = opened.rng
    chosen = np.sort(rng.permutation(np.flatnonzero(fits))[:_TRIED])
    listed = np.searchsorted(np.flatnonzero(fits), chosen)  # their positions among the records of the finding
    field = next((f for f in inverted.records if opened.model.fields[f].domain.kind in ("real", "interval")), None)
    if field is None or not np.isfinite(inverted.se[field][chosen]).all():
        return ()
    chosen_reference = replace(reference, known={k: np.asarray(v)[chosen] for k, v in reference.known.items()})
    exact = _rows(inverted.records[field], chosen)
    written = resolution(columns)
    # Small residuals do not reduce standard errors, because binary arithmetic is often more precise than assumed.
    misfit = inverted.misfit[chosen]
    error_scale = misfit / np.maximum(1.0, misfit) if written.digits is None else np.ones(len(chosen))
    # A sampler with single precision also stored its data so. The original records cannot be known more precisely.
    data_step = np.spacing(exact.astype(np.float32)).astype(float) if written.label == "single precision" else 0.0

    def errors(se: np.ndarray, repeats: int = 200) -> np.ndarray:
        shape = (repeats, *exact.shape)
        return error_scale[:, None] * se * rng.normal(size=shape) + data_step * rng.uniform(-0.5, 0.5, shape)

    seconds = 0.0
    now = errors(_rows(inverted.se[field], chosen))
    before = typical_error(now)
    remedies = []

    def attacked(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
        repeated = invert_columns(opened.model.untempered, theta, values, noise, chosen_reference, opened.rng, starts=3)
        return _rows(repeated.records[field], np.arange(len(chosen)))

    def remedy(action: str, predicted: float, trials: np.ndarray | None) -> Remedy:
        wider = max(predicted / before, 1.0) if before > 0 else 1.0
        leaves = of_share(sharp(wider).mean(), 1.0, opened.thresholds.share)
        if below_arithmetic(predicted, float(np.median(np.abs(exact)))):
            return Remedy(f"{action}: the records are still recovered to the last digit", leaves=leaves)
        if trials is None:
            return Remedy(action, field, before, predicted, leaves=leaves)
        # The current records do not show their own errors.
        measured = float(np.hypot(typical_error(trials - exact), before))
        return Remedy(action, field, before, predicted, measured, leaves, trials=trials, rows=listed)

    for digits in (k for k in _ROUNDINGS if k < (written.digits or 17)):
        values = round_to(columns[chosen], digits)
        width = decimal_step(values, digits) / np.sqrt(12)
        change = values - columns[chosen]
        moved = linear_response(opened.model.untempered, theta, inverted, chosen, change, reference, width)
        predicted = typical_error(_rows(moved[field], np.arange(len(chosen))) + now)
        trials = None
        if budget.allows(seconds):
            trials, seconds = budget.timed(partial(attacked, values, width))
        remedies.append(remedy(f"round to {digits} digits", predicted, None if trials is None else trials[None]))
    for count in (t for t in _THINNINGS if 2 * t <= len(theta)):
        expected, trials = [], []
        for _ in range(int(np.clip(_ERRORS // len(chosen), 1, _REPEATS))):
            draws = rng.permutation(len(theta))[:count]
            # Omitted draws get no weight, so that shapes stay.
            thinned_noise = np.full((len(chosen), len(theta)), 10 * IGNORED)
            thinned_noise[:, draws] = noise[chosen][:, draws]
            se = standard_errors(opened.model.untempered, theta, inverted, chosen, thinned_noise, reference)[field]
            inflated = _rows(se, np.arange(len(chosen))) * np.maximum(1.0, misfit)[:, None]
            expected.append(errors(inflated, 20))
            if budget.allows(seconds):
                repeated, seconds = budget.timed(partial(attacked, columns[chosen], thinned_noise))
                trials.append(repeated)
        predicted = typical_error(np.array(expected))
        remedies.append(remedy(f"keep {count} draws", predicted, np.array(trials) if trials else None))
    return tuple(remedies)


def _rows(values: object, chosen: np.ndarray) -> np.ndarray:
    return np.asarray(values, float)[chosen].reshape(len(chosen), -1)


def _record_items(opened: Opened, inverted: PreImages) -> tuple[Item, ...]:
    items = [Item("n", float(len(inverted)), 0.0)]
    for name, values in inverted.records.items():
        values, se = np.asarray(values, float), np.asarray(inverted.se[name], float)
        if values.ndim == 1 and np.isfinite(se).any():
            finite, domain = np.isfinite(se), opened.model.fields[name].domain
            if domain.codes:
                items += counts_by_category(name, domain.levels, values[finite], inverted.ambiguous[finite])
                continue
            error = float(np.sqrt(np.mean(se[finite] ** 2) / finite.sum()))
            items.append(Item(f"mean({name})", float(values[finite].mean()), error))
    return tuple(items)


CHANNEL = Channel(_NAME, find, 130, "model")

"""Compare recovered records with the private ones, one to one, and with a null."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import typical_error
from bayesrecon.evaluate.rate_intervals import clopper_pearson
from bayesrecon.results.findings import Finding, RecordScore, Remedy

_MOST = 600  # largest number of recovered records that are matched
_NULLS = 10  # number of random tables for the null's share


def match_records(
    recovered: Mapping[str, np.ndarray], data: Mapping[str, Array], *, tolerance: float = 0.01, key: int = 0
) -> RecordScore:
    """Assign recovered records one to one to private records, and count the matches.

    Args:
        recovered: `{field: (M, *shape)}` recovered records, with M at most N.
        data: `{field: (N, *shape)}` private records.
        tolerance: largest difference in every field of a match, relative to the field's range in the data.
        key: seed.

    >>> import numpy as np
    >>> data = {"x": np.arange(50.0)}
    >>> match_records({"x": np.arange(50.0)[::-1] + 0.1}, data).share
    1.0
    """
    rng = np.random.default_rng(key)
    columns = {name: _flat(data[name]) for name in recovered}
    ranges = _ranges(columns)
    count = len(next(iter(columns.values())))
    size = len(next(iter(recovered.values())))
    rows = np.sort(rng.permutation(size)[:_MOST])
    guess = {name: _flat(recovered[name])[rows] for name in recovered}
    hits, pairs = _matched(guess, columns, ranges, tolerance)
    null = []
    for _ in range(_NULLS):
        shuffled = {name: v[rng.permutation(count)][rng.integers(count, size=len(rows))] for name, v in columns.items()}
        null.append(_matched(shuffled, columns, ranges, tolerance)[0] / len(rows))
    share = clopper_pearson(hits, len(rows))
    errors = {name: float(np.median(np.abs(guess[name][pairs[0]] - columns[name][pairs[1]]))) for name in recovered}
    return RecordScore(hits, len(rows), *share, float(np.mean(null)), tolerance, errors)


def measured_remedies(finding: Finding, truth: Mapping[str, float], data: Mapping[str, Array]) -> tuple[Remedy, ...]:
    """The finding's remedies, with errors measured as differences from the truth if there are enough trials.

    The error from the draws alone is a single random number. There the measured error remains the shift by the remedy.

    Args:
        finding: the finding.
        truth: `{statistic: value}`.
        data: `{field: (N, *shape)}`, the private records with all recovered fields.
    """
    return tuple(replace(r, measured=_remaining(r, finding, truth, data)) for r in finding.remedies)


def _remaining(remedy: Remedy, finding: Finding, truth: Mapping[str, float], data: Mapping[str, Array]) -> float | None:
    name = remedy.statistic
    if remedy.trials is None or name is None:
        return remedy.measured
    if remedy.rows is None:
        return float(np.sqrt(np.nanmean((remedy.trials - truth[name]) ** 2))) if name in truth else remedy.measured
    if name not in data or len(data[name]) < len(remedy.rows):
        return remedy.measured
    columns = {f: _flat(v) for f, v in data.items()}
    guess = {f: _flat(finding.records[f])[remedy.rows] for f in data}
    recovered, private = _matched(guess, columns, _ranges(columns), 0.01)[1]
    return typical_error(remedy.trials[:, recovered] - columns[name][private])


def _ranges(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.where(np.ptp(v, axis=0) > 0, np.ptp(v, axis=0), 1.0) for name, v in columns.items()}


def _flat(values: Array) -> np.ndarray:
    return np.asarray(values, float).reshape(len(values), -1)


def _matched(
    guess: Mapping[str, np.ndarray],
    data: Mapping[str, np.ndarray],
    ranges: Mapping[str, np.ndarray],
    tolerance: float,
) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
    from scipy.optimize import linear_sum_assignment

    cost = np.zeros((len(next(iter(guess.values()))), len(next(iter(data.values())))))
    for name, values in guess.items():
        for j in range(values.shape[1]):
            cost = np.maximum(cost, np.abs(values[:, None, j] - data[name][None, :, j]) / ranges[name][j])
    cost = np.nan_to_num(cost, nan=1e6, posinf=1e6)
    # All distant pairs have the same cost, so that the assignment favours close ones.
    pairs = linear_sum_assignment(np.minimum(cost, 10 * tolerance) + 1e-6 * np.minimum(cost, 1e3))
    return int((cost[pairs] <= tolerance).sum()), pairs

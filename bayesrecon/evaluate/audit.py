"""Recovered records against the private ones: one to one, and beside a null."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST = 600  # recovered records that are matched
_NULLS = 10


@dataclass(frozen=True)
class RecordScore:
    """How many recovered records are records of the private data.

    Attributes:
        matched, total: recovered records within the tolerance of the private record assigned to them, and all.
        lower, upper: exact 95 % interval of the share (Clopper-Pearson).
        null: the same share for records drawn from the private data's own columns, each shuffled by itself.
        tolerance: of every field, as a share of its range.
        median_error: `{field: median absolute error}` over the assignment.
    """

    matched: int
    total: int
    share: float
    lower: float
    upper: float
    null: float
    tolerance: float
    median_error: dict[str, float]


def score_records(
    found: Mapping[str, Any], data: Mapping[str, Any], *, tolerance: float = 0.01, key: int = 0
) -> RecordScore:
    """Assign every recovered record to a private record of its own and count those that agree.

    Args:
        found: `{field: (M, *shape)}` recovered records, at most as many as there are private ones.
        data: `{field: (N, *shape)}`.
        tolerance: a share of each field's range in the data, which every field must keep.

    >>> import numpy as np
    >>> data = {"x": np.arange(50.0)}
    >>> score_records({"x": np.arange(50.0)[::-1] + 0.1}, data).share
    1.0
    """
    rng = np.random.default_rng(key)
    columns = {name: _flat(data[name]) for name in found}
    ranges = {name: np.where(np.ptp(v, axis=0) > 0, np.ptp(v, axis=0), 1.0) for name, v in columns.items()}
    count = len(next(iter(columns.values())))
    size = len(next(iter(found.values())))
    rows = np.sort(rng.permutation(size)[:_MOST])
    guess = {name: _flat(found[name])[rows] for name in found}
    hits, pairs = _matched(guess, columns, ranges, tolerance)
    null = []
    for _ in range(_NULLS):
        shuffled = {name: v[rng.permutation(count)][rng.integers(count, size=len(rows))] for name, v in columns.items()}
        null.append(_matched(shuffled, columns, ranges, tolerance)[0] / len(rows))
    lower, upper = clopper_pearson(hits, len(rows))
    errors = {name: float(np.median(np.abs(guess[name][pairs[0]] - columns[name][pairs[1]]))) for name in found}
    return RecordScore(hits, len(rows), hits / len(rows), lower, upper, float(np.mean(null)), tolerance, errors)


def column_of(values: Any, private: Mapping[str, Any] | None) -> str | None:
    """The private column that these values are, in whatever order."""
    if private is None:
        return None
    flat = np.ravel(np.asarray(values))
    for name, column in private.items():
        other = np.ravel(np.asarray(column))
        if other.size != flat.size or other.size < 3:
            continue
        if flat.dtype.kind in "fiub" and other.dtype.kind in "fiub":
            one, two = np.sort(flat.astype(float)), np.sort(other.astype(float))
            if len(np.unique(two)) > 2 and np.allclose(one, two, rtol=1e-6, atol=0):
                return str(name)
        elif flat.dtype.kind not in "fiub" and sorted(map(str, flat)) == sorted(map(str, other)):
            return str(name)
    return None


def clopper_pearson(hits: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Exact binomial interval of a share."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    lower = 0.0 if hits == 0 else float(beta.ppf(tail, hits, total - hits + 1))
    upper = 1.0 if hits == total else float(beta.ppf(1 - tail, hits + 1, total - hits))
    return lower, upper


def _flat(values: Any) -> np.ndarray:
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
    # Far pairs are all alike, so that the assignment serves the close ones.
    pairs = linear_sum_assignment(np.minimum(cost, 10 * tolerance) + 1e-6 * np.minimum(cost, 1e3))
    return int((cost[pairs] <= tolerance).sum()), pairs

"""Judge the loadings of linear combinations: levels, contrasts and grids are structure, other rows are data."""

from dataclasses import dataclass

import numpy as np

_WHOLE = 1e-5  # tolerance for a loading that should be a simple number
_DENOMINATORS = 12  # largest denominator of the weights in contrasts and in means over levels
_REPEATED = 0.5  # if a smaller share of the rows is distinct, zeros and ones are group memberships of records
_FEWEST = 5  # smallest number of rows for which zeros and ones are distinguished from contrasts
_STEPS = 5  # this many rows with equal steps do not occur by chance
_SMOOTH = 0.5  # share of a grid's rows that must continue the same polynomial
_ORDER = 4  # differences of this order vanish for polynomials of degree three


@dataclass(frozen=True)
class Judged:
    """How many rows of loadings are data, and the reason."""

    data: int
    why: str


def judge(loadings: np.ndarray, constant: np.ndarray, labelled: bool = False) -> Judged:
    """Judge the loadings of N columns.

    Args:
        loadings: `(N, m)`.
        constant: constants of the combinations, `(N,)`.
        labelled: whether the columns have labels of points that are not records.

    >>> judge(np.eye(4), np.zeros(4)).data, judge(np.eye(2)[[0, 1, 1, 0, 1, 0, 0, 1]], np.zeros(8)).data
    (0, 8)
    >>> judge(np.array([[1, 41.0], [1, 17.0], [1, 63.0], [1, 28.0], [1, 35.0]]), np.zeros(5)).data
    5
    >>> judge(np.column_stack([np.ones(20), np.linspace(0, 1, 20)]), np.zeros(20)).why
    'predictions along a grid'
    """
    count = len(loadings)
    rows = np.column_stack([loadings, constant])
    if not rows.size:
        return Judged(0, "nothing")
    scale = np.abs(rows).max(axis=1, keepdims=True)
    signs = _near(rows, np.round(rows)) & (np.abs(rows) < 1.5)
    if signs.all():
        different = len(np.unique(np.round(rows), axis=0))
        if count >= _FEWEST and different <= _REPEATED * count:
            return Judged(count, "who is in which group")
        return Judged(0, "levels and contrasts")
    shared = rows / np.where(scale > 0, scale, 1.0)
    if count >= 2 and np.ptp(scale) <= _WHOLE * scale.max() and _near(shared, np.round(shared)).all():
        different = len(np.unique(np.round(shared), axis=0))
        if count < _FEWEST or different > _REPEATED * count:
            return Judged(0, "levels and contrasts")
    if count == 1 and _is_mean(rows[0]):
        return Judged(0, "the mean of others")
    if count == 1 and _is_unit(rows[0]):
        return Judged(0, "the same in another unit")
    if (count >= _STEPS and _equally_spaced(rows)) or (count >= 2 * _ORDER and _along_grid(rows)):
        return Judged(0, "predictions along a grid")
    weights = np.abs(constant) <= _WHOLE
    fractions = np.zeros(rows.shape, bool)
    for d in range(1, _DENOMINATORS + 1):
        fractions |= _near(d * rows, np.round(d * rows))
    contrast = (fractions & (np.abs(rows) <= 1 + _WHOLE)).all(axis=1) & weights
    different = len(np.unique(np.round(rows, 5), axis=0))
    if contrast.all() and different > _REPEATED * count:
        return Judged(0, "levels and contrasts")
    if labelled and count <= 50 and different > _REPEATED * count:
        return Judged(0, "predictions at labelled points")
    if different > _REPEATED * count:
        plain = signs.all(axis=1) | contrast
        return Judged(int((~plain).sum()), "loadings of single rows")
    return Judged(count, "rows that repeat")


def _near(values: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.abs(values - target) <= _WHOLE * np.maximum(1.0, np.abs(target))


def _is_mean(row: np.ndarray) -> bool:
    """Whether a row is a mean: equal loadings that sum to one, without a constant.

    >>> _is_mean(np.array([0.05] * 20 + [0.0])), _is_mean(np.array([0.05] * 19 + [0.1, 0.0]))
    (True, False)
    """
    moved = row[row != 0]
    return len(moved) > 1 and row[-1] == 0 and bool(_near(moved, np.full(len(moved), 1 / len(moved))).all())


def _is_unit(row: np.ndarray) -> bool:
    """Whether a row changes the unit: one loading of 1, 2 or 5 times a power of ten, such as a slope per ten years."""
    moved = row[row != 0]
    if len(moved) != 1 or row[-1] != 0:
        return False
    power = 10.0 ** np.floor(np.log10(np.abs(moved[0]) * (1 + _WHOLE)))
    return bool(_near(np.abs(moved) / power, np.array([1.0, 2.0, 5.0])).any())


def _equally_spaced(rows: np.ndarray) -> bool:
    """Whether consecutive rows differ by equal steps."""
    steps = np.diff(rows, axis=0)
    size = np.abs(rows).max(axis=0)
    return bool(np.any(np.abs(steps[0]) > _WHOLE * size.max()) and np.all(np.abs(steps - steps[0]) <= _WHOLE * size))


def _along_grid(rows: np.ndarray) -> bool:
    """Whether the rows follow a piecewise polynomial, as for splines."""
    moving = rows[:, np.ptp(rows, axis=0) > _WHOLE * np.abs(rows).max()]
    if not moving.shape[1] or len(np.unique(np.round(moving, 9), axis=0)) < len(moving):
        return False
    for column in moving.T:
        size = np.abs(column).max()
        smooth = np.abs(np.diff(column, _ORDER)) <= 1e-4 * size
        if smooth.mean() < _SMOOTH or np.abs(np.diff(column)).max() > 0.5 * np.ptp(column) + 1e-4 * size:
            return False
    return True

"""Whole numbers of records, and whole totals of the response, that print a table exactly."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from bayesrecon.posteriors.printed.cell_counts import Cells, fits, squares_at

_SLACK = 1e-9  # relative, of arithmetic
_TRIED = 20_000  # combinations of totals that are tried in all: a second


@dataclass(frozen=True, eq=False)
class Solutions:
    """All solutions.

    Attributes:
        counts: `(S, C)` records of the cells.
        totals: `(S, C)` of the response in them, where it is counted and every cell has a mean of its own.
    """

    counts: np.ndarray
    totals: np.ndarray | None = None


def mean_of(kind: str, eta: np.ndarray) -> np.ndarray:
    """The mean response at linear predictors of "ols", "poisson" or "logit".

    >>> mean_of("logit", np.zeros(1)).tolist()
    [0.5]
    """
    if kind == "ols":
        return eta
    return np.exp(np.clip(eta, -50, 50)) if kind == "poisson" else 0.5 * (1 + np.tanh(0.5 * eta))


def whole(
    kind: str, design: np.ndarray, points: np.ndarray, box: np.ndarray, cells: Cells, counted: bool, saturated: bool
) -> Solutions:
    """The counts among `points (S, C)` for which the totals of the response can be whole numbers, too.

    The equations of the coefficients are `sum_n x_n (y_n - mu_n) = 0`: of cells with means of their own every total is
    `n_c mu_c`, and of other columns that are 0 or 1 it is their sum.

    Args:
        box: `(p, 2)` limits of the coefficients.
        counted: whether the response is a whole number.

    Returns:
        The counts alone, none of them left out, where too many totals are possible to look at all of them.
    """
    points = points[fits(cells, points, points)]
    if not counted or not len(points):
        return Solutions(points)
    middle, half = design @ box.mean(axis=1), np.abs(design) @ (np.diff(box, axis=1)[:, 0] / 2)
    means = [mean_of(kind, middle - half), mean_of(kind, middle + half)]
    if not saturated:
        least, most = (points[:, :, None] * m[None, :, None] * design[None] for m in means)
        plain = [j for j in range(design.shape[1]) if np.isin(design[:, j], (0, 1)).all()]
        sums = least.sum(axis=1)[:, plain], most.sum(axis=1)[:, plain]
        return Solutions(points[(np.floor(sums[1] + _SLACK) >= np.ceil(sums[0] - _SLACK)).all(axis=1)])
    kept, totals, tried = [], [], 0
    for counts in points:
        first, last = np.ceil(counts * means[0] - _SLACK), np.floor(counts * means[1] + _SLACK)
        if kind == "logit":
            first, last = np.maximum(first, 1), np.minimum(last, counts - 1)
        elif kind == "poisson":
            first = np.maximum(first, 1)
        tried += 1 + np.prod(np.maximum(last - first + 1, 0))
        if tried > _TRIED:
            return Solutions(points)
        for candidate in product(*(np.arange(a, b + 1) for a, b in zip(first, last, strict=True))):
            if _prints(kind, design, counts, np.array(candidate), box, cells):
                kept.append(counts)
                totals.append(np.array(candidate))
    shape = (-1, design.shape[0])
    return Solutions(np.array(kept).reshape(shape), np.array(totals).reshape(shape))


def _prints(
    kind: str, design: np.ndarray, counts: np.ndarray, totals: np.ndarray, box: np.ndarray, cells: Cells
) -> bool:
    """Whether cells with so many records and such totals have these coefficients and errors as they were printed."""
    mean = totals / counts
    eta = mean if kind == "ols" else np.log(mean) if kind == "poisson" else np.log(mean) - np.log1p(-mean)
    fitted = np.linalg.solve(design, eta)
    slack = _SLACK * (1 + np.abs(fitted))
    if not ((fitted >= box[:, 0] - slack) & (fitted <= box[:, 1] + slack)).all():
        return False
    if kind == "ols":
        return True  # the errors were looked at with the counts
    weight = totals if kind == "poisson" else totals * (1 - mean)
    squares = squares_at(design, weight[None])[0]
    low, high = cells.squares[:, 0], cells.squares[:, 1]
    return bool(((squares >= low * (1 - _SLACK)) & (squares <= high * (1 + _SLACK))).all())

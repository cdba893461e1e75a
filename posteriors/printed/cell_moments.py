"""Means, variances and covariances of data whose cells are counted: least and greatest over all solutions."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from bayesrecon.inexact import Limit
from bayesrecon.posteriors.printed.design_cells import Layout
from bayesrecon.posteriors.printed.whole_counts import Answer

_ARITHMETIC = 1e-12  # relative, of sums of products: exact counts have inexact moments

Interval = tuple[np.ndarray, np.ndarray]


def moments_of(
    kind: str,
    layout: Layout,
    answer: Answer,
    means: np.ndarray,
    response: str,
    scale: tuple[float, float] | None,
    products: Mapping[str, np.ndarray] | None = None,
) -> Mapping[str, Limit]:
    """Of the columns that are 0 or 1, and of the response where every cell has a mean of its own.

    `n var(y) = sum_c n_c (m_c - m)^2 + (n - p) s^2` for least squares with p cells.

    Args:
        means: `(C, 2)` limits of the mean response in each cell.
        scale: limits of s^2.
        products: `(C,)` columns of interactions in the cells, by the names of their fields.
    """
    counts = answer.counts
    n = counts.sum(axis=1)
    found: dict[str, Interval] = {}
    columns: dict[str, np.ndarray] = {}
    for i, factor in enumerate(layout.factors):
        if factor.contrast == "treatment":
            for k, column in enumerate(factor.columns, 1):
                columns[column] = (layout.cells[:, i] == k).astype(float)
    columns |= {name: column for name, column in (products or {}).items() if set(column.tolist()) <= {0.0, 1.0}}
    for name, column in columns.items():
        share = counts @ column / n
        found[f"mean({name})"] = share, share
        found[f"var({name})"] = share * (1 - share), share * (1 - share)
    for one, other in combinations(columns, 2):
        both = counts @ (columns[one] * columns[other]) / n - (counts @ columns[one]) * (counts @ columns[other]) / n**2
        found[f"cov({one},{other})"] = both, both
    if layout.saturated:
        found |= _of_response(kind, counts, answer, means, columns, response, scale)
    return {name: _limit(float(low.min()), float(high.max())) for name, (low, high) in found.items()}


def squares(low: np.ndarray, high: np.ndarray) -> Interval:
    """Least and greatest squares of numbers between two ends.

    >>> [x.tolist() for x in squares(np.array([-1.0, 1.0]), np.array([2.0, 2.0]))]
    [[0.0, 1.0], [4.0, 4.0]]
    """
    one, other = low**2, high**2
    return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(one, other)), np.maximum(one, other)


def _limit(low: float, high: float) -> Limit:
    slack = _ARITHMETIC * (1 + max(abs(low), abs(high)))
    return Limit(low - slack, high + slack, 0.5 * (low + high))


def _of_response(
    kind: str,
    counts: np.ndarray,
    answer: Answer,
    means: np.ndarray,
    columns: Mapping[str, np.ndarray],
    response: str,
    scale: tuple[float, float] | None,
) -> dict[str, Interval]:
    n = counts.sum(axis=1, keepdims=True)
    share = counts / n
    cell_low, cell_high = (np.broadcast_to(m, counts.shape) for m in means.T)
    if answer.totals is not None:
        cell_low = cell_high = answer.totals / counts
    low, high = (share * cell_low).sum(axis=1), (share * cell_high).sum(axis=1)
    found = {f"mean({response})": (low, high)}
    for name, column in columns.items():
        # sum_c p_c (x_c - mean x) m_c is linear in the means of the cells.
        slope = share * (column - (share @ column)[:, None])
        up, down = np.maximum(slope, 0), np.minimum(slope, 0)
        found[f"cov({name},{response})"] = (
            (up * cell_low + down * cell_high).sum(axis=1),
            (up * cell_high + down * cell_low).sum(axis=1),
        )
    if kind == "logit":
        ends = np.stack([low * (1 - low), high * (1 - high)])
        most = np.where((low <= 0.5) & (high >= 0.5), 0.25, ends.max(axis=0))
        found[f"var({response})"] = ends.min(axis=0), most
    elif kind == "ols" and scale is not None:
        away_low, away_high = cell_low - high[:, None], cell_high - low[:, None]
        least, most = squares(away_low, away_high)
        freedom = 1 - counts.shape[1] / n[:, 0]
        found[f"var({response})"] = (
            (share * least).sum(axis=1) + freedom * scale[0],
            (share * most).sum(axis=1) + freedom * scale[1],
        )
    return found

"""Limits of statistics from two tables of least squares on the same records, one with an additional covariate.

With b the coefficients of the smaller table, c those of the larger one and g that of the covariate x that it has more,

    b = c + g d,

d being the coefficients of x regressed on the columns of the smaller table (the bias of an omitted variable; e.g. W. H.
Greene, Econometric Analysis, on omitted variables). Where every cell of the smaller table has a mean of its own, d are
the means of x in the cells, and `n var(x) = (s / se_x)^2 + sum_c n_c (m_c - m)^2` with s and se_x of the larger one.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Limits
from bayesrecon.model import Field
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.posteriors.printed.design_cells import CellLayout, squares


def between(
    small: Limits | None,
    large: Limits | None,
    fields: Mapping[str, Field],
    factors: Sequence[Factor],
    rows: Mapping[str, Limit],
) -> dict[str, Limit]:
    """Limits of the mean of the covariate in each cell, and of its moments; {} for tables that are not nested.

    Args:
        small, large: limits from the two tables.
        fields: fields of the records of the smaller table.
        factors: factors that were stated.
        rows: limits of the counts, by statistic.
    """
    if not (isinstance(small, Coded) and isinstance(large, Coded)) or {small.kind, large.kind} != {"ols"}:
        return {}
    added = [label for label in large.labels if label not in small.labels]
    if len(added) != 1 or len(large.labels) != len(small.labels) + 1 or added[0] not in large.fields:
        return {}
    layout = small.layout(fields, factors)
    if layout is None or not layout.saturated:
        return {}
    at = [0, *(1 + large.labels.index(label) for label in small.labels)]
    slope = large.box([1 + large.labels.index(added[0])])[0]
    if slope[0] <= 0 <= slope[1]:
        return {}
    first, second = small.box(range(len(small.coefficients))), large.box(at)
    # Means of the cells are linear in the differences, whose errors are those of both tables.
    middle = layout.design @ (first.mean(axis=1) - second.mean(axis=1))
    reach = np.abs(layout.design) @ (np.diff(first, axis=1) + np.diff(second, axis=1))[:, 0] / 2
    corners = np.stack([(middle + sign * reach) / g for sign in (-1, 1) for g in slope])
    low, high = corners.min(axis=0), corners.max(axis=0)
    x = large.fields[added[0]]
    result = {
        f"mean({x})[{layout.named(cell)}]": Limit(float(low[k]), float(high[k]), float(low[k] + high[k]) / 2)
        for k, cell in enumerate(layout.cells)
    }
    return result | _moments(x, large, layout, low, high, rows, 1 + large.labels.index(added[0]))


def _moments(
    x: str, large: Coded, layout: CellLayout, low: np.ndarray, high: np.ndarray, rows: Mapping[str, Limit], at: int
) -> dict[str, Limit]:
    """Mean and variance of the covariate, if the count of every cell is known."""
    counts = [rows.get(f"n[{layout.named(cell)}]", Limit()) for cell in layout.cells]
    if large.scale is None or any(c.lower != c.upper for c in counts):
        return {}
    share = np.array([c.lower for c in counts])
    n = share.sum()
    share = share / n
    mean = float(share @ low), float(share @ high)
    value, half = large.errors[at]
    s = large.scale
    within = ((s[0] - s[1]) / (value + half)) ** 2 / n, ((s[0] + s[1]) / max(value - half, 1e-300)) ** 2 / n
    least, most = squares(low - mean[1], high - mean[0])
    variance = float(within[0] + share @ least), float(within[1] + share @ most)
    return {
        f"mean({x})": Limit(*mean, sum(mean) / 2),
        f"var({x})": Limit(*variance, sum(variance) / 2),
    }

"""The cells of a design: what its columns are at each combination of the levels of factors, and the means, variances
and covariances of data whose cells are counted, least and greatest over all solutions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit
from bayesrecon.posteriors.printed.cell_counts import Solutions

MOST_CELLS = 48
"""Combinations of levels that are looked at individually: a 6 by 8 layout; beyond it searches take minutes."""

_ARITHMETIC = 1e-12  # relative, of sums of products: exact counts have inexact moments

Interval = tuple[np.ndarray, np.ndarray]


def parts_of(label: str) -> list[str]:
    """The columns that a line of a table is the product of; colons inside of brackets are none.

    >>> parts_of("C(g)[T.a:b]:x"), parts_of("2.g#c.age")
    (['C(g)[T.a:b]', 'x'], ['2.g', 'age'])
    """
    parts, depth, begin, text = [], 0, 0, label.strip()
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and letter in ":#":
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    stripped = [part.strip().removeprefix("c.") for part in parts if part.strip()]
    return stripped or [text]


@dataclass(frozen=True, eq=False)
class CellLayout:
    """Combinations of levels, and the columns of a design that are functions of them.

    Attributes:
        factors: whose levels are combined.
        cells: `(C, F)` positions of levels.
        columns: positions of the coefficients whose column is a function of the cells, the intercept's among them.
        design: `(C, len(columns))`.
        whole: whether these are all columns of the design.
    """

    factors: tuple[Factor, ...]
    cells: np.ndarray
    columns: tuple[int, ...]
    design: np.ndarray
    whole: bool

    @property
    def saturated(self) -> bool:
        """Whether every cell has a mean of its own."""
        return self.whole and len(self.cells) == len(self.columns)

    def named(self, cell: Sequence[int]) -> str:
        """A cell as it stands in the name of a statistic: `g=b,h=c`."""
        return ",".join(f"{f.name}={f.levels[k]}" for f, k in zip(self.factors, cell, strict=True))

    def margins(self) -> dict[str, np.ndarray]:
        """`{g=b: (C,)}`, which cells are of each level of each factor."""
        return {
            f"{factor.name}={level}": self.cells[:, i] == k
            for i, factor in enumerate(self.factors)
            for k, level in enumerate(factor.levels)
        }


def layout_of(
    labels: Sequence[str], fields: Mapping[str, str], binary: Sequence[str], factors: Sequence[Factor]
) -> CellLayout | None:
    """The layout of a design with an intercept first; None if no column is one of levels, or combinations are many.

    Args:
        labels: labels of the other coefficients, products with colons.
        fields: the name of a field by each part of a label.
        binary: fields that are 0 or 1 and belong to no factor.
        factors: with columns among the fields.

    >>> found = layout_of(["g2", "g3"], {"g2": "g2", "g3": "g3"}, [], [Factor("g", ("g2", "g3"))])
    >>> found.design.astype(int).tolist(), found.saturated
    ([[1, 0, 0], [1, 1, 0], [1, 0, 1]], True)
    """
    pieces = [[fields[part] for part in parts_of(label)] for label in labels]
    used = {field for row in pieces for field in row}
    chosen = [f for f in factors if used & set(f.columns)]
    taken = {column for f in factors for column in f.columns}
    chosen += [Factor(name, (name,), ("0", "1")) for name in dict.fromkeys(binary) if name in used - taken]
    if not chosen or np.prod([float(len(f.levels)) for f in chosen]) > MOST_CELLS:
        return None
    cells = np.array(list(product(*(range(len(f.levels)) for f in chosen))))
    values: dict[str, np.ndarray] = {}
    for i, factor in enumerate(chosen):
        for column, at_levels in zip(factor.columns, factor.matrix.T, strict=True):
            values[column] = at_levels[cells[:, i]]
    at, columns = [0], [np.ones(len(cells))]
    for k, row in enumerate(pieces):
        if all(field in values for field in row):
            at.append(k + 1)
            columns.append(np.prod([values[field] for field in row], axis=0))
    return CellLayout(tuple(chosen), cells, tuple(at), np.column_stack(columns), len(at) == len(labels) + 1)


def moments_of(
    kind: str,
    layout: CellLayout,
    answer: Solutions,
    means: np.ndarray,
    response: str,
    scale: tuple[float, float] | None,
    products: Mapping[str, np.ndarray] | None = None,
) -> Mapping[str, Limit]:
    """Moments of the binary columns, and of the response if every cell has its own mean.

    `n var(y) = sum_c n_c (m_c - m)^2 + (n - p) s^2` for least squares with p cells.

    Args:
        means: `(C, 2)` limits of the mean response in each cell.
        scale: limits of s^2.
        products: `(C,)` columns of interactions in the cells, by the names of their fields.
    """
    counts = answer.counts
    n = counts.sum(axis=1)
    moments: dict[str, Interval] = {}
    columns: dict[str, np.ndarray] = {}
    for i, factor in enumerate(layout.factors):
        if factor.contrast == "treatment":
            for k, column in enumerate(factor.columns, 1):
                columns[column] = (layout.cells[:, i] == k).astype(float)
    columns |= {name: column for name, column in (products or {}).items() if set(column.tolist()) <= {0.0, 1.0}}
    for name, column in columns.items():
        share = counts @ column / n
        moments[f"mean({name})"] = share, share
        moments[f"var({name})"] = share * (1 - share), share * (1 - share)
    for first, second in combinations(columns, 2):
        both = (
            counts @ (columns[first] * columns[second]) / n
            - (counts @ columns[first]) * (counts @ columns[second]) / n**2
        )
        moments[f"cov({first},{second})"] = both, both
    if layout.saturated:
        moments |= _of_response(kind, counts, answer, means, columns, response, scale)
    return {name: _limit(float(low.min()), float(high.max())) for name, (low, high) in moments.items()}


def squares(low: np.ndarray, high: np.ndarray) -> Interval:
    """Least and greatest squares of numbers between two ends.

    >>> [x.tolist() for x in squares(np.array([-1.0, 1.0]), np.array([2.0, 2.0]))]
    [[0.0, 1.0], [4.0, 4.0]]
    """
    first, second = low**2, high**2
    return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(first, second)), np.maximum(first, second)


def _limit(low: float, high: float) -> Limit:
    slack = _ARITHMETIC * (1 + max(abs(low), abs(high)))
    return Limit(low - slack, high + slack, 0.5 * (low + high))


def _of_response(
    kind: str,
    counts: np.ndarray,
    answer: Solutions,
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
    result = {f"mean({response})": (low, high)}
    for name, column in columns.items():
        # sum_c p_c (x_c - mean x) m_c is linear in the means of the cells.
        slope = share * (column - (share @ column)[:, None])
        up, down = np.maximum(slope, 0), np.minimum(slope, 0)
        result[f"cov({name},{response})"] = (
            (up * cell_low + down * cell_high).sum(axis=1),
            (up * cell_high + down * cell_low).sum(axis=1),
        )
    if kind == "logit":
        ends = np.stack([low * (1 - low), high * (1 - high)])
        most = np.where((low <= 0.5) & (high >= 0.5), 0.25, ends.max(axis=0))
        result[f"var({response})"] = ends.min(axis=0), most
    elif kind == "ols" and scale is not None:
        away_low, away_high = cell_low - high[:, None], cell_high - low[:, None]
        least, most = squares(away_low, away_high)
        freedom = 1 - counts.shape[1] / n[:, 0]
        result[f"var({response})"] = (
            (share * least).sum(axis=1) + freedom * scale[0],
            (share * most).sum(axis=1) + freedom * scale[1],
        )
    return result

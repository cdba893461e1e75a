"""The cells of a design: what its columns are at each combination of the levels of factors, and the means, variances
and covariances of data whose cells are counted, least and greatest over all solutions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit

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
    answer: "Solutions",
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
    answer: "Solutions",
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


MOST = 10.0**7
"""Records of a cell from which on it counts as unlimited: a thousand times what printed errors tell apart."""

_BOXES = 60_000  # boxes that a search looks at: some seconds
_ROUNDS = 60  # of cutting boxes, each of which halves what is left or ends
_FLAT = 1e-9  # eigenvalue of a matrix with ones on its diagonal, below which its inverse is lost in rounding
_NONE = 1e-300  # records of a cell without any: its inverse is still a number
_ROUNDING = 1e-7  # relative, of inverses above that


@dataclass(frozen=True, eq=False)
class Cells:
    """What the standard errors determine about the counts of cells.

    Attributes:
        design: `(C, p)` rows of the cells.
        weights: `(C, 2)` limits of the weight of one record in each.
        squares: `(p, 2)` limits of the squared standard errors; a lower limit of zero where other columns add to it.
        low, high: `(C,)` whole numbers between which the counts lie.
        total: limits of the number of all records.
        scale: limits of a factor that all squares share, s^2 where `squares` are not relative to it.
    """

    design: np.ndarray
    weights: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    total: tuple[float, float]
    scale: tuple[float, float] = (1.0, 1.0)

    @property
    def possible(self) -> bool:
        return bool((self.low <= self.high).all()) and self.low.sum() <= self.total[1] + 0.5

    @property
    def size(self) -> float:
        """Number of vectors of whole numbers in the box."""
        return float(np.prod(self.high - self.low + 1)) if self.possible else 0.0


def squares_at(design: np.ndarray, counts: np.ndarray, flat: float = np.inf) -> np.ndarray:
    """Squared standard errors `(B, p)` of weighed counts `(B, C)`.

    Args:
        flat: what stands where the design has no full rank, or nearly none.

    >>> squares_at(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[4.0, 2.0], [4.0, 0.0]]))[0].tolist()
    [0.25, 0.75]
    """
    if design.shape[0] == design.shape[1]:  # every cell has a mean of its own, whose variance is 1 / n
        return (1 / np.maximum(counts, _NONE)) @ (np.linalg.inv(design) ** 2).T
    information = np.einsum("bc,cj,ck->bjk", counts, design, design)
    diagonal = np.sqrt(np.maximum(np.einsum("bjj->bj", information), 1e-300))
    relative = information / diagonal[:, :, None] / diagonal[:, None, :]
    singular = ~(np.linalg.eigvalsh(relative)[:, 0] > _FLAT)
    relative[singular] = np.eye(design.shape[1])
    result = np.einsum("bjj->bj", np.linalg.inv(relative)) / diagonal**2
    result[singular] = flat
    return result


def fits(cells: Cells, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Which boxes of counts, `(B, C)` each, may print the table: necessary, and for single points sufficient except for
    what the weights leave open."""
    most, least = (
        squares_at(cells.design, n * w) for n, w in ((low, cells.weights[:, 0]), (high, cells.weights[:, 1]))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # A common scale v in its limits with v * most >= squares_low and v * least <= squares_high for every error.
        needed = np.where(np.isinf(most), 0.0, cells.squares[:, 0] / most).max(axis=1)
        allowed = np.where(least > 0, cells.squares[:, 1] / least, np.inf).min(axis=1)
    ends = np.maximum(needed, cells.scale[0]), np.minimum(allowed, cells.scale[1])
    counted = (low.sum(axis=1) <= cells.total[1]) & (high.sum(axis=1) >= cells.total[0])
    return counted & (ends[0] <= ends[1] * (1 + _ROUNDING))


def tightened(cells: Cells) -> Cells:
    """The box cut down to what the ends of its sides allow, one side after the other."""
    low, high = cells.low.astype(float), cells.high.astype(float)
    for _ in range(_ROUNDS):
        before = low.copy(), high.copy()
        others = low.sum() - low, high.sum() - high
        high = np.minimum(high, np.floor(cells.total[1] - others[0]))
        low = np.maximum(low, np.where(others[1] < MOST, np.ceil(cells.total[0] - others[1]), low))
        for c in range(len(low)):
            if not (low <= high).all():
                return replace(cells, low=low, high=high)
            low[c] = _end(cells, low, high, c, upper=False)
            high[c] = _end(cells, low, high, c, upper=True)
        if np.array_equal(before[0], low) and np.array_equal(before[1], high):
            break
    return replace(cells, low=low, high=high)


def _end(cells: Cells, low: np.ndarray, high: np.ndarray, c: int, upper: bool) -> float:
    """The least or greatest count of a cell with which a box is left; beside the box where there is none."""

    def left(first: float, last: float) -> bool:
        a, b = low.copy(), high.copy()
        a[c], b[c] = first, last
        return bool(fits(cells, a[None], b[None])[0])

    if not left(low[c], high[c]):
        return low[c] - 1 if upper else high[c] + 1
    begin, end = low[c], high[c]
    while begin < end:
        middle = np.floor((begin + end) / 2)
        if upper:
            if left(middle + 1, end):
                begin = middle + 1
            else:
                end = middle
        elif left(begin, middle):
            end = middle
        else:
            begin = middle + 1
    return float(begin)


def solutions(cells: Cells, most: int) -> tuple[np.ndarray, bool]:
    """All whole counts that print the table, `(S, C)`, and whether these are all: boxes where the search ended before
    its time, whose corners are then what is left.

    Args:
        most: solutions that are looked for.
    """
    low, high = cells.low[None].astype(float), cells.high[None].astype(float)
    looked = 0
    points = np.zeros((0, len(cells.low)))
    while len(low):
        looked += len(low)
        keep = fits(cells, low, high)
        low, high = low[keep], high[keep]
        single = (low == high).all(axis=1)
        points = np.concatenate([points, low[single]])
        low, high = low[~single], high[~single]
        if len(points) > most or looked + len(low) > _BOXES:
            return np.concatenate([points, low, high]), not len(low)
        # Relative to its size: a side from 1 to 10 is longer than one from 1000 to 1100.
        longest = np.argmax((high - low) / (low + 1), axis=1)
        rows = np.arange(len(low))
        middle = np.floor((low[rows, longest] + high[rows, longest]) / 2)
        upper, lower = low.copy(), high.copy()
        lower[rows, longest], upper[rows, longest] = middle, middle + 1
        low, high = np.concatenate([low, upper]), np.concatenate([lower, high])
        low, high = _summed(cells, low, high)
        possible = (low <= high).all(axis=1)
        low, high = low[possible], high[possible]
    return points, True


def _summed(cells: Cells, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes without what the number of all records rules out."""
    least, most = low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True)
    return (
        np.maximum(low, np.ceil(cells.total[0] - (most - high))),
        np.minimum(high, np.floor(cells.total[1] - (least - low))),
    )


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

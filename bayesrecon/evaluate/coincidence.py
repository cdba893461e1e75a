"""How unlikely it is that values of a file agree with a private column by chance, in bits.

`b` bits mean that agreement at least this good has probability `2^-b` or less if the values have nothing to do with
the column. There are three kinds of agreement, and each has its own null hypothesis.

**In the same order** (`bits_in_order`): the column is in random order. If every rank of the series is at most `d` from
the column's rank, the column's order is one of the permutations of a 0/1 matrix `A[i, j] = |r_i - s_j| <= d`. Their
number is its permanent, which Bregman's theorem bounds by `prod_i (k_i!)^(1/k_i)`, where `k_i` is the sum of row `i`.
There are `N!` orders, so the probability is at most `prod_i (k_i!)^(1/k_i) / N!`. Ties are covered: for exact agreement
this is `prod_v n_v! / N!`, one over the number of different orders. Ranks do not depend on units. A column that
rises, or drifts, is not in random order, but its steps may be. The steps have to agree by the same bound, and the
smaller number of bits counts, so that a sorted column counts by its gaps alone and equal steps count nothing.

**In any order** (`Values.bits`): the values are a sample of a distribution that is smooth at their resolution. The
alternative is that each value, with an unknown probability, was taken from the column without replacement. The ratio of
the alternative's likelihood to the largest likelihood under the null hypothesis is built as an e-value (universal
inference, Wasserman, Ramdas and Balakrishnan 2020), which exceeds `2^b` with probability at most `2^-b` by Markov's
inequality. It is one approximately: the bins of the smooth distribution come from the values themselves, and values
that were not taken from the column have the fitted density under both hypotheses. Simulations in the tests count how
often an unrelated column matches. Running numbers and grids are no sample of a smooth distribution. A second null
hypothesis describes them: steps are independent, one step is common, and other steps are smooth within octaves. The
ratio takes the larger of the two likelihoods.

**In groups** (`bits_of_groups`, `bits_in_span`): the column is in random order. The partition into groups is one of
`N! / (prod_g n_g! prod_s m_s!)`, where `m_s` groups have `s` records. An affine space of dimension `w` contains at most
`L^(w + 1)` columns that take `L` levels, because `w + 1` entries determine the others.
"""

from functools import cached_property

import numpy as np
from scipy.special import entr, gammaln

NEAR = 0.15
"""Largest difference of ranks, relative to their number, of a copy with noise. A correlate has larger ones."""

_MOST_TRIED = 64  # largest number of lags or positions that are tried, of those that fit single values
_DIGITS = 1e-6  # relative resolution of numbers that were not rounded
_EQUAL = 1e-5  # relative difference below which two numbers count as equal
_LOG2 = float(np.log(2))


def _log2_factorial(n: np.ndarray | float) -> np.ndarray:
    return gammaln(np.asarray(n, float) + 1) / _LOG2


def _log2_choose(n: float, k: float) -> float:
    return float(_log2_factorial(n) - _log2_factorial(k) - _log2_factorial(n - k))


def _entropy(counts: np.ndarray) -> float:
    """The number of bits of a sequence with these counts under the best independent model."""
    total = counts.sum()
    return float(total * entr(counts / total).sum() / _LOG2)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, which are equal for equal values."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[codes]


def _tidied(values: np.ndarray) -> np.ndarray:
    """Values without rounding errors, so that ties remain ties."""
    spread = np.ptp(values)
    return np.rint((values - values[0]) / (_EQUAL * spread)) if spread > 0 else np.zeros_like(values)


def has_equal_steps(values: np.ndarray) -> bool:
    """Whether values repeat or continue at equal steps: running numbers, grids, visits 1, 2, 3, 1, 2, 3, blocks.

    >>> [has_equal_steps(np.array(v)) for v in ([3, 5, 7, 9], [1, 2, 1, 2, 1, 2], [0, 0, 1, 1, 2, 2], [3, 1, 4, 1, 5])]
    [True, True, True, False]
    """
    size, tolerance = len(values), _EQUAL * float(np.ptp(values))
    lags = np.arange(1, size // 2 + 1)
    first = values[lags] - values[0]
    likely = lags[np.abs(values[-1] - values[size - 1 - lags] - first) <= tolerance]
    for lag in likely[:_MOST_TRIED].tolist():
        steps = values[lag:] - values[:-lag]
        if np.abs(steps - steps[0]).max() <= tolerance:
            return True
    return False


def _bits_of_ranks(series: np.ndarray, column: np.ndarray, near: float) -> float:
    """The bits of the largest difference between two rankings, by Bregman's bound; 0 if it is larger than `near`."""
    size, ranks, others = len(series), _ranks(series), _ranks(column)
    largest = float(np.abs(ranks - others).max())
    if largest > max(near * size, 1):
        return 0.0
    others.sort()
    k = np.searchsorted(others, ranks + largest, "right") - np.searchsorted(others, ranks - largest, "left")
    return float(_log2_factorial(size) - np.sum(_log2_factorial(k) / k))


def bits_of_orders(count: int) -> float:
    """The largest number of bits of agreement in the same order: the logarithm of the number of orders.

    >>> round(bits_of_orders(4), 2)
    4.58
    """
    return float(_log2_factorial(count))


def bits_in_order(series: np.ndarray, column: np.ndarray) -> float:
    """The bits of agreement in the same order between a series and a column of as many values `(N,)`.

    >>> ages = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0, 70.0])
    >>> round(bits_in_order(ages / 12 - 3, ages), 1), bits_in_order(np.sort(ages), np.sort(ages)) < 10
    (9.5, True)
    """
    x, c = _tidied(series), _tidied(column)
    bits = _bits_of_ranks(x, c, NEAR)
    if bits == 0:
        return 0.0
    # A step has the errors of two values.
    steps = _bits_of_ranks(_tidied(np.diff(series)), _tidied(np.diff(column)), 2 * NEAR)
    return min(bits, max(steps, _bits_of_ranks(np.diff(_ranks(x)), np.diff(_ranks(c)), 2 * NEAR)))


def bits_of_groups(codes: np.ndarray, others: np.ndarray) -> float:
    """The bits of an equal partition of the records `(N,)` into groups; 0 if the partitions differ.

    If groups are in few runs, as in a sorted column, the positions of the runs count.

    >>> codes = np.array([0, 1, 1, 0, 2, 1, 0, 2, 2, 0])
    >>> round(bits_of_groups(codes, codes), 1), bits_of_groups(np.sort(codes), np.sort(codes)) < 6
    (11.0, True)
    """
    first = np.unique(codes, return_index=True)[1]
    _, labels, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    if len(np.unique(others)) != len(first) or not np.array_equal(others[first][labels], others):
        return 0.0
    alike = np.unique(sizes, return_counts=True)[1]
    partitions = _log2_factorial(len(codes)) - _log2_factorial(sizes).sum() - _log2_factorial(alike).sum()
    starts = np.append(True, np.diff(labels) != 0)
    runs = np.bincount(labels[starts])
    of_runs = _log2_choose(len(codes) - 1, runs.sum() - 1) + _log2_factorial(runs.sum()) - _log2_factorial(runs).sum()
    return max(0.0, float(min(partitions, of_runs - _log2_factorial(len(first)))))


def bits_in_span(matrix: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The bits of columns `(K, N)` that are exact linear combinations of a matrix `(N, w)` and an intercept."""
    design = np.column_stack([np.ones(len(matrix)), matrix])
    residuals = columns.T - design @ np.linalg.lstsq(design, columns.T, rcond=1e-10)[0]
    exact = np.sqrt(np.mean(residuals**2, axis=0)) <= _EQUAL * columns.std(axis=1)
    bits = np.zeros(len(columns))
    for k in np.flatnonzero(exact):
        sizes = np.unique(columns[k], return_counts=True)[1]
        orders = _log2_factorial(len(matrix)) - _log2_factorial(sizes).sum()
        bits[k] = orders - design.shape[1] * np.log2(len(sizes))
    return bits


def resolution(values: np.ndarray) -> float:
    """The printed resolution of numbers: the power of ten of which they are multiples, or their relative precision.

    >>> resolution(np.array([41.5, 17.25])), resolution(np.array([1200.0, 300.0]))
    (0.01, 100.0)
    """
    largest = float(np.abs(values).max())
    finest = max(_DIGITS * float(np.ptp(values)), 1e-7 * largest)
    if largest == 0 or finest == 0:
        return 1.0
    start = int(np.floor(np.log10(largest)))
    for part in (values[:100], values):
        for exponent in range(start, int(np.floor(np.log10(finest))), -1):
            unit = float(np.power(10.0, exponent))
            scaled = part / unit
            if np.abs(scaled - np.rint(scaled)).max() <= max(1e-7 * largest / unit, 1e-9):
                start = exponent
                break
        else:
            return finest
    return float(np.power(10.0, start))


class Values:
    """Numbers `(M,)` of a file, prepared for comparisons in any order.

    Args:
        values: finite numbers.
        step: their resolution, or a part of it.
    """

    def __init__(self, values: np.ndarray, step: float) -> None:
        self.size, self.origin, self.step = len(values), float(values[0]), step
        lattice = np.gcd.reduce(np.unique(self.cells(values)).astype(np.int64))
        self.step = step * max(1, int(lattice))  # such as 0.5 for ranks with ties
        self._cells = self.cells(values)
        self.levels, self.counts = np.unique(self._cells, return_counts=True)

    def cells(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers in units of the resolution, from the first of the values."""
        return np.rint((numbers - self.origin) / self.step)

    @cached_property
    def _log2_smooth(self) -> np.ndarray:
        """The logarithm of the largest likelihood of each level under a histogram, whose frequent levels are alone."""
        bins = int(np.ceil(2 * self.size ** (1 / 3)))
        ends = np.searchsorted(np.cumsum(self.counts), np.arange(bins) * self.size / bins, "right")
        alone = self.levels[self.counts > max(self.size / bins / 2, 1)]
        edges = np.unique(
            np.concatenate([self.levels[ends], alone, alone + 1, self.levels[[0]], self.levels[[-1]] + 1])
        )
        at = np.searchsorted(edges, self.levels, "right") - 1
        mass = np.bincount(at, self.counts, len(edges) - 1)
        return np.log2(mass[at] / self.size / np.diff(edges)[at])

    @cached_property
    def regularity(self) -> float:
        """How many bits likelier the values are under independent steps than under a smooth distribution, if at all."""
        orders = _log2_factorial(self.size) - _log2_factorial(self.counts).sum()
        smooth = float((self.counts * self._log2_smooth).sum() + orders)
        steps = np.diff(self.levels)
        bits = _entropy(np.unique(self.counts, return_counts=True)[1])
        if len(steps):
            sizes, often = np.unique(steps, return_counts=True)
            common = np.abs(steps - sizes[often.argmax()]) <= (1 if self._is_fine else 0)
            bits += _entropy(np.array([common.sum(), (~common).sum()]))
            octaves = np.floor(np.log2(steps[~common]))
            if len(octaves):
                bits += _entropy(np.unique(octaves, return_counts=True)[1]) + octaves.sum()
        return max(0.0, -bits - smooth)

    @property
    def _is_fine(self) -> bool:
        """Whether the resolution is that of unrounded numbers, where equal steps differ by one unit."""
        return bool(np.ptp(self.levels) >= 1e4)

    def among(self, column: np.ndarray) -> np.ndarray:
        """Which numbers of a column are among the values, to their resolution."""
        levels = self.cells(column)
        return self.levels[np.minimum(np.searchsorted(self.levels, levels), len(self.levels) - 1)] == levels

    @cached_property
    def distinct(self) -> "Values":
        """Each level once."""
        return Values(self.origin + self.levels * self.step, self.step)

    def bits_of_part(self, column: np.ndarray, grouped: bool = False) -> float:
        """The bits of the values as consecutive values of a column `(N,)`, in its order; 0 if they are not.

        Values of a smooth distribution are those after one of the `N` positions with probability `N prod_i p(x_i)` or
        less. If they rise or fall, they might have been sorted, and only the set counts.
        """
        cells = self.cells(column)
        firsts = np.flatnonzero(cells[: len(column) - self.size + 1] == self._cells[0])
        parts = (cells[first : first + self.size] for first in firsts[:_MOST_TRIED])
        if not any(np.array_equal(part, self._cells) for part in parts):
            return 0.0
        bits = _entropy(self.counts) if grouped else float(-(self.counts * self._log2_smooth).sum())
        steps = np.diff(self._cells)
        if np.all(steps >= 0) or np.all(steps <= 0):
            bits -= float(_log2_factorial(self.size) - _log2_factorial(self.counts).sum())
        return bits - self.regularity - float(np.log2(len(column)))

    def bits(self, column: np.ndarray, grouped: bool = False, free: int = 0) -> tuple[float, int]:
        """The bits of the values that are among a column's, and their number.

        Args:
            column: the column's values `(N,)`, in ascending order.
            grouped: whether the column has few levels. They may be known to everybody, and only their counts matter.
            free: how many values were used to find the unit and the origin, and count nothing.
        """
        rounded = self.cells(column)
        starts = np.flatnonzero(np.append(True, rounded[1:] != rounded[:-1]))
        levels, counts = rounded[starts], np.diff(np.append(starts, len(column)))
        at = np.minimum(np.searchsorted(self.levels, levels), len(self.levels) - 1)
        hit = self.levels[at] == levels
        at, counts = at[hit], counts[hit]
        shared = np.minimum(self.counts[at], counts)
        hits, size = int(shared.sum()), len(column)
        if not hits:
            return 0.0, 0
        chance = np.log2(self.counts[at] / self.size) if grouped else self._log2_smooth[at]
        drawn = _log2_factorial(size - hits) - _log2_factorial(size)
        drawn += (_log2_factorial(counts) - _log2_factorial(counts - shared)).sum()
        bits = float(drawn - (shared * chance).sum()) * max(0, hits - free) / hits
        return bits - float(np.log2(self.size + 1)) - _log2_choose(self.size, hits) - self.regularity, hits

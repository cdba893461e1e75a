"""Compare values of a file with the private columns: the same numbers, possibly transformed, or the same texts.

Only a data steward, who has the data, can do this. No attack sees the result. What counts as evidence is in
`coincidence`. A match has 10 bits more than the logarithm of the number of comparisons in the audit, so that about one
audit in a thousand has a false match.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesrecon.evaluate.coincidence import (
    NEAR,
    Values,
    bits_in_order,
    bits_in_span,
    bits_of_groups,
    bits_of_orders,
    has_equal_steps,
    resolution,
)
from bayesrecon.untrusted.decoded_values import NUMBER, as_numbers, layers

_BITS = 10.0  # bits of a match beyond the logarithm of the number of comparisons
_FEWEST = 3  # smallest number of values that are compared
_RELATIONS = 16  # in the same order, as sums and as differences, each up or down and in two kinds of steps, or others
_MOST_VALUES, _MOST_COLUMNS = 2**20, 400  # largest size of what is compared at once, which takes seconds
_SAMPLE = 64  # rows that are compared before all are
_MOST_LEVELS = 20  # a text with more levels is no factor, whose levels may be named
_LARGEST = 1e4  # largest distance from the median, relative to the range of most values
_KINDS, _IN_A_ROW, _MOST_PLACES = ("<f8", ">f8", "<f4", ">f4", "<i8", ">i8", "<i4", ">i4", "<i2", ">i2"), 5, 1000
_SHARE, _MOST = 0.3, 0.8  # smallest shares of values in common: of the file's or the column's, and standardised


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns of numbers of the same length `(K, N)`."""

    names: tuple[str, ...]
    values: np.ndarray

    @cached_property
    def ascending(self) -> np.ndarray:
        return np.sort(self.values, axis=1)

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows that are compared first. Sums know the first value up to a constant."""
        size = self.values.shape[1]
        return np.unique(np.linspace(1, size - 1, min(_SAMPLE, size - 1)).astype(int))

    @cached_property
    def ranks(self) -> np.ndarray:
        """Ranks of these rows `(K, rows)`."""
        return np.array([_ranks(a, v[self.rows]) for a, v in zip(self.ascending, self.values, strict=True)])

    @cached_property
    def steps(self) -> "_Columns":
        return _Columns(self.names, np.diff(self.values, axis=1))

    @cached_property
    def equal_steps(self) -> np.ndarray:
        return np.array([has_equal_steps(v) for v in self.values])

    @cached_property
    def standard(self) -> np.ndarray:
        return np.array([_standardised(v) for v in self.ascending])

    @cached_property
    def grouped(self) -> np.ndarray:
        """Which columns have at least two records in half of their groups."""
        starts = (np.flatnonzero(np.concatenate([[True], a[1:] != a[:-1], [True]])) for a in self.ascending)
        return np.array([_are_groups(np.diff(at)) for at in starts])

    def near(self, series: np.ndarray) -> Iterator[tuple[int, int]]:
        """Columns whose ranks in a few rows are near those of a series, and whether up or down."""
        ranks, size = _ranks(np.sort(series), series[self.rows]), len(series)
        for sign, turned in ((1, ranks), (-1, size - 1 - ranks)):
            most = max(NEAR * size, 1) + 1
            for k in np.flatnonzero(np.abs(self.ranks - turned).max(axis=1) <= most):
                if not self.equal_steps[k]:
                    yield int(k), sign


@dataclass(frozen=True, order=True)
class _Match:
    """A match: how plain the relation is (0 is the plainest), its bits, the column and the relation in words."""

    plainness: int
    bits: float
    column: str
    words: str


class Matching:
    """Private columns, prepared for comparisons.

    Args:
        columns: the private columns.
        items: the number of arrays, texts and attributes that this audit compares.

    >>> ages = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0, 70.0, 19.0, 44.0, 38.0, 59.0])
    >>> same = Matching({"age": ages})
    >>> same((ages - ages.mean()) / ages.std()), same(np.sort(ages)), same(np.arange(6.0))
    ("'age' (up to shift and scale)", "'age' (in another order)", None)
    """

    def __init__(self, columns: Mapping[str, np.ndarray], items: int = 1) -> None:
        numbers: dict[int, list[tuple[str, np.ndarray]]] = {}
        texts: list[tuple[str, np.ndarray]] = []
        for name, values in columns.items():
            for label, column in _columns_of(str(name), np.asarray(values)):
                if column.dtype.kind == "U":
                    texts.append((label, column))
                elif len(column) >= _FEWEST and np.ptp(column) > 0:
                    numbers.setdefault(len(column), []).append((label, column))
        self._columns = [
            _Columns(tuple(name for name, _ in same), np.array([v for _, v in same])) for same in numbers.values()
        ]
        ordered = [(b.names[k], b.values[k]) for b in self._columns for k in np.flatnonzero(b.grouped)]
        coded = [(name, _codes(v)) for name, v in [*texts, *ordered]]
        coded = [(name, codes) for name, codes in coded if _are_groups(np.bincount(codes))]
        factors = {name for name, codes in coded if codes.max() < _MOST_LEVELS}
        self._texts = [(name, v) for name, v in texts if name not in factors]
        self._groups = [(name, codes) for name, codes in coded if not has_equal_steps(codes)]
        self._items = max(1, items)

    @np.errstate(all="ignore")  # numbers of a stranger
    def __call__(self, values: object, sampled: bool = False) -> str | None:
        """The private column that these values contain, and how, in words; None if there is none.

        Args:
            values: an array, a text, or bytes.
            sampled: whether they are numbers of any kind, as draws are or the bytes of a file that is not read. Draws
                follow the values of their records, so only equal values count.
        """
        if sampled and isinstance(values, bytes):
            return self._in_bytes(values) or self(
                np.array(NUMBER.findall(values.decode("latin-1")), float), sampled=True
            )
        if sampled:
            flat = np.ravel(np.asarray(values, float))
            starts = range(0, flat.size, _MOST_VALUES)
            found = (self._of_sample(flat[start : start + _MOST_VALUES], len(starts)) for start in starts)
            return next(filter(None, found), None)
        for depth, part in enumerate(layers(values)):
            hidden = " inside a text" if depth and isinstance(values, str | bytes) else ""
            texts = isinstance(part, str) or part.dtype.kind not in "biuf"
            match = self._of_texts(part) if texts else self._of_numbers(np.asarray(part, float))
            if match:
                name, relation = match
                relation = (relation + hidden).strip()
                return f"{name!r}" + (f" ({relation})" if relation else "")
            rest = np.zeros(0) if isinstance(part, str) or texts else part.ravel()[_MOST_VALUES:]
            if rest.size and (column := self(rest, sampled=True)):
                return column
        return None

    def _of_sample(self, flat: np.ndarray, blocks: int) -> str | None:
        flat = flat[np.isfinite(flat)]
        flat = _usual(flat) if len(flat) >= _FEWEST else flat[:0]
        if not flat.size or not 0 < np.ptp(flat) < np.inf:
            return None
        matches = (m for m in self._in_any_order(flat) if m.plainness == 2 or not m.words)
        best = max(matches, key=lambda match: match.bits, default=None)
        return f"{best.column!r}" if best is not None and best.bits >= self._needed(blocks) else None

    def _in_bytes(self, content: bytes) -> str | None:
        """A column of which a few different values lie in a row, as numbers of any kind, whatever is around them."""
        named = [(name, v) for block in self._columns for name, v in zip(block.names, block.values, strict=True)]
        for kind in map(np.dtype, _KINDS):
            whole = kind.kind != "i"
            fitting = [(name, v.astype(kind)) for name, v in named if whole or np.array_equal(v, np.rint(v))]
            sought = np.unique(np.concatenate([v for _, v in fitting])) if fitting else np.zeros(0, kind)
            room = len(content) - _IN_A_ROW * kind.itemsize + 1
            for shift in range(min(kind.itemsize, room) if sought.size else 0):
                there = np.frombuffer(content, kind, (len(content) - shift) // kind.itemsize, shift)
                hit = sought[np.minimum(np.searchsorted(sought, there), len(sought) - 1)] == there
                hit[1:] &= there[1:] != there[:-1]
                for start in np.flatnonzero(np.convolve(hit, np.ones(_IN_A_ROW), "valid") == _IN_A_ROW)[:_MOST_PLACES]:
                    row = there[start : start + _IN_A_ROW]
                    if len(np.unique(row)) < _IN_A_ROW or has_equal_steps(row.astype(float)):
                        continue
                    for name, v in fitting:
                        if row.tobytes() in v.tobytes():
                            return f"{name!r} (as bytes)"
        return None

    def _needed(self, series: int) -> float:
        """The bits that a match needs if so many series of an item are compared."""
        columns = sum(len(block.names) for block in self._columns) + len(self._groups)
        return _BITS + np.log2(self._items * max(1, columns) * series * _RELATIONS)

    def _of_texts(self, part: str | np.ndarray) -> tuple[str, str] | None:
        texts = {part} if isinstance(part, str) else {str(v) for v in np.ravel(part)}
        for name, column in self._texts:
            own = {str(t) for t in column if len(t) >= 3}
            if len(own) < 3:
                continue
            shared = texts & own
            if len(shared) >= 3 and len(shared) >= 0.3 * len(texts):
                return name, "" if len(shared) == len(own) else f"{len(shared)} of its values"
            if isinstance(part, str) and sum(t in part for t in own) >= 3 and len(own) >= 5:
                return name, "within a text"
        if isinstance(part, str):
            return None
        codes = _codes(np.ravel(part)).astype(float)
        return self._best([(codes, "")], None, codes) if 1 < len(np.unique(codes)) < len(codes) else None

    def _of_numbers(self, array: np.ndarray) -> tuple[str, str] | None:
        if array.size < _FEWEST or not np.isfinite(array).any():
            return None
        array = array[: max(1, _MOST_VALUES // max(1, array[0].size))] if array.ndim else array
        flat = np.ravel(array)
        flat = flat[np.isfinite(flat)]
        if array.ndim <= 1:
            array = flat
        if len(flat) < _FEWEST or not 0 < np.ptp(flat) < np.inf:
            return None
        lengths = {block.values.shape[1] for block in self._columns} | {len(codes) for _, codes in self._groups}
        series = [(s, place) for n in sorted(lengths) for s, place in _series(array, n)]
        series = [(s, place) for s, place in series if np.isfinite(s).all() and np.ptp(s) > 0 and len(s) >= _FEWEST]
        return self._best(series, array, flat)

    def _best(
        self, series: list[tuple[np.ndarray, str]], array: np.ndarray | None, flat: np.ndarray
    ) -> tuple[str, str] | None:
        """The plainest match with enough bits."""
        needed = self._needed(len(series) + 1)
        ordered = [(s, place) for s, place in series if bits_of_orders(len(s)) >= needed]
        found = [match for s, place in ordered for match in self._in_order(s, place, array is not None)]
        if array is not None:
            found += self._in_any_order(_usual(flat))
            found += self._of_matrix(array)
        found = [match for match in found if match.bits >= needed]
        if not found:
            return None
        best = min(found, key=lambda match: (match.plainness, -match.bits if match.plainness > 1 else 0))
        return best.column, best.words

    def _in_order(self, series: np.ndarray, place: str, are_numbers: bool) -> Iterator[_Match]:
        for block in self._columns if are_numbers else ():
            size = block.values.shape[1]
            if len(series) == size:
                for k, sign in block.near(series):
                    column = block.values[k]
                    level, how = _relation(series, column)
                    bits = bits_in_order(sign * series, column)
                    yield _Match(level, bits, block.names[k], _joined(how, place))
                steps = np.diff(series)
                for k, sign in block.near(np.append(np.median(steps), steps)):
                    bits = bits_in_order(sign * steps, block.values[k][1:])
                    yield _Match(3, bits, block.names[k], _joined("cumulative sums", place))
            elif len(series) == size - 1 and size > _FEWEST + 1:
                for k, sign in block.steps.near(series):
                    bits = bits_in_order(sign * series, block.steps.values[k])
                    yield _Match(3, bits, block.names[k], _joined("differences", place))
        yield from self._in_groups(series, place)

    def _in_groups(self, series: np.ndarray, place: str) -> Iterator[_Match]:
        same = [(name, codes) for name, codes in self._groups if len(codes) == len(series)]
        if not same:
            return
        groups = _codes(series)
        for name, codes in same:
            if groups.max() == codes.max():
                yield _Match(4, bits_of_groups(groups, codes), name, _joined("by its groups", place))

    def _in_any_order(self, flat: np.ndarray) -> Iterator[_Match]:
        values = Values(flat, resolution(flat))
        forms = [values, values.distinct] if 2 * len(values.levels) <= values.size else [values]
        for block in self._columns:
            size = block.values.shape[1]
            rows = np.unique(np.linspace(0, size - 1, min(4 * _SAMPLE, size)).astype(int))
            often, held = values.among(block.ascending[:, rows]).mean(axis=1), self._held(values, block.ascending)
            for k in np.flatnonzero(np.maximum(often, held) >= _SHARE):
                for form in forms:
                    bits, hits = form.bits(block.ascending[k], bool(block.grouped[k]))
                    level, how = 2, f"{hits} of its values"
                    if hits == values.size == size:
                        level, how = _relation(flat, block.values[k])
                        level, how = (level, how) if level < 2 else (2, "in another order")
                    yield _Match(level, bits, block.names[k], how)
                if values.size < size:
                    bits = values.bits_of_part(block.values[k], bool(block.grouped[k]))
                    yield _Match(2, bits, block.names[k], f"{values.size} of its values")
            if values.size == size >= _FEWEST + 2:
                for form in (Values(sign * _standardised(flat), 1e-5) for sign in (1, -1)):
                    shared = form.among(block.standard[:, rows]).mean(axis=1)
                    for k in np.flatnonzero(~block.grouped & (shared > _MOST)):
                        bits, hits = form.bits(block.standard[k], free=2)
                        if hits > _MOST * size:
                            words = "in another order, up to shift and scale"
                            yield _Match(3, bits - values.regularity, block.names[k], words)

    @staticmethod
    def _held(values: Values, ascending: np.ndarray) -> np.ndarray:
        """Share of a sample of the values that are in each column."""
        sample = values.levels[np.linspace(0, len(values.levels) - 1, min(4 * _SAMPLE, len(values.levels))).astype(int)]
        low = values.origin + (sample - 0.5) * values.step
        starts = np.array([np.searchsorted(column, low) for column in ascending])
        nearest = np.take_along_axis(ascending, np.minimum(starts, ascending.shape[1] - 1), axis=1)
        return (values.cells(nearest) == sample).mean(axis=1)

    def _of_matrix(self, array: np.ndarray) -> Iterator[_Match]:
        """Columns that are combinations of a matrix, and groups that are its distinct rows."""
        if array.ndim != 2 or array.shape[1] < 2 or not np.isfinite(array).all() or array.shape[1] > len(array) // 3:
            return
        for block in self._columns:
            if block.values.shape[1] == len(array):
                kept = np.flatnonzero(~block.equal_steps)
                for k, bits in zip(kept, bits_in_span(array, block.values[kept]), strict=True):
                    yield _Match(5, float(bits), block.names[k], "as a combination of columns")
        if any(len(codes) == len(array) for _, codes in self._groups):
            yield from self._in_groups(np.unique(array, axis=0, return_inverse=True)[1].ravel().astype(float), "")


def _columns_of(name: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Columns of numbers without missing values, or of texts."""
    if values.ndim == 0:
        return
    if values.dtype.kind not in "biuf":
        texts = np.array([str(v) for v in values.ravel()])
        numbers = as_numbers(texts)
        if numbers is None or not np.isfinite(numbers).any():
            yield name, texts
            return
        values = numbers
    flat = values.reshape(len(values), -1).astype(float)
    for k, column in enumerate(flat.T[:_MOST_COLUMNS]):
        yield name if flat.shape[1] == 1 else f"{name}[{k}]", column[np.isfinite(column)]


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def _codes(values: np.ndarray) -> np.ndarray:
    """Groups of equal values, numbered as they appear."""
    _, first, groups = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups.ravel()]


def _are_groups(sizes: np.ndarray) -> bool:
    """Whether at least two records are in half of the groups."""
    return len(sizes) > 1 and bool(np.mean(sizes >= 2) >= 0.5)


def _usual(flat: np.ndarray) -> np.ndarray:
    """Values without single ones that are so large that the others would count as equal."""
    low, middle, high = np.quantile(flat, [0.1, 0.5, 0.9])
    return flat[np.abs(flat - middle) <= _LARGEST * (high - low)] if high > low else flat


def _ranks(ascending: np.ndarray, values: np.ndarray) -> np.ndarray:
    return (np.searchsorted(ascending, values) + np.searchsorted(ascending, values, "right") - 1) / 2


def _standardised(values: np.ndarray) -> np.ndarray:
    """Values with mean 0 and variance 1, in ascending order."""
    ascending = np.sort(values)
    ascending = (ascending - ascending[0]) / (ascending[-1] - ascending[0])
    return (ascending - ascending.mean()) / ascending.std()


def _relation(series: np.ndarray, column: np.ndarray) -> tuple[int, str]:
    """How plain the relation of two series in the same order is, and the relation in words."""
    if np.array_equal(series, column):
        return 0, ""
    if np.allclose(series, column, rtol=1e-6, atol=0):
        return 1, "to single precision"
    if np.abs(series - column).max() <= resolution(series) / 2 * (1 + 1e-6):
        return 1, "rounded"
    x, y = column - column.mean(), series - series.mean()
    correlation = abs(float(x @ y)) / np.sqrt(float(x @ x) * float(y @ y))
    return (1, "up to shift and scale") if 1 - correlation <= 5e-3 else (3, "by its ranks")


def _series(array: np.ndarray, count: int) -> Iterator[tuple[np.ndarray, str]]:
    """Series in an array of any shape with as many values as there are records, or one less."""
    flat = np.ravel(array)
    if flat.size in (count, count - 1):
        yield flat, ""
    if array.ndim >= 2:
        matrix = array.reshape(array.shape[0], -1)
        if array.shape[0] in (count, count - 1):
            for column in matrix.T[:_MOST_COLUMNS]:
                yield column, "in a column"
        if matrix.shape[1] == count:
            yield matrix[0], "in a row"
            yield matrix.mean(axis=0), "on average"
        if array.shape[-1] == count and matrix.shape[1] != count:
            yield array.reshape(-1, count)[0], "in a row"
        lengths = np.prod(array.shape[:2], dtype=int)
        if lengths == count:
            for column in array.reshape(count, -1).T[:_MOST_COLUMNS]:
                yield column, "one to a draw"
    elif flat.size > count and flat.size % count == 0:
        width = flat.size // count
        if width <= 8:
            for k in range(width):
                yield flat[k::width], "in a table"
                yield flat[k * count : (k + 1) * count], "in a table"
    if flat.size > count:
        yield flat[:count], "at the beginning"
        changed = flat[np.append(True, np.diff(flat) != 0)][:count]
        if len(changed) == count:
            yield changed, "at the beginning"

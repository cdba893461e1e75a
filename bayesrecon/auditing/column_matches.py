"""Compare values of a file with the private columns: the same numbers, possibly transformed, or the same texts.

Only a data steward, who has the data, can do this. No attack sees the result.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bayesrecon.auditing.decoded_values import layers

_FEWEST = 5  # smallest number of values that can be compared
_EXACT, _COARSE = 1e-5, 0.03  # largest residuals of exact relations and of rounded values, relative to the spread
_CHANCE = 1e-7  # largest probability that as many values would be among a column's own by chance
_MOST_VALUES, _MOST_COLUMNS = 2**20, 400  # largest size of an array that is compared, which takes seconds


@dataclass(frozen=True, eq=False)
class _Column:
    """A private column: `values (N,)` as numbers (codes for texts), and its `texts`, if any."""

    name: str
    values: np.ndarray
    texts: tuple[str, ...]


class Matching:
    """Private columns, prepared for comparisons.

    >>> ages = np.array([41.0, 17.0, 63.0, 28.0, 35.0, 52.0])
    >>> same = Matching({"age": ages})
    >>> same((ages - ages.mean()) / ages.std()), same(np.sort(ages)), same(np.arange(6.0))
    ("'age' (up to shift and scale)", "'age' (in another order)", None)
    """

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self._columns = [c for name, values in columns.items() for c in _columns_of(str(name), np.asarray(values))]
        self._numeric = [c for c in self._columns if len(c.values) >= _FEWEST and np.ptp(c.values) > 0]

    @np.errstate(all="ignore")  # numbers of a stranger
    def __call__(self, values: object) -> str | None:
        """The private column that these values contain, and how, in words; None if there is none."""
        for depth, part in enumerate(layers(values)):
            hidden = " inside a text" if depth and isinstance(values, str | bytes) else ""
            match = self._texts(part) if isinstance(part, str) or part.dtype.kind not in "biuf" else self._numbers(part)
            if match:
                name, relation = match
                relation = (relation + hidden).strip()
                return f"{name!r}" + (f" ({relation})" if relation else "")
        return None

    def _texts(self, part: str | np.ndarray) -> tuple[str, str] | None:
        texts = {part} if isinstance(part, str) else {str(v) for v in np.ravel(part)}
        for column in self._columns:
            if not column.texts:
                continue
            column_texts = {t for t in column.texts if len(t) >= 3}
            if len(column_texts) < 3:
                continue
            shared = texts & column_texts
            if len(shared) >= 3 and len(shared) >= 0.3 * len(texts):
                return column.name, "" if len(shared) == len(column_texts) else f"{len(shared)} of its values"
            if isinstance(part, str) and sum(t in part for t in column_texts) >= 3 and len(column_texts) >= _FEWEST:
                return column.name, "within a text"
        return None

    def _numbers(self, part: np.ndarray) -> tuple[str, str] | None:
        array = np.asarray(part, float)
        if array.size < 3 or not np.isfinite(array).any():
            return None
        array = array[: max(1, _MOST_VALUES // max(1, array[0].size))] if array.ndim else array
        flat = np.ravel(array)
        for column in self._numeric:
            count = len(column.values)
            for series, place in _series(array, count):
                how = _related(series, column.values)
                if how is not None:
                    return column.name, ", ".join(filter(None, (how, place)))
            if array.ndim == 2 and array.shape[0] == count and array.shape[1] > 1:
                how = _spanned(array, column.values)
                if how is not None:
                    return column.name, how
            how = _among(flat, column.values)
            if how is not None:
                return column.name, how
        return None


def _columns_of(name: str, values: np.ndarray) -> Iterator[_Column]:
    if values.ndim == 0:
        return
    if values.dtype.kind in "biuf":
        flat = values.reshape(len(values), -1).astype(float)
        for k, column in enumerate(flat.T[:_MOST_COLUMNS]):
            finite = column[np.isfinite(column)]
            yield _Column(name if flat.shape[1] == 1 else f"{name}[{k}]", finite, ())
        return
    texts = tuple(str(v) for v in values.ravel())
    yield _Column(name, np.unique(texts, return_inverse=True)[1].astype(float), texts)


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


def _related(series: np.ndarray, column: np.ndarray) -> str | None:
    """How a series of as many values as records, or one less, is related to the column."""
    if not np.isfinite(series).all() or np.ptp(series) == 0 or len(series) < _FEWEST:
        return None
    if len(series) == len(column) - 1:
        return "differences" if _affine(series, np.diff(column)) else None
    if np.array_equal(series, column):
        return ""
    if np.array_equal(series, column.astype(np.float32)) or np.allclose(series, column, rtol=1e-6, atol=0):
        return "to single precision"
    if _affine(series, column):
        return "up to shift and scale"
    if _affine(series, np.cumsum(column)):
        return "cumulative sums"
    same = np.allclose(np.sort(series), np.sort(column), rtol=1e-6, atol=0)
    if (same or _has_a_shape(column)) and any(_affine(np.sort(series), np.sort(c)) for c in (column, -column)):
        return "in another order" if same else "in another order, up to shift and scale"
    if len(column) >= 8 and _same_ranks(series, column):
        return "by its ranks"
    if len(np.unique(column)) <= len(column) // 2 and _same_partition(series, column):
        return "by its groups"
    return None


def _has_a_shape(column: np.ndarray) -> bool:
    """Whether the sorted values of a column are characteristic. Two values or equal steps are not."""
    values = np.unique(column)
    return len(values) > 2 and not (len(values) == len(column) and np.allclose(np.diff(values, 2), 0))


def _affine(series: np.ndarray, column: np.ndarray) -> bool:
    """Whether one series is a linear function of the other, up to rounding."""
    if len(np.unique(column)) < 3 or np.ptp(series) == 0:
        return len(np.unique(column)) == 2 and len(column) >= 20 and _same_partition(series, column)
    x, y = column - column.mean(), series - series.mean()
    slope = (x @ y) / (x @ x)
    residual, spread = float(np.sqrt(np.mean((y - slope * x) ** 2))), float(np.sqrt(np.mean(y**2)))
    steps = np.diff(np.unique(series))
    rounded = (
        float(steps.min()) / np.sqrt(12)
        if len(steps) and np.allclose(series / steps.min(), np.round(series / steps.min()), atol=1e-3)
        else 0.0
    )
    return residual <= max(_EXACT * spread, min(1.5 * rounded, _COARSE * spread))


def _same_ranks(series: np.ndarray, column: np.ndarray) -> bool:
    """Whether a series has the same ranks as a column. Sorted series do not count."""
    if np.all(np.diff(column) >= 0) or np.all(np.diff(column) <= 0):
        return False
    order = np.argsort(column, kind="stable")
    for sign in (1, -1):
        steps = sign * np.diff(series[order])
        apart = np.diff(column[order]) > 0
        if np.all(steps >= 0) and np.mean(steps[apart] > 0) > 0.5 and apart.sum() >= 7:
            return True
    return False


def _same_partition(series: np.ndarray, column: np.ndarray) -> bool:
    """Whether two columns divide the records into the same groups."""
    pairs = np.unique(np.column_stack([series, column]), axis=0)
    return len(pairs) == len(np.unique(series)) == len(np.unique(column)) and 1 < len(pairs) <= len(series) // 2


def _spanned(matrix: np.ndarray, column: np.ndarray) -> str | None:
    """Whether a linear combination of columns is the column, or indicator columns are its groups."""
    rows, width = matrix.shape
    if not np.isfinite(matrix).all() or width > rows // 3:
        return None
    design = np.column_stack([np.ones(rows), matrix])
    residual = column - design @ np.linalg.lstsq(design, column, rcond=1e-10)[0]
    if np.sqrt(np.mean(residual**2)) <= _EXACT * column.std():
        return "as a combination of columns"
    codes = np.unique(matrix, axis=0, return_inverse=True)[1].ravel()
    return "by its groups" if _same_partition(codes.astype(float), column) else None


def _among(flat: np.ndarray, column: np.ndarray) -> str | None:
    """Whether more of the values are in the column than chance would explain."""
    distinct = np.unique(column)
    values = np.unique(flat[np.isfinite(flat)][:_MOST_VALUES])
    if len(values) < _FEWEST or len(distinct) < _FEWEST:
        return None
    at = np.clip(np.searchsorted(distinct, values), 1, len(distinct) - 1)
    near = np.minimum(np.abs(values - distinct[at]), np.abs(values - distinct[at - 1]))
    hits = int(np.sum(near <= 1e-6 * np.maximum(np.abs(values), 1e-12)))
    if hits < _FEWEST or hits < 0.5 * len(values):
        return None
    # The null hypothesis: values with the same resolution as the column, anywhere in its range.
    steps = np.diff(distinct)
    fine = max(float(steps.min()), 1e-6 * np.ptp(distinct))
    share = min(1.0, len(distinct) * fine / np.ptp(distinct))
    return f"{hits} of its values" if share**hits < _CHANCE else None


def bytes_of(columns: Mapping[str, object]) -> Iterator[tuple[str, bytes]]:
    """The first values of each column as bytes, as they would be in an uncompressed file."""
    for name, values in columns.items():
        array = np.ravel(np.asarray(values))
        if array.dtype.kind in "biuf" and len(array) >= _FEWEST and len(np.unique(array[:8])) >= 4:
            for kind in ("<f8", "<f4", "<i8", "<i4", ">f8"):
                if kind[1] == "i" and not np.array_equal(array, np.round(array)):
                    continue
                yield str(name), array[:8].astype(kind).tobytes()

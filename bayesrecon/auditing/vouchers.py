"""Vouchers: what numbers of unknown place are instead of records, by evidence that their values carry.

A voucher is a function of an `Item` that returns its evidence in words, or "". It accepts an item if what the item is
predicts its values: a covariance is symmetric and positive, a curve is smooth along its grid, shares sum to one. Names
of attributes are no evidence. Labels are: values with names of levels or coefficients are statistics of these.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import digits_of, is_grid, is_levels, is_positions, structure_of
from bayesrecon.auditing.accounts.texts import are_names_of_people, are_versions, kind_of_labels
from bayesrecon.posteriors.contents import Contents, Entry
from bayesrecon.posteriors.roles import TABLE

FEWEST = 8
"""Smallest number of different values that may be records; fewer are as many as a summary has."""

MANY = 20
"""Smallest number of rows that are no levels of a factor."""

_CLOSE = 1e-6  # rounding errors of matrices, relative to their largest entry
_SMOOTH = 0.3  # typical second difference along a curve, relative to the first: about one for sorted numbers
_STATE, _WORD = 300, 2.0**32  # fewest numbers, and their range, of the state of a generator
_UNIFORM = 2.8  # distance from a uniform distribution, times the root of the number: larger once in three million
_MOST_CROSSED = 10_000  # largest number of rows of a grid of several variables
_MOST_LINKS = 10**6  # largest number of connections of a network
_BUILDS = 10_000  # largest number of a package's build
_TYPED, _TYPED_DIGITS = 20, 4  # largest number of constants in code, and of their digits
_END_DIGITS = 4  # largest number of digits of the ends of a grid that a person chose
_INTERCEPTS = {"(Intercept)", "Intercept", "const", "intercept"}


@dataclass(frozen=True, eq=False)
class Item:
    """Numbers of unknown place.

    Attributes:
        where: the place.
        values: the numbers.
        labels: labels of each axis; None for axes without.
        beside: arrays of the same container.
        kind: the class of the numbers in R, or "code" for constants in code; otherwise empty.
    """

    where: str
    values: np.ndarray
    labels: tuple[np.ndarray | None, ...] = ()
    beside: Sequence[np.ndarray] = ()
    kind: str = ""

    @cached_property
    def matrix(self) -> np.ndarray | None:
        """The numbers as a square or rectangular matrix; None for other arrays."""
        values = np.squeeze(self.values).astype(float)
        return values if values.ndim == 2 and np.isfinite(values).all() else None

    @cached_property
    def is_small(self) -> bool:
        """Whether no axis can be that of records: all are short, or have words for labels."""
        if max(np.shape(self.values), default=1) < MANY:
            return True
        words = (v is not None and kind_of_labels(v) == "words" and not are_names_of_people(v) for v in self.labels)
        return bool(self.labels) and all(words)


def _structure(item: Item) -> str:
    return structure_of(item.values) or ("levels" if is_levels(item.values) else "")


def _covariance(item: Item) -> str:
    matrix = item.matrix
    if matrix is None or len(matrix) != len(matrix.T) or not item.is_small:
        return ""
    largest = np.abs(matrix).max()
    if largest == 0 or np.abs(matrix - matrix.T).max() > _CLOSE * largest:
        return ""
    return "a covariance or correlation" if np.linalg.eigvalsh(matrix / largest)[0] >= -_CLOSE else ""


def _factor(item: Item) -> str:
    matrix = item.matrix
    if matrix is None or len(matrix) != len(matrix.T) or not item.is_small or not np.all(np.diag(matrix) > 0):
        return ""
    return "a triangular factor" if any(np.all(np.triu(m, 1) == 0) for m in (matrix, matrix.T)) else ""


def _directions(item: Item) -> str:
    matrix = item.matrix
    if matrix is None or not item.is_small or min(matrix.shape) < 2:
        return ""
    for m in (matrix, matrix.T):
        products = m.T @ m
        lengths = np.sqrt(np.diag(products))
        if m.shape[1] <= len(m) and np.all(lengths > 0):
            cosines = products / np.outer(lengths, lengths)
            if np.abs(cosines - np.eye(len(cosines))).max() <= _CLOSE:
                return "orthogonal directions or contrasts"
    return ""


def _shares(item: Item) -> str:
    values = np.asarray(item.values, float)
    if not item.is_small or not np.all(values >= 0) or values.size < 2:
        return ""
    sums = [values.sum(), *(values.sum(axis=k) for k in range(values.ndim))]
    return "shares" if any(np.allclose(total, 1, atol=_CLOSE) for total in sums) else ""


def _coefficients(item: Item) -> str:
    names = (labels for labels in item.labels if labels is not None)
    has_intercept = any(_INTERCEPTS & {str(v) for v in labels} for labels in names)
    return "statistics of coefficients" if has_intercept and are_named(item) else ""


def are_named(item: Item) -> bool:
    """Whether numbers have names: every axis has few levels, or names of coefficients with an intercept among them."""
    if len(item.labels) != np.ndim(item.values) or not item.labels:
        return False
    for size, labels in zip(np.shape(item.values), item.labels, strict=True):
        if labels is None:
            if size >= FEWEST:
                return False
            continue
        texts = [str(v) for v in labels]
        if len(set(texts)) < len(texts) or kind_of_labels(labels) not in ("words", "levels", "positions"):
            return False
        unknown = len(texts) >= FEWEST and not _INTERCEPTS & set(texts)
        if unknown and (len(texts) >= MANY or are_names_of_people(texts) or kind_of_labels(labels) == "positions"):
            return False
    return any(v is not None for v in item.labels)


def _curve(item: Item) -> str:
    values = np.asarray(item.values, float)
    if values.ndim != 1 or values.size < FEWEST or not np.isfinite(values).all() or not is_smooth(values):
        return ""
    grids = (_as_grid(other, values.size) for other in (*item.beside, *(v for v in item.labels if v is not None)))
    return "a curve along a grid" if any(grids) else ""


def has_private_ends(item: Item) -> bool:
    """Whether numbers are a grid between two ends with many digits, as between the smallest and largest record.

    It is no line along a grid with ends of few digits.

    >>> [has_private_ends(Item("x", np.linspace(*ends, 30))) for ends in ((0, 1), (18.1379, 83.4021))]
    [False, True]
    """
    flat = np.ravel(item.values)
    grids = [flat, *(np.ravel(v) for v in item.beside if np.size(v) == flat.size)]
    return flat.size > 2 and is_grid(flat) and all(_are_ends(v) for v in grids if v.dtype.kind in "iuf" and is_grid(v))


def _are_ends(flat: np.ndarray) -> bool:
    return flat.dtype.kind == "f" and all(
        min(digits_of(v), digits_of(round(v / np.pi, 9))) > _END_DIGITS for v in flat[[0, -1]].tolist()
    )


def _as_grid(values: np.ndarray, size: int) -> bool:
    try:
        numbers = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        return False
    return numbers.shape == (size,) and not is_positions(numbers) and is_grid(numbers)


def is_smooth(values: np.ndarray) -> bool:
    """Whether a series changes little from step to step.

    >>> is_smooth(np.linspace(0, 3, 20) ** 2), is_smooth(np.sort(np.random.default_rng(0).normal(size=20)))
    (True, False)
    """
    first, second = np.abs(np.diff(values)), np.abs(np.diff(values, 2))
    return bool(np.median(second) <= _SMOOTH * np.median(first) and np.ptp(values) > 0)


def _generator(item: Item) -> str:
    """The state of a generator: words of 32 bits that are uniform in their high and their low bits."""
    values = np.ravel(item.values).astype(float)
    if values.size < _STATE or np.any(values != np.round(values)) or np.abs(values).max() >= _WORD:
        return ""
    words = np.mod(values[2:], _WORD)
    ranks = np.arange(1, len(words) + 1) / len(words)
    parts = (words / _WORD, np.mod(words, 2**16) / 2**16)
    uniform = all(np.abs(np.sort(part) - ranks).max() <= _UNIFORM / np.sqrt(len(words)) for part in parts)
    return "the state of a generator" if uniform and len(np.unique(words)) > 0.99 * len(words) else ""


def _in_code(item: Item) -> str:
    """Constants in code, positions of source code, and numbers of builds beside versions of packages."""
    values = np.ravel(item.values).astype(float)
    if item.kind == "version":
        return "numbers of builds" if np.all((values >= 0) & (values < _BUILDS) & (values == np.round(values))) else ""
    few = (
        item.kind in ("code", "srcref") and values.size <= _TYPED and all(digits_of(v) <= _TYPED_DIGITS for v in values)
    )
    return "constants or positions of code" if few else ""


def _graph(item: Item) -> str:
    """Connections of a feed-forward network: the first one of each node, where they begin, and a weight of each."""
    for first in item.beside:
        starts = np.ravel(first)
        whole = starts.dtype.kind in "iuf" and bool(np.all(starts == np.round(starts)))
        if not whole or starts.size < 3 or starts[0] != 0 or np.any(np.diff(starts) < 0):
            continue
        count = int(min(starts[-1], _MOST_LINKS))
        if not any(np.size(v) == count == starts[-1] for v in item.beside):
            continue
        node = np.repeat(np.arange(starts.size - 1), np.diff(starts).astype(int))
        from_earlier = [v for v in map(np.ravel, item.beside) if v.size == count > 0 and np.all((v >= 0) & (v < node))]
        if from_earlier and (first is item.values or np.size(item.values) == count):
            return "the connections of a network"
    return ""


VOUCHERS: tuple[Callable[[Item], str], ...] = (
    _structure, _covariance, _factor, _directions, _shares, _coefficients, _curve, _generator, _in_code, _graph,
)  # fmt: skip
"""All vouchers for numbers, from the strongest kind of evidence to the weakest."""


@np.errstate(all="ignore")  # numbers of a stranger
def voucher_of(item: Item) -> str:
    """The evidence that an item is something else than records; "" if there is none.

    >>> voucher_of(Item("r", np.array([[1.0, 0.317], [0.317, 1.0]])))
    'a covariance or correlation'
    >>> voucher_of(Item("ages", np.array([41.5, 17.2, 63.9, 28.4, 35.0, 51.3, 22.2, 78.1])))
    ''
    """
    return next((evidence for voucher in VOUCHERS if (evidence := voucher(item))), "")


class Subject:
    """What the items of a file say about each other: labels of axes, neighbours in a container, classes, tables.

    Args:
        contents: the file.
    """

    def __init__(self, contents: Contents) -> None:
        self._packages = {
            parted(e)[0] for e in contents.entries if e.kind in ("text", "labels") and are_versions(e.values)
        }
        self._entries = [e for e in contents.entries if e.kind in ("array", "labels", "attribute", "text")]
        self._labels: dict[str, list[np.ndarray]] = {}
        self._beside: dict[str, list[Entry]] = {}
        self._tables: dict[str, list[Entry]] = {}
        saved = () if contents.saved is None else contents.saved.objects
        self.classes: dict[str, str] = dict(saved)
        """The class of each object, by place."""
        self.named = set[str]()
        """Columns of tables with names of levels for their rows, once `vouched` was computed."""
        for entry in self._entries:
            owner, name = parted(entry)
            if entry.kind == "labels":
                end = len("dimnames/") if owner.lower().endswith("@dimnames/") else 0
                self._labels.setdefault(owner[: len(owner) - end].rstrip("/.@"), []).append(np.ravel(entry.values))
            elif name == "class" and owner.endswith("@") and np.size(entry.values):
                self.classes[owner[:-1]] = str(np.ravel(entry.values)[0])
            if entry.kind in ("array", "labels"):
                self._beside.setdefault(owner, []).append(entry)
            if entry.role == TABLE:
                self._tables.setdefault(owner, []).append(entry)

    def item(self, entry: Entry) -> Item:
        """The numbers of an entry, with their labels and neighbours."""
        owner, name = parted(entry)
        values = np.asarray(entry.values)
        siblings = self._beside.get(owner, ())
        shapes = [np.ravel(e.values) for e in siblings if parted(e)[1] in ("Dim", "dim")]
        if (
            values.ndim == 1 and shapes and np.all(shapes[0] > 0) and np.prod(shapes[0].astype(float)) == values.size
        ):  # of the package Matrix
            values = values.reshape(shapes[0].astype(int), order="F")
        named = list(self._labels.get("" if entry.where == "the object" else entry.where, ()))
        named += self._labels.get(owner.rstrip("/.@"), ()) if name in ("(values)", "*", "x") else ()
        named += [labels] if (labels := _keys_of(entry)) is not None else []
        found: list[np.ndarray | None] = []
        for size in values.shape:
            labels = next((v for v in named if len(v) == size), None)
            named = [v for v in named if v is not labels]
            found.append(labels)
        beside = [values if e is entry else np.asarray(e.values) for e in siblings if _is_numeric(e.values)]
        kind = "version" if owner in self._packages else self.classes.get(entry.where, "")
        kind = kind or ("code" if name.startswith("<") and name[1:-1].isdigit() else "")
        return Item(entry.where, values, tuple(found), beside, kind)

    @cached_property
    def vouched(self) -> Mapping[str, str]:
        """The evidence for numbers of unknown role, by place."""
        found: dict[str, str] = {}
        for entry in self._entries:
            if not entry.role and entry.kind in ("array", "attribute") and _is_numeric(entry.values):
                found[entry.where] = voucher_of(self.item(entry))
        for owner, columns in self._tables.items():
            found.update({e.where: evidence for e, evidence in self._of_table(owner, columns)})
        return {where: evidence for where, evidence in found.items() if evidence}

    def _of_table(self, owner: str, columns: Sequence[Entry]) -> Iterator[tuple[Entry, str]]:
        """Columns of a table that are no columns of records: together, or each by itself along a grid or with names."""
        numbers = [e for e in columns if e.kind == "array" and _is_numeric(e.values) and np.ndim(e.values) == 1]
        texts = [e for e in columns if not _is_numeric(e.values)]
        arrays = [np.asarray(e.values, float) for e in numbers]
        if len({len(v) for v in arrays}) != 1:
            return
        index = [np.ravel(e.values) for e in texts if len(np.ravel(e.values)) == len(arrays[0])]
        index += [v for v in self._labels.get(owner.rstrip("./@"), ()) if len(v) == len(arrays[0])]
        keys = [v for v in index if kind_of_labels(v) == "words" and not are_names_of_people(v)]
        rows = np.array([" ".join(map(str, row)) for row in zip(*keys, strict=True)]) if keys else None
        names = np.array([parted(e)[1] for e in numbers])
        whole = Item(owner, np.column_stack(arrays), (rows, names))
        together = voucher_of(whole)
        if not together and are_named(whole):
            self.named |= {e.where for e in columns}
        if not together and len(arrays[0]) <= _MOST_CROSSED and _are_crossed([*index, *arrays]):
            together = "a grid of several variables"
        for entry, values in zip(numbers, arrays, strict=True):
            yield entry, together or voucher_of(Item(entry.where, values, (None,), arrays))
        yield from ((e, together) for e in texts)


def _are_crossed(columns: Sequence[np.ndarray]) -> bool:
    """Whether two or more columns with few values take all combinations of these, each once, and all others follow."""
    sizes = [(len(np.unique(c.astype(str))), c) for c in columns]
    few = [(levels, c) for levels, c in sizes if 2 <= levels < MANY and levels < len(c)]
    if len(few) < 2 or np.prod([float(levels) for levels, _ in few]) != len(columns[0]):
        return False
    rows = {tuple(map(str, row)) for row in zip(*(c for _, c in few), strict=True)}
    return len(rows) == len(columns[0]) and (len(few) == len(columns) or len(columns[0]) < MANY)


def _keys_of(entry: Entry) -> np.ndarray | None:
    """The keys in which items that were joined differ."""
    if not entry.leaves or len({len(leaf.path) for leaf in entry.leaves}) > 1:
        return None
    differ = [names for names in zip(*(leaf.path for leaf in entry.leaves), strict=True) if len(set(names)) > 1]
    keys = np.array([name.lstrip("./") for name in differ[0]]) if len(differ) == 1 else None
    return None if keys is None or all(k.strip("[]").isdigit() for k in keys) else keys


def _is_numeric(values: object) -> bool:
    return not isinstance(values, str | bytes) and np.asarray(values).dtype.kind in "biuf"


def parted(entry: Entry) -> tuple[str, str]:
    """The place of a container with the sign behind it, and the name of the entry in it.

    >>> parted(Entry("steps/knn._fit_X", "array", 0, path=("/steps", "/knn", "._fit_X")))
    ('steps/knn.', '_fit_X')
    """
    name = entry.path[-1][1:] if entry.path else ""
    if not name or not entry.where.endswith(name):
        name = entry.where[max(entry.where.rfind("/"), entry.where.rfind("@")) + 1 :]
    return entry.where.removesuffix(name), name

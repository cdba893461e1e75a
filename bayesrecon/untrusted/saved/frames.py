"""Tables of pandas and sparse matrices of SciPy, from their arrays."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.untrusted.saved.arrays import array_of, is_array
from bayesrecon.untrusted.saved.nodes import Made, Named, Objects, Pairs, Unreadable

_DENSE = 2**21
"""Largest number of entries of a sparse matrix that is converted to a dense one."""

_LABEL = 100
"""Largest number of characters of a label in an index of several levels, in which a text can occur many times."""

_BLOCK = frozenset([("pandas._libs.internals", "_unpickle_block"), ("pandas.core.internals.blocks", "new_block")])

Columns = list[tuple[str, np.ndarray]]
"""Names and values of columns."""


def class_of(node: Made) -> str:
    """The class of a described object, with its module.

    For the result of a function it is the class among the arguments, or else the function.
    """
    function = node.function
    if isinstance(function, Named) and _is_function(function.name):
        first = node.arguments[0] if isinstance(node.arguments, tuple) and node.arguments else None
        function = first if isinstance(first, Named) else function
    return function.whole if isinstance(function, Named) else ""


def _is_function(name: str) -> bool:
    last = name.rpartition(".")[2].lstrip("_")
    return last[:1].islower()


@dataclass
class Table:
    """A table, series, index or sparse matrix, written out.

    Attributes:
        columns: names and values of its columns and index.
        taken: the descriptions, by id, whose whole content is in the columns.
        read: those whose values are in the columns, although other parts of theirs may not be.
    """

    columns: Columns
    taken: set[int]
    read: set[int]


def table_of(node: Made) -> Table | None:
    """Columns and index of a table, series, index or sparse matrix; None for anything else.

    Categories and levels that no row has are columns of their own, "... (unused)". Parts that are not among the columns
    are not in `taken`.

    Raises:
        Unreadable: the parts do not fit each other.
    """
    last = class_of(node).rpartition(".")[2]
    module = class_of(node).partition(".")[0]
    reader = _Reader()
    if module == "pandas" and last in ("DataFrame", "Series"):
        found = list(reader.table(node, series=last == "Series"))
    elif module == "pandas" and last.endswith("Index") and not is_array(node):
        found = [("", reader.index(node))]
    elif module == "pandas" and last in ("Categorical", "StringArray", "DatetimeArray", "NumpyExtensionArray"):
        found = [("", reader.values(node))]
    elif module == "scipy" and last[:4] in ("csr_", "csc_"):
        found = [("", reader.sparse(node, by_rows=last.startswith("csr")))]
    else:
        return None
    unused = [(f"(unused {k + 1})", values) for k, values in enumerate(reader.unused)]
    return Table([*found, *unused], reader.taken, reader.read)


def _state(node: Made) -> object:
    return node.states[-1] if node.states else Pairs()


class _Reader:
    """Reads a table, and notes which descriptions it has taken in, and labels that no row has."""

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self.read: set[int] = set()
        self.unused: list[np.ndarray] = []

    def table(self, node: Made, series: bool) -> Iterator[tuple[str, np.ndarray]]:
        state = _state(node)
        manager = state.get("_mgr") or state.get("_data") if isinstance(state, Pairs) else None
        if not isinstance(manager, Made):
            raise Unreadable("a table without its blocks")
        axes, blocks = self._managed(manager)
        if series:
            for values, _ in blocks:
                yield "", values.reshape(-1)
        else:
            names = [str(n) for n in np.ravel(self.index(axes[0]))]
            for values, places in blocks:
                rows = values.reshape(1, -1) if values.ndim == 1 else values
                if len(places) != len(rows) or any(not 0 <= p < len(names) for p in places):
                    raise Unreadable("a table whose blocks do not fit its columns")
                yield from ((names[p], row) for p, row in zip(places, rows, strict=True))
            yield "(columns)", np.array(names, dtype=object)
        yield "(index)", self.index(axes[-1])

    def _managed(self, manager: Made) -> tuple[list[Any], list[tuple[np.ndarray, list[int]]]]:
        """Axes and blocks of a table, in the layout of pandas since 1.3 or the older one, without unreadable blocks."""
        if len(manager.arguments) == 2 and not manager.states:
            blocks, axes = manager.arguments
            described = []
            for block in blocks if isinstance(blocks, tuple | list) else (blocks,):
                if not isinstance(block, Made) or not block.is_of(_BLOCK) or len(block.arguments) < 2:
                    raise Unreadable("an invalid block of a table")
                described.append((block.arguments[0], block.arguments[1]))
        else:
            state = _state(manager)
            versions = state[3] if isinstance(state, tuple) and len(state) > 3 else None
            inner = versions.get("0.14.1") if isinstance(versions, Pairs) else None
            if not isinstance(inner, Pairs) or not isinstance(inner.get("blocks"), list):
                raise Unreadable("a table in another layout than that of pandas")
            described = [(b.get("values"), b.get("mgr_locs")) for b in inner.get("blocks") if isinstance(b, Pairs)]
            axes = inner.get("axes") or ()
        found = []
        for values, places in described:
            try:
                at = self._places(places)
                found.append((self.values(values), at))
            except Unreadable:  # its parts are not taken
                continue
        return list(axes), found

    def _places(self, node: object) -> list[int]:
        if isinstance(node, Made) and isinstance(node.function, Named) and node.function.name == "slice":
            bounds: list[Any] = [a for a in map(_item, node.arguments) if a is None or type(a) is int]
            if len(bounds) != 3 or any(a is not None and abs(a) > _DENSE for a in bounds) or bounds[2] == 0:
                raise Unreadable("invalid positions of columns")
            self.taken.add(id(node))
            return list(range(*slice(*bounds).indices(_DENSE)))
        if is_array(node):
            found = array_of(node)
            if isinstance(found, np.ndarray) and found.dtype.kind in "iu" and found.size <= _DENSE:
                self.taken.add(id(node))
                return [int(p) for p in found.ravel()]
        raise Unreadable("invalid positions of columns")

    def values(self, node: object) -> np.ndarray:
        """Values of a block or an index, which is an array of NumPy or pandas."""
        if is_array(node):
            return self._plain(node)
        if not isinstance(node, Made):
            raise Unreadable("values of a table that are not an array")
        self.read.add(id(node))
        for state in node.states:
            parts = (
                state
                if isinstance(state, tuple)
                else tuple(v for _, v in state.pairs)
                if isinstance(state, Pairs)
                else ()
            )
            arrays = [p for p in parts if is_array(p)]
            if arrays:
                values = self._plain(arrays[0])
                categories = self._categories(parts) if values.dtype.kind in "iu" else None
                return values if categories is None else self._labelled(values, categories.astype(object))
        for argument in node.arguments if isinstance(node.arguments, tuple) else ():
            if is_array(argument):
                return self._plain(argument)
        raise Unreadable(f"values of a table as {class_of(node).rpartition('.')[2] or 'something'}")

    def _labelled(self, codes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The labels of codes, "" for codes that have none. Labels without a code are noted."""
        known = np.append(labels, "")
        at = np.where((codes >= 0) & (codes < len(labels)), codes, len(labels))
        unused = np.delete(labels, np.unique(at[at < len(labels)]))
        if len(unused):
            self.unused.append(unused)
        return known[at]

    def _categories(self, parts: tuple[Any, ...]) -> np.ndarray | None:
        for part in parts:
            if isinstance(part, Made) and class_of(part).endswith("CategoricalDtype"):
                state = _state(part)
                found = state.get("categories") if isinstance(state, Pairs) else None
                found = part.arguments[0] if found is None and part.arguments else found
                return None if found is None else np.ravel(self.index(found))
        return None

    def index(self, node: object) -> np.ndarray:
        """Labels along an axis; those of several levels are joined."""
        if is_array(node):
            return self._plain(node)
        if not isinstance(node, Made):
            raise Unreadable("an invalid index")
        self.read.add(id(node))
        fields = next((a for a in node.arguments if isinstance(a, Pairs)), None) if node.arguments else None
        if fields is None:
            return self.values(node)
        start, stop, step = fields.get("start"), fields.get("stop"), fields.get("step")
        if type(stop) is int and type(start) is int and type(step) is int and step:
            count = len(range(start, stop, step))
            if not 0 <= count <= 2**24 or max(abs(start), abs(stop)) > 2**53:
                raise Unreadable("an index that is too long")
            if len(fields.pairs) == 4 and fields.get("name") is None and not node.states and len(node.arguments) == 2:
                self.taken.add(id(node))
            return np.arange(start, stop, step)
        levels, codes = fields.get("levels"), fields.get("codes") or fields.get("labels")
        if isinstance(levels, list | tuple) and isinstance(codes, list | tuple):
            columns = []
            for level, code in zip(levels, codes, strict=False):
                texts = np.array([str(v) for v in np.ravel(self.index(level))], dtype=object)
                if any(len(text) > _LABEL for text in texts):
                    self.unused.append(texts)
                at = np.ravel(self.values(code))
                if at.dtype.kind not in "iu":
                    raise Unreadable("an invalid index")
                columns.append(self._labelled(at, texts))
            if not columns or len({len(c) for c in columns}) > 1:
                raise Unreadable("an invalid index")
            return np.array([" ".join(t[:_LABEL] for t in row) for row in zip(*columns, strict=True)], dtype=object)
        data = fields.get("data")
        if isinstance(data, Made):
            return self.index(data)
        self.taken.add(id(data))
        return np.zeros(0) if data is None else plain_list(data)

    def sparse(self, node: Made, by_rows: bool) -> np.ndarray:
        state = _state(node)
        if not isinstance(state, Pairs):
            raise Unreadable("a sparse matrix without its parts")
        shape = state.get("_shape")
        parts = [state.get(k) for k in ("data", "indices", "indptr")]
        if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(is_array, parts)):
            raise Unreadable("a sparse matrix without its parts")
        sizes = tuple(int(array_of(s)) if is_array(s) else s for s in shape)  # type: ignore[arg-type]
        data, indices, starts = (np.ravel(self._plain(p)) for p in parts)
        if not all(type(s) is int and s >= 0 for s in sizes) or sizes[0] * sizes[1] > _DENSE:
            raise Unreadable("a sparse matrix that is too large to be written out")
        long, short = sizes if by_rows else sizes[::-1]
        counts = np.diff(starts)
        fits = len(starts) == long + 1 and (counts >= 0).all() and counts.sum() == len(indices) == len(data)
        if (
            not fits
            or (len(indices) and not (indices.min() >= 0 and indices.max() < short))
            or data.dtype.kind not in "biuf"
        ):
            raise Unreadable("a sparse matrix whose parts do not fit each other")
        dense = np.zeros((long, short))
        np.add.at(dense, (np.repeat(np.arange(long), counts), indices), data)
        return dense if by_rows else dense.T

    def _plain(self, node: Any) -> np.ndarray:
        """The values of an array, which may be one of objects that stand for single values."""
        found = array_of(node)
        if isinstance(found, Objects):
            found = plain_list([_item(v) for v in found.items]).reshape(found.shape)
        self.taken.add(id(node))
        return found


def plain_list(values: object) -> np.ndarray:
    """A list of numbers or of texts as an array.

    Raises:
        Unreadable: it has other items.
    """
    if isinstance(values, list | tuple):
        if all(isinstance(v, int | float) and abs(v) < 2**63 for v in values if v == v):
            return np.array([float(v) for v in values]) if values else np.zeros(0)
        if all(isinstance(v, str | int | float | None) for v in values):
            return np.array(["" if v is None or v != v else _text(v) for v in values], dtype=object)
    raise Unreadable("a list of other values than numbers or texts")


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) or abs(value) < 2**63 else hex(value)


def _item(value: object) -> object:
    """A missing value as None, and the value that an object stands for, such as a `Decimal`, which is its text."""
    if is_array(value):
        found = array_of(value)
        plain = isinstance(found, np.ndarray) and found.size == 1 and found.dtype.kind in "biufU"
        return found.item() if plain else value  # type: ignore[union-attr]
    if isinstance(value, Named) and value.name in ("NA", "NaT"):
        return None
    alone = isinstance(value, Made) and not (value.states or value.items or value.pairs)
    if alone and isinstance(value.arguments, tuple) and len(value.arguments) == 1:  # type: ignore[union-attr]
        only = value.arguments[0]  # type: ignore[union-attr]
        return only if isinstance(only, str | int | float) else value
    return value

"""Tables of pandas and sparse matrices of SciPy, from their arrays."""

from collections.abc import Iterator
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


def columns_of(node: Made) -> Columns | None:
    """Columns and index of a table, series, index or sparse matrix; None for anything else.

    Raises:
        Unreadable: the parts do not fit each other.
    """
    last = class_of(node).rpartition(".")[2]
    module = class_of(node).partition(".")[0]
    if module == "pandas" and last in ("DataFrame", "Series"):
        return list(_table(node, series=last == "Series"))
    if module == "pandas" and last.endswith("Index") and not is_array(node):
        return [("", _index(node))]
    if module == "pandas" and last in ("Categorical", "StringArray", "DatetimeArray", "NumpyExtensionArray"):
        return [("", _values(node))]
    if module == "scipy" and last[:4] in ("csr_", "csc_"):
        return [("", _sparse(node, by_rows=last.startswith("csr")))]
    return None


def _state(node: Made) -> object:
    return node.states[-1] if node.states else Pairs()


def _table(node: Made, series: bool) -> Iterator[tuple[str, np.ndarray]]:
    state = _state(node)
    manager = state.get("_mgr") or state.get("_data") if isinstance(state, Pairs) else None
    if not isinstance(manager, Made):
        raise Unreadable("a table without its blocks")
    axes, blocks = _managed(manager)
    if series:
        for values, _ in blocks:
            yield "", _flat(values)
    else:
        names = [str(n) for n in np.ravel(_index(axes[0]))]
        for values, places in blocks:
            rows = values.reshape(1, -1) if values.ndim == 1 else values
            if len(places) != len(rows) or any(not 0 <= p < len(names) for p in places):
                raise Unreadable("a table whose blocks do not fit its columns")
            yield from ((names[p], row) for p, row in zip(places, rows, strict=True))
        yield "(columns)", np.array(names, dtype=object)
    yield "(index)", _index(axes[-1])


def _managed(manager: Made) -> tuple[list[Any], list[tuple[np.ndarray, list[int]]]]:
    """Axes and blocks of a table, in the layout of pandas since 1.3 or the older one."""
    if len(manager.arguments) == 2 and not manager.states:
        blocks, axes = manager.arguments
        if not isinstance(blocks, tuple | list):
            blocks = (blocks,)
        found = []
        for block in blocks:
            if not isinstance(block, Made) or not block.is_of(_BLOCK) or len(block.arguments) < 2:
                raise Unreadable("an invalid block of a table")
            found.append((_values(block.arguments[0]), _places(block.arguments[1])))
        return list(axes), found
    state = _state(manager)
    versions = state[3] if isinstance(state, tuple) and len(state) > 3 else None
    inner = versions.get("0.14.1") if isinstance(versions, Pairs) else None
    if not isinstance(inner, Pairs) or not isinstance(inner.get("blocks"), list):
        raise Unreadable("a table in another layout than that of pandas")
    blocks = [b for b in inner.get("blocks") if isinstance(b, Pairs)]
    return list(inner.get("axes") or ()), [(_values(b.get("values")), _places(b.get("mgr_locs"))) for b in blocks]


def _places(node: object) -> list[int]:
    if isinstance(node, Made) and isinstance(node.function, Named) and node.function.name == "slice":
        bounds = [a for a in node.arguments if a is None or type(a) is int]
        if len(bounds) != 3 or any(a is not None and abs(a) > _DENSE for a in bounds) or bounds[2] == 0:
            raise Unreadable("invalid positions of columns")
        return list(range(*slice(*bounds).indices(_DENSE)))
    if is_array(node):
        found = array_of(node)
        if isinstance(found, np.ndarray) and found.dtype.kind in "iu" and found.size <= _DENSE:
            return [int(p) for p in found.ravel()]
    raise Unreadable("invalid positions of columns")


def _values(node: object) -> np.ndarray:
    """Values of a block or an index, which is an array of NumPy or pandas."""
    if is_array(node):
        return _plain(array_of(node))
    if not isinstance(node, Made):
        raise Unreadable("values of a table that are not an array")
    for state in node.states:
        parts = (
            state if isinstance(state, tuple) else tuple(v for _, v in state.pairs) if isinstance(state, Pairs) else ()
        )
        arrays = [p for p in parts if is_array(p)]
        if arrays:
            values = _plain(array_of(arrays[0]))
            categories = _categories(parts)
            if categories is not None and values.dtype.kind in "iu":
                known = np.append(categories.astype(object), "")
                return known[np.where((values >= 0) & (values < len(categories)), values, len(categories))]
            return values
    for argument in node.arguments if isinstance(node.arguments, tuple) else ():
        if is_array(argument):
            return _plain(array_of(argument))
    raise Unreadable(f"values of a table as {class_of(node).rpartition('.')[2] or 'something'}")


def _categories(parts: tuple[Any, ...]) -> np.ndarray | None:
    for part in parts:
        if isinstance(part, Made) and class_of(part).endswith("CategoricalDtype"):
            state = _state(part)
            found = state.get("categories") if isinstance(state, Pairs) else None
            found = part.arguments[0] if found is None and part.arguments else found
            return None if found is None else np.ravel(_index(found))
    return None


def _index(node: object) -> np.ndarray:
    """Labels along an axis; those of several levels are joined."""
    if is_array(node):
        return _plain(array_of(node))
    if not isinstance(node, Made):
        raise Unreadable("an invalid index")
    fields = next((a for a in node.arguments if isinstance(a, Pairs)), None) if node.arguments else None
    if fields is None:
        return _values(node)
    start, stop, step = fields.get("start"), fields.get("stop"), fields.get("step")
    if type(stop) is int and type(start) is int and type(step) is int and step:
        count = len(range(start, stop, step))
        if not 0 <= count <= 2**24 or max(abs(start), abs(stop)) > 2**53:
            raise Unreadable("an index that is too long")
        return np.arange(start, stop, step)
    levels, codes = fields.get("levels"), fields.get("codes") or fields.get("labels")
    if isinstance(levels, list | tuple) and isinstance(codes, list | tuple):
        columns = []
        for level, code in zip(levels, codes, strict=False):
            texts = [str(v)[:_LABEL] for v in np.ravel(_index(level))]
            known = np.array([*texts, ""], dtype=object)
            at = np.ravel(_values(code))
            if at.dtype.kind not in "iu":
                raise Unreadable("an invalid index")
            columns.append(known[np.where((at >= 0) & (at < len(known) - 1), at, len(known) - 1)])
        if not columns or len({len(c) for c in columns}) > 1:
            raise Unreadable("an invalid index")
        return np.array([" ".join(row) for row in zip(*columns, strict=True)], dtype=object)
    data = fields.get("data")
    return np.zeros(0) if data is None else _index(data) if isinstance(data, Made) else plain_list(data)


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
    return (
        value if isinstance(value, str) else repr(value) if isinstance(value, float) or abs(value) < 2**63 else "large"
    )


def _plain(found: np.ndarray | Objects) -> np.ndarray:
    if isinstance(found, np.ndarray):
        return found
    items = [_item(v) for v in found.items]
    return plain_list(items).reshape(found.shape)


def _item(value: object) -> object:
    if is_array(value):
        found = array_of(value)
        return (
            found.item() if isinstance(found, np.ndarray) and found.size == 1 and found.dtype.kind in "biufU" else value
        )
    if isinstance(value, Made | Named) and "NA" in class_of(value if isinstance(value, Made) else Made(value)):
        return None
    return value


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1)


def _sparse(node: Made, by_rows: bool) -> np.ndarray:
    state = _state(node)
    if not isinstance(state, Pairs):
        raise Unreadable("a sparse matrix without its parts")
    shape = state.get("_shape")
    parts = [state.get(k) for k in ("data", "indices", "indptr")]
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(map(is_array, parts)):
        raise Unreadable("a sparse matrix without its parts")
    sizes = tuple(int(array_of(s)) if is_array(s) else s for s in shape)  # type: ignore[arg-type]
    data, indices, starts = (np.ravel(_plain(array_of(p))) for p in parts)
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

"""All values in saved objects by their paths, and the classes of the objects."""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

import numpy as np

from bayesrecon.untrusted.hdf5_inventory import plain_values
from bayesrecon.untrusted.saved.arrays import array_of, bytes_of, is_array, is_bytes
from bayesrecon.untrusted.saved.frames import class_of, columns_of, plain_list
from bayesrecon.untrusted.saved.nodes import READ_ERRORS, Elsewhere, Group, Made, Named, Objects, Pairs, short_error

MOST_THINGS = 20_000
"""Largest number of items that are listed: as many as a forest of a thousand trees has."""

MOST_VALUES, MOST_LETTERS, LONG = 2**21, 2**23, 1000
"""Limits of one item: its values, the characters of all its texts, and those of each text."""

_DEEPEST, _VISITS = 200, 2_000_000
"""Largest depth of nested objects, and largest number of visits: real models are far below."""

_KEY, _MANY = 60, 20
"""Largest number of characters of a key in a path, and of entries of a dictionary whose keys are names of settings."""

_CONTAINERS = frozenset(
    (module, name)
    for module in ("builtins", "__builtin__")
    for name in ("set", "frozenset", "list", "tuple", "dict", "float", "int", "str", "bool")
)

_WHOLE = 63
"""Largest number of bits of an integer that is a number; longer ones are taken as bytes."""


class Item(TypedDict):
    """A value with its place. `of` is the class of the object that holds it."""

    where: str
    kind: str
    values: object
    of: str


class Walk:
    """The items of descriptions that it was applied to.

    Attributes:
        items: the items. The kind is "array", "labels", "setting", "text", "bytes" or "name".
        objects: the objects by their places, in order.
        unread: places and reasons of parts that were not read.

    >>> walk = Walk()
    >>> model = Made(Named("mylib", "Model"), (), [Pairs([("ages", [41, 17, 63]), ("kind", "best")])])
    >>> walk.over(model)
    >>> [(i["where"], i["kind"], i["of"]) for i in walk.items]
    [('ages', 'array', 'mylib.Model'), ('kind', 'setting', 'mylib.Model')]
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.objects: dict[str, Made] = {}
        self.unread: list[tuple[str, str]] = []
        self._seen: dict[int, object] = {}  # by id; keeping the objects prevents that an id is used again
        self._names: dict[str, tuple[str, str]] = {}

    def over(self, root: object, where: str = "") -> None:
        """Add all items below a description, whose own place is `where`."""
        waiting: list[tuple[str, object, int, str]] = [(where, root, 0, "")]
        visits = 0
        while waiting:
            place, node, depth, of = waiting.pop()
            visits += 1
            if depth > _DEEPEST or visits > _VISITS or len(self.items) > MOST_THINGS:
                self.unread.append((place or "the object", "there is more than can be searched"))
                if depth > _DEEPEST:
                    continue
                break
            if isinstance(node, Made | Pairs | Group | list | tuple | Objects):
                if id(node) in self._seen:
                    continue
                self._seen[id(node)] = node
            children: list[tuple[str, object, str]] = []
            try:
                children += self._visit(place, node, of)
            except READ_ERRORS as problem:
                self.unread.append((place or "the object", short_error(problem)))
            waiting += [(p, n, depth + 1, o) for p, n, o in reversed(children)]

    def done(self) -> None:
        """Add the names of attributes and keys, each once."""
        self.items += [Item(where=place, kind="name", values=name, of=of) for name, (place, of) in self._names.items()]
        self._names = {}

    def _visit(self, where: str, node: object, of: str) -> Iterator[tuple[str, object, str]]:
        if node is None or isinstance(node, Named):
            return
        if isinstance(node, Elsewhere):
            self.unread.append((where or "the object", node.what))
            if node.key is not None:
                yield f"{where}/(id)", node.key, of
        elif isinstance(node, Pairs):
            yield from self._pairs(where, node.pairs, of)
        elif isinstance(node, list | tuple | Group):
            yield from self._listed(where, node.items if isinstance(node, Group) else node, of)
        elif isinstance(node, Objects):
            yield from self._listed(where, list(node.items), of)
        elif isinstance(node, np.ndarray):
            self._array(where, node, of)
        elif isinstance(node, Made):
            yield from self._made(where, node, of)
        else:
            self._scalar(where, node, of)

    def _made(self, where: str, node: Made, of: str) -> Iterator[tuple[str, object, str]]:
        if is_bytes(node) or is_array(node):
            yield where, bytes_of(node) if is_bytes(node) else array_of(node), of
            return
        if node.is_of(_CONTAINERS) and isinstance(node.arguments, tuple) and len(node.arguments) == 1:
            yield where, node.arguments[0], of
            return
        kind = class_of(node)
        try:
            columns = columns_of(node)
        except READ_ERRORS:  # its parts are listed instead
            columns = None
        if columns is not None:
            self.objects.setdefault(where, node)
            for name, values in columns:
                label = name in ("(index)", "(columns)")
                self._array(_key(where, name) if name else where, values, kind, "labels" if label else "array")
            attributes = node.states[-1].get("attrs") if node.states and isinstance(node.states[-1], Pairs) else None
            yield f"{where}.attrs", attributes, kind
            return
        if where not in self.objects:
            self.objects[where] = node
        if not isinstance(node.function, Named):
            yield f"{where}/(made by)", node.function, of
        for k, argument in enumerate(node.arguments if isinstance(node.arguments, tuple) else (node.arguments,)):
            yield f"{where}/({k})", argument, kind
        for state in node.states:
            yield from self._state(where, state, kind)
        if node.items:
            yield where, list(node.items), kind
        if node.pairs:
            yield where, Pairs(node.pairs), kind

    def _state(self, where: str, state: object, of: str) -> Iterator[tuple[str, object, str]]:
        parts: tuple[Any, ...] = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if all(part is None or isinstance(part, Pairs) for part in parts):
            for part in parts:
                for key, value in () if part is None else part.pairs:
                    name = key if isinstance(key, str) else "(key)"
                    if not isinstance(key, str):
                        yield f"{where}/(key)", key, of
                    place = f"{where}.{name[:_KEY]}" if where else name[:_KEY]
                    self._names.setdefault(name, (place, of))
                    yield place, value, of
        else:
            yield f"{where}/(state)", state, of

    def _pairs(self, where: str, pairs: list[tuple[object, object]], of: str) -> Iterator[tuple[str, object, str]]:
        keys = [key for key, _ in pairs]
        plain = len(pairs) <= _MANY and all(isinstance(key, str) for key in keys)
        if not plain and pairs:
            yield f"{where}/(keys)", keys, of
        values = [value for _, value in pairs]
        if not plain and _is_flat(values):
            yield f"{where}/(values)", values, of
            return
        for k, (key, value) in enumerate(pairs):
            name = key if isinstance(key, str) else repr(key) if type(key) is int and abs(key) < 2**_WHOLE else str(k)
            if plain:
                self._names.setdefault(name, (_key(where, name), of))
            yield _key(where, name), value, of

    def _listed(self, where: str, items: Sequence[object], of: str) -> Iterator[tuple[str, object, str]]:
        if not len(items):
            return
        if _is_flat(items):
            values = plain_list([_number(v) for v in items])
            self._array(where, values, of, "labels" if values.dtype.kind == "O" else "array")
            return
        rows = _rows(items)
        if rows is not None:
            self._array(where, rows, of)
            return
        for k, item in enumerate(items):
            name, value, *rest = list(item) if isinstance(item, tuple) and len(item) >= 2 else [None, None]
            if isinstance(name, str) and isinstance(value, Made):
                self._names.setdefault(name, (_key(where, name), of))
                yield _key(where, name), value, of
                if rest:
                    yield _key(where, name), rest, of
            else:
                yield _key(where, str(k)), item, of

    def _array(self, where: str, values: np.ndarray, of: str, kind: str = "array") -> None:
        if values.dtype.names:
            for name in values.dtype.names:
                self._names.setdefault(name, (_key(where, name), of))
                self._array(_key(where, name), values[name], of, kind)
            return
        if values.dtype.kind in "mM":
            values = np.datetime_as_string(values) if values.dtype.kind == "M" else values.astype(np.int64)
        if not values.size:
            return
        if values.ndim == 0 and values.dtype.kind in "biuf":
            self._add(where, "setting", values.item(), of)
            return
        visible_values = values
        if values.size > MOST_VALUES:
            self.unread.append((where, f"only the first {MOST_VALUES} of its {values.size} values were looked at"))
            visible_values = (
                values.reshape(-1)[:MOST_VALUES] if values.ndim < 2 else values[: max(1, MOST_VALUES // values[0].size)]
            )
        if visible_values.dtype.kind == "O":
            visible_values, cut = _texts(visible_values)
            if cut:
                self.unread.append((where, "only the beginnings of its texts were looked at"))
        elif visible_values.dtype.kind not in "biufU":
            visible_values = plain_values(visible_values)
        elif visible_values.dtype.kind == "f" and visible_values.dtype.itemsize not in (2, 4, 8):
            visible_values = visible_values.astype(float)
        self._add(where, kind, np.ascontiguousarray(visible_values), of)

    def _scalar(self, where: str, value: object, of: str) -> None:
        if isinstance(value, int) and value.bit_length() > _WHOLE:
            value = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if isinstance(value, bytes):
            if len(value):
                self._add(where, "bytes", value, of)
        elif isinstance(value, str):
            if value:
                self._add(where, "text" if len(value) > LONG else "setting", value[:MOST_LETTERS], of)
        elif isinstance(value, bool | int | float):
            self._add(where, "setting", value, of)
        else:
            self.unread.append((where or "the object", f"it is a {type(value).__name__}"))

    def _add(self, where: str, kind: str, values: object, of: str) -> None:
        self.items.append({"where": where or "the object", "kind": kind, "values": values, "of": of})


def _key(where: str, name: str) -> str:
    return f"{where}/{name[:_KEY]}" if where else name[:_KEY]


def _number(value: object) -> object:
    if is_array(value):
        array = array_of(value)
        return array.item() if isinstance(array, np.ndarray) and array.size == 1 else value
    return value


def _is_flat(items: Sequence[object]) -> bool:
    """Whether all items are numbers, or all are texts."""
    if not len(items):
        return False
    try:
        plain = [_number(v) for v in items]
    except READ_ERRORS:
        return False
    numbers = all(isinstance(v, bool | int | float) and (v != v or abs(v) < 2.0**1023) for v in plain)
    whole = all(not isinstance(v, int) or v.bit_length() <= _WHOLE for v in plain)
    return (numbers and whole) or all(isinstance(v, str) for v in plain)


def _rows(items: Sequence[object]) -> np.ndarray | None:
    """The matrix of rows of numbers of one length; None if the items are anything else."""
    first = items[0]
    if not isinstance(first, list | tuple) or not first:
        return None
    listed = [row for row in items if isinstance(row, list | tuple) and len(row) == len(first) and _is_flat(row)]
    if len(listed) < len(items):
        return None
    rows = [plain_list([_number(v) for v in row]) for row in listed]
    return np.stack(rows) if all(row.dtype.kind == "f" for row in rows) else None


def _texts(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """The values as texts, as far as their total length is allowed, and whether any text was cut."""
    texts, remaining, cut = [], MOST_LETTERS, False
    for value in values.ravel():
        text = value if isinstance(value, str) else str(value) if isinstance(value, int | float | bool) else ""
        short = text[:LONG]
        cut |= len(short) < len(text)
        remaining -= len(short) + 8
        if remaining < 0:
            return np.array(texts, dtype=object), True
        texts.append(short)
    array = np.empty(len(texts), object)
    array[:] = texts
    return array, cut

"""All values in saved objects by their paths, and the classes of the objects."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import numpy as np

from bayesrecon.untrusted.plain_values import differing, plain_values, unused_bytes
from bayesrecon.untrusted.saved.arrays import array_of, beside, bytes_of, is_array, is_bytes
from bayesrecon.untrusted.saved.frames import class_of, plain_list, table_of
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

_CYTHON = "__pyx_unpickle_"
"""Beginning of the functions with which Cython restores objects. Their second argument is a checksum of the class."""

_NODES = (Made, Pairs, Group, Objects, list, tuple)

_WHOLE = 63
"""Largest number of bits of an integer that is a number; longer ones are taken as bytes."""


class Item(TypedDict):
    """A value with its place: for people, and as a `path` of attributes (".name"), and of keys and indices ("/name").

    `of` is the class of the object that holds it.
    """

    where: str
    path: tuple[str, ...]
    kind: str
    values: object
    of: str


class Place(NamedTuple):
    """A place in an object, as in `Item`."""

    where: str = ""
    path: tuple[str, ...] = ()

    def attribute(self, name: str) -> "Place":
        """The place of an attribute."""
        return Place(f"{self.where}.{name[:_KEY]}" if self.where else name[:_KEY], (*self.path, f".{name[:_KEY]}"))

    def part(self, name: str) -> "Place":
        """The place of a part that every object of the class has: an argument, a column."""
        return Place(f"{self.where}/{name[:_KEY]}" if self.where else name[:_KEY], (*self.path, f".{name[:_KEY]}"))

    def key(self, name: str) -> "Place":
        """The place of an entry of a dictionary or a list."""
        return Place(f"{self.where}/{name[:_KEY]}" if self.where else name[:_KEY], (*self.path, f"/{name[:_KEY]}"))


Child = tuple[Place, object, str]
"""A place, what is there, and the class of the object that holds it."""


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
        self._names: dict[str, tuple[Place, str]] = {}
        self._roots: list[object] = []
        self._visited: set[int] = set()
        self._read: set[int] = set()
        self._empty: list[tuple[object, ...]] = []
        self._taken: dict[int, str] = {}  # the place of the table that has the whole content of a description

    def over(self, root: object, where: str = "") -> None:
        """Add all items below a description, whose own place is `where`."""
        self._roots.append(root)
        waiting: list[tuple[Place, object, int, str]] = [(Place(where, (f".{where}",) if where else ()), root, 0, "")]
        visits = 0
        while waiting:
            place, node, depth, of = waiting.pop()
            visits += 1
            if depth > _DEEPEST or visits > _VISITS or len(self.items) > MOST_THINGS:
                self.unread.append((place.where or "the object", "there is more than can be searched"))
                if depth > _DEEPEST:
                    continue
                break
            if isinstance(node, _NODES):
                if id(node) in self._visited or self._is_taken(node, place):
                    continue
                self._visited.add(id(node))
                self._seen[id(node)] = node
            children: list[Child] = []
            try:
                children += self._visit(place, node, of)
            except READ_ERRORS as problem:
                self.unread.append((place.where or "the object", short_error(problem)))
            waiting += [(p, n, depth + 1, o) for p, n, o in reversed(children)]

    def done(self) -> None:
        """Add the names of attributes and keys, each once, and say what was left out on the way.

        Every description is visited, or its whole content is an array that was. This function counts the others.
        """
        for name, (place, of) in self._names.items():
            self._add(place, "name", name, of)
        self._names = {}
        differ = differing("shapes of empty arrays", self._empty)
        for where, kind, values in differ["found"]:
            self._add(Place(where, (f".{where}",)), kind, values, "")
        self.unread += differ["unread"]
        if not self.unread and (lost := sum(1 for node in _all_below(self._roots) if id(node) not in self._seen)):
            self.unread.append(("the object", f"{lost} of its parts were not searched"))

    def _is_taken(self, node: object, place: Place) -> bool:
        """Whether a table has the whole content of a description, which is listed at other places all the same."""
        return id(node) in self._taken and place.where.startswith(self._taken[id(node)])

    def _take(self, node: object) -> None:
        """Note that everything below a description was read with it."""
        for part in _all_below([node], self._seen):
            self._seen[id(part)] = part

    def _visit(self, place: Place, node: object, of: str) -> Iterator[Child]:
        if node is None or isinstance(node, Named):
            return
        if isinstance(node, Elsewhere):
            self.unread.append((place.where or "the object", node.what))
            if node.key is not None:
                yield place.part("(id)"), node.key, of
        elif isinstance(node, Pairs):
            yield from self._pairs(place, node.pairs, of)
        elif isinstance(node, list | tuple | Group):
            yield from self._listed(place, node.items if isinstance(node, Group) else node, of)
        elif isinstance(node, Objects):
            yield from self._listed(place, list(node.items), of)
        elif isinstance(node, np.ndarray):
            self._array(place, node, of)
        elif isinstance(node, Made):
            yield from self._made(place, node, of)
        else:
            self._scalar(place, node, of)

    def _made(self, place: Place, node: Made, of: str) -> Iterator[Child]:
        if is_bytes(node) or is_array(node):
            values, others = bytes_of(node) if is_bytes(node) else array_of(node), beside(node)
            yield place, values, of
            names = ("(beside)", *(f"(beside, {k})" for k in range(2, len(others) + 1)))
            yield from ((place.part(name), other, of) for name, other in zip(names, others, strict=False))
            if isinstance(values, Objects):
                self._seen |= {id(part): part for part in _all_below([node], _by_id(values.items, others))}
            else:
                self._seen |= {id(part): part for part in _all_below([node], _by_id(others))}
            return
        if node.is_of(_CONTAINERS) and isinstance(node.arguments, tuple) and len(node.arguments) == 1:
            self._seen[id(node.arguments)] = node.arguments
            yield place, node.arguments[0], of
            yield from self._rest(place, node, of)
            return
        kind = class_of(node)
        try:
            table = None if id(node) in self._read else table_of(node)
        except READ_ERRORS:  # its parts are listed instead
            table = None
        if table is not None:
            self.objects.setdefault(place.where, node)
            self._read |= table.read
            for name, values in table.columns:
                label = name.startswith("(")
                self._array(place.part(name) if name else place, values, kind, "labels" if label else "array")
            for part in _all_below([node]):
                if id(part) in table.taken:
                    self._taken.setdefault(id(part), place.where)
                    arrays = [x for x in _all_below([part]) if isinstance(x, Made) and (is_array(x) or is_bytes(x))]
                    yield from ((place.part("(beside)"), x, kind) for array in arrays for x in beside(array))
                    self._take(part)
        elif place.where not in self.objects:
            self.objects[place.where] = node
        if not isinstance(node.function, Named):
            yield place.part("(made by)"), node.function, of
        if isinstance(node.arguments, tuple):
            self._seen[id(node.arguments)] = node.arguments
        arguments = list(enumerate(node.arguments)) if isinstance(node.arguments, tuple) else [(0, node.arguments)]
        if isinstance(node.function, Named) and node.function.name.startswith(_CYTHON):
            del arguments[1:2]
        for k, argument in arguments:
            yield place.part(f"({k})"), argument, kind
        yield from self._rest(place, node, kind)

    def _rest(self, place: Place, node: Made, of: str) -> Iterator[Child]:
        """States, items and pairs of an object."""
        for state in node.states:
            yield from self._state(place, state, of)
        if node.items:
            yield place, list(node.items), of
        if node.pairs:
            yield place, Pairs(node.pairs), of

    def _state(self, place: Place, state: object, of: str) -> Iterator[Child]:
        parts: tuple[Any, ...] = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if not all(part is None or isinstance(part, Pairs) for part in parts):
            yield place.part("(state)"), state, of
            return
        self._seen |= _by_id((state, *parts))
        for part in parts:
            for key, value in () if part is None else part.pairs:
                name = key if isinstance(key, str) else "(key)"
                if not isinstance(key, str):
                    yield place.part("(key)"), key, of
                at = place.attribute(name)
                self._names.setdefault(name, (at, of))
                yield at, value, of

    def _pairs(self, place: Place, pairs: list[tuple[object, object]], of: str) -> Iterator[Child]:
        keys = [key for key, _ in pairs]
        self._seen |= _by_id(pairs)
        plain = len(pairs) <= _MANY and all(isinstance(key, str) for key in keys)
        values = [value for _, value in pairs]
        flat = _is_flat(values)
        if not plain and pairs:
            yield place.part("(keys)" if flat or _are_alike(values) else "(names)"), keys, of
        if not plain and flat:
            yield place.part("(values)"), values, of
            for value in values:
                self._take(value)
            return
        for k, (key, value) in enumerate(pairs):
            name = key if isinstance(key, str) else repr(key) if type(key) is int and abs(key) < 2**_WHOLE else str(k)
            at = place.key(name)
            if plain:
                self._names.setdefault(name, (at, of))
            yield at, value, of

    def _listed(self, place: Place, items: Sequence[object], of: str) -> Iterator[Child]:
        if not len(items):
            return
        if _is_flat(items):
            values = plain_list([_number(v) for v in items])
            for item in items:
                self._take(item)
            self._array(place, values, of, "labels" if values.dtype.kind == "O" else "array")
            return
        rows = _rows(items)
        if rows is not None:
            for item in items:
                self._take(item)
            self._array(place, rows, of)
            return
        for k, item in enumerate(items):
            name, value, *rest = list(item) if isinstance(item, tuple) and len(item) >= 2 else [None, None]
            if isinstance(name, str) and isinstance(value, Made):
                self._seen[id(item)] = item
                self._names.setdefault(name, (place.key(name), of))
                yield place.key(name), value, of
                if rest:
                    yield place.key(name), rest, of
            else:
                yield place.key(str(k)), item, of

    def _array(self, place: Place, values: np.ndarray, of: str, kind: str = "array") -> None:
        if (unused := unused_bytes(values)).size:
            self.unread.append((place.where or "the object", f"{unused.size} bytes of its array are in no value"))
            self._add(place.part("(bytes of no value)"), "bytes", unused.tobytes()[:MOST_LETTERS], of)
        if values.dtype.names:
            for name in values.dtype.names:
                self._names.setdefault(name, (place.part(name), of))
                self._array(place.part(name), values[name], of, kind)
            return
        if values.dtype.kind in "mM":
            values = np.datetime_as_string(values) if values.dtype.kind == "M" else values.astype(np.int64)
        if not values.size:
            self._empty.append(values.shape)
            return
        if values.ndim == 0 and values.dtype.kind in "biuf":
            self._add(place, "setting", values.item(), of)
            return
        visible_values = values
        if values.size > MOST_VALUES:
            self.unread.append(
                (place.where, f"only the first {MOST_VALUES} of its {values.size} values were looked at")
            )
            visible_values = (
                values.reshape(-1)[:MOST_VALUES] if values.ndim < 2 else values[: max(1, MOST_VALUES // values[0].size)]
            )
        if visible_values.dtype.kind == "O":
            visible_values, cut = _texts(visible_values)
            if cut:
                self.unread.append((place.where, "only the beginnings of its texts were looked at"))
        elif visible_values.dtype.kind not in "biufU":
            visible_values = plain_values(visible_values)
        elif visible_values.dtype.kind == "f" and visible_values.dtype.itemsize not in (2, 4, 8):
            visible_values = visible_values.astype(float)
        self._add(place, kind, np.ascontiguousarray(visible_values), of)

    def _scalar(self, place: Place, value: object, of: str) -> None:
        if isinstance(value, int) and value.bit_length() > _WHOLE:
            value = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if isinstance(value, bytes):
            if len(value):
                self._add(place, "bytes", value, of)
        elif isinstance(value, str):
            if value:
                self._add(place, "text" if len(value) > LONG else "setting", value[:MOST_LETTERS], of)
        elif isinstance(value, bool | int | float):
            self._add(place, "setting", value, of)
        else:
            self.unread.append((place.where or "the object", f"it is a {type(value).__name__}"))

    def _add(self, place: Place, kind: str, values: object, of: str) -> None:
        self.items.append(Item(where=place.where or "the object", path=place.path, kind=kind, values=values, of=of))


def _by_id(*groups: Sequence[object]) -> dict[int, object]:
    return {id(node): node for group in groups for node in group}


def _all_below(roots: Sequence[object], beyond: Mapping[int, object] = MappingProxyType({})) -> Iterator[object]:
    """All descriptions that have parts, each once, except those in `beyond` and what is below them."""
    waiting, met = list(roots), set[int]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _NODES) or id(node) in met or id(node) in beyond:
            continue
        met.add(id(node))
        yield node
        if isinstance(node, Made):
            waiting += (node.function, node.arguments, *node.states, *node.items, *(x for p in node.pairs for x in p))
        elif isinstance(node, Pairs):
            waiting += (x for pair in node.pairs for x in pair)
        else:
            waiting += node.items if isinstance(node, Group | Objects) else node


def _number(value: object) -> object:
    """The number that an array of one entry is, if its description has nothing else; the text of a name."""
    if is_array(value):
        array = array_of(value)
        return array.item() if isinstance(array, np.ndarray) and array.size == 1 and not beside(value) else value
    return value.whole if isinstance(value, Named) else value


def _are_alike(values: Sequence[object]) -> bool:
    """Whether values are of one kind, such as records: dictionaries, or objects of one class other than arrays."""
    kinds = {class_of(v) if isinstance(v, Made) else type(v).__name__ for v in values}
    return len(kinds) == 1 and not any(isinstance(v, Made) and is_array(v) for v in values)


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

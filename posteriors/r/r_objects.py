"""Objects of R in a table of nodes: their values, names, attributes and elements."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.roles import is_option
from bayesrecon.untrusted.r_file import ATTRIBUTE, ELEMENT, KINDS, SPECIAL, TAG

MISSING = -(2**31)
"""The integer that stands for a missing value in R."""

_MOST_COUNTED = 2**24  # largest length of a sequence that is stored as its start and step
_MOST_WRAPPERS = 20  # largest number of wrappers around a vector; R has one
_SETTINGS = (
    2  # values that a compact form keeps beside those of its vector: whether they are sorted, and none is missing
)
_SEQUENCES = {"compact_intseq": "integer", "compact_realseq": "double"}
_NUMBERS = ("logical", "integer", "double", "complex", "raw")
VECTORS = (*_NUMBERS, "text")
"""Kinds of nodes that hold values."""


class RObjects:
    """The objects of a file.

    Args:
        table: table of `bayesrecon.untrusted.r_file.read_r`.
    """

    def __init__(self, table: Json) -> None:
        self._table = table
        order = np.argsort(table["parent"], kind="stable")
        count = len(table["kind"])
        if len(order) and not 0 <= int(table["child"].max(initial=0)) < count:
            raise BayesreconError("its objects are inconsistent")
        self._bounds = np.searchsorted(table["parent"][order], np.arange(count + 1)).tolist()
        self._below = list(zip(*(table[key][order].tolist() for key in ("tie", "label", "child")), strict=True))
        self._kinds, self._sizes = table["kind"].tolist(), table["size"].tolist()
        self._starts, self._texts = table["start"].tolist(), table["texts"]
        self.root, self.encoding = int(table["root"]), str(table["encoding"])

    def kind(self, node: int) -> str:
        """The kind of a node, one of `bayesrecon.untrusted.r_file.KINDS`; of a compact vector, that of its values."""
        form, inner = self._plain(node)
        if form in _SEQUENCES:
            return _SEQUENCES[form]
        return "text" if form == "deferred_string" else KINDS[self._kinds[inner]]

    def _plain(self, node: int) -> tuple[str, int]:
        """The name of a compact form, and the node of its state; for other vectors "" and the node without wrappers."""
        for _ in range(_MOST_WRAPPERS):
            if KINDS[self._kinds[node]] != "alternative":
                return "", node
            form, inner = self._form(node)
            if not form.startswith("wrap_"):
                return form, inner if form in (*_SEQUENCES, "deferred_string") else node
            node = inner
        return "", node

    def parts(self, node: int) -> dict[str, int]:
        """Parts of a function, an environment or a pointer, by their names."""
        return {self._texts[label]: child for tie, label, child in self._under(node) if tie == SPECIAL and child}

    def all_parts(self, node: int) -> list[int]:
        """Nodes of all parts, also of several with the same name."""
        return [child for tie, _, child in self._under(node) if tie == SPECIAL and child]

    def names_within(self, node: int) -> list[str]:
        """The name of a symbol, or the names that identify a package or a namespace."""
        return [self._texts[label] for tie, label, child in self._under(node) if tie == SPECIAL and not child]

    def _under(self, node: int) -> list[tuple[int, int, int]]:
        return self._below[self._bounds[node] : self._bounds[node + 1]]

    def _form(self, node: int) -> tuple[str, int]:
        """The name of a compact form of a vector, and the node of its state."""
        parts = self.parts(node)
        form, state = parts.get("form", 0), parts.get("state", 0)
        first = [child for tie, _, child in self._under(form) if tie == ELEMENT]
        names = [name for symbol in first[:2] for name in self.names_within(symbol)]
        inner, few = state, len(first) <= 3
        while KINDS[self._kinds[inner]] in ("pairs", "list"):
            elements = [child for tie, _, child in self._under(inner) if tie == ELEMENT]
            if not elements or elements[0] == inner:
                break
            few &= all(self._sizes[other] <= _SETTINGS and not self._under(other) for other in elements[1:])
            inner = elements[0]
        return (names[0] if names[1:] == ["base"] and few else ""), inner

    def size(self, node: int) -> int:
        """The number of values or elements."""
        form, inner = self._plain(node)
        kind = KINDS[self._kinds[inner]]
        if form in _SEQUENCES:
            state = self._values(inner)
            return int(state[0]) if len(state) == 3 and 0 <= state[0] < 2**52 else 0
        if form == "deferred_string" and kind not in VECTORS:
            return len(self.numbers(inner))
        if kind in VECTORS:
            return self._sizes[inner] // (2 if kind == "complex" else 1)
        return sum(tie == ELEMENT for tie, _, _ in self._under(inner))

    def numbers(self, node: int) -> np.ndarray:
        """Values of a vector of numbers, with NaN for missing values; empty for other objects."""
        form, inner = self._plain(node)
        if form not in _SEQUENCES:
            return np.zeros(0) if form else self._values(inner)
        state = self._values(inner)
        if len(state) != 3 or not np.isfinite(state).all() or not 0 <= state[0] <= _MOST_COUNTED:
            raise BayesreconError(f"a sequence of more than {_MOST_COUNTED:,} numbers")
        return state[1] + state[2] * np.arange(int(state[0]))

    def _values(self, node: int) -> np.ndarray:
        kind = KINDS[self._kinds[node]]
        if kind not in _NUMBERS:
            return np.zeros(0)
        begin, end = self._starts[node], self._starts[node] + self._sizes[node]
        if kind == "raw":
            return self._table["raw"][begin:end]
        if kind == "complex":
            return self._table["doubles"][begin:end].reshape(-1, 2)
        if kind == "double":
            return self._table["doubles"][begin:end]
        values = self._table["integers"][begin:end]
        return np.where(values == MISSING, np.nan, values) if (values == MISSING).any() else values

    def texts(self, node: int) -> list[str]:
        """Values of a vector of texts, with "NA" for missing values; empty for other objects."""
        form, inner = self._plain(node)
        if form == "deferred_string":
            return [f"{v:.15g}" for v in np.ravel(self.numbers(inner))]
        if form or KINDS[self._kinds[inner]] != "text":
            return []
        begin, end = self._starts[inner], self._starts[inner] + self._sizes[inner]
        return [self._texts[k] if k >= 0 else "NA" for k in self._table["text"][begin:end].tolist()]

    def attributes(self, node: int) -> dict[str, int]:
        """Attributes and slots by their names, in the order of the file."""
        result: dict[str, int] = {}
        for tie, _, child in self._under(node):
            if tie == ATTRIBUTE:
                for name, value in self._pairs(child):
                    result.setdefault(name, value)
        return result

    def _pairs(self, node: int) -> list[tuple[str, int]]:
        """Elements of a pairlist with their tags. Compiled code can share the tail of a list, which is a part."""
        result: list[tuple[str, int]] = []
        seen: set[int] = set()
        while node and node not in seen:
            seen.add(node)
            tail = 0
            for tie, _, child in self._under(node):
                if tie == ELEMENT:
                    result.append(("", child))
                elif tie == TAG and result:
                    names = self.names_within(child)
                    result[-1] = (names[0] if names else "", result[-1][1])
                elif tie == SPECIAL:
                    tail = child
            node = tail
        return result

    def elements(self, node: int) -> list[tuple[str, int]]:
        """Elements of a list, a pairlist, a call or an environment with their names, "" if they have none."""
        kind = KINDS[self._kinds[node]]
        if kind in ("pairs", "call", "dots"):
            return self._pairs(node)
        if kind == "environment":
            parts = self.parts(node)
            result = self._pairs(parts.get("frame", 0))
            for tie, _, child in self._under(parts.get("hash table", 0)):
                if tie == ELEMENT and child:
                    result += self._pairs(child)
            return result
        values = [child for tie, _, child in self._under(node) if tie == ELEMENT]
        names = self.texts(self.attributes(node).get("names", 0)) if values else []
        return list(zip([*names, *[""] * (len(values) - len(names))], values, strict=False))

    def element(self, node: int, *path: str) -> int:
        """The node at a path of names, of which those that begin with "@" are slots; 0 if there is none."""
        for name in path:
            if name.startswith("@"):
                node = self.attributes(node).get(name[1:], 0)
            else:
                node = next((child for label, child in self.elements(node) if label == name), 0)
        return node

    def classes(self, node: int) -> tuple[str, ...]:
        """The classes of an object."""
        return tuple(self.texts(self.attributes(node).get("class", 0)))

    def shape(self, node: int) -> tuple[int, ...]:
        """Dimensions of a matrix or array, or the length of a vector."""
        dim = self.numbers(self.attributes(node).get("dim", 0))
        size = self.size(node)
        if len(dim) and np.isfinite(dim).all() and int(np.prod(dim.astype(float))) == size:
            return tuple(int(n) for n in dim)
        return (size,)

    def array(self, node: int) -> np.ndarray:
        """Values of a vector of numbers in the shape that they have in R."""
        values, shape = self.numbers(node), self.shape(node)
        return values.reshape(shape, order="F") if values.ndim == 1 and len(shape) > 1 else values

    def names(self, node: int) -> list[str]:
        """Names of the entries of a vector."""
        return self.texts(self.attributes(node).get("names", 0))

    def axis_names(self, node: int) -> list[list[str]]:
        """Names of rows, columns and so on, empty if there are none."""
        return [self.texts(child) for _, child in self.elements(self.attributes(node).get("dimnames", 0))]

    def objects(self) -> Sequence[tuple[str, int]]:
        """Names and nodes of the objects of the file. The single object of `saveRDS` is named "object"."""
        if self._table["by_name"] and KINDS[self._kinds[self.root]] == "pairs":
            return self._pairs(self.root)
        return [("object", self.root)]

    @cached_property
    def odd(self) -> np.ndarray:
        """Flags of objects that R does not set."""
        return np.asarray(self._table["odd"])

    @cached_property
    def behind(self) -> bytes:
        """Bytes behind the end of the stream."""
        return np.asarray(self._table["behind"], np.uint8).tobytes()


_DEFINITION = "refClassRepresentation"
_HANDLES = {".CXXDSOMISC", "stan_fit_instance", "mk_cppmodule", "cxxfun"}
_INSTRUCTIONS = 255  # largest code of an instruction: R 4 has about 130
_INDICES = {"expressionsIndex", "srcrefsIndex"}
_MOST_PLACES, _LONGEST = 200_000, 300  # largest number of places, and of characters of a place
LISTS = ("list", "expression", "pairs", "dots")
INTERNAL = {"names", "dim", "dimnames", "row.names", "class", "levels", "tsp", "package"}
"""Attributes that describe a vector: labels, dimensions and class."""


@dataclass(frozen=True, eq=False)
class Place:
    """The place of one object.

    Attributes:
        where: path in the file. "/" precedes elements, "@" attributes and slots; environments are "<environment>".
        name: the last part of the path, as in the file.
        node: number of the object in `RObjects`.
        kind: kind of the object, as `Objects.kind` returns it.
        parent: the enclosing place; None for an object of the file.
        code: code of calls and functions.
        slot: whether it is an attribute or a slot of the enclosing place.
        named: whether the name is in the file.
    """

    where: str
    name: str
    node: int
    kind: str
    parent: "Place | None" = None
    code: "Code | None" = None
    slot: bool = False
    named: bool = True


@dataclass
class PlaceWalk:
    """All places of a file, breadth first.

    Attributes:
        objects: the objects of the file.
        skip: nodes that are left out.
        places: places of vectors, lists, calls, functions and environments, each environment once.
        closed: places whose parts are not listed, with the reason: definitions of classes, with all methods of R's own
            classes, and handles of compiled code.
        remaining: number of objects that were not reached because there are too many.
    """

    objects: RObjects
    skip: frozenset[int] = frozenset()
    places: list[Place] = field(default_factory=list)
    closed: list[tuple[Place, str]] = field(default_factory=list)
    remaining: int = 0
    empty: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._used: dict[str, int] = {}
        self._met: set[int] = set()
        waiting: deque[tuple[str, str, str, int, Place | None, bool]] = deque()
        for k, (name, node) in enumerate(self.objects.objects()):
            waiting.append(("", name or f"[[{k + 1}]]", "", node, None, bool(name)))
        while waiting:
            if len(self.places) >= _MOST_PLACES:
                self.remaining = len(waiting)
                break
            above, name, sign, node, parent, named = waiting.popleft()
            kind = self.objects.kind(node)
            if named and kind == "null":
                self.empty.append(name)
            if node in self.skip or kind in ("null", "global", "base", "empty", "missing", "unbound"):
                continue
            if kind in ("environment", "pointer", "weak"):
                if node in self._met:
                    continue
                self._met.add(node)
            place = replace(self._place(above, name, sign, node, kind, parent), named=named)
            self.places.append(place)
            if why := self._closes(place):
                self.closed.append((place, why))
                continue
            for sign, name, child, named in self._below(place):
                waiting.append((place.where, name, sign, child, place, named))

    def _closes(self, place: Place) -> str:
        if _DEFINITION in self.objects.classes(place.node):
            return "the definition of a class, which is not searched"
        return "a handle of compiled code, which is not searched" if place.name in _HANDLES else ""

    def _place(self, above: str, name: str, sign: str, node: int, kind: str, parent: Place | None) -> Place:
        """A new place. Its path is unique: a number is added if another place has the same names."""
        escaped = name.replace("/", "\u2215").replace("@", "\uff20")
        where = above + sign + escaped
        if len(where) > _LONGEST:
            where = f"{where[: _LONGEST // 2]}...#{len(self.places)}{sign}{escaped[:40]}"
        count = self._used.get(where, 0)
        self._used[where] = count + 1
        if count:
            where = f"{where}#{count + 1}"
            self._used.setdefault(where, 1)
        code = code_of(self.objects, node) if kind in ("call", "symbol") else None
        if kind in ("closure", "bytecode"):
            code = self._function(node)
        return Place(where, name, node, kind, parent, code, sign == "@")

    def _function(self, node: int) -> "Code":
        """Code of a function: arguments and body; for a compiled function, its source and all constants."""
        parts = self.objects.parts(node) if self.objects.kind(node) == "closure" else {"body": node}
        pieces = [code_of(self.objects, part) for part in self._source(parts.get("arguments", 0))]
        body = [code_of(self.objects, part) for part in self._source(parts.get("body", 0))]
        # Compiled code repeats its source, so only the other constants are added.
        source = body[0].text if body else ""
        others = [piece for piece in body[1:] if piece.text and piece.text not in source]
        text = f"function({', '.join(p.text for p in pieces)}) {source}" + "".join(f"; {p.text}" for p in others)
        pieces += body
        return Code(text, [odd for piece in pieces for odd in piece.odd], all(piece.plain for piece in pieces))

    def _source(self, node: int) -> list[int]:
        """The node itself; for compiled code, the nodes that it consists of, recursively."""
        result: list[int] = []
        waiting = [node] if node else []
        while waiting:
            current = waiting.pop()
            if self.objects.kind(current) == "bytecode":
                parts = self.objects.all_parts(current)
                constants = [part for part in parts[1:] if not self._is_index(part, len(parts))]
                waiting += reversed(constants if self._are_instructions(parts[0]) else [*constants, parts[0]])
            else:
                result.append(current)
        return result

    def _are_instructions(self, node: int) -> bool:
        """Whether a part of compiled code has only codes of instructions and positions of constants."""
        values = np.ravel(self.objects.numbers(node)) if self.objects.kind(node) == "integer" else np.array([-9.0])
        return bool(np.all((values >= 0) & (values <= max(_INSTRUCTIONS, len(values)))))

    def _is_index(self, node: int, constants: int) -> bool:
        """Whether a part of compiled code has only the positions of constants to which instructions belong."""
        if not _INDICES & set(self.objects.classes(node)):
            return False
        values = np.ravel(self.objects.numbers(node)).astype(float)
        values = values[~np.isnan(values)]
        return bool(np.all((values >= 0) & (values <= constants) & (values == np.round(values))))

    def _below(self, place: Place) -> Iterator[tuple[str, str, int, bool]]:
        """Sign, name and node of every part of a place, and whether the name is in the file."""
        objects, node = self.objects, place.node
        if place.kind in LISTS or place.kind == "environment":
            for k, (name, child) in enumerate(objects.elements(node)):
                yield "/", name or f"[[{k + 1}]]", child, bool(name)
        if place.code is not None:
            for k, odd in enumerate(place.code.odd):
                yield "/", f"<{k + 1}>", odd, False
        if place.kind in ("closure", "promise", "pointer", "environment", "alternative", "raw"):
            for name, child in objects.parts(node).items():
                if name not in ("frame", "hash table", "arguments", "body"):
                    yield "/", f"<{name}>", child, False
        for name, child in objects.attributes(node).items():
            yield "@", name or "<no name>", child, bool(name)

    def __iter__(self) -> Iterator[Place]:
        return iter(self.places)


_LONGEST_CODE, _DEEPEST, _MOST_NODES = 20_000, 200, 20_000  # largest number of characters, nested calls and nodes
_INFIX = {
    "~", "+", "-", "*", "/", "^", "==", "!=", "<", ">", "<=", ">=", "&", "&&", "|", "||", "<-", "=", ":", "%in%",
    "%*%", "%%", "%/%", "$", "@", "::", ":::", "|>", "%o%", "<<-",
}  # fmt: skip
_OTHER = {"!", "if", "for", "while", "repeat", "break", "next", "function", "[<-", "[[<-", "$<-", "@<-", "..."}
_CLOSED = {"(": ")", "{": "}", "[": "]", "[[": "]]"}
_SYMBOL = re.compile(r"[A-Za-z.][\w.]{0,63}")
_DIGITS = 4  # largest number of digits of a constant that was typed
_MOST_CONSTANTS = 20


@dataclass
class Code:
    """A piece of code.

    Attributes:
        text: the code as it would be typed, shortened if it is long.
        odd: nodes in it that are not code: vectors, lists, environments.
        plain: whether it consists of names, words such as options and a few short numbers.
    """

    text: str = ""
    odd: list[int] = field(default_factory=list)
    plain: bool = True


def code_of(objects: RObjects, node: int) -> Code:
    """A call, a symbol or a constant as text.

    Operators are written between their operands. Long code is shortened.
    """
    result = Code()
    parts: list[str] = []
    numbers = 0
    waiting: list[tuple[int, int] | str] = [(node, 0)]
    seen = 0
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            parts.append(current)
            continue
        at, depth = current
        seen += 1
        if seen > _MOST_NODES or depth > _DEEPEST:
            result.plain = False
            parts.append("...")
            continue
        kind = objects.kind(at)
        if kind == "symbol":
            (name, *_) = objects.names_within(at) or ["?"]
            usual = _SYMBOL.fullmatch(name) or name in _INFIX or name in _CLOSED or name in _OTHER
            parts.append(name if usual else f"`{name}`")
            result.plain &= bool(usual)
        elif kind == "call":
            waiting += reversed(_call(objects, at, depth))
        elif kind in VECTORS and objects.size(at) == 1 and "dim" not in objects.attributes(at):
            text, plain = _constant(objects, at, kind)
            parts.append(text)
            result.plain &= plain
            numbers += kind != "text"
        elif kind in ("null", "missing", "unbound", "builtin", "global", "base", "empty"):
            parts.append("NULL" if kind == "null" else "")
        elif kind in ("pairs", "dots"):
            inner: list[tuple[int, int] | str] = []
            for name, child in objects.elements(at):
                inner += [", "] if inner else []
                inner += [name, " = "] if name else []
                inner.append((child, depth + 1))
            waiting += reversed(inner)
        else:
            result.odd.append(at)
            parts.append(f"<{kind}>")
    result.plain &= numbers <= _MOST_CONSTANTS
    text = "".join(parts)
    result.text = text if len(text) <= _LONGEST_CODE else text[:_LONGEST_CODE] + "..."
    return result


def _call(objects: RObjects, at: int, depth: int) -> list[tuple[int, int] | str]:
    elements = objects.elements(at)
    if not elements:
        return ["()"]
    (_, head), rest = elements[0], elements[1:]
    names = objects.names_within(head) if objects.kind(head) == "symbol" else []
    name = names[0] if names else ""
    if name in _INFIX and len(rest) == 2:
        space = "" if name in ("$", "@", "::", ":::", ":", "^") else " "
        return [(rest[0][1], depth + 1), f"{space}{name}{space}", (rest[1][1], depth + 1)]
    if name in _INFIX and len(rest) == 1:
        return [name, (rest[0][1], depth + 1)]
    inner: list[tuple[int, int] | str] = []
    for label, child in rest:
        inner += [", " if name != "{" else "; "] if inner else []
        inner += [f"{label} = "] if label else []
        inner.append((child, depth + 1))
    if name in ("(", "{"):
        return [name, *inner, _CLOSED[name]]
    if name in ("[", "[[") and inner:
        return [inner[0], name, *inner[2:], _CLOSED[name]]
    return [(head, depth + 1), "(", *inner, ")"]


def _constant(objects: RObjects, at: int, kind: str) -> tuple[str, bool]:
    if kind == "text":
        text = objects.texts(at)[0]
        return f'"{text}"', is_option(text) or not text
    value = np.ravel(objects.numbers(at)).astype(float)
    text = ", ".join(f"{v:.15g}" for v in value)
    digits = len(text.lower().split("e")[0].replace(".", "").strip("-0")) if len(value) else 0
    return text, digits <= _DIGITS or not np.isfinite(value).all()

"""All objects in a file of R with their places: elements, attributes, environments, and parts of functions."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bayesrecon.posteriors.r.code import Code, code_of
from bayesrecon.posteriors.r.r_objects import RObjects

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
    code: Code | None = None
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

    def _function(self, node: int) -> Code:
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

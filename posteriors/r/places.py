"""Every object in a file of R, each with its place: elements, attributes, environments, what is inside functions."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bayesrecon.posteriors.r.code import Code, code_of
from bayesrecon.posteriors.r.r_objects import Objects

_DEFINITION = "refClassRepresentation"
_HANDLES = {".CXXDSOMISC", "stan_fit_instance", "mk_cppmodule", "cxxfun"}
_INSTRUCTIONS = 255  # R 4 has some hundred and thirty
_INDICES = {"expressionsIndex", "srcrefsIndex"}
_MOST_PLACES, _LONGEST = 200_000, 300  # that are walked, and characters of a place
LISTS = ("list", "expression", "pairs", "dots")
INTERNAL = {"names", "dim", "dimnames", "row.names", "class", "levels", "tsp", "package"}
"""Attributes that say how R shows a vector: labels and extents."""


@dataclass(frozen=True, eq=False)
class Place:
    """One object.

    Attributes:
        where: elements behind "/", attributes and slots behind "@", environments as "<environment>".
        name: the last part, as the file has it.
        parent: the place that it lies in, None for an object of the file.
        code: code of calls and functions.
        slot: whether it is an attribute or a slot of the place that it lies in.
        named: whether the file names it.
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
class Walk:
    """All places of a file, those first that lie least deep.

    Attributes:
        places: places of vectors, lists, calls, functions, environments; each environment once, where it is met first.
        closed: what is not gone through, and why: definitions of classes, with all methods that R's own classes have,
            and handles of compiled code.
        left: how many objects were not walked, there being too many.
    """

    objects: Objects
    skip: frozenset[int] = frozenset()
    places: list[Place] = field(default_factory=list)
    closed: list[tuple[Place, str]] = field(default_factory=list)
    left: int = 0

    def __post_init__(self) -> None:
        self._used: dict[str, int] = {}
        self._met: set[int] = set()
        waiting: deque[tuple[str, str, str, int, Place | None, bool]] = deque()
        for k, (name, node) in enumerate(self.objects.objects()):
            waiting.append(("", name or f"[[{k + 1}]]", "", node, None, bool(name)))
        while waiting:
            if len(self.places) >= _MOST_PLACES:
                self.left = len(waiting)
                break
            above, name, sign, node, parent, named = waiting.popleft()
            kind = self.objects.kind(node)
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
            return "the definition of a class, which is not gone through"
        return "a handle of compiled code, which is not gone through" if place.name in _HANDLES else ""

    def _place(self, above: str, name: str, sign: str, node: int, kind: str, parent: Place | None) -> Place:
        """A place of its own: what has the name of another one is numbered."""
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
        """Arguments and body, of compiled functions their source and all constants."""
        parts = self.objects.parts(node) if self.objects.kind(node) == "closure" else {"body": node}
        pieces = [code_of(self.objects, part) for part in self._source(parts.get("arguments", 0))]
        body = [code_of(self.objects, part) for part in self._source(parts.get("body", 0))]
        # Compiled code repeats its source: what it has beyond that alone is shown.
        known = body[0].text if body else ""
        rest = [piece for piece in body[1:] if piece.text and piece.text not in known]
        text = f"function({', '.join(p.text for p in pieces)}) {known}" + "".join(f"; {p.text}" for p in rest)
        every = [*pieces, *body]
        return Code(text, [odd for piece in every for odd in piece.odd], all(piece.plain for piece in every))

    def _source(self, node: int) -> list[int]:
        """The code itself, or what compiled code is made of, parts in parts as well."""
        result: list[int] = []
        waiting = [node] if node else []
        while waiting:
            current = waiting.pop()
            if self.objects.kind(current) == "bytecode":
                parts = self.objects.all_parts(current)
                rest = [part for part in parts[1:] if not self._is_index(part, len(parts))]
                waiting += reversed(rest if self._are_instructions(parts[0]) else [*rest, parts[0]])
            else:
                result.append(current)
        return result

    def _are_instructions(self, node: int) -> bool:
        """Of compiled code: whole numbers that count instructions, constants and places to go on at."""
        values = np.ravel(self.objects.numbers(node)) if self.objects.kind(node) == "integer" else np.array([-9.0])
        return bool(np.all((values >= 0) & (values <= max(_INSTRUCTIONS, len(values)))))

    def _is_index(self, node: int, constants: int) -> bool:
        """Which constant of compiled code an instruction belongs to: whole numbers below how many there are."""
        if not _INDICES & set(self.objects.classes(node)):
            return False
        values = np.ravel(self.objects.numbers(node)).astype(float)
        values = values[~np.isnan(values)]
        return bool(np.all((values >= 0) & (values <= constants) & (values == np.round(values))))

    def _below(self, place: Place) -> Iterator[tuple[str, str, int, bool]]:
        """Sign, name and node of everything in a place, and whether the file names it."""
        objects, node = self.objects, place.node
        if place.kind in LISTS or place.kind == "environment":
            for k, (name, child) in enumerate(objects.elements(node)):
                yield "/", name or f"[[{k + 1}]]", child, bool(name)
        if place.code is not None:
            for k, odd in enumerate(place.code.odd):
                yield "/", f"<{k + 1}>", odd, False
        if place.kind in ("closure", "promise", "pointer", "environment", "alternative"):
            for name, child in objects.parts(node).items():
                if name not in ("frame", "hash table", "arguments", "body"):
                    yield "/", f"<{name}>", child, False
        for name, child in objects.attributes(node).items():
            yield "@", name or "<no name>", child, bool(name)

    def __iter__(self) -> Iterator[Place]:
        return iter(self.places)

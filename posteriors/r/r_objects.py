"""Objects of R in a table of nodes: their values, names, attributes and elements."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.r_nodes import ATTRIBUTE, ELEMENT, KINDS, SPECIAL, TAG

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
        """The kind of a node, one of `bayesrecon.untrusted.r_nodes.KINDS`; of a compact vector, that of its values."""
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

"""Objects of R, as a table of nodes tells them: their values, names, attributes and elements."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.r_nodes import ATTRIBUTE, ELEMENT, KINDS, SPECIAL, TAG

MISSING = -(2**31)
"""R's missing whole number."""

_MOST_COUNTED = 2**24  # numbers of a sequence that a file tells by its beginning and its step
_MOST_WRAPPERS = 20  # around a vector; R has one
_SEQUENCES = {"compact_intseq": "integer", "compact_realseq": "double"}
_NUMBERS = ("logical", "integer", "double", "complex", "raw")
VECTORS = (*_NUMBERS, "text")
"""Kinds of nodes that hold values."""


class Objects:
    """The objects of a file.

    Args:
        table: table of `bayesrecon.untrusted.r_file.RFile.read`.
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
        """The kind of a node: one of `bayesrecon.untrusted.r_nodes.KINDS`; vectors in another form are what they
        hold."""
        form, inner = self._plain(node)
        if form in _SEQUENCES:
            return _SEQUENCES[form]
        return "text" if form == "deferred_string" else KINDS[self._kinds[inner]]

    def _plain(self, node: int) -> tuple[str, int]:
        """The vector that one in another form is a wrapper of; of a form that says its values otherwise, its name."""
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
        """Parts, those of one name as well."""
        return [child for tie, _, child in self._under(node) if tie == SPECIAL and child]

    def names_within(self, node: int) -> list[str]:
        """The name of a symbol, or those that a package or a namespace is known by."""
        return [self._texts[label] for tie, label, child in self._under(node) if tie == SPECIAL and not child]

    def _under(self, node: int) -> list[tuple[int, int, int]]:
        return self._below[self._bounds[node] : self._bounds[node + 1]]

    def _form(self, node: int) -> tuple[str, int]:
        """What another form of a vector is called, and what it is made of."""
        parts = self.parts(node)
        form, state = parts.get("form", 0), parts.get("state", 0)
        first = [child for tie, _, child in self._under(form) if tie == ELEMENT]
        names = self.names_within(first[0]) if first else []
        inner = state
        while KINDS[self._kinds[inner]] in ("pairs", "list"):
            elements = [child for tie, _, child in self._under(inner) if tie == ELEMENT]
            if not elements or elements[0] == inner:
                break
            inner = elements[0]
        return (names[0] if names else ""), inner

    def size(self, node: int) -> int:
        """How many values or elements there are."""
        form, at = self._plain(node)
        kind = KINDS[self._kinds[at]]
        if form in _SEQUENCES:
            state = self._values(at)
            return int(state[0]) if len(state) == 3 and 0 <= state[0] < 2**52 else 0
        if form == "deferred_string" and kind not in VECTORS:
            return len(self.numbers(at))
        if kind in VECTORS:
            return self._sizes[at] // (2 if kind == "complex" else 1)
        return sum(tie == ELEMENT for tie, _, _ in self._under(at))

    def numbers(self, node: int) -> np.ndarray:
        """Values of a vector of numbers, missing ones NaN.

        Raises:
            BayesreconError: a sequence of more numbers than are written out.
        """
        form, at = self._plain(node)
        if form not in _SEQUENCES:
            return np.zeros(0) if form else self._values(at)
        state = self._values(at)
        if len(state) != 3 or not np.isfinite(state).all() or not 0 <= state[0] <= _MOST_COUNTED:
            raise BayesreconError("a sequence of more numbers than are written out")
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
        """Values of a vector of texts, missing ones "NA"; of numbers that R keeps as texts, these."""
        form, at = self._plain(node)
        if form == "deferred_string":
            return [f"{v:.15g}" for v in np.ravel(self.numbers(at))]
        if form or KINDS[self._kinds[at]] != "text":
            return []
        begin, end = self._starts[at], self._starts[at] + self._sizes[at]
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
        """Elements of a pairlist with their tags; the rest of one that compiled code shares is followed."""
        result: list[tuple[str, int]] = []
        met: set[int] = set()
        while node and node not in met:
            met.add(node)
            rest = 0
            for tie, _, child in self._under(node):
                if tie == ELEMENT:
                    result.append(("", child))
                elif tie == TAG and result:
                    names = self.names_within(child)
                    result[-1] = (names[0] if names else "", result[-1][1])
                elif tie == SPECIAL:
                    rest = child
            node = rest
        return result

    def elements(self, node: int) -> list[tuple[str, int]]:
        """Elements of a list, a pairlist, a call or an environment with their names, "" where they have none."""
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
        """The element at the end of a path of names, or the slot where a name begins with "@"; 0 where none is."""
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
        """Numbers in the shape that they have in R, whose first axis moves fastest."""
        values, shape = self.numbers(node), self.shape(node)
        return values.reshape(shape, order="F") if values.ndim == 1 and len(shape) > 1 else values

    def names(self, node: int) -> list[str]:
        """Names of the entries of a vector."""
        return self.texts(self.attributes(node).get("names", 0))

    def axis_names(self, node: int) -> list[list[str]]:
        """Names of rows, columns and so on, empty if there are none."""
        return [self.texts(child) for _, child in self.elements(self.attributes(node).get("dimnames", 0))]

    def objects(self) -> Sequence[tuple[str, int]]:
        """The objects of the file by their names; the one of `saveRDS` is "object"."""
        if self._table["by_name"] and KINDS[self._kinds[self.root]] == "pairs":
            return self._pairs(self.root)
        return [("object", self.root)]

    @cached_property
    def behind(self) -> bytes:
        """Bytes behind the end of the stream."""
        return np.asarray(self._table["behind"], np.uint8).tobytes()

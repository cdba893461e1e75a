"""Objects of R as a table of nodes: flat, whatever their depth, so that it crosses from one process to another."""

from array import array
from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError

MOST_NODES, MOST_TEXTS, MOST_DIFFERENT = 2**20, 2**22, 2**20
"""Objects, texts and different texts that a file may hold: each of them takes some hundred bytes while it is read."""

KINDS = (
    "null", "symbol", "pairs", "closure", "environment", "promise", "call", "builtin", "logical", "integer", "double",
    "complex", "text", "list", "expression", "bytecode", "pointer", "weak", "raw", "object", "alternative", "global",
    "base", "empty", "namespace", "package", "missing", "unbound", "dots", "persistent",
)  # fmt: skip
"""What a node can be: R's types, and the environments that a file names and does not hold."""

NUMBER = {kind: k for k, kind in enumerate(KINDS)}
_STORES = {"logical": 0, "integer": 0, "double": 1, "complex": 1, "text": 2, "raw": 3}

ATTRIBUTE, ELEMENT, TAG, SPECIAL = 0, 1, 2, 3
"""What ties a node to the one above it: an attribute, an element of a list, one with a name of a pairlist, a part."""


@dataclass
class Nodes:
    """A table that grows. Node 0 is NULL."""

    trusted: bool = False

    def __post_init__(self) -> None:
        self._kind, self._start, self._size = array("B"), array("q"), array("q")
        self._store: tuple[list[np.ndarray], ...] = ([], [], [], [])
        self._length = [0, 0, 0, 0]
        self._texts: dict[str, int] = {}
        self._parent, self._child, self._tie, self._label = array("q"), array("q"), array("B"), array("q")
        self.node("null")

    def node(self, kind: str) -> int:
        """A new node without values."""
        if len(self._kind) >= MOST_NODES and not self.trusted:
            raise BayesreconError(f"it holds more than {MOST_NODES} objects, refused")
        self._kind.append(NUMBER[kind])
        self._start.append(0)
        self._size.append(0)
        return len(self._kind) - 1

    def values(self, kind: str, values: np.ndarray, node: int | None = None) -> int:
        """A node with values; of texts their numbers, as `text` tells them."""
        at = self.node(kind) if node is None else node
        store = _STORES[kind]
        if store == 2 and self._length[2] + len(values) > MOST_TEXTS and not self.trusted:
            raise BayesreconError(f"it holds more than {MOST_TEXTS} texts, refused")
        self._start[at], self._size[at] = self._length[store], len(values)
        self._length[store] += len(values)
        self._store[store].append(values)
        return at

    def text(self, text: str) -> int:
        """The number of a text."""
        index = self._texts.get(text)
        if index is None:
            if len(self._texts) >= MOST_DIFFERENT and not self.trusted:
                raise BayesreconError(f"it holds more than {MOST_DIFFERENT} different texts, refused")
            index = self._texts[text] = len(self._texts)
        return index

    def tie(self, parent: int, child: int, tie: int, label: int = -1) -> None:
        """Hang a node below another one; the label is the number of a text."""
        if len(self._parent) >= 2 * MOST_NODES and not self.trusted:
            raise BayesreconError(f"it holds more than {2 * MOST_NODES} elements, refused")
        self._parent.append(parent)
        self._child.append(child)
        self._tie.append(tie)
        self._label.append(label)

    def kind_of(self, node: int) -> str:
        """What a node is."""
        return KINDS[self._kind[node]]

    def table(self) -> dict[str, np.ndarray | list[str]]:
        """All of it as arrays, and the texts."""
        kinds = (np.int32, np.float64, np.int32, np.uint8)
        stores = [
            np.concatenate(part) if part else np.zeros(0, kind) for part, kind in zip(self._store, kinds, strict=True)
        ]
        named = dict(zip(("integers", "doubles", "text", "raw"), stores, strict=True))
        return {
            "kind": np.asarray(self._kind),
            "start": np.asarray(self._start),
            "size": np.asarray(self._size),
            "parent": np.asarray(self._parent),
            "child": np.asarray(self._child),
            "tie": np.asarray(self._tie),
            "label": np.asarray(self._label),
            "texts": list(self._texts),
            **named,
        }

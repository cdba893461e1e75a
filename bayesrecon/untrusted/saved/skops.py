"""Archives of skops: a tree of classes and their parts as JSON, and members with arrays of NumPy."""

import json

from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_json import no_repeats
from bayesrecon.untrusted.saved.nodes import Group, Made, Named, Pairs, Unreadable
from bayesrecon.untrusted.saved.zips import Members, array_of_npy

_SCHEMA = "schema.json"
_DEEPEST, _LARGEST = 200, 2**26
"""Largest depth of the tree, and largest number of its bytes."""


def is_archive(names: list[str]) -> bool:
    """Whether the members are those of skops."""
    return _SCHEMA in names


class Archive:
    """The content of an archive: `root`, the description of the object, and `rest`, members that it does not use."""

    def __init__(self, members: Members, names: dict[tuple[str, str], bool]) -> None:
        self._members, self._names, self._used = members, names, {_SCHEMA}
        self._found: dict[int, object] = {}
        if members.sizes[_SCHEMA] > _LARGEST:
            raise Unreadable("its schema is too long")
        try:
            tree = json.loads(members.read(_SCHEMA), object_pairs_hook=no_repeats)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"its schema is not JSON ({' '.join(str(error).split())[:80]})") from None
        if not isinstance(tree, dict):
            raise Unreadable("its schema is not a JSON object")
        self.root = self._node(tree, 0)
        self.rest = [name for name in members.sizes if name not in self._used and not name.endswith("/")]

    def _node(self, tree: object, depth: int) -> object:
        if depth > _DEEPEST:
            raise Unreadable("it is nested too deeply")
        if not isinstance(tree, dict):
            return tree
        known = tree.get("__id__")
        if type(known) is int and "content" not in tree and known in self._found:
            return self._found[known]
        node = self._made(tree, depth)
        if type(known) is int:
            self._found[known] = node
        return node

    def _made(self, tree: Json, depth: int) -> object:
        kind, content = tree.get("__loader__"), tree.get("content")
        name, module = tree.get("__class__"), tree.get("__module__")
        if kind == "JsonNode":
            return self._json(content)
        if kind in ("DictNode", "DefaultDictNode", "OrderedDictNode") and isinstance(content, dict):
            return self._dictionary(tree, content, depth)
        if kind in ("ListNode", "TupleNode", "SetNode") and isinstance(content, list):
            items = [self._node(item, depth + 1) for item in content]
            return items if kind == "ListNode" else tuple(items) if kind == "TupleNode" else Group(items)
        if not isinstance(name, str) or not isinstance(module, str):
            raise Unreadable("a node without a class")
        if kind in ("NdArrayNode", "MaskedArrayNode", "SparseMatrixNode", "BytesNode", "BytearrayNode"):
            return self._file(tree, Named(module, name), depth)
        called = kind not in ("TypeNode",)
        self._names[module, name] = self._names.get((module, name), False) or called
        if kind == "TypeNode":
            return Named(module, name)
        made = Made(Named(module, name))
        for key in sorted(tree.keys() - {"__class__", "__module__", "__loader__", "__id__", "is_json"}):
            value = tree[key]
            if key == "content" and isinstance(value, dict) and "__loader__" not in value:
                state = Pairs([(k, self._node(v, depth + 1)) for k, v in value.items()])
            else:
                state = self._node(value, depth + 1)
            if key == "content" and kind in ("ConstructorFromReduceNode", "ReduceNode", "TreeNode"):
                made.arguments = state if isinstance(state, tuple) else (state,)
            else:
                made.states.append(state if isinstance(state, Pairs) else Pairs([(key, state)]))
        return made

    def _json(self, content: object) -> object:
        try:
            found = json.loads(content) if isinstance(content, str) else content
        except (ValueError, RecursionError):
            return content
        if isinstance(found, dict):
            return Pairs(list(found.items()))
        return found if isinstance(found, str | int | float | bool | None) else str(content)

    def _dictionary(self, tree: Json, content: Json, depth: int) -> Pairs:
        return Pairs([(key, self._node(value, depth + 1)) for key, value in content.items()])

    def _file(self, tree: Json, of: Named, depth: int) -> object:
        name, content = tree.get("file"), tree.get("content")
        if tree.get("type") == "json" and isinstance(content, list):  # an array of objects
            return [self._node(item, depth + 1) for item in content]
        if not isinstance(name, str):
            return Made(
                of, (), [Pairs([(k, self._node(v, depth + 1)) for k, v in tree.items() if isinstance(v, dict)])]
            )
        if name not in self._members.sizes:
            raise Unreadable(f"its member {name[:40]!r} is missing")
        if name.endswith(".npz"):
            return Made(Named("scipy.sparse", "(matrix in another archive)"), (), [self._members.read(name)])
        self._used.add(name)
        raw = self._members.read(name)
        return Made(of, (), stored=array_of_npy(raw)) if name.endswith(".npy") else raw

"""Files of saved objects of all supported formats, read as descriptions."""

import io
import json
import math
import mmap
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.json_file import no_repeats
from bayesrecon.untrusted.packed import compression, unpacked
from bayesrecon.untrusted.saved import onnx, pmml
from bayesrecon.untrusted.saved.arrays import array_of, beside, dtype_of, from_bytes, is_array, sizes_of, storage
from bayesrecon.untrusted.saved.frames import class_of, plain_list, table_of
from bayesrecon.untrusted.saved.nodes import (
    READ_ERRORS,
    Group,
    Made,
    Named,
    Objects,
    Pairs,
    Storage,
    Unreadable,
    short_error,
)
from bayesrecon.untrusted.saved.pickle_machine import Machine
from bayesrecon.untrusted.saved.walk import Walk
from bayesrecon.untrusted.saved.zips import Members, array_of_npy

_PICKLES = 64
"""Largest number of consecutive pickles in a file."""

_BYTES = 2**16
"""Largest number of unassigned bytes that are returned."""

_FREE = 2**26
"""Bytes that a file may unpack to whatever its own size."""

_OTHERS = ((b"\x04\x22\x4d\x18", "LZ4"), (b"\x28\xb5\x2f\xfd", "Zstandard"), (b"ZF", "an old version of joblib"))

_NO_CODE = frozenset([("collections", "OrderedDict")])


class SavedFile:
    """The objects in a file.

    Raises:
        BayesreconError: the file has another format or is damaged. If a damaged file names a function before the
            damage, it is read up to there, because unpickling it would call the function.

    >>> Path("hostile.pkl").write_bytes(b"cos\\nsystem\\n(S'echo'\\ntR.")
    23
    >>> SavedFile(Path("hostile.pkl")).everything()["names"]
    [['os', 'system', True]]
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._walk = Walk()
        self._names: dict[tuple[str, str], bool] = {}
        self._form = "pickle"
        self._code: list[str] = []
        if path.suffix.lower() == ".safetensors":
            self._safetensors()
        elif path.suffix.lower() == ".onnx":
            self._onnx()
        elif path.suffix.lower() == ".pmml":
            self._form = "PMML"
            self._walk.over(pmml.Model(path).root)
        elif loaded(path):
            self._archive()
        else:
            self._pickles()
        self._walk.done()

    def close(self) -> None:
        """Do nothing: the file is opened for each call."""

    def everything(self) -> Json:
        """All content of the file.

        Returns:
            `form`, the format; `items` as `Walk.items`; `objects`, places and classes; `unread`, places and reasons;
            `names`, the names that would be imported, as module, name and whether it would be called; `code`, members
            that are programs.
        """
        return {
            "form": self._form,
            "items": self._walk.items,
            "objects": [[where, class_of(made)] for where, made in self._walk.objects.items()],
            "unread": [[where, reason] for where, reason in self._walk.unread],
            "names": [[module, name, called] for (module, name), called in self._names.items()],
            "code": self._code,
        }

    def values(self, where: str, paths: list[str]) -> dict[str, object]:
        """Values of attributes of an object, by their paths ("model.data.const_idx"), without those that are missing.

        The value of a table is the names of its columns. That of another object is its class, `{"class": ...}`.

        Args:
            where: place of the object.
            paths: paths of the attributes.
        """
        result: dict[str, object] = {}
        for path in paths:
            node: object = self._walk.objects.get(where)
            for name in path.split("."):
                node = _attribute(node, name)
            value = _plain(node)
            if value is not _MISSING:
                result[path] = value
        return result

    def _pickles(self) -> None:
        stream, packed, behind = _stream(self._path)
        machine = Machine(stream, (row := Row()).resolve)
        machine.after_state(Joblib(stream, machine.names))
        roots: list[object] = []
        try:
            while len(roots) < _PICKLES:
                roots.append(machine.run())
                if len(roots) == 5 and roots[0] == MAGIC:
                    row.fill(stream, roots[4])
                    self._form, roots = "torch", [roots[3]]
                    break
                if not _follows(stream):
                    break
        except READ_ERRORS as problem:
            self._damaged(short_error(problem), machine.names, bool(roots))
        self._names = machine.names
        if packed or any(module.startswith("joblib.numpy_pickle") for module, _ in machine.names):
            self._form = f"joblib{f', {packed}' if packed else ''}"
        for k, root in enumerate(roots):
            self._walk.over(root, f"({k + 1})" if len(roots) > 1 else "")
        self._over(beyond(row.storages()))
        self._over([("discarded", machine.discarded)])
        if machine.odd:
            self._walk.unread.append(("the file", f"{machine.odd} of its opcodes are as no program writes them"))
        self._rest("bytes after the object", stream.read(_BYTES) + behind)

    def _damaged(self, problem: str, names: dict[tuple[str, str], bool], has_objects: bool) -> None:
        if not has_objects and not set(names) - _NO_CODE:
            raise BayesreconError(f"{self._path}: cannot be read as a saved object: {problem}")
        self._walk.unread.append(("the rest of the file", problem))

    def _archive(self) -> None:
        members = Members(self._path)
        try:
            listed = list(members.sizes)
            if any(name.endswith("data.pkl") for name in listed):
                archive: Torch | Skops = Torch(members, self._names)
                self._form, self._code = "torch", archive.code
                if archive.problem:
                    self._damaged(archive.problem, self._names, False)
            elif _SCHEMA in listed:
                self._form = "skops"
                archive = Skops(members, self._names)
            else:
                raise BayesreconError(f"{self._path}: an archive, but neither of torch nor of skops")
            self._walk.over(archive.root)
            if isinstance(archive, Torch):
                self._over(beyond(archive.storages()))
                self._over([("discarded", archive.discarded)])
            for name in archive.rest:
                self._rest(name, members.read(name)[:_BYTES])
        except BayesreconError:
            raise
        except READ_ERRORS as problem:
            raise BayesreconError(f"{self._path}: cannot be read as a saved object: {short_error(problem)}") from None
        finally:
            members.close()

    def _safetensors(self) -> None:
        self._form = "safetensors"
        root, unread, rest = _tensors_of(self._path)
        self._walk.over(root)
        self._walk.unread += unread
        self._rest("bytes that no array has", rest[:_BYTES])

    def _onnx(self) -> None:
        self._form = "ONNX"
        model = onnx.Model(self._path)
        self._walk.over(model.root)
        self._walk.unread += model.unread

    def _over(self, nodes: Iterable[tuple[str, object]]) -> None:
        for where, node in nodes:
            self._walk.over(node, where)

    def _rest(self, where: str, content: bytes) -> None:
        if content.strip(b"\0"):
            self._walk.over(content, where)


def _stream(path: Path) -> tuple[BinaryIO, str, bytes]:
    """The bytes of a file in memory, unpacked where they are compressed, by what, and those after the end of that."""
    with path.open("rb") as file:
        head = file.read(8)
        if not head:
            raise BayesreconError(f"{path}: it is empty")
        for magic, name in _OTHERS:
            if head.startswith(magic):
                raise BayesreconError(
                    f"{path}: compressed by {name}, which is not supported; save it with zlib, or uncompressed"
                )
        if not compression(path):
            return cast("BinaryIO", mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), "", b""
    found = unpacked(path, free=_FREE)
    return io.BytesIO(found.content), found.form, found.behind


def _follows(stream: BinaryIO) -> bool:
    """Whether another pickle follows in the stream."""
    position = stream.tell()
    head = stream.read(2)
    stream.seek(position)
    return len(head) == 2 and head[0] == 0x80 and head[1] <= 5


_MISSING = object()


def _attribute(node: object, name: str) -> object:
    """The last value of an attribute."""
    if isinstance(node, Pairs):
        return _last(node, name)
    if not isinstance(node, Made):
        return _MISSING
    for state in reversed(node.states):
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if isinstance(part, Pairs) and (found := _last(part, name)) is not _MISSING:
                return found
    return _MISSING


def _last(pairs: Pairs, name: str) -> object:
    return next((v for k, v in reversed(pairs.pairs) if isinstance(k, str) and k == name), _MISSING)


def _plain(node: object) -> object:
    """The value of a description as plain data."""
    if node is None or isinstance(node, bool | float | str):
        return node
    if isinstance(node, int):
        return node if node.bit_length() < 64 else _MISSING
    try:
        if isinstance(node, list | tuple):
            return plain_list(node)
        if isinstance(node, Made):
            if is_array(node):
                array = array_of(node)
                return plain_list(list(array.items)) if isinstance(array, Objects) else array
            table = table_of(node)
            if table is not None:
                names = next((values for name, values in table.columns if name == "(columns)"), None)
                return table.columns[0][1] if names is None else names
            return {"class": class_of(node)}
    except READ_ERRORS:
        return _MISSING
    return np.zeros(0) if isinstance(node, Pairs) and not node.pairs else _MISSING


_WRAPPER = frozenset([("joblib.numpy_pickle", "NumpyArrayWrapper")])
_BESIDE = frozenset(
    (f"joblib.{module}", name)
    for module in ("numpy_pickle", "numpy_pickle_compat")
    for name in ("NDArrayWrapper", "ZNDArrayWrapper")
)


class Joblib:
    """Reads the values of an array, which follow its description.

    Args:
        stream: stream from which a machine reads opcodes.
        names: names of that machine. Those in arrays of objects, which are pickles, are added.
    """

    def __init__(self, stream: BinaryIO, names: dict[tuple[str, str], bool]) -> None:
        self._stream, self._names = stream, names

    def __call__(self, made: Made) -> None:
        """Read the values of an array whose description has just been completed."""
        if made.is_of(_BESIDE):
            raise Unreadable("its arrays lie in other files")
        state = made.states[-1]
        if not made.is_of(_WRAPPER) or not isinstance(state, Pairs):
            return
        dtype, sizes = dtype_of(state.get("dtype")), sizes_of(state.get("shape"))
        if dtype.hasobject:
            machine = Machine(self._stream)
            try:
                described = machine.run()
            finally:
                self._names.update(machine.names)
            if not is_array(described):
                raise Unreadable("an invalid array of objects")
            made.stored = array_of(described)
            made.items += beside(described)
            return
        if state.get("numpy_array_alignment_bytes") is not None:
            padding = self._stream.read(1)
            padding = self._stream.read(padding[0] if padding else 0)
            if padding.strip(b"\xff"):
                made.items.append(padding)
        count = math.prod(sizes) * dtype.itemsize
        raw = self._stream.read(min(count, sys.maxsize))  # the stream is in memory, so no more is allocated than it has
        made.stored = from_bytes(raw, dtype, sizes, state.get("order"))


_SCHEMA = "schema.json"
_DEEPEST, _LARGEST = 200, 2**26
"""Largest depth of the tree, and largest number of its bytes."""


class Skops:
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


_LARGEST_HEADER = 2**24
"""Largest number of bytes of the header; the format allows a hundred million."""

_TYPES = {
    "F64": "Double", "F32": "Float", "F16": "Half", "BF16": "BFloat16", "I64": "Long", "I32": "Int", "I16": "Short",
    "I8": "Char", "U8": "Byte", "BOOL": "Bool",
}  # fmt: skip


def _tensors_of(path: Path) -> tuple[Pairs, list[tuple[str, str]], bytes]:
    """Arrays by their names, places that cannot be read with the reasons, and bytes that no array has.

    Raises:
        BayesreconError: no such text, or an array beyond the file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
            raise BayesreconError(f"{path}: damaged, not a safetensors file: its header has {length} bytes")
        try:
            header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=no_repeats)
        except (ValueError, RecursionError) as error:
            text = " ".join(str(error).split())[:80]
            raise BayesreconError(f"{path}: damaged, not a safetensors file: its header is not JSON ({text})") from None
        body = file.read()
    if not isinstance(header, dict):
        raise BayesreconError(f"{path}: damaged, not a safetensors file: its header is not a JSON object")
    root, unread, taken = Pairs(), [], []
    for name, about in header.items():
        if name == "__metadata__":
            pairs = list(about.items()) if isinstance(about, dict) else [("", str(about))]
            root.pairs.append((name, Pairs([(k, v if isinstance(v, str) else json.dumps(v)) for k, v in pairs])))
            continue
        begin, end, shape, kind = _described(path, name, about, len(body))
        taken.append((begin, end))
        try:
            values = storage(body[begin:end], _TYPES.get(kind, kind))
            if values.size != math.prod(shape):
                raise Unreadable(f"{values.size} numbers in an array of shape {shape}")
        except Unreadable as problem:
            unread.append((name, str(problem)))
            continue
        array = Made(Named("torch", "Tensor"), (), stored=values.reshape(shape))
        root.pairs.append((name, array))
    return root, unread, _between(body, taken)


def _described(path: Path, name: str, about: Json, most: int) -> tuple[int, int, tuple[int, ...], str]:
    try:
        (begin, end), shape, kind = about["data_offsets"], tuple(about["shape"]), about["dtype"]
        valid = all(type(n) is int and 0 <= n < 2**48 for n in (begin, end, *shape)) and len(shape) <= 32
        if valid and begin <= end <= most and isinstance(kind, str):
            return begin, end, shape, kind
    except (KeyError, TypeError, ValueError):
        pass
    raise BayesreconError(f"{path}: damaged, not a safetensors file: {name[:60]!r} does not lie in the file")


def _between(body: bytes, taken: list[tuple[int, int]]) -> bytes:
    """Bytes that belong to no array."""
    last, rest = 0, []
    for begin, end in [*sorted(taken), (len(body), len(body))]:
        if begin > last:
            rest.append(body[last:begin])
        last = max(last, end)
    return b"".join(rest)


_METADATA = {
    "version": rb"\d\n?",
    "byteorder": rb"little|big",
    ".format_version": rb"\d",
    ".storage_alignment": rb"\d{1,5}",
    "serialization_id": rb"\d{40}",
}
"""Members that describe the archive, and what they hold: of the last, two checksums of its content."""

_STORAGE = Named("torch", "Storage")
MAGIC = 0x1950A86A20F9469CFC6C
"""The first number in a file of torch before 1.6, which has several pickles, then storages."""

_STORAGES = 20_000
"""Largest number of storages of a file of torch before 1.6."""


class Torch:
    """The content of an archive.

    Attributes:
        root: description of the saved object; None if the pickle is damaged.
        problem: the damage; empty if there is none.
        rest: names of members that no tensor uses.
        code: names of members that are programs.
        discarded: as in `Machine`.
    """

    def __init__(self, members: Members, names: dict[tuple[str, str], bool]) -> None:
        listed = list(members.sizes)
        pickle = next(name for name in listed if name.endswith("data.pkl"))
        self._folder, self._members = pickle.removesuffix("data.pkl"), members
        self._little = members.sizes.get(f"{self._folder}byteorder", 0) != 3  # "big"
        self._found: dict[str, Storage] = {}
        machine = Machine(io.BytesIO(members.read(pickle)), self._resolve)
        self.problem = ""
        self.root: object = None
        try:
            self.root = machine.run()
        except READ_ERRORS as problem:
            self.problem = short_error(problem)
        names.update(machine.names)
        self.discarded = machine.discarded
        used = {pickle, *(f"{self._folder}data/{key}" for key in self._found)}
        about = {f"{self._folder}{inner}{name}": form for name, form in _METADATA.items() for inner in ("", ".data/")}
        metadata = {n for n in listed if n in about and re.fullmatch(about[n], members.read(n))}
        self.code = [n for n in listed if "/code/" in f"/{n}" and n.endswith(".py")]
        self.rest = [n for n in listed if n not in used | metadata and not n.endswith("/") and n not in self.code]

    def storages(self) -> dict[str, Storage]:
        """Storages by their keys."""
        return self._found

    def _resolve(self, key: object) -> object:
        """`("storage", type, key, location, count)`."""
        if not isinstance(key, tuple) or len(key) < 5 or key[0] != "storage" or not isinstance(key[2], str):
            return None
        name = f"{self._folder}data/{key[2]}"
        if key[2] not in self._found:
            if name not in self._members.sizes:
                raise Unreadable(f"its storage {key[2][:40]!r} is missing")
            if not self._little:
                raise Unreadable("its numbers are big-endian")
            self._found[key[2]] = Storage(_STORAGE, (), stored=storage(self._members.read(name), key[1]))
        return self._found[key[2]]


class Row:
    """Storages of a file of torch before 1.6, which follow after the pickles that refer to them."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Storage, object]] = {}

    def resolve(self, key: object) -> object:
        """`("storage", type, key, location, count, view)`."""
        if not isinstance(key, tuple) or len(key) < 5 or key[0] != "storage" or not isinstance(key[2], str):
            return None
        return self._found.setdefault(key[2], (Storage(_STORAGE), key[1]))[0]

    def storages(self) -> dict[str, Storage]:
        """Storages by their keys."""
        return {key: made for key, (made, _) in self._found.items()}

    def fill(self, stream: BinaryIO, keys: object) -> None:
        """Read the storages of these keys from the stream."""
        if not isinstance(keys, list) or len(keys) > _STORAGES or not all(isinstance(k, str) for k in keys):
            raise Unreadable("invalid keys of storages")
        for key in keys:
            made, kind = self._found.get(key, (None, None))
            head = stream.read(8)
            if made is None or len(head) < 8:
                raise Unreadable("a missing storage")
            size = storage(b"", kind).itemsize if "BFloat16" not in getattr(kind, "name", "") else 2
            count = int.from_bytes(head, "little") * size
            raw = stream.read(min(count, sys.maxsize))
            if len(raw) < count:
                raise Unreadable("a storage that is shorter than its stated size")
            made.stored = storage(raw, kind)


def loaded(path: Path) -> bool:
    """Whether a file begins like a zip archive."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def beyond(storages: dict[str, Storage]) -> Iterator[tuple[str, object]]:
    """Storages that no tensor uses completely. With a slice, torch saves the whole tensor that it was cut from."""
    for key, made in storages.items():
        if isinstance(made.stored, np.ndarray) and made.covered < len(made.stored):
            yield f"storage {key[:20]}, beyond its tensors", made.stored

"""Files of saved objects of all supported formats, read as descriptions."""

import io
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.packed import compression, unpacked
from bayesrecon.untrusted.saved import onnx, pmml, safetensors, skops, torches
from bayesrecon.untrusted.saved.arrays import array_of, is_array
from bayesrecon.untrusted.saved.frames import class_of, plain_list, table_of
from bayesrecon.untrusted.saved.joblibs import Joblib
from bayesrecon.untrusted.saved.nodes import READ_ERRORS, Made, Objects, Pairs, short_error
from bayesrecon.untrusted.saved.pickle_machine import Machine
from bayesrecon.untrusted.saved.walk import Walk
from bayesrecon.untrusted.saved.zips import Members

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
        elif torches.loaded(path):
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
        machine = Machine(stream, (row := torches.Row()).resolve)
        machine.after_state(Joblib(stream, machine.names))
        roots: list[object] = []
        try:
            while len(roots) < _PICKLES:
                roots.append(machine.run())
                if len(roots) == 5 and roots[0] == torches.MAGIC:
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
        self._over(torches.beyond(row.storages()))
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
            if torches.is_archive(listed):
                archive: torches.Archive | skops.Archive = torches.Archive(members, self._names)
                self._form, self._code = "torch", archive.code
                if archive.problem:
                    self._damaged(archive.problem, self._names, False)
            elif skops.is_archive(listed):
                self._form = "skops"
                archive = skops.Archive(members, self._names)
            else:
                raise BayesreconError(f"{self._path}: an archive, but neither of torch nor of skops")
            self._walk.over(archive.root)
            if isinstance(archive, torches.Archive):
                self._over(torches.beyond(archive.storages()))
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
        root, unread, rest = safetensors.read(self._path)
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

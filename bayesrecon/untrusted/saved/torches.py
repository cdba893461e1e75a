"""Archives of torch: a pickle, and members with the storages of its tensors as plain bytes."""

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bayesrecon.untrusted.saved.nodes import READ_ERRORS, Named, Storage, Unreadable, short_error
from bayesrecon.untrusted.saved.pickle_machine import Machine
from bayesrecon.untrusted.saved.tensors import storage
from bayesrecon.untrusted.saved.zips import Members

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


def is_archive(names: list[str]) -> bool:
    """Whether the members are those of torch."""
    return any(name.endswith("data.pkl") for name in names)


class Archive:
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

"""Compressed bytes of strangers: the one place where they are unpacked, within limits, and what stands beside them."""

import io
import lzma
import stat
import zipfile
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from bayesrecon.errors import BayesreconError, library
from bayesrecon.untrusted.size_limits import check_declared

FREE, RATIO, MOST = 2**25, 50, 2**31
"""Bytes that any file may unpack to, that each byte of it may, and that no file may exceed: numbers compress little."""

_BLOCK, _SLICE, _BEHIND = 2**20, 2**22, 2**16  # bytes that are read, unpacked and kept after the end at once
_WINDOW, _FEW = (
    2**27,
    2**10,
)  # what a .zst file may look back, and its bytes at once, which may become 2**15 times as many


class _Zstandard:
    """The decompressor of zstandard, a few bytes at a time."""

    def __init__(self) -> None:
        zstandard = library("zstandard", "reading .zst files", "archives")
        self._machine = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self.unconsumed_tail = b""

    def decompress(self, data: bytes, most: int) -> bytes:
        self.unconsumed_tail = data[_FEW:]
        return self._machine.decompress(data[:_FEW])

    @property
    def eof(self) -> bool:
        return self._machine.eof

    @property
    def unused_data(self) -> bytes:
        rest, self.unconsumed_tail = self._machine.unused_data + self.unconsumed_tail, b""
        return rest


_KINDS: tuple[tuple[bytes, str, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", "gzip", lambda: zlib.decompressobj(31)),
    (b"\x78", "zlib", zlib.decompressobj),
    (b"BZh", "bzip2", BZ2Decompressor),
    (b"\xfd7zXZ", "xz", lzma.LZMADecompressor),
    (b"\x5d\x00\x00", "lzma", lzma.LZMADecompressor),
    (b"\x28\xb5\x2f\xfd", "Zstandard", _Zstandard),
)

PACKED = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes of the compressions that are read."""


class Unpacked(NamedTuple):
    """What a compressed file holds.

    Attributes:
        content: the bytes.
        form: the compression.
        behind: the first bytes after its end.
    """

    content: bytes
    form: str
    behind: bytes


def compression(path: Path) -> str:
    """The compression of a file, from its first bytes; empty if there is none."""
    with path.open("rb") as file:
        return _kind_of(file.read(8))[1]


def header_of(path: Path) -> bytes:
    """Name, comment and extra field in the header of a file that gzip compressed."""
    with path.open("rb") as file:
        head = file.read(_BEHIND)
    return _named(head) if _kind_of(head)[1] == "gzip" else b""


def _kind_of(head: bytes) -> tuple[bytes, str, Callable[[], Any] | None]:
    for magic, name, make in _KINDS:
        if head.startswith(magic) and not (name == "zlib" and int.from_bytes(head[:2]) % 31):
            return magic, name, make
    return b"", "", None


def unpacked(path: Path, *, free: int = FREE, ratio: int = RATIO, most: int = MOST) -> Unpacked:
    """The content of a compressed file, in which several streams may follow each other.

    Raises:
        BayesreconError: it is damaged, or unpacks to more than its bytes could hold.
        MissingExtraError: it is compressed by Zstandard, and zstandard is not installed.

    >>> import gzip
    >>> _ = Path("fit.csv.gz").write_bytes(gzip.compress(b"a,b") + b"more")
    >>> unpacked(Path("fit.csv.gz"))
    Unpacked(content=b'a,b', form='gzip', behind=b'more')
    """
    most = min(most, max(free, ratio * path.stat().st_size))
    content = io.BytesIO()
    with path.open("rb") as file:
        waiting = file.read(_BLOCK)
        magic, form, make = _kind_of(waiting)
        if make is None:
            raise BayesreconError(f"{path}: damaged, its compression is not known")
        while waiting.startswith(magic):
            machine = make()
            while not machine.eof:
                try:
                    content.write(machine.decompress(waiting, _SLICE))
                except BayesreconError:
                    raise
                except Exception as error:  # each library has its own errors
                    text = " ".join(str(error).split())[:80]
                    raise BayesreconError(f"{path}: damaged or cut off within its {form} ({text})") from None
                if content.tell() > most:
                    raise BayesreconError(f"{path}: unpacks to more than {most / 2**20:.0f} MiB, refused")
                waiting = getattr(machine, "unconsumed_tail", b"")
                if not waiting and not machine.eof and getattr(machine, "needs_input", True):
                    waiting = file.read(_BLOCK)
                    if not waiting:
                        raise BayesreconError(f"{path}: damaged: the end of its {form} is missing; it is cut off")
            waiting = machine.unused_data
            waiting += file.read(_BLOCK) if len(waiting) < len(magic) + 10 else b""
        return Unpacked(content.getvalue(), form, waiting + file.read(_BEHIND))


def _named(head: bytes) -> bytes:
    """The extra field, the name and the comment in the header of gzip."""
    flags, at, found = head[3], 10, b""
    if flags & 4:
        size = int.from_bytes(head[10:12], "little")
        found, at = head[12 : 12 + size], 12 + size
    for flag in (8, 16):
        if flags & flag:
            text = head[at:].split(b"\0", 1)[0]
            found, at = found + b" " * bool(found) + text, at + len(text) + 1
    return found


MOST_FILES = 100_000
"""An archive of more members than this is refused: each takes a file."""

_MEMBER_SLICE = 2**22  # bytes unpacked at once


def unpack_folder(path: Path, folder: str, trusted: bool = False) -> None:
    """Write the members into an existing empty folder.

    Raises:
        BayesreconError: a member outside the folder, a link, too many members, or more than the
            archive could hold.

    >>> with zipfile.ZipFile("fit.zarr.zip", "w") as archive:
    ...     archive.writestr("posterior/zarr.json", "{}")
    >>> Path("out").mkdir()
    >>> unpack_folder(Path("fit.zarr.zip"), "out")
    >>> Path("out/posterior/zarr.json").read_text()
    '{}'
    """
    with zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if not one.is_dir()]
        if len(members) > MOST_FILES:
            raise BayesreconError(f"{path}: {len(members)} members, more than {MOST_FILES}, refused")
        if not trusted:
            check_declared(path, sum(one.file_size for one in members), path.stat().st_size)
        last = {one.filename: one for one in members}  # zarr writes metadata again: the last counts
        for member in last.values():
            _write(path, archive, member, Path(folder))


def _write(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    parts = PurePosixPath(member.filename).parts
    if not parts or ".." in parts or "\\" in member.filename or ":" in parts[0] or parts[0] == "/":
        raise BayesreconError(f"{path}: {member.filename[:80]!r} lies outside its folder, refused")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise BayesreconError(f"{path}: {member.filename[:80]!r} is a link, refused")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    remaining = member.file_size  # what comes out counts, not what is declared
    with archive.open(member) as source, target.open("xb") as file:
        while some := source.read(_MEMBER_SLICE):
            remaining -= len(some)
            if remaining < 0:
                raise BayesreconError(f"{path}: {member.filename[:80]!r} unpacks to more than it declares")
            file.write(some)

"""Bytes of a saved object, unpacked up to a limit."""

import bz2
import lzma
import mmap
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.decompressor import Decompressor

FREE, RATIO = 2**26, 50
"""Limits of the unpacked size: `FREE` bytes, or `RATIO` times the compressed size if that is more."""

_BLOCK = 2**20

_KINDS: tuple[tuple[bytes, str, Callable[[], Decompressor]], ...] = (
    (b"\x1f\x8b", "gzip", lambda: zlib.decompressobj(31)),
    (b"\x78", "zlib", zlib.decompressobj),
    (b"BZh", "bzip2", bz2.BZ2Decompressor),
    (b"\xfd7zXZ", "xz", lzma.LZMADecompressor),
    (b"\x5d\x00\x00", "lzma", lzma.LZMADecompressor),
)
_OTHERS = ((b"\x04\x22\x4d\x18", "LZ4"), (b"\x28\xb5\x2f\xfd", "Zstandard"), (b"ZF", "an old version of joblib"))


def opened_stream(path: Path) -> tuple[BinaryIO, str]:
    """The bytes of a file in memory, unpacked where they are compressed, and by what they were.

    Raises:
        BayesreconError: an empty file, one that unpacks to too much, or a compression that is not read.
    """
    with path.open("rb") as file:
        head = file.read(8)
        if not head:
            raise BayesreconError(f"{path}: it is empty")
        for magic, name in _OTHERS:
            if head.startswith(magic):
                raise BayesreconError(
                    f"{path}: compressed by {name}, which is not supported; save it with zlib, or uncompressed"
                )
        for magic, name, opener in _KINDS:
            if head.startswith(magic) and not (name == "zlib" and int.from_bytes(head[:2]) % 31):
                file.seek(0)
                return BytesIO(_unpacked(file, opener, path, name)), name
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cast("BinaryIO", mapped), ""


def _unpacked(file: BinaryIO, opener: Callable[[], Decompressor], path: Path, name: str) -> bytes:
    most = max(FREE, RATIO * path.stat().st_size)
    machine, parts, size = opener(), [], 0
    waiting = b""
    while True:
        if not waiting and getattr(machine, "needs_input", True):
            waiting = file.read(_BLOCK)
            if not waiting:
                break
        try:
            part = machine.decompress(waiting, _BLOCK)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
            raise BayesreconError(f"{path}: damaged within its {name} ({' '.join(str(error).split())[:80]})") from None
        waiting = getattr(machine, "unconsumed_tail", b"")
        parts.append(part)
        size += len(part)
        if size > most:
            raise BayesreconError(f"{path}: unpacks to more than {most // 2**20} MiB, refused")
        if machine.eof:
            parts.append(b"")
            break
    if not machine.eof:
        raise BayesreconError(f"{path}: damaged: the end of its {name} is missing")
    rest = machine.unused_data + waiting + file.read(_BLOCK)
    return b"".join(parts) if not rest.strip(b"\0") else b"".join([*parts, rest])

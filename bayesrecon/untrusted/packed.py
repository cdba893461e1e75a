"""Untrusted compressed text, decompressed within limits on size."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from bayesrecon.errors import BayesreconError, library

FREE, RATIO, MOST = 2**25, 50, 2**31
"""Bytes that any file may unpack to, that each byte of it may, and that no file may exceed: numbers compress little."""

_SLICE = 2**22  # bytes unpacked at once
_FEW, _WINDOW = (
    2**10,
    2**27,
)  # bytes of a .zst file taken at once, each of which may become 2**15, and that it may look back


def _standard(
    opener: Callable[[Path], gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile],
) -> Callable[[Path], Iterator[bytes]]:
    def pieces(path: Path) -> Iterator[bytes]:
        with opener(path) as stream:
            while block := stream.read(_SLICE):
                yield block

    return pieces


def _zstandard(path: Path) -> Iterator[bytes]:
    zstandard = library("zstandard", "reading .zst files", "archives")
    frame = None
    with path.open("rb") as file:
        while block := file.read(_FEW):
            while block:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
                yield frame.decompress(block)
                block = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:  # of which the library says nothing
        raise EOFError("it ends before the end of its last frame")


_PIECES: dict[str, Callable[[Path], Iterator[bytes]]] = {
    ".gz": _standard(gzip.GzipFile),
    ".bz2": _standard(bz2.BZ2File),
    ".xz": _standard(lzma.LZMAFile),
    ".zst": _zstandard,
}

PACKED = tuple(_PIECES)
"""Suffixes of the compressions that are read."""


def open_text(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked in memory where its suffix says that it is compressed.

    Raises:
        BayesreconError: it is damaged, or unpacks to more than its bytes could hold.
        MissingExtraError: a `.zst` file, and zstandard is not installed.

    >>> with gzip.open("fit.csv.gz", "wb") as file:
    ...     _ = file.write(b"a,b\\n1,2\\n")
    >>> open_text(Path("fit.csv.gz")).read()
    b'a,b\\n1,2\\n'
    """
    pieces = _PIECES.get(path.suffix.lower())
    if pieces is None:
        return path.open("rb")
    most = min(MOST, max(FREE, RATIO * path.stat().st_size))
    content = io.BytesIO()
    try:
        for block in pieces(path):
            content.write(block)
            if content.tell() > most:
                raise BayesreconError(f"{path}: unpacks to more than {most / 2**20:.0f} MiB, refused")
    except BayesreconError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise BayesreconError(f"{path}: damaged or cut off as a {path.suffix} file ({error})") from error
    except Exception as error:  # zstandard's own errors, whose class is there only where the library is
        if type(error).__module__.partition(".")[0] == "zstandard":
            raise BayesreconError(f"{path}: damaged as a .zst file ({error})") from error
        raise
    content.seek(0)
    return content

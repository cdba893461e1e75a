"""Which private columns lie in a file, told from its bytes alone, whatever its format is."""

import bz2
import contextlib
import io
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

_RUN, _DEEPEST, _MOST, _STREAMS, _LARGEST = 5, 3, 500, 300, 2**26
_BITS, _DECIMAL = 30, np.log2(10)
_LOCAL = b"PK\x03\x04"


def _zstandard() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


_MACHINES: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b\x08": lambda: zlib.decompressobj(31),
    **dict.fromkeys((b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"), zlib.decompressobj),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ": lzma.LZMADecompressor,
    b"\x5d\x00\x00": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": _zstandard,
}
"""What unpacks a stream, by its first bytes."""


def columns_in(path: Path, table: dict[str, np.ndarray]) -> list[str]:
    """Columns of which five distinct consecutive values lie in a row in a file or folder, or values of at least 30 bits
    by themselves: one that has so many in its digits, or five that have them as doubles.

    Numbers are looked for in double and single precision in either byte order, and as text, and texts as they are.
    """
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    layers = [layer for file in files for layer in _layers(file.read_bytes(), 0)]
    return [name for name, values in table.items() if _lies_in(np.asarray(values), layers)]


def _layers(content: bytes, depth: int) -> Iterator[bytes]:
    """The bytes, those of every compressed stream that begins anywhere in them, and those of arrays of HDF5."""
    yield content
    if depth == _DEEPEST:
        return
    tried = 0
    for found in re.finditer(b"|".join(map(re.escape, (*_MACHINES, _LOCAL))), content):
        make, begin = _MACHINES.get(found.group(), lambda: zlib.decompressobj(-15)), found.start()
        if found.group() == _LOCAL:
            if begin + 30 > len(content) or content[begin + 8 : begin + 10] != b"\x08\0":
                continue
            begin += 30 + sum(struct.unpack("<HH", content[begin + 26 : begin + 30]))
        tried += 1
        if tried > _STREAMS:
            break
        with contextlib.suppress(Exception):  # it is not compressed so
            machine = make()
            limit = () if found.group() == b"\x28\xb5\x2f\xfd" else (_LARGEST,)
            inner = machine.decompress(content[begin:], *limit)
            if len(inner) > 8:
                yield from _layers(inner, depth + 1)
    if content[:4] == b"\x89HDF":
        yield from _arrays(content)


def _arrays(content: bytes) -> Iterator[bytes]:
    arrays: list[np.ndarray] = []

    def visit(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            arrays.append(np.asarray(item[()]))

    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(visit)
    for array in arrays:
        yield b"\n".join(map(_text, array.ravel())) if array.dtype.kind == "O" else array.tobytes()


def _text(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _lies_in(values: np.ndarray, layers: list[bytes]) -> bool:
    values = values[:_MOST]
    if values.dtype.kind not in "biuf":
        own = len(set(values.tolist())) == len(values)  # not the names of levels
        texts = {str(v) for v in values if len(str(v)) >= 5}
        return own and any(sum(_is_in(text, layer) for text in texts) >= _RUN for layer in layers)
    numbers = values.astype(float)
    runs = [numbers[i : i + _RUN] for i in range(len(numbers) - _RUN + 1) if len(set(numbers[i : i + _RUN])) == _RUN]
    patterns = [run.astype(kind).tobytes() for kind in ("<f8", ">f8", "<f4", ">f4") for run in runs]
    if any(pattern in layer for layer in layers for pattern in patterns):
        return True
    separated = [
        re.compile(rb"(?<![\d.])" + rb'[\s,;:\[\]"]{1,4}'.join(map(_number, run)) + rb"(?![\d.])") for run in runs[:100]
    ]
    if any(pattern.search(layer) for layer in layers if _is_text(layer) for pattern in separated):
        return True
    exact = {float(v) for v in numbers if _mantissa(v) >= _BITS}
    long = {v for v in exact if _digits(v) * _DECIMAL >= _BITS}
    return any(_count(exact, layer) >= _RUN or _count(long, layer) for layer in layers)


def _count(values: set[float], layer: bytes) -> int:
    """How many of the values lie in a layer each by itself."""
    return sum(struct.pack("<d", v) in layer or struct.pack(">d", v) in layer or _is_in(repr(v), layer) for v in values)


def _is_in(text: str, layer: bytes) -> bool:
    """Whether a text of at least five letters lies in a layer, and is no part of a longer one."""
    found = layer.find(pattern := text.encode())
    while len(pattern) >= 5 and found >= 0:
        around = layer[max(found - 1, 0) : found] + layer[found + len(pattern) : found + len(pattern) + 1]
        if not any(chr(c).isalnum() and c < 128 for c in around):
            return True
        found = layer.find(pattern, found + 1)
    return len(pattern) >= 5 and any(text.encode(code) in layer for code in ("utf-16-le", "utf-32-le"))


def _is_text(layer: bytes) -> bool:
    return layer[:4096].count(b"\0") == 0


def _number(value: float) -> bytes:
    """A pattern of a number as text."""
    return re.escape(f"{value:.15g}").encode() + rb"0*" if "." in f"{value:.15g}" else rb"%d(?:\.0*)?" % int(value)


def _mantissa(value: float) -> int:
    """Bits of a double up to its last one that is set."""
    bits = int(np.float64(value).view(np.uint64)) & (2**52 - 1)
    return 52 - (bits & -bits).bit_length() + 1 if bits else 0


def _digits(value: float) -> int:
    return len(repr(abs(value)).partition("e")[0].replace(".", "").strip("0"))

"""Which private columns lie in a file, told from its bytes alone, whatever its format is."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator

import h5py
import numpy as np

_RUN, _DEEPEST, _MOST = 5, 3, 500


def columns_in(content: bytes, table: dict[str, np.ndarray]) -> list[str]:
    """Columns of which five distinct consecutive values lie in a row, or each by itself with at least 30 bits.

    Numbers are looked for in double and single precision in either byte order, and as text.
    """
    layers = list(_layers(content, 0))
    return [name for name, values in table.items() if any(_lies_in(values, layer) for layer in layers)]


def _layers(content: bytes, depth: int) -> Iterator[bytes]:
    yield content
    for unpack in (gzip.decompress, bz2.decompress, lzma.decompress, zlib.decompress):
        try:
            inner = unpack(content)
        except Exception:  # it is not compressed so
            continue
        if depth < _DEEPEST:
            yield from _layers(inner, depth + 1)
    if content[:4] == b"\x89HDF":
        with h5py.File(io.BytesIO(content)) as file:
            arrays: list[np.ndarray] = []
            file.visititems(lambda _, item: arrays.append(np.asarray(item[()])) if hasattr(item, "shape") else None)
        yield from (array.tobytes() for array in arrays if array.dtype.kind in "iuf")
    if content[:2] == b"PK" and depth < _DEEPEST:
        archive = zipfile.ZipFile(io.BytesIO(content))
        for name in archive.namelist():
            yield from _layers(archive.read(name), depth + 1)


def _lies_in(values: np.ndarray, layer: bytes) -> bool:
    if values.dtype.kind in "UO":
        own = len(set(values.tolist())) == len(values)  # not the names of levels
        return own and sum(len(str(v)) >= 5 and str(v).encode() in layer for v in values[:_MOST]) >= _RUN
    values = values.astype(float)[:_MOST]
    runs = [values[i : i + _RUN] for i in range(len(values) - _RUN) if len(set(values[i : i + _RUN])) == _RUN]
    for kind in ("<f8", ">f8", "<f4", ">f4"):
        if any(run.astype(kind).tobytes() in layer for run in runs):
            return True
    if any(sep.join(f"{v:g}" for v in run).encode() in layer for run in runs for sep in (",", ", ", "\n", " ")):
        return True
    exact = [v for v in set(values.tolist()) if len(repr(v)) >= 6]
    patterns = ((np.array(v, "<f8").tobytes(), np.array(v, ">f8").tobytes(), repr(v).encode()) for v in exact)
    return sum(any(pattern in layer for pattern in one) for one in patterns) >= _RUN

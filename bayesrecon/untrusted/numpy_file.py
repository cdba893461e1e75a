"""NumPy's files: an archive (`.npz`) of plain arrays, or one array (`.npy`)."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TypedDict

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.plain_values import valid_text
from bayesrecon.untrusted.size_limits import check_declared

_LARGE = 2**24
"""Bytes of arrays that are not copied into memory."""


class Stored(TypedDict):
    """Where the numbers of an array lie in a file, `at` which byte, with their type and shape."""

    at: int
    dtype: str
    shape: list[int]
    fortran: bool


def names_of_arrays(path: Path) -> list[str]:
    """Names of the arrays of an archive."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def read_arrays(
    path: Path, trusted: bool = False, free: int | None = None, ratio: int | None = None
) -> dict[str, np.ndarray | Stored]:
    """All arrays by name; of large ones that are not compressed, where they lie (`with_stored`).

    The name of an array in an `.npy` file is empty. Pickles are never loaded.

    Args:
        path: the file. Its headers are checked first, since they determine what NumPy allocates.
        trusted: whatever their size.
        free, ratio: limits of `check_declared`.

    Raises:
        BayesreconError: not one of NumPy's files, a pickled array, less than a header says, or more declared than the
            bytes of the file could hold.

    >>> np.savez("two.npz", mu=np.zeros(3), tau=np.ones(2))
    >>> read_arrays(Path("two.npz"))["tau"]
    array([1., 1.])
    """
    single = path.suffix.lower() == ".npy"
    declared = _size_of_array(path) if single else _size_of_members(path)
    if not trusted:
        check_declared(path, declared, path.stat().st_size, free=free, ratio=ratio)
    if single:
        return {"": valid_text(np.load(path, allow_pickle=False))}
    with np.load(path, allow_pickle=False) as archive, path.open("rb") as stream:
        stored = {one.filename: _as_stored(stream, one) for one in archive.zip.infolist()}
        members = {key: stored.get(f"{key}.npy") for key in archive.files}
        return {key: valid_text(archive[key]) if place is None else place for key, place in members.items()}


def with_stored(path: Path, arrays: Mapping[str, np.ndarray | Stored]) -> dict[str, np.ndarray]:
    """The arrays, of which those that lie in the file as plain numbers are read here: nothing has them twice."""
    return {name: array if isinstance(array, np.ndarray) else _plain(path, array) for name, array in arrays.items()}


def _plain(path: Path, place: Stored) -> np.ndarray:
    dtype, shape = np.dtype(place["dtype"]), tuple(place["shape"])
    values = np.fromfile(path, dtype, math.prod(shape), offset=place["at"])
    return values.reshape(shape, order="F" if place["fortran"] else "C")


def _as_stored(stream: IO[bytes], member: zipfile.ZipInfo) -> Stored | None:
    """Where the numbers of a large array lie that is not compressed; None for others."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size < _LARGE:
        return None
    stream.seek(member.header_offset + 26)
    stream.seek(int.from_bytes(stream.read(2), "little") + int.from_bytes(stream.read(2), "little"), 1)
    begin = stream.tell()
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "iuf" or stream.tell() + math.prod(shape) * dtype.itemsize > begin + member.file_size:
        return None
    return {"at": stream.tell(), "dtype": dtype.str, "shape": list(shape), "fortran": fortran}


def _size_of_array(path: Path) -> int:
    with path.open("rb") as stream:
        shape, dtype = _header(stream)
        held = path.stat().st_size - stream.tell()
    if dtype.hasobject:
        raise BayesreconError(f"{path}: it is pickled; save a plain numeric array")
    if math.prod(shape) * dtype.itemsize > held:
        raise BayesreconError(f"{path}: shorter than its header says")
    return max(held, 8 * math.prod(shape))


def _size_of_members(path: Path) -> int:
    if not zipfile.is_zipfile(path):
        raise BayesreconError(f"{path}: not an .npz file")
    total = 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                shape, dtype = _header(stream)
            if dtype.hasobject:
                raise BayesreconError(f"{path}: {member.filename!r} is pickled; save plain numeric arrays")
            # NumPy allocates what the header asks for, which a zip member's size does not bound.
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise BayesreconError(f"{path}: {member.filename!r} is shorter than its header says")
            total += max(member.file_size, 8 * math.prod(shape))  # numbers are kept in eight bytes
    return total


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:  # version 3.0 exists for structured types with non-Latin field names, which no draws have
        raise BayesreconError(f"an array in format {version} is not a plain numeric array")
    if any(size < 0 for size in shape):
        raise BayesreconError(f"an array of shape {shape} cannot be")
    return shape, dtype

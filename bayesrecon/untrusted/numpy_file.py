"""NumPy's files: an archive (`.npz`) of plain arrays, or one array (`.npy`)."""

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.plain_values import valid_text
from bayesrecon.untrusted.zip_inventory import around_members

_MOST_BYTES = 2**16  # of bytes that belong to nothing so many are looked at


class NumpyFile:
    """A file whose headers were checked, since they determine what NumPy allocates. Pickles are never loaded.

    Raises:
        BayesreconError: not one of NumPy's files, a pickled array, or less than a header says.

    >>> np.savez("two.npz", mu=np.zeros(3), tau=np.ones(2))
    >>> file = NumpyFile(Path("two.npz"))
    >>> file.arrays()["tau"], file.declared() > 40
    (array([1., 1.]), True)
    """

    def __init__(self, path: Path) -> None:
        self._path, self._single = path, path.suffix.lower() == ".npy"
        self._declared = self._size_of_array() if self._single else self._size_of_members()

    def close(self) -> None:
        """Do nothing: the file is opened for each call."""

    def declared(self) -> int:
        """The declared size in memory, in bytes."""
        return self._declared

    def names(self) -> list[str]:
        """Names of the arrays of an archive."""
        with zipfile.ZipFile(self._path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name. The name of an array in an `.npy` file is empty."""
        if self._single:
            return {"": valid_text(np.load(self._path, allow_pickle=False))}
        with np.load(self._path, allow_pickle=False) as archive:
            return {key: valid_text(archive[key]) for key in archive.files}

    def beside(self) -> list[tuple[str, bytes]]:
        """Place and bytes of everything in an archive other than its arrays."""
        items = around_members(self._path)
        with zipfile.ZipFile(self._path) as archive:
            for member in archive.infolist():
                with archive.open(member) as stream:
                    shape, dtype = _header(stream)
                    stream.seek(math.prod(shape) * dtype.itemsize, 1)
                    trailing = stream.read(_MOST_BYTES)
                items += [(f"bytes after the array in {member.filename}", trailing)] if trailing.strip(b"\0") else []
        return items

    def _size_of_array(self) -> int:
        with self._path.open("rb") as stream:
            shape, dtype = _header(stream)
            held = self._path.stat().st_size - stream.tell()
        if dtype.hasobject:
            raise BayesreconError(f"{self._path}: it is pickled; save a plain numeric array")
        if math.prod(shape) * dtype.itemsize > held:
            raise BayesreconError(f"{self._path}: shorter than its header says")
        return max(held, 8 * math.prod(shape))

    def _size_of_members(self) -> int:
        if not zipfile.is_zipfile(self._path):
            raise BayesreconError(f"{self._path}: not an .npz file")
        total = 0
        with zipfile.ZipFile(self._path) as archive:
            for member in archive.infolist():
                with archive.open(member) as stream:
                    shape, dtype = _header(stream)
                if dtype.hasobject:
                    raise BayesreconError(f"{self._path}: {member.filename!r} is pickled; save plain numeric arrays")
                # NumPy allocates what the header asks for, which a zip member's size does not bound.
                if math.prod(shape) * dtype.itemsize > member.file_size:
                    raise BayesreconError(f"{self._path}: {member.filename!r} is shorter than its header says")
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

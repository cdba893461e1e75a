"""Members of an untrusted zip archive, read up to their stated sizes, whose sum is limited."""

import io
import math
import zipfile
from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.saved.arrays import from_bytes
from bayesrecon.untrusted.saved.nodes import Unreadable
from bayesrecon.untrusted.size_limits import check_declared

_MEMBERS = 20_000
"""Largest number of members; a large network has some thousands of arrays."""


class Members:
    """An open archive.

    Raises:
        BayesreconError: the file is not a zip archive, has too many members or two with one name, or declares too large
            sizes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise BayesreconError(f"{path}: damaged, not a zip archive ({' '.join(str(error).split())[:80]})") from None
        listed = self._archive.infolist()
        self.sizes = {member.filename: member.file_size for member in listed}
        if len(self.sizes) < len(listed) or len(listed) > _MEMBERS:
            self.close()
            raise BayesreconError(f"{path}: it has too many members, or two with one name; refused")
        try:
            check_declared(path, sum(self.sizes.values()), path.stat().st_size)
        except BayesreconError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def read(self, name: str) -> bytes:
        """The content of a member.

        Raises:
            BayesreconError: it is missing, damaged or longer than its stated size.
        """
        try:
            with self._archive.open(name) as stream:
                content = stream.read(self.sizes[name] + 1)
        except Exception as error:  # `zipfile` raises many types of errors for damaged members
            text = " ".join(str(error).split())[:80] or type(error).__name__
            raise BayesreconError(f"{self._path}: damaged in {name[:60]!r} ({text})") from None
        if len(content) > self.sizes[name]:
            raise BayesreconError(f"{self._path}: {name[:60]!r} is longer than its stated size, refused")
        return content


def array_of_npy(content: bytes) -> np.ndarray:
    """The array of a file of NumPy.

    Raises:
        Unreadable: the content is not an array, or is an array of pickled objects.
    """
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(stream)
    except Exception as error:
        raise Unreadable(f"not an array of NumPy ({' '.join(str(error).split())[:80]})") from None
    if dtype.hasobject:
        raise Unreadable("an array of objects, which is a pickle of its own")
    rest = content[stream.tell() :]
    size = math.prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or size > len(rest):
        raise Unreadable("an array that is shorter than its stated size")
    return from_bytes(rest[:size], dtype, tuple(shape), "F" if fortran else "C")

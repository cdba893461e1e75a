"""Rows of numbers in HDF5 files, which are written in blocks and can be read in any process."""

import os
import tempfile
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Stored
from bayesrecon.temporary import locked_file, remove_abandoned

_CHUNK = (2**12, 1)  # single columns are read, or a few thousand rows at a time
_ROWS = "rows"
_SPOOLED = 2**24  # series with more numbers are stored in a file


@dataclass(frozen=True)
class HDF5Rows(Stored):
    """Rows `start` to `start + shape[0]` of a file that `RowWriter` wrote. Every access opens the file.

    Attributes:
        owner: the temporary file, which exists as long as an object refers to it; None if the file is permanent.
    """

    path: str
    shape: tuple[int, int]
    start: int = 0
    owner: "Scratch | None" = field(default=None, repr=False, compare=False)

    def __getitem__(self, at: slice | npt.ArrayLike) -> np.ndarray:
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step != 1:
                raise IndexError("slices of rows must not have a step")
            return self._read(slice(self.start + first, self.start + max(first, last)), slice(None))
        positions = np.asarray(at)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        distinct, inverse = np.unique(positions, return_inverse=True)
        edges = np.flatnonzero(np.diff(distinct, prepend=-_CHUNK[0] - 1) > _CHUNK[0])
        pieces = [self._nearby(group) for group in np.split(distinct, edges) if group.size]
        return np.concatenate([np.empty((0, self.shape[1])), *pieces])[inverse]

    def _nearby(self, at: np.ndarray) -> np.ndarray:
        """Rows at increasing positions that are close together."""
        steps = np.array_split(at, -(-(int(at[-1] - at[0]) + 1) // (16 * _CHUNK[0])))
        return np.concatenate([self[int(x[0]) : int(x[-1]) + 1][x - x[0]] for x in steps if x.size])

    def part(self, start: int, stop: int) -> "HDF5Rows":
        return HDF5Rows(self.path, (stop - start, self.shape[1]), self.start + start)

    def columns(self, start: int, stop: int) -> np.ndarray:
        return self._read(slice(self.start, self.start + len(self)), slice(start, stop))

    def _read(self, rows: slice, columns: slice) -> np.ndarray:
        import h5py

        with h5py.File(self.path, "r", locking=False) as file:
            return np.asarray(file[_ROWS][rows, columns])  # type: ignore[index]


class RowWriter:
    """Writes blocks of rows `(n, d)` to a file."""

    def __init__(self, path: Path, width: int) -> None:
        import h5py

        self._path, self._width = Path(path).absolute(), width
        self._file = h5py.File(path, "w", locking=False)
        self._rows = self._file.create_dataset(_ROWS, (0, width), np.float64, maxshape=(None, width), chunks=_CHUNK)
        self._count = 0

    def write(self, rows: np.ndarray) -> None:
        self._rows.resize(self._count + len(rows), axis=0)
        self._rows[self._count :] = rows
        self._count += len(rows)

    def close(self) -> None:
        self._file.close()

    def done(self) -> HDF5Rows:
        """Close the file, and return its rows."""
        self.close()
        return HDF5Rows(str(self._path), (self._count, self._width))


class Scratch:
    """A temporary file of rows, deleted with the last `HDF5Rows` that uses it in this process.

    Files that a killed process left behind are deleted when the next file is created.
    """

    def __init__(self, width: int) -> None:
        folder = Path(tempfile.gettempdir())
        remove_abandoned(folder)
        handle, path = locked_file(folder, "scratch", ".h5")
        self._remove = weakref.finalize(self, _removed, handle, path)
        self._writer = RowWriter(path, width)

    def write(self, rows: np.ndarray) -> None:
        self._writer.write(rows)

    def close(self) -> None:
        self._writer.close()

    def done(self) -> HDF5Rows:
        """Close the file, and return its rows."""
        return replace(self._writer.done(), owner=self)


def _removed(handle: int, path: Path) -> None:
    os.close(handle)
    path.unlink(missing_ok=True)


class Series:
    """Collects rows `(T, S)` block by block, in memory or, if there are many, in a file."""

    def __init__(self, count: int, width: int) -> None:
        self._scratch = Scratch(width) if count * width > _SPOOLED else None
        self._rows = np.empty((count if self._scratch is None else 0, width))
        self._count = 0

    def add(self, rows: np.ndarray) -> None:
        if self._scratch is not None:
            self._scratch.write(rows)
        else:
            self._rows[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def done(self) -> np.ndarray | Stored:
        """All rows, `(T, S)`."""
        return self._rows if self._scratch is None else self._scratch.done()

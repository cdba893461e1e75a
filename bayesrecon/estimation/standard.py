"""Standardised draws and functions of them, computed in blocks of rows or columns."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Stored


@dataclass(frozen=True, eq=False)
class Standard:
    """`(raw - shift) * scale`, raw `(T, d)` in memory or in a file."""

    raw: np.ndarray | Stored
    shift: np.ndarray
    scale: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.raw.shape

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, at: slice) -> np.ndarray:
        """Some rows."""
        return (self.raw[at] - self.shift) * self.scale

    def columns(self, at: np.ndarray) -> np.ndarray:
        """Some columns, `(T, len(at))`."""
        if not isinstance(self.raw, Stored):
            return (self.raw[:, at] - self.shift[at]) * self.scale[at]
        unique, inverse = np.unique(at, return_inverse=True)
        values = np.concatenate([np.empty((len(self), 0)), *(self.raw.columns(k, k + 1) for k in unique)], axis=1)
        return ((values - self.shift[unique]) * self.scale[unique])[:, inverse]


@dataclass(frozen=True, eq=False)
class Rows:
    """Functions of the draws `(T, P)`, computed row by row on access."""

    compute: Callable[[slice], np.ndarray]
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: slice) -> np.ndarray:
        return self.compute(at)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self.compute(slice(0, len(self))).astype(dtype or np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Combined:
    """`(raw - shift) @ matrix`, in blocks of columns."""

    raw: np.ndarray | Stored
    shift: np.ndarray
    matrix: np.ndarray

    def columns(self, at: slice) -> np.ndarray:
        found = np.empty((len(self.raw), at.stop - at.start))
        for start in range(0, len(found), 2**14):
            rows = slice(start, min(start + 2**14, len(found)))
            found[rows] = (self.raw[rows] - self.shift) @ self.matrix[:, at]
        return found

"""Draws in a file, which are read in parts."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

ROWS, COLUMNS = 2**20, 2**22
"""Largest number of rows per block of rows, and of columns per block of columns."""


class Stored(ABC):
    """An array `(T, d)` in a file. `numpy.asarray` reads all of it."""

    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, at: Any) -> np.ndarray:
        """Read rows: a slice without step, or increasing positions."""

    @abstractmethod
    def part(self, start: int, stop: int) -> "Stored":
        """Rows `start` to `stop`, without reading them."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> np.ndarray:
        """Read columns `start` to `stop`, `(T, stop - start)`."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.float64, copy=False)


def as_rows(theta: Any) -> Any:
    """The argument if it is `Stored`, or else a NumPy array."""
    return theta if isinstance(theta, Stored) else np.asarray(theta)


def part_of(theta: Any, start: int, stop: int) -> Any:
    """Rows `start` to `stop`. Rows in a file are not read yet."""
    return theta.part(start, stop) if isinstance(theta, Stored) else theta[start:stop]


def row_blocks(theta: Any, most: int = ROWS) -> Iterator[tuple[slice, np.ndarray]]:
    """Consecutive blocks of rows, each with its position."""
    height = max(1, most // max(1, theta.shape[1]))
    for start in range(0, len(theta), height):
        at = slice(start, min(start + height, len(theta)))
        yield at, theta[at]


def weighted_sum(theta: Any, weights: np.ndarray) -> np.ndarray:
    """`sum_t a_t theta_t`, `(d,)`."""
    total = np.zeros(theta.shape[1])
    for at, rows in row_blocks(theta):
        total += weights[at] @ rows
    return total


def mean_and_covariance(theta: Any, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean `(d,)` and covariance `(d, d)` of weighted atoms, which are read twice in blocks of rows."""
    centre, total = weighted_sum(theta, weights), np.zeros((theta.shape[1], theta.shape[1]))
    for at, rows in row_blocks(theta):
        off = rows - centre
        total += off.T @ (off * weights[at, None])
    return centre, total


def column_blocks(theta: Any, most: int = COLUMNS, stop: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """Consecutive blocks of the first `stop` columns, each with its position."""
    width, end = max(1, most // max(1, len(theta))), min(theta.shape[1], stop or theta.shape[1])
    for start in range(0, end, width):
        at = slice(start, min(start + width, end))
        yield at, theta.columns(at.start, at.stop) if isinstance(theta, Stored) else theta[:, at]

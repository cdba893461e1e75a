"""Draws that lie in a file, of which some are read at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

ROWS, COLUMNS = 2**20, 2**22
"""Numbers of a block of rows and of one of columns."""


class Stored(ABC):
    """Numbers `(T, d)` that lie elsewhere; `numpy.asarray` reads all of them."""

    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, at: Any) -> np.ndarray:
        """Rows, read now: a slice without step, or positions in increasing order."""

    @abstractmethod
    def part(self, start: int, stop: int) -> "Stored":
        """Some rows, not yet read."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> np.ndarray:
        """`(T, stop - start)`, read now."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.float64, copy=False)


def as_rows(theta: Any) -> Any:
    """What rows can be taken of: an array, or `Stored` as it is."""
    return theta if isinstance(theta, Stored) else np.asarray(theta)


def part_of(theta: Any, start: int, stop: int) -> Any:
    """Some rows, not yet read where they lie in a file."""
    return theta.part(start, stop) if isinstance(theta, Stored) else theta[start:stop]


def row_blocks(theta: Any, most: int = ROWS) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of successive rows, and where they are."""
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
    """Of weighted atoms, `(d,)` and `(d, d)`, read twice in blocks of rows."""
    centre, total = weighted_sum(theta, weights), np.zeros((theta.shape[1], theta.shape[1]))
    for at, rows in row_blocks(theta):
        off = rows - centre
        total += off.T @ (off * weights[at, None])
    return centre, total


def column_blocks(theta: Any, most: int = COLUMNS, stop: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of successive columns, and where they are; of the first `stop` alone."""
    width, end = max(1, most // max(1, len(theta))), min(theta.shape[1], stop or theta.shape[1])
    for start in range(0, end, width):
        at = slice(start, min(start + width, end))
        yield at, theta.columns(at.start, at.stop) if isinstance(theta, Stored) else theta[:, at]

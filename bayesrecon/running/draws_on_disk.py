"""Draws in a file, which are read in parts."""

from collections.abc import Iterator

import numpy as np

from bayesrecon.arrays import Array, Stored

ROWS, COLUMNS = 2**20, 2**22
"""Largest number of entries in a block of rows, and in a block of columns."""


def as_rows(theta: Array | Stored) -> np.ndarray | Stored:
    """The argument if it is `Stored`, or else a NumPy array."""
    return theta if isinstance(theta, Stored) else np.asarray(theta)


def part_of(theta: np.ndarray | Stored, start: int, stop: int) -> np.ndarray | Stored:
    """Rows `start` to `stop`. Rows in a file are not read yet."""
    return theta.part(start, stop) if isinstance(theta, Stored) else theta[start:stop]


def row_blocks(theta: np.ndarray | Stored, most: int = ROWS) -> Iterator[tuple[slice, np.ndarray]]:
    """Consecutive blocks of rows with at most `most` entries, each with its position."""
    height = max(1, most // max(1, theta.shape[1]))
    for start in range(0, len(theta), height):
        at = slice(start, min(start + height, len(theta)))
        yield at, theta[at]


def weighted_sum(theta: np.ndarray | Stored, weights: np.ndarray) -> np.ndarray:
    """`sum_t a_t theta_t`, `(d,)`."""
    total = np.zeros(theta.shape[1])
    for at, rows in row_blocks(theta):
        total += weights[at] @ rows
    return total


def mean_and_covariance(theta: np.ndarray | Stored, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean `(d,)` and covariance `(d, d)` of weighted atoms, which are read twice in blocks of rows."""
    centre, total = weighted_sum(theta, weights), np.zeros((theta.shape[1], theta.shape[1]))
    for at, rows in row_blocks(theta):
        residuals = rows - centre
        total += residuals.T @ (residuals * weights[at, None])
    return centre, total


def column_blocks(
    theta: np.ndarray | Stored, most: int = COLUMNS, stop: int | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Consecutive blocks of the first `stop` columns with at most `most` entries, each with its position."""
    width, end = max(1, most // max(1, len(theta))), min(theta.shape[1], stop or theta.shape[1])
    for start in range(0, end, width):
        at = slice(start, min(start + width, end))
        yield at, theta.columns(at.start, at.stop) if isinstance(theta, Stored) else theta[:, at]

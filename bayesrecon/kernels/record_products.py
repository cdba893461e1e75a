"""Kernels of records that move with few of the parameters: products of their derivatives, weighted with Sigma."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def own_kernel(slopes: Any, index: Any, sigma: Any) -> Any:
    """Of the records with themselves: of two colours, one product is the transpose of the other."""
    i, j = np.tril_indices(len(index))
    pairs = np.stack([i, j], axis=1)
    diagonal, off_diagonal = (
        kernel_between(slopes, slopes, index, index, sigma, pairs[chosen]) for chosen in (i == j, i > j)
    )
    return diagonal + off_diagonal + off_diagonal.T


def kernel_between(x: Any, y: Any, rows: Any, columns: Any, sigma: Any, pairs: np.ndarray) -> Any:
    """`sum_ab Sigma[rows_a, columns_b] x_a' y_b` over pairs of colours, `x (q, C, M)`, `y (p, C, N)`."""
    total = np.zeros((x.shape[2], y.shape[2]))
    if not isinstance(x, np.ndarray):
        return jax.lax.scan(partial(_added, x, y, rows, columns, sigma), jnp.asarray(total), jnp.asarray(pairs))[0]
    for a, b in pairs:
        row, column = _at(rows[a]), _at(columns[b])
        if isinstance(row, int) or isinstance(column, int):  # a product of vectors needs no entry for every pair
            share = np.atleast_1d(sigma[row, column])
            left, right = (x[a] * share, y[b]) if isinstance(column, int) else (x[a], y[b] * share)
            total += left.T @ right
        else:
            part = x[a].T @ y[b]
            part *= sigma.take(column, axis=1).take(row, axis=0)
            total += part
    return total


def _at(coordinates: np.ndarray) -> Any:
    """The one coordinate of all records that have one of this colour, else those of each; none is negative."""
    some = coordinates[coordinates >= 0]
    return int(some[0]) if some.size and (some == some[0]).all() else coordinates


def _added(x: Any, y: Any, rows: Any, columns: Any, sigma: Any, total: Any, pair: Any) -> tuple[Any, None]:
    a, b = pair
    return total + (x[a].T @ y[b]) * sigma[rows[a][:, None], columns[b]], None

"""Kernels of records that move with few of the parameters: products of their derivatives, weighted with Sigma."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array


def own_kernel(slopes: Array, index: Array, sigma: Array) -> Array:
    """The kernel `(M, M)` of records with themselves. The product of two colours is used for both orders."""
    i, j = np.tril_indices(len(index))
    pairs = np.stack([i, j], axis=1)
    diagonal, off_diagonal = (
        kernel_between(slopes, slopes, index, index, sigma, pairs[chosen]) for chosen in (i == j, i > j)
    )
    return diagonal + off_diagonal + off_diagonal.T


def kernel_between(x: Array, y: Array, rows: Array, columns: Array, sigma: Array, pairs: np.ndarray) -> Array:
    """`sum_ab Sigma[rows_a, columns_b] x_a' y_b` over pairs of colours, `x (q, C, M)`, `y (p, C, N)`."""
    total = np.zeros((x.shape[2], y.shape[2]))
    if not isinstance(x, np.ndarray):
        return jax.lax.scan(partial(_added, x, y, rows, columns, sigma), jnp.asarray(total), jnp.asarray(pairs))[0]
    for a, b in pairs:
        row, column = _common(np.asarray(rows[a])), _common(np.asarray(columns[b]))
        if isinstance(row, int) or isinstance(column, int):  # a product of vectors needs no entry for every pair
            share = np.atleast_1d(sigma[row, column])
            left, right = (x[a] * share, y[b]) if isinstance(column, int) else (x[a], y[b] * share)
            total += left.T @ right
        else:
            part = x[a].T @ y[b]
            part *= sigma.take(column, axis=1).take(row, axis=0)
            total += part
    return total


def _common(coordinates: np.ndarray) -> int | np.ndarray:
    """The coordinate that all records with this colour share, or else those of each."""
    present = coordinates[coordinates >= 0]
    return int(present[0]) if present.size and (present == present[0]).all() else coordinates


def _added(
    x: Array, y: Array, rows: Array, columns: Array, sigma: Array, total: Array, pair: Array
) -> tuple[Array, None]:
    a, b = pair
    return total + (x[a].T @ y[b]) * sigma[rows[a][:, None], columns[b]], None

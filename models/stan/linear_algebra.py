"""Linear algebra on arrays, of NumPy where everything is known."""

from typing import overload

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.stan.values import StanError


def solve(a: Array, b: Array) -> Array:
    """`a^-1 b`."""
    if isinstance(a, jax.Array) or isinstance(b, jax.Array):
        return jnp.linalg.solve(jnp.asarray(a, float), jnp.asarray(b, float))
    try:
        return np.linalg.solve(np.asarray(a, float), np.asarray(b, float))
    except np.linalg.LinAlgError:
        raise StanError("a system of equations has no unique solution") from None


@overload
def cholesky(a: jax.Array) -> jax.Array: ...
@overload
def cholesky(a: np.ndarray) -> np.ndarray: ...
def cholesky(a: Array) -> Array:
    """Lower factor; column by column where it is traced and small, as LAPACK's batched factorisation under nested
    forward derivatives can wait for ever."""
    if not isinstance(a, jax.Array):
        try:
            return np.linalg.cholesky(np.asarray(a, float))
        except np.linalg.LinAlgError:
            raise StanError("a matrix is not positive definite") from None
    size = a.shape[0]
    if size > 12:
        return jnp.linalg.cholesky(a)
    rows = np.arange(size)
    columns: list[jax.Array] = []
    for j in range(size):
        column = a[:, j]
        for previous in columns:
            column = column - previous * previous[j]
        columns.append(jnp.where(rows >= j, column / jnp.sqrt(column[j]), 0.0))
    return jnp.stack(columns, axis=1) if columns else a


def lower_solve(factor: Array, b: Array) -> jax.Array:
    """`factor^-1 b` of a lower factor."""
    factor, b = jnp.asarray(factor, float), jnp.asarray(b, float)
    if factor.shape[0] > 12:
        return jax.scipy.linalg.solve_triangular(factor, b, lower=True)
    solution: list[jax.Array] = []
    for j in range(factor.shape[0]):
        residual = b[j]
        for i, solved in enumerate(solution):
            residual = residual - factor[j, i] * solved
        solution.append(residual / factor[j, j])
    return jnp.stack(solution) if solution else b

"""Linear algebra on arrays, of NumPy where everything is known."""

from typing import overload

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.stan.values import StanError

_SMALL = 12  # size up to which factors are computed without LAPACK


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
    forward derivatives can wait for ever. In a scan, since as a sequence of operations it compiles for a minute."""
    if not isinstance(a, jax.Array):
        try:
            return np.linalg.cholesky(np.asarray(a, float))
        except np.linalg.LinAlgError:
            raise StanError("a matrix is not positive definite") from None
    rows = jnp.arange(a.shape[0])
    if len(rows) > _SMALL:
        return jnp.linalg.cholesky(a)

    def step(rest: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        column = jnp.where(rows >= j, rest[:, j] / jnp.sqrt(rest[j, j]), 0.0)
        return rest - jnp.outer(column, column), column

    return jax.lax.scan(step, a, rows)[1].T if rows.size else a


def lower_solve(factor: Array, b: Array) -> jax.Array:
    """`factor^-1 b` of a lower factor."""
    factor, b = jnp.asarray(factor, float), jnp.asarray(b, float)
    if len(factor) > _SMALL:
        return jax.scipy.linalg.solve_triangular(factor, b, lower=True)

    def step(rest: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        solution = rest[j] / factor[j, j]
        return rest - jnp.multiply.outer(factor[:, j], solution), solution

    return jax.lax.scan(step, b, jnp.arange(len(factor)))[1] if len(factor) else b

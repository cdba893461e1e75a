"""Special functions on arrays, traced or not, whose derivatives are finite where their values are."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from bayesrecon.arrays import Array

LOG_2PI = math.log(2 * math.pi)


def log1m_exp(x: Array | float) -> jax.Array:
    """`log(1 - exp(x))` of x < 0."""
    x = jnp.asarray(x, float)
    near = x > -math.log(2)
    safe = jnp.where(near, x, -1.0)
    other = jnp.where(near, -1.0, x)
    return jnp.where(near, jnp.log(-jnp.expm1(safe)), jnp.log1p(-jnp.exp(other)))


def log_diff_exp(x: Array | float, y: Array | float) -> jax.Array:
    """`log(exp(x) - exp(y))`."""
    return jnp.asarray(x) + log1m_exp(jnp.asarray(y) - x)


def log_inv_logit(x: Array | float) -> jax.Array:
    return jax.nn.log_sigmoid(jnp.asarray(x, float))


def log1m_inv_logit(x: Array | float) -> jax.Array:
    return jax.nn.log_sigmoid(-jnp.asarray(x, float))


def log_choose(n: Array | float, k: Array | float) -> jax.Array:
    return special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)


def xlogy(x: Array | float, y: Array | float) -> jax.Array:
    """`x log y`, zero where x is."""
    x, y = jnp.asarray(x, float), jnp.asarray(y, float)
    none = x == 0
    safe = jnp.where(none, 1.0, y)
    return jnp.where(none, 0.0, x * jnp.log(safe))


def log_normal_cdf(x: Array | float) -> jax.Array:
    return special.log_ndtr(jnp.asarray(x, float))


def matrix_exp(a: Array | float) -> jax.Array:
    return jax.scipy.linalg.expm(jnp.asarray(a, float))


def log_sum_exp(a: Array | float, axis: int | None = None) -> jax.Array | float:
    """The logarithm of a sum of exponentials; minus infinity where every term is, with a derivative of zero."""
    if not isinstance(a, jax.Array) and np.size(a) == 0:
        return -math.inf
    a = jnp.asarray(a, float)
    top = jax.lax.stop_gradient(jnp.max(a, axis=axis, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jnp.sum(jnp.exp(a - top), axis=axis)
    none = total == 0
    safe = jnp.where(none, 1.0, total)
    return jnp.where(none, -jnp.inf, jnp.log(safe) + jnp.squeeze(top, axis=axis))


def lmgamma(k: int, x: Array | float) -> jax.Array:
    """The logarithm of the multivariate gamma function."""
    halves = (1.0 - np.arange(1, k + 1)) / 2
    return jnp.asarray(k * (k - 1) / 4 * math.log(math.pi) + sum(special.gammaln(x + h) for h in halves))


def modified_bessel(order: int, x: Array | float) -> jax.Array:
    if order == 0:
        return special.i0(x)
    return special.i1(x)

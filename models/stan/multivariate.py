"""Log densities of vectors and matrices, and of categories."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.scipy.special import gammaln

from bayesrecon.models.stan.linear_algebra import cholesky, lower_solve, solve
from bayesrecon.models.stan.special import LOG_2PI, lmgamma, log_inv_logit, log_normal_cdf, xlogy
from bayesrecon.models.stan.values import StanError, V


def _rows(*values: V) -> list[jax.Array]:
    """Vectors, and arrays of them of one length, as `(n, k)`."""
    arrays = [jnp.asarray(v.a, float) if v.depth else jnp.asarray(v.a, float)[None] for v in values]
    counts = {len(a) for a in arrays} - {1}
    if len(counts) > 1:
        raise StanError(f"arrays of {' and '.join(map(str, sorted(counts)))} vectors are combined")
    count = max((len(a) for a in arrays), default=1)
    if any(len(a) == 0 for a in arrays):
        count = 0
    return [jnp.broadcast_to(a, (count, *a.shape[1:])) for a in arrays]


def _log_diagonal(factor: jax.Array) -> jax.Array:
    return jnp.sum(jnp.log(jnp.diagonal(factor)))


def _whitened(y: V, mu: V, factor: jax.Array) -> jax.Array:
    rows, means = _rows(y, mu)
    if rows.shape[-1] != factor.shape[0] or means.shape[-1] != factor.shape[0]:
        raise StanError(
            f"vectors of {rows.shape[-1]} and {means.shape[-1]} entries with a matrix of {factor.shape[0]} rows"
        )
    return lower_solve(factor, (rows - means).T)


def _normal(y: V, mu: V, factor: jax.Array) -> jax.Array:
    white = _whitened(y, mu, factor)
    k, n = white.shape
    return -0.5 * jnp.sum(white**2) - n * (_log_diagonal(factor) + 0.5 * k * LOG_2PI)


def multi_normal(y: V, mu: V, sigma: V) -> jax.Array:
    return _normal(y, mu, cholesky(jnp.asarray(sigma.a, float)))


def multi_normal_cholesky(y: V, mu: V, factor: V) -> jax.Array:
    return _normal(y, mu, jnp.asarray(factor.a, float))


def multi_normal_prec(y: V, mu: V, precision: V) -> jax.Array:
    rows, means = _rows(y, mu)
    residuals = rows - means
    factor = cholesky(jnp.asarray(precision.a, float))
    n, k = residuals.shape
    return -0.5 * jnp.sum((residuals @ factor) ** 2) + n * (_log_diagonal(factor) - 0.5 * k * LOG_2PI)


def _student(y: V, nu: V, mu: V, factor: jax.Array) -> jax.Array:
    white = _whitened(y, mu, factor)
    k, n = white.shape
    scale = gammaln((nu.a + k) / 2) - gammaln(nu.a / 2) - 0.5 * k * jnp.log(nu.a * math.pi) - _log_diagonal(factor)
    return n * scale - (nu.a + k) / 2 * jnp.sum(jnp.log1p(jnp.sum(white**2, axis=0) / nu.a))


def multi_student_t(y: V, nu: V, mu: V, sigma: V) -> jax.Array:
    return _student(y, nu, mu, cholesky(jnp.asarray(sigma.a, float)))


def multi_student_t_cholesky(y: V, nu: V, mu: V, factor: V) -> jax.Array:
    return _student(y, nu, mu, jnp.asarray(factor.a, float))


def dirichlet(theta: V, alpha: V) -> jax.Array:
    shares, a = _rows(theta, alpha)
    return jnp.sum(xlogy(a - 1, shares)) + jnp.sum(gammaln(a.sum(-1))) - jnp.sum(gammaln(a))


def lkj_corr_cholesky(factor: V, eta: V) -> jax.Array:
    lower = jnp.asarray(factor.a, float)
    k = lower.shape[-1]
    powers = k - np.arange(2, k + 1) + 2 * eta.a - 2
    single = jnp.log(jnp.diagonal(lower, axis1=-2, axis2=-1)[..., 1:]) * powers
    return jnp.sum(single) - _lkj_constant(k, eta.a) * (lower.shape[0] if factor.depth else 1)


def lkj_corr(matrix: V, eta: V) -> jax.Array:
    factor = cholesky(jnp.asarray(matrix.a, float))
    k = factor.shape[0]
    return 2 * (eta.a - 1) * _log_diagonal(factor) - _lkj_constant(k, eta.a)


def _lkj_constant(k: int, eta: jax.Array | float) -> jax.Array | float:
    total: jax.Array | float = 0.0
    for i in range(1, k):
        total += 0.5 * i * math.log(math.pi) + gammaln(eta + (k - 1 - i) / 2) - gammaln(eta + (k - 1) / 2)
    return total


def wishart(w: V, nu: V, sigma: V) -> jax.Array:
    k = w.shape[0]
    first, second = cholesky(jnp.asarray(w.a, float)), cholesky(jnp.asarray(sigma.a, float))
    return (
        (nu.a - k - 1) * _log_diagonal(first)
        - 0.5 * jnp.trace(solve(jnp.asarray(sigma.a, float), w.a))
        - nu.a * _log_diagonal(second)
        - 0.5 * nu.a * k * math.log(2)
        - lmgamma(k, nu.a / 2)
    )


def inv_wishart(w: V, nu: V, sigma: V) -> jax.Array:
    k = w.shape[0]
    first, second = cholesky(jnp.asarray(w.a, float)), cholesky(jnp.asarray(sigma.a, float))
    return (
        -(nu.a + k + 1) * _log_diagonal(first)
        - 0.5 * jnp.trace(solve(jnp.asarray(w.a, float), sigma.a))
        + nu.a * _log_diagonal(second)
        - 0.5 * nu.a * k * math.log(2)
        - lmgamma(k, nu.a / 2)
    )


def picked(table: jax.Array, y: npt.ArrayLike) -> jax.Array:
    """Elements `table[..., y]` of categories from one, with the sum over them; not a number where y is none."""
    y = jnp.asarray(y)
    at = jnp.round(y).astype(int) if jnp.issubdtype(y.dtype, jnp.floating) else y
    size = table.shape[-1]
    safe = jnp.clip(at, 1, size) - 1
    result = jnp.take_along_axis(jnp.broadcast_to(table, (*safe.shape, size)), safe[..., None], axis=-1)[..., 0]
    return jnp.sum(jnp.where((at >= 1) & (at <= size), result, jnp.nan))


def categorical(y: V, theta: V) -> jax.Array:
    shares = jnp.asarray(theta.a, float)
    return picked(jnp.log(jnp.where(shares > 0, shares, 0.0)), y.a)


def categorical_logit(y: V, beta: V) -> jax.Array:
    return picked(jax.nn.log_softmax(jnp.asarray(beta.a, float), axis=-1), y.a)


def ordered_logs(eta: npt.ArrayLike, cuts: jax.Array, log_below: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Log probabilities `(..., k)` of categories between cut points."""
    z = cuts - jnp.asarray(eta, float)[..., None]
    first, last = log_below(z[..., :1]), log_below(-z[..., -1:])
    low, high = log_below(z[..., :-1]), log_below(z[..., 1:])
    tail_low, tail_high = log_below(-z[..., :-1]), log_below(-z[..., 1:])
    # In the upper tail the difference of complements keeps the digits.
    upper = z[..., :-1] > 0
    larger, smaller = jnp.where(upper, tail_low, high), jnp.where(upper, tail_high, low)
    return jnp.concatenate([first, larger + jnp.log1p(-jnp.exp(smaller - larger)), last], axis=-1)


def ordered_logistic(y: V, eta: V, cuts: V) -> jax.Array:
    return picked(ordered_logs(eta.a, jnp.asarray(cuts.a, float), log_inv_logit), y.a)


def ordered_probit(y: V, eta: V, cuts: V) -> jax.Array:
    return picked(ordered_logs(eta.a, jnp.asarray(cuts.a, float), log_normal_cdf), y.a)


def multinomial(y: V, theta: V) -> jax.Array:
    counts = jnp.asarray(y.a, float)
    return gammaln(jnp.sum(counts) + 1) - jnp.sum(gammaln(counts + 1)) + jnp.sum(xlogy(counts, theta.a))


def multinomial_logit(y: V, gamma: V) -> jax.Array:
    counts = jnp.asarray(y.a, float)
    logs = jax.nn.log_softmax(jnp.asarray(gamma.a, float))
    return gammaln(jnp.sum(counts) + 1) - jnp.sum(gammaln(counts + 1)) + jnp.sum(counts * logs)


MULTIVARIATE = {
    f.__name__: f
    for f in (
        multi_normal, multi_normal_cholesky, multi_normal_prec, multi_student_t, multi_student_t_cholesky, dirichlet,
        lkj_corr_cholesky, lkj_corr, wishart, inv_wishart, categorical, categorical_logit, ordered_logistic,
        ordered_probit, multinomial, multinomial_logit,
    )
}  # fmt: skip
"""Functions by their name in Stan; each takes values and returns the sum over their arrays."""

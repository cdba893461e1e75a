"""Log densities of one real number, elementwise, as the Stan functions reference defines them."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, gammaln, log_ndtr

from bayesrecon.arrays import Array
from bayesrecon.models.stan.special import LOG_2PI, log_inv_logit, xlogy


def _inside(holds: Any, value: Any) -> Any:
    return jnp.where(holds, value, -jnp.inf)


def normal(y: Array, mu: Array, sigma: Array) -> Array:
    z = (y - mu) / sigma
    return -0.5 * z * z - jnp.log(sigma) - 0.5 * LOG_2PI


def std_normal(y: Array) -> Array:
    return -0.5 * y * y - 0.5 * LOG_2PI


def student_t(y: Array, nu: Array, mu: Array, sigma: Array) -> jax.Array:
    z = (y - mu) / sigma
    scale = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * math.pi) - jnp.log(sigma)
    return scale - (nu + 1) / 2 * jnp.log1p(z * z / nu)


def cauchy(y: Array, mu: Array, sigma: Array) -> jax.Array:
    z = (y - mu) / sigma
    return -math.log(math.pi) - jnp.log(sigma) - jnp.log1p(z * z)


def double_exponential(y: Any, mu: Any, sigma: Any) -> Any:
    return -jnp.log(2 * sigma) - jnp.abs(y - mu) / sigma


def logistic(y: Any, mu: Any, sigma: Any) -> Any:
    z = (y - mu) / sigma
    return log_inv_logit(z) + log_inv_logit(-z) - jnp.log(sigma)


def gumbel(y: Any, mu: Any, beta: Any) -> Any:
    z = (y - mu) / beta
    return -jnp.log(beta) - z - jnp.exp(-z)


def lognormal(y: Any, mu: Any, sigma: Any) -> Any:
    return normal(jnp.log(y), mu, sigma) - jnp.log(y)


def chi_square(y: Any, nu: Any) -> Any:
    return gamma(y, nu / 2, 0.5)


def inv_chi_square(y: Any, nu: Any) -> Any:
    return inv_gamma(y, nu / 2, 0.5)


def scaled_inv_chi_square(y: Any, nu: Any, s: Any) -> Any:
    return inv_gamma(y, nu / 2, nu / 2 * s * s)


def exponential(y: Array, beta: Array) -> jax.Array:
    return jnp.log(beta) - beta * y


def gamma(y: Array, alpha: Array, beta: Any) -> Array:
    return alpha * jnp.log(beta) - gammaln(alpha) + xlogy(alpha - 1, y) - beta * y


def inv_gamma(y: Any, alpha: Any, beta: Any) -> Any:
    return alpha * jnp.log(beta) - gammaln(alpha) - (alpha + 1) * jnp.log(y) - beta / y


def weibull(y: Any, alpha: Any, sigma: Any) -> Any:
    return jnp.log(alpha / sigma) + xlogy(alpha - 1, y / sigma) - (y / sigma) ** alpha


def frechet(y: Any, alpha: Any, sigma: Any) -> Any:
    return jnp.log(alpha / sigma) - (alpha + 1) * jnp.log(y / sigma) - (y / sigma) ** -alpha


def rayleigh(y: Any, sigma: Any) -> Any:
    return jnp.log(y) - 2 * jnp.log(sigma) - 0.5 * (y / sigma) ** 2


def loglogistic(y: Any, alpha: Any, beta: Any) -> Any:
    return jnp.log(beta / alpha) + (beta - 1) * jnp.log(y / alpha) - 2 * jnp.log1p((y / alpha) ** beta)


def pareto(y: Any, low: Any, alpha: Any) -> Any:
    return _inside(y >= low, jnp.log(alpha) + alpha * jnp.log(low) - (alpha + 1) * jnp.log(y))


def pareto_type_2(y: Any, mu: Any, scale: Any, alpha: Any) -> Any:
    return jnp.log(alpha / scale) - (alpha + 1) * jnp.log1p((y - mu) / scale)


def beta(y: Any, a: Any, b: Any) -> Any:
    return xlogy(a - 1, y) + xlogy(b - 1, 1 - y) - betaln(a, b)


def beta_proportion(y: Any, mu: Any, kappa: object) -> Any:
    return beta(y, mu * kappa, (1 - mu) * kappa)


def uniform(y: Any, low: Any, high: Any) -> Any:
    return _inside((y >= low) & (y <= high), -jnp.log(jnp.asarray(high - low, float)) + 0 * y)


def von_mises(y: Any, mu: Any, kappa: Any) -> Any:
    from jax.scipy.special import i0e

    return kappa * (jnp.cos(mu - y) - 1) - LOG_2PI - jnp.log(i0e(kappa))


def exp_mod_normal(y: Any, mu: Any, sigma: Any, rate: Any) -> Any:
    shift = mu + rate * sigma * sigma - y
    return jnp.log(rate) + rate * (shift - 0.5 * rate * sigma * sigma) + log_ndtr(-shift / sigma)


def skew_normal(y: Any, xi: Any, omega: Any, alpha: Any) -> Any:
    return math.log(2) + normal(y, xi, omega) + log_ndtr(alpha * (y - xi) / omega)


def skew_double_exponential(y: Any, mu: Any, sigma: Any, tau: Any) -> Any:
    apart = y - mu
    weight = jnp.where(apart < 0, 1 - tau, tau)
    return math.log(2) + jnp.log(tau) + jnp.log1p(-tau) - jnp.log(sigma) - 2 * weight * jnp.abs(apart) / sigma


CONTINUOUS = {
    f.__name__: f
    for f in (
        normal, std_normal, student_t, cauchy, double_exponential, logistic, gumbel, lognormal, chi_square,
        inv_chi_square, scaled_inv_chi_square, exponential, gamma, inv_gamma, weibull, frechet, rayleigh, loglogistic,
        pareto, pareto_type_2, beta, beta_proportion, uniform, von_mises, exp_mod_normal, skew_normal,
        skew_double_exponential,
    )
}  # fmt: skip
"""Functions by their name in Stan."""

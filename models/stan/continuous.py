"""Log densities of one real number, elementwise, as the Stan functions reference defines them."""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, gammaln, log_ndtr

from bayesrecon.models.stan.special import LOG_2PI, log_inv_logit, xlogy


def _inside(holds: jax.Array, value: jax.Array) -> jax.Array:
    return jnp.where(holds, value, -jnp.inf)


def normal(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    return -0.5 * z * z - jnp.log(sigma) - 0.5 * LOG_2PI


def std_normal(y: jax.Array) -> jax.Array:
    return -0.5 * y * y - 0.5 * LOG_2PI


def student_t(y: jax.Array, nu: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    scale = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * math.pi) - jnp.log(sigma)
    return scale - (nu + 1) / 2 * jnp.log1p(z * z / nu)


def cauchy(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    return -math.log(math.pi) - jnp.log(sigma) - jnp.log1p(z * z)


def double_exponential(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    return -jnp.log(2 * sigma) - jnp.abs(y - mu) / sigma


def logistic(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    return log_inv_logit(z) + log_inv_logit(-z) - jnp.log(sigma)


def gumbel(y: jax.Array, mu: jax.Array, beta: jax.Array) -> jax.Array:
    z = (y - mu) / beta
    return -jnp.log(beta) - z - jnp.exp(-z)


def lognormal(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    return normal(jnp.log(y), mu, sigma) - jnp.log(y)


def chi_square(y: jax.Array, nu: jax.Array) -> jax.Array:
    return gamma(y, nu / 2, 0.5)


def inv_chi_square(y: jax.Array, nu: jax.Array) -> jax.Array:
    return inv_gamma(y, nu / 2, 0.5)


def scaled_inv_chi_square(y: jax.Array, nu: jax.Array, s: jax.Array) -> jax.Array:
    return inv_gamma(y, nu / 2, nu / 2 * s * s)


def exponential(y: jax.Array, beta: jax.Array) -> jax.Array:
    return jnp.log(beta) - beta * y


def gamma(y: jax.Array, alpha: jax.Array, beta: jax.Array | float) -> jax.Array:
    return alpha * jnp.log(beta) - gammaln(alpha) + xlogy(alpha - 1, y) - beta * y


def inv_gamma(y: jax.Array, alpha: jax.Array, beta: jax.Array | float) -> jax.Array:
    return alpha * jnp.log(beta) - gammaln(alpha) - (alpha + 1) * jnp.log(y) - beta / y


def weibull(y: jax.Array, alpha: jax.Array, sigma: jax.Array) -> jax.Array:
    return jnp.log(alpha / sigma) + xlogy(alpha - 1, y / sigma) - (y / sigma) ** alpha


def frechet(y: jax.Array, alpha: jax.Array, sigma: jax.Array) -> jax.Array:
    return jnp.log(alpha / sigma) - (alpha + 1) * jnp.log(y / sigma) - (y / sigma) ** -alpha


def rayleigh(y: jax.Array, sigma: jax.Array) -> jax.Array:
    return jnp.log(y) - 2 * jnp.log(sigma) - 0.5 * (y / sigma) ** 2


def loglogistic(y: jax.Array, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return jnp.log(beta / alpha) + (beta - 1) * jnp.log(y / alpha) - 2 * jnp.log1p((y / alpha) ** beta)


def pareto(y: jax.Array, low: jax.Array, alpha: jax.Array) -> jax.Array:
    return _inside(y >= low, jnp.log(alpha) + alpha * jnp.log(low) - (alpha + 1) * jnp.log(y))


def pareto_type_2(y: jax.Array, mu: jax.Array, scale: jax.Array, alpha: jax.Array) -> jax.Array:
    return jnp.log(alpha / scale) - (alpha + 1) * jnp.log1p((y - mu) / scale)


def beta(y: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return xlogy(a - 1, y) + xlogy(b - 1, 1 - y) - betaln(a, b)


def beta_proportion(y: jax.Array, mu: jax.Array, kappa: jax.Array) -> jax.Array:
    return beta(y, mu * kappa, (1 - mu) * kappa)


def uniform(y: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return _inside((y >= low) & (y <= high), -jnp.log(jnp.asarray(high - low, float)) + 0 * y)


def von_mises(y: jax.Array, mu: jax.Array, kappa: jax.Array) -> jax.Array:
    from jax.scipy.special import i0e

    return kappa * (jnp.cos(mu - y) - 1) - LOG_2PI - jnp.log(i0e(kappa))


def exp_mod_normal(y: jax.Array, mu: jax.Array, sigma: jax.Array, rate: jax.Array) -> jax.Array:
    shift = mu + rate * sigma * sigma - y
    return jnp.log(rate) + rate * (shift - 0.5 * rate * sigma * sigma) + log_ndtr(-shift / sigma)


def skew_normal(y: jax.Array, xi: jax.Array, omega: jax.Array, alpha: jax.Array) -> jax.Array:
    return math.log(2) + normal(y, xi, omega) + log_ndtr(alpha * (y - xi) / omega)


def skew_double_exponential(y: jax.Array, mu: jax.Array, sigma: jax.Array, tau: jax.Array) -> jax.Array:
    residual = y - mu
    weight = jnp.where(residual < 0, 1 - tau, tau)
    return math.log(2) + jnp.log(tau) + jnp.log1p(-tau) - jnp.log(sigma) - 2 * weight * jnp.abs(residual) / sigma


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

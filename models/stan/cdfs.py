"""Logarithms of distribution functions and of their complements, elementwise; discrete ones at integers."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammainc, gammaincc, log_ndtr

from bayesrecon.models.stan.special import log1m_exp, log_inv_logit


def _student(z: jax.Array, nu: jax.Array) -> jax.Array:
    """P(T <= z)."""
    x = nu / (nu + z * z)
    tail = 0.5 * betainc(nu / 2, 0.5 * jnp.ones_like(x), x)
    return jnp.where(z > 0, 1 - tail, tail)


def _laplace(z: jax.Array) -> jax.Array:
    low, high = jnp.minimum(z, 0.0), jnp.maximum(z, 0.0)
    return jnp.where(z < 0, math.log(0.5) + low, jnp.log1p(-0.5 * jnp.exp(-high)))


def _arctan(z: jax.Array) -> jax.Array:
    return 0.5 + jnp.arctan(z) / math.pi


Cdfs = tuple[Callable[..., jax.Array], Callable[..., jax.Array]]
"""Functions of y and the parameters: `log P(Y <= y)` and `log P(Y > y)`."""


def _logarithms(below: Callable[..., jax.Array], above: Callable[..., jax.Array]) -> Cdfs:
    """The pair of logarithms of two probabilities."""
    return lambda *a: jnp.log(below(*a)), lambda *a: jnp.log(above(*a))


def _symmetric(log_below: Callable[..., jax.Array]) -> Cdfs:
    """A symmetric location-scale family, from the log distribution function at a standardised point."""
    return (
        lambda y, *a: log_below((y - a[-2]) / a[-1], *a[:-2]),
        lambda y, *a: log_below(-(y - a[-2]) / a[-1], *a[:-2]),
    )


def _binomial(y: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    complete = jnp.asarray(y >= n)
    failures = jnp.where(complete, 1.0, n - y)
    return jnp.where(complete, 1.0, betainc(failures, y + 1.0, 1.0 - p))


CUMULATIVE: dict[str, Cdfs] = {
    "normal": _symmetric(log_ndtr),
    "std_normal": (log_ndtr, lambda y: log_ndtr(-y)),
    "logistic": _symmetric(log_inv_logit),
    "cauchy": _symmetric(lambda z: jnp.log(_arctan(z))),
    "student_t": _symmetric(lambda z, nu: jnp.log(_student(z, nu))),
    "double_exponential": _symmetric(_laplace),
    "lognormal": (
        lambda y, mu, sigma: log_ndtr((jnp.log(y) - mu) / sigma),
        lambda y, mu, sigma: log_ndtr(-(jnp.log(y) - mu) / sigma),
    ),
    "exponential": (lambda y, b: log1m_exp(-b * y), lambda y, b: -b * y),
    "weibull": (lambda y, a, s: log1m_exp(-((y / s) ** a)), lambda y, a, s: -((y / s) ** a)),
    "frechet": (lambda y, a, s: -((y / s) ** -a), lambda y, a, s: log1m_exp(-((y / s) ** -a))),
    "gumbel": (
        lambda y, mu, b: -jnp.exp(-(y - mu) / b),
        lambda y, mu, b: log1m_exp(-jnp.exp(-(y - mu) / b)),
    ),
    "rayleigh": (lambda y, s: log1m_exp(-0.5 * (y / s) ** 2), lambda y, s: -0.5 * (y / s) ** 2),
    "loglogistic": (
        lambda y, a, b: -jnp.log1p((y / a) ** -b),
        lambda y, a, b: -jnp.log1p((y / a) ** b),
    ),
    "pareto": (
        lambda y, low, a: log1m_exp(a * jnp.log(low / y)),
        lambda y, low, a: a * jnp.log(low / y),
    ),
    "uniform": _logarithms(
        lambda y, a, b: jnp.clip((y - a) / (b - a), 0.0, 1.0), lambda y, a, b: jnp.clip((b - y) / (b - a), 0.0, 1.0)
    ),
    "gamma": _logarithms(lambda y, a, b: gammainc(a, b * y), lambda y, a, b: gammaincc(a, b * y)),
    "inv_gamma": _logarithms(lambda y, a, b: gammaincc(a, b / y), lambda y, a, b: gammainc(a, b / y)),
    "chi_square": _logarithms(lambda y, nu: gammainc(nu / 2, y / 2), lambda y, nu: gammaincc(nu / 2, y / 2)),
    "beta": _logarithms(lambda y, a, b: betainc(a, b, y), lambda y, a, b: betainc(b, a, 1 - y)),
    "poisson": _logarithms(lambda y, m: gammaincc(y + 1.0, m), lambda y, m: gammainc(y + 1.0, m)),
    "bernoulli": _logarithms(lambda y, p: 1 - (y < 1) * p, lambda y, p: (y < 1) * p),
    "binomial": _logarithms(_binomial, lambda y, n, p: 1 - _binomial(y, n, p)),
    "neg_binomial_2": _logarithms(
        lambda y, m, phi: betainc(phi, y + 1.0, phi / (phi + m)),
        lambda y, m, phi: betainc(y + 1.0, phi, m / (phi + m)),
    ),
    "neg_binomial": _logarithms(
        lambda y, a, b: betainc(a, y + 1.0, b / (b + 1.0)), lambda y, a, b: betainc(y + 1.0, a, 1.0 / (b + 1.0))
    ),
}
"""By the name in Stan."""

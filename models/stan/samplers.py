"""Draws of the densities that responses have, by their names in Stan, elementwise."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import random

from bayesrecon.models.stan.multivariate import ordered_logs
from bayesrecon.models.stan.named_densities import OF_PREDICTORS, linear_predictor
from bayesrecon.models.stan.special import log_inv_logit, log_normal_cdf
from bayesrecon.models.stan.values import StanError, V

Sampler = Callable[..., jax.Array]
"""`(key, shape, *parameters) -> draws of this shape`."""


def _gamma(key: jax.Array, shape: tuple[int, ...], alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return random.gamma(key, jnp.broadcast_to(alpha, shape)) / beta


def _binomial(key: jax.Array, shape: tuple[int, ...], n: jax.Array, p: jax.Array) -> jax.Array:
    return random.binomial(key, n, p, shape=shape)


def _poisson(key: jax.Array, shape: tuple[int, ...], rate: jax.Array) -> jax.Array:
    return random.poisson(key, jnp.broadcast_to(rate, shape)).astype(float)


def _student_t(key: jax.Array, shape: tuple[int, ...], nu: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    return mu + sigma * random.t(key, nu, shape)


def _beta_binomial(key: jax.Array, shape: tuple[int, ...], n: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    first_key, second_key = random.split(key)
    return _binomial(second_key, shape, n, random.beta(first_key, a, b, shape))


def _neg_binomial_2(key: jax.Array, shape: tuple[int, ...], mu: jax.Array, phi: jax.Array) -> jax.Array:
    first_key, second_key = random.split(key)
    return _poisson(second_key, shape, _gamma(first_key, shape, phi, phi / mu))


SAMPLERS: dict[str, Sampler] = {
    "normal": lambda key, shape, mu, sigma: mu + sigma * random.normal(key, shape),
    "std_normal": random.normal,
    "student_t": _student_t,
    "cauchy": lambda key, shape, mu, sigma: mu + sigma * random.cauchy(key, shape),
    "double_exponential": lambda key, shape, mu, sigma: mu + sigma * random.laplace(key, shape),
    "logistic": lambda key, shape, mu, sigma: mu + sigma * random.logistic(key, shape),
    "gumbel": lambda key, shape, mu, beta: mu + beta * random.gumbel(key, shape),
    "lognormal": lambda key, shape, mu, sigma: jnp.exp(mu + sigma * random.normal(key, shape)),
    "exponential": lambda key, shape, beta: random.exponential(key, shape) / beta,
    "gamma": _gamma,
    "inv_gamma": lambda key, shape, alpha, beta: 1 / _gamma(key, shape, alpha, beta),
    "weibull": lambda key, shape, alpha, sigma: random.weibull_min(key, sigma, alpha, shape),
    "beta": lambda key, shape, a, b: random.beta(key, a, b, shape),
    "beta_proportion": lambda key, shape, mu, kappa: random.beta(key, mu * kappa, (1 - mu) * kappa, shape),
    "uniform": lambda key, shape, low, high: low + (high - low) * random.uniform(key, shape),
    "bernoulli": lambda key, shape, p: random.bernoulli(key, p, shape).astype(float),
    "bernoulli_logit": lambda key, shape, eta: random.bernoulli(key, jax.nn.sigmoid(eta), shape).astype(float),
    "binomial": _binomial,
    "binomial_logit": lambda key, shape, n, eta: _binomial(key, shape, n, jax.nn.sigmoid(eta)),
    "beta_binomial": _beta_binomial,
    "poisson": _poisson,
    "poisson_log": lambda key, shape, eta: _poisson(key, shape, jnp.exp(eta)),
    "neg_binomial": lambda key, shape, alpha, beta: _neg_binomial_2(key, shape, alpha / beta, alpha),
    "neg_binomial_2": _neg_binomial_2,
    "neg_binomial_2_log": lambda key, shape, eta, phi: _neg_binomial_2(key, shape, jnp.exp(eta), phi),
}
"""Samplers of one number, by the density's name."""


def sample(name: str, y: V, args: list[V], key: jax.Array) -> jax.Array:
    """A draw in place of y.

    Raises:
        StanError: a density that is not drawn from.
    """
    if name in OF_PREDICTORS:
        x, alpha, beta, *scales = args
        return sample(OF_PREDICTORS[name], y, [linear_predictor(x, alpha, beta), *scales], key)
    shape = y.shape
    values = [jnp.asarray(v.a, float) for v in args]
    if name in SAMPLERS:
        full_shape = jnp.broadcast_shapes(shape, *(v.shape for v in values))
        if full_shape != shape:
            raise StanError(f"a response of shape {shape} has parameters of shape {full_shape}")
        return SAMPLERS[name](key, shape, *values)
    if name == "categorical":
        return random.categorical(key, jnp.log(values[0]), shape=shape) + 1
    if name == "categorical_logit":
        return random.categorical(key, values[0], shape=shape) + 1
    if name in ("ordered_logistic", "ordered_probit"):
        table = ordered_logs(values[0], values[1], log_inv_logit if name == "ordered_logistic" else log_normal_cdf)
        return random.categorical(key, table, shape=shape) + 1
    raise StanError(f"responses of {name} cannot be simulated")

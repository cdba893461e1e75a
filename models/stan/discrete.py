"""Log probabilities of one integer, elementwise, as the Stan functions reference defines them."""

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, gammaln

from bayesrecon.models.stan.special import log_choose, log_inv_logit, xlogy


def bernoulli(y: jax.Array, p: jax.Array) -> jax.Array:
    return xlogy(y, p) + xlogy(1 - y, 1 - p)


def bernoulli_logit(y: jax.Array, eta: jax.Array) -> jax.Array:
    return y * log_inv_logit(eta) + (1 - y) * log_inv_logit(-eta)


def binomial(y: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    return log_choose(n, y) + xlogy(y, p) + xlogy(n - y, 1 - p)


def binomial_logit(y: jax.Array, n: jax.Array, eta: jax.Array) -> jax.Array:
    return log_choose(n, y) + y * log_inv_logit(eta) + (n - y) * log_inv_logit(-eta)


def beta_binomial(y: jax.Array, n: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return log_choose(n, y) + betaln(y + a, n - y + b) - betaln(a, b)


def poisson(y: jax.Array, rate: jax.Array) -> jax.Array:
    return xlogy(y, rate) - rate - gammaln(y + 1.0)


def poisson_log(y: jax.Array, eta: jax.Array) -> jax.Array:
    return y * eta - jnp.exp(eta) - gammaln(y + 1.0)


def neg_binomial(y: jax.Array, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return log_choose(y + alpha - 1, y) + alpha * (jnp.log(beta) - jnp.log1p(beta)) - y * jnp.log1p(beta)


def neg_binomial_2(y: jax.Array, mu: jax.Array, phi: jax.Array) -> jax.Array:
    normaliser = gammaln(y + phi) - gammaln(phi) - gammaln(y + 1.0)
    return normaliser + xlogy(y, mu / (mu + phi)) - phi * jnp.log1p(mu / phi)


def neg_binomial_2_log(y: jax.Array, eta: jax.Array, phi: jax.Array) -> jax.Array:
    normaliser = gammaln(y + phi) - gammaln(phi) - gammaln(y + 1.0)
    both = jnp.logaddexp(eta, jnp.log(phi))
    return normaliser + y * (eta - both) - phi * (both - jnp.log(phi))


def geometric(y: jax.Array, p: jax.Array) -> jax.Array:
    return jnp.log(p) + y * jnp.log1p(-p)


def hypergeometric(y: jax.Array, drawn: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return log_choose(a, y) + log_choose(b, drawn - y) - log_choose(a + b, drawn)


def discrete_range(y: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.where((y >= low) & (y <= high), -jnp.log(high - low + 1.0), -jnp.inf)


DISCRETE = {
    f.__name__: f
    for f in (
        bernoulli, bernoulli_logit, binomial, binomial_logit, beta_binomial, poisson, poisson_log, neg_binomial,
        neg_binomial_2, neg_binomial_2_log, geometric, hypergeometric, discrete_range,
    )
}  # fmt: skip
"""Functions by their name in Stan."""

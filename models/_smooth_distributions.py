"""Distributions of NumPyro whose log probability is not smooth, written so that it is.

JAX's `betaln` takes its corrections to single precision and switches between formulas where an argument passes 8: in
double precision it is off by up to 1e-6, and jumps there. Stein's identity needs a continuous score. Kernels with a
decaying spectrum magnify the jump by eight orders of magnitude, so that negative binomial draws seem to belong to
another model. With `B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b)` it is smooth to rounding.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, xlog1py, xlogy
from jax.typing import ArrayLike
from numpyro import distributions as dist
from numpyro.distributions.discrete import ZeroInflatedLogits, ZeroInflatedProbs

from bayesrecon.arrays import Array

_WRAPPERS = (
    dist.ExpandedDistribution,
    dist.Independent,
    dist.MaskedDistribution,
    ZeroInflatedProbs,
    ZeroInflatedLogits,
)

# NumPyro 0.19 does not have this distribution; no distribution is an instance of the empty class that replaces it.
_BetaNegative: Any = getattr(dist, "BetaNegativeBinomial", type("_Absent", (dist.Distribution,), {}))


def log_beta(a: jax.Array | float, b: jax.Array | float) -> jax.Array:
    """Logarithm of the beta function, smooth in both arguments."""
    return gammaln(a) + gammaln(b) - gammaln(a + b)


class _GammaPoisson(dist.GammaPoisson):
    def log_prob(self, value: ArrayLike) -> jax.Array:
        a, rate = jnp.asarray(self.concentration), jnp.asarray(self.rate)
        value = jnp.asarray(value, jnp.result_type(float))
        result = gammaln(a + value) - gammaln(a) - gammaln(value + 1.0)
        return result - xlogy(a, 1 + 1 / rate) - xlog1py(value, rate)


class _BetaBinomial(dist.BetaBinomial):
    def log_prob(self, value: ArrayLike) -> jax.Array:
        k, n = jnp.asarray(value), jnp.asarray(self.total_count)
        a, b = jnp.asarray(self.concentration1), jnp.asarray(self.concentration0)
        log_choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        return log_choose + log_beta(k + a, n - k + b) - log_beta(a, b)


class _BetaNegativeBinomial(_BetaNegative):
    def log_prob(self, value: Array) -> jax.Array:
        n = self.n
        a = self.concentration1
        b = self.concentration0
        log_choose = gammaln(n + value) - gammaln(n) - gammaln(value + 1.0)
        return log_choose + log_beta(a + value, b + n) - log_beta(a, b)


_AFFECTED = (dist.GammaPoisson, dist.BetaBinomial, _BetaNegative)


def smooth(distribution: dist.Distribution) -> dist.Distribution:
    """The distribution with a smooth log probability, also inside NumPyro's wrappers; others unchanged.

    Subclasses with a log probability of their own keep it.
    """
    if not isinstance(distribution, (*_AFFECTED, *_WRAPPERS)):
        return distribution
    parts, shape = jax.tree.flatten(distribution, is_leaf=lambda part: isinstance(part, _AFFECTED))
    if not any(isinstance(part, _AFFECTED) for part in parts):
        return distribution
    return jax.tree.unflatten(shape, [_smooth(part) for part in parts])


def _smooth(part: Any) -> object:
    log_prob = getattr(type(part), "log_prob", None)
    # The values of a distribution in use may be traced, so they are not validated again.
    if log_prob is dist.GammaPoisson.log_prob:
        return _GammaPoisson(part.concentration, part.rate, validate_args=False)
    if log_prob is dist.BetaBinomial.log_prob:
        return _BetaBinomial(part.concentration1, part.concentration0, part.total_count, validate_args=False)
    if log_prob is _BetaNegative.log_prob:
        return _BetaNegativeBinomial(part.concentration1, part.concentration0, part.n, validate_args=False)
    return part

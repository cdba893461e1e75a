"""Distributions of shipped programs that NumPyro does not have. They are loaded when a program runs."""

# NumPyro calls these methods with a key and with arrays only, and lets subclasses state their support as an attribute.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions.constraints import Constraint

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError


class BinomialLogit(dist.BinomialLogits):
    """Binomial distribution in log odds, with a log probability that is smooth in the number of successes.

    The log probability stays finite for more successes than trials, because a search may pass through such values. The
    solver's constraints exclude them.
    """

    def log_prob(self, value: jax.Array) -> Array:
        n = jnp.asarray(self.total_count)
        log_choose = gammaln(n + 1.0) - gammaln(value + 1.0) - gammaln(jnp.maximum(n - value, 0) + 1.0)
        eta = jnp.asarray(self.logits)
        return value * eta - n * jax.nn.softplus(eta) + log_choose


class FromLogDensity(dist.Distribution):
    """A distribution given by its log density and, if it is to be simulated, by a sampler.

    Args:
        log_density: log density of all values at once, `(*batch, *event) -> batch`.
        support: constraint of one event.
        draw: `(key) -> (*batch, *event)`; None if there is no sampler.
    """

    def __init__(
        self,
        log_density: Callable[[jax.Array], jax.Array],
        support: Constraint[Any],
        batch_shape: tuple[int, ...],
        event_shape: tuple[int, ...] = (),
        draw: Callable[[jax.Array], jax.Array] | None = None,
    ):
        self._log_density, self._constraint, self._draw = log_density, support, draw
        super().__init__(batch_shape, event_shape, validate_args=False)

    @property
    def support(self) -> Constraint[Any]:
        return self._constraint

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        if self._draw is None:
            raise BayesreconError("this distribution has no sampler, so its records cannot be simulated")
        if math.prod(sample_shape) == 1:
            return jnp.reshape(self._draw(key), (*sample_shape, *self.shape()))
        keys = jax.random.split(key, math.prod(sample_shape))
        return jnp.reshape(jax.vmap(self._draw)(keys), (*sample_shape, *self.shape()))

    def log_prob(self, value: jax.Array) -> jax.Array:
        return self._log_density(value)


class OneBased(dist.CategoricalLogits):
    """Categories counted from one, with log probabilities that are normalised already."""

    def __init__(self, logits: Array):
        super().__init__(logits, validate_args=False)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return super().sample(key, sample_shape) + 1

    def log_prob(self, value: Array) -> jax.Array:
        return jnp.take_along_axis(self.logits, jnp.asarray(value)[..., None] - 1, axis=-1)[..., 0]

    @property
    def support(self) -> Constraint[Any]:
        return dist.constraints.integer_interval(1, jnp.shape(self.logits)[-1])

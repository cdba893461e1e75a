"""Mixtures: a record does not say which component it came from, and no finite sufficient statistic exists."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesrecon.models.adapter import from_numpyro
from bayesrecon.models.registry import Shipped
from bayesrecon.types import Model, Records


class NormalPair(dist.Distribution):
    """`theta Normal(mu[1], sigma[1]) + (1 - theta) Normal(mu[2], sigma[2])`.

    Written out: a general mixture costs ten times as long to trace through second derivatives.
    """

    support: Any = constraints.real

    def __init__(self, theta: Any, mu: Any, sigma: Any):
        self.theta, self.mu, self.sigma = theta, mu, sigma
        super().__init__(validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        which, noise = jax.random.split(key)
        second = (jax.random.uniform(which, sample_shape) > self.theta).astype(int)
        return self.mu[second] + self.sigma[second] * jax.random.normal(noise, sample_shape)

    def log_prob(self, value: Any) -> Any:
        z = (value[..., None] - self.mu) / self.sigma
        logs = -0.5 * z**2 - jnp.log(self.sigma) + jnp.log(jnp.stack([self.theta, 1 - self.theta]))
        return jnp.logaddexp(logs[..., 0], logs[..., 1]) - 0.5 * math.log(2 * math.pi)


class OrderedNormal(dist.Distribution):
    """Independent `Normal(0, scale)` values in increasing order."""

    support: Any = constraints.ordered_vector

    def __init__(self, scale: float, count: int):
        self.scale = scale
        super().__init__(event_shape=(count,), validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        return jnp.sort(self.scale * jax.random.normal(key, (*sample_shape, *self.event_shape)))

    def log_prob(self, value: Any) -> Any:
        return dist.Normal(0, self.scale).log_prob(value).sum(axis=-1) + math.lgamma(self.event_shape[0] + 1)


def low_dim_gauss_mix() -> Model:
    """`y ~ theta Normal(mu[1], sigma[1]) + (1 - theta) Normal(mu[2], sigma[2])` with ordered means."""

    def program(y: Any) -> None:
        mu: Any = numpyro.sample("mu", OrderedNormal(2.0, 2))
        sigma: Any = numpyro.sample("sigma", dist.HalfNormal(2).expand((2,)).to_event(1))
        theta: Any = numpyro.sample("theta", dist.Beta(5, 5))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", NormalPair(theta, mu, sigma), obs=y)

    return from_numpyro(program, {"y": ()}, name="low_dim_gauss_mix")


def _records(data: Mapping[str, Any]) -> Records:
    return {"y": np.asarray(data["y"], float)}


MODELS: tuple[Shipped, ...] = (
    Shipped(
        "low_dim_gauss_mix",
        low_dim_gauss_mix,
        "mixture of two normal laws with ordered means",
        _records,
        ("low_dim_gauss_mix-low_dim_gauss_mix",),
    ),
)

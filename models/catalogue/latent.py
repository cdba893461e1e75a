"""Pieces that models with latent units share: non-centred latents, maps from published draws, and laws."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln

from bayesrecon.errors import BayesreconError

Draws = dict[str, np.ndarray]

ILLEGAL = -200.0
"""Logit of an answer that an item does not offer: below every rounding error, and finite."""


def standard(name: str, *shape: int) -> Any:
    """A latent array of independent standard normal values."""
    return numpyro.sample(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))


def levels(count: int) -> list[int]:
    """The domain of an index field: units are counted from one."""
    return list(range(1, count + 1))


def observe(response: str, law: Any, values: Any, count: int) -> None:
    """Observe the response of `count` records; the law has one value (or event) per record."""
    with numpyro.plate("records", count):
        numpyro.sample(response, law, obs=values)


@dataclass(frozen=True)
class Rebuilt:
    """A non-centred latent that is rebuilt from the centred one in published draws.

    `formula` takes the draws of `published` and of the parameters that `needs` names; scalars among the
    latter come with trailing axes to broadcast.
    """

    name: str
    published: str
    needs: tuple[str, ...]
    formula: Callable[..., Any]


def standardised(name: str, published: str, location: str | None, scale: str) -> Rebuilt:
    """`name = (published - location) / scale`."""
    if location is None:
        return Rebuilt(name, published, (scale,), lambda x, s: x / s)
    return Rebuilt(name, published, (location, scale), lambda x, m, s: (x - m) / s)


def rebuild(*rules: Rebuilt) -> Callable[[Draws], Draws]:
    """`Model.prepare` for draws that may be centred; draws that already hold the latents pass unchanged."""

    def prepare(draws: Draws) -> Draws:
        result = dict(draws)
        for rule in rules:
            if rule.name in draws or rule.published not in draws:
                continue
            missing = [k for k in rule.needs if k not in draws]
            if missing:
                raise BayesreconError(f"draws of {rule.published} need {' and '.join(missing)} to rebuild {rule.name}")
            values = np.asarray(draws[rule.published], float)
            others = [np.asarray(draws[k], float) for k in rule.needs]
            spread = [x.reshape(*x.shape, *(1,) * (values.ndim - 2)) if x.ndim == 2 else x for x in others]
            result[rule.name] = rule.formula(values, *spread)
            result.pop(rule.published, None)
        return result

    return prepare


class BinomialLogit(dist.BinomialLogits):
    """Binomial law in log odds, with a log probability that is smooth in the number of successes.

    More successes than trials are left to the solver's constraints: the score `k - n p` stays finite there,
    whereas an infinite log probability would bar every search that passes through.
    """

    def log_prob(self, value: Any) -> Any:
        n: Any = self.total_count
        ways = gammaln(n + 1.0) - gammaln(value + 1.0) - gammaln(jnp.maximum(n - value, 0) + 1.0)
        eta: Any = self.logits
        return value * eta - n * jax.nn.softplus(eta) + ways


class DensityLaw(dist.Distribution):
    """A law given by its log density, and by how to draw from it where that is known.

    Args:
        log_density: of all values at once, `(*batch, *event) -> batch`.
        support: constraint of one event.
        draw: `(key) -> (*batch, *event)`.
    """

    def __init__(
        self,
        log_density: Callable[[Any], Any],
        support: Any,
        batch_shape: tuple[int, ...],
        event_shape: tuple[int, ...] = (),
        draw: Callable[[Any], Any] | None = None,
    ):
        self._log_density, self._support, self._draw = log_density, support, draw
        super().__init__(batch_shape, event_shape, validate_args=False)

    @property
    def support(self) -> Any:
        return self._support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        if self._draw is None:
            raise BayesreconError("this law has no sampler: its records cannot be simulated")
        if math.prod(sample_shape) == 1:
            return jnp.reshape(self._draw(key), (*sample_shape, *self.shape()))
        keys = jax.random.split(key, math.prod(sample_shape))
        return jnp.reshape(jax.vmap(self._draw)(keys), (*sample_shape, *self.shape()))

    def log_prob(self, value: Any) -> Any:
        return self._log_density(value)


def index(data: Mapping[str, Any], name: str) -> np.ndarray:
    """A whole-number column of posteriordb's data."""
    return np.asarray(data[name], np.int64)


def floats(values: Any) -> Any:
    """An array as nested tuples of numbers: settings of a model are compared and kept as JSON."""
    array = np.asarray(values, float)
    return tuple(map(floats, array)) if array.ndim > 1 else tuple(map(float, array))

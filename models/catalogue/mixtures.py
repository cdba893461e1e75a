"""Mixtures: a record does not say which component it came from, and no finite sufficient statistic exists."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayesrecon.model import Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import DensityLaw, floats, levels, observe
from bayesrecon.models.entry import Shipped


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


def _two_components(name: str, ordered: bool) -> Model:
    """`y ~ theta Normal(mu[1], sigma[1]) + (1 - theta) Normal(mu[2], sigma[2])`."""

    def program(y: Any) -> None:
        law = OrderedNormal(2.0, 2) if ordered else dist.Normal(0, 2).expand((2,)).to_event(1)
        mu: Any = numpyro.sample("mu", law)
        sigma: Any = numpyro.sample("sigma", dist.HalfNormal(2).expand((2,)).to_event(1))
        theta: Any = numpyro.sample("theta", dist.Beta(5, 5))
        observe("y", NormalPair(theta, mu, sigma), y, y.shape[0])

    return adapt(program, {"y": ()}, name=name)


def low_dim_gauss_mix() -> Model:
    """Two normal components with ordered means."""
    return _two_components("low_dim_gauss_mix", ordered=True)


def low_dim_gauss_mix_collapse() -> Model:
    """Two normal components whose labels may switch."""
    return _two_components("low_dim_gauss_mix_collapse", ordered=False)


def normal_mixture() -> Model:
    """Two components of unit scale: `theta ~ Uniform(0, 1)`, `mu ~ Normal(0, 10)`."""

    def program(y: Any) -> None:
        theta: Any = numpyro.sample("theta", dist.Uniform(0, 1))
        mu: Any = numpyro.sample("mu", dist.Normal(0, 10).expand((2,)).to_event(1))
        observe("y", NormalPair(theta, mu, jnp.ones(2)), y, y.shape[0])

    return adapt(program, {"y": ()}, name="normal_mixture")


def _normals(log_weights: Any, mean: Any, sigma: Any, count: int) -> DensityLaw:
    """Law of `count` values, each of one of K normal laws; weights and means for all, `(K,)`, or each, `(count, K)`."""

    def log_density(values: Any) -> Any:
        z = (values[..., None] - mean) / sigma
        return jax.scipy.special.logsumexp(log_weights - 0.5 * z**2 - jnp.log(sigma), axis=-1) - _HALF_LOG_2PI

    def draw(key: Any) -> Any:
        which, noise = jax.random.split(key)
        k = jax.random.categorical(which, log_weights, shape=(count,))
        at = jnp.broadcast_to(mean, (count, len(sigma)))[jnp.arange(count), k]
        return at + sigma[k] * jax.random.normal(noise, (count,))

    return DensityLaw(log_density, constraints.real, (count,), draw=draw)


def normal_mixture_k(components: int = 5) -> Model:
    """`components` normal components; flat weights, `mu ~ Normal(0, 10)`, `sigma ~ Uniform(0, 10)`."""

    def program(y: Any) -> None:
        theta: Any = numpyro.sample("theta", dist.Dirichlet(jnp.ones(components)))
        mu: Any = numpyro.sample("mu", dist.Normal(0, 10).expand((components,)).to_event(1))
        sigma: Any = numpyro.sample("sigma", dist.Uniform(0, 10).expand((components,)).to_event(1))

        observe("y", _normals(jnp.log(theta), mu, sigma, y.shape[0]), y, y.shape[0])

    return adapt(program, {"y": ()}, name="normal_mixture_k", settings={"components": components})


def iohmm_reg(u: Sequence[Sequence[float]] = ((1.0, 0.0), (1.0, 1.0), (1.0, 2.0)), states: int = 2) -> Model:
    """Regressions on public inputs `u (T, M)`, one per hidden state, whose chain follows the inputs.

    In posteriordb's program a state's weight after step t depends on the inputs of step t + 1 alone, not on the state
    that follows: the forward sum is a product over steps. `y_t ~ sum_k v_k Normal(u_t b_k, sigma_k)` with weights
    `v = softmax(w u_(t+1))`, times `pi1` at the first step and one at the last.
    """
    inputs = np.asarray(u, float)
    steps, width = inputs.shape

    def program(step: Any, y: Any = None) -> None:
        first: Any = numpyro.sample("pi1", dist.Dirichlet(jnp.ones(states)))
        slopes = dist.Normal(0, 5).expand((states, width)).to_event(2)
        w: Any = numpyro.sample("w", slopes)
        b: Any = numpyro.sample("b", slopes)
        sigma: Any = numpyro.sample("sigma", dist.HalfNormal(3).expand((states,)).to_event(1))
        after = jax.nn.log_softmax(jnp.asarray(inputs[1:]) @ w.T, axis=1)
        weights = jnp.concatenate([after, jnp.zeros((1, states))]).at[0].add(jnp.log(first))[step - 1]
        mean = (jnp.asarray(inputs) @ b.T)[step - 1]

        observe("y", _normals(weights, mean, sigma, step.shape[0]), y, step.shape[0])

    return adapt(
        program,
        {"step": (), "y": ()},
        domain={"step": levels(steps)},
        name="iohmm_reg",
        settings={"u": floats(inputs), "states": states},
    )


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _records(data: Mapping[str, Any]) -> Records:
    return {"y": np.asarray(data["y"], float)}


MODELS: tuple[Shipped, ...] = (
    *(
        Shipped(build.__name__, build, summary, _records, (f"{data}-{build.__name__}",), constants, response="y")
        for data, build, summary, constants in (
            ("low_dim_gauss_mix", low_dim_gauss_mix, "mixture of two normal laws with ordered means", None),
            ("low_dim_gauss_mix_collapse", low_dim_gauss_mix_collapse, "mixture of two normal laws, labels free", None),
            ("normal_2", normal_mixture, "mixture of two normal laws of unit scale, labels free", None),
            (
                "normal_5",
                normal_mixture_k,
                "mixture of normal laws, labels free",
                lambda data: {"components": int(data["K"])},
            ),
        )
    ),
    Shipped(
        "iohmm_reg",
        iohmm_reg,
        "regressions on public inputs, mixed by hidden states that follow them",
        lambda data: {"step": np.arange(1, int(data["T"]) + 1), **_records(data)},
        ("iohmm_reg_simulated-iohmm_reg",),
        constants=lambda data: {"u": floats(data["u"]), "states": int(data["K"])},
        design=("step",),
        response="y",
    ),
)

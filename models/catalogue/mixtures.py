"""A mixture of regressions: a record does not say which component it came from."""

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, Table, floats, latent, levels, observe
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, extra
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from bayesrecon.models.catalogue._extra_distributions import FromLogDensity


def _normals(log_weights: Array, mean: Array, sigma: Array, count: int) -> "FromLogDensity":
    """Distribution of `count` values, each of one of K normal distributions; weights and means for all, `(K,)`, or
    each, `(count, K)`."""

    def log_density(values: jax.Array) -> jax.Array:
        z = (values[..., None] - mean) / sigma
        return jax.scipy.special.logsumexp(log_weights - 0.5 * z**2 - jnp.log(sigma), axis=-1) - _HALF_LOG_2PI

    def draw(key: jax.Array) -> jax.Array:
        component_key, noise_key = jax.random.split(key)
        k = jax.random.categorical(component_key, log_weights, shape=(count,))
        means = jnp.broadcast_to(mean, (count, len(sigma)))[jnp.arange(count), k]
        return means + sigma[k] * jax.random.normal(noise_key, (count,))

    return extra.FromLogDensity(log_density, constraints.real, (count,), draw=draw)


def iohmm_reg(
    step: Array,
    y: Array | None = None,
    *,
    u: Table = ((1.0, 0.0), (1.0, 1.0), (1.0, 2.0)),
    states: int = 2,
) -> None:
    """Regressions on public inputs `u (T, M)`, one per hidden state, whose chain follows the inputs.

    In posteriordb's program a state's weight after step t depends on the inputs of step t + 1 alone, not on the state
    that follows: the forward sum is a product over steps. `y_t ~ sum_k v_k Normal(u_t b_k, sigma_k)` with weights
    `v = softmax(w u_(t+1))`, times `pi1` at the first step and one at the last.
    """
    inputs = np.asarray(u, float)
    width = inputs.shape[1]
    first = latent("pi1", dist.Dirichlet(jnp.ones(states)))
    slopes = dist.Normal(0, 5).expand((states, width)).to_event(2)
    w = latent("w", slopes)
    b = latent("b", slopes)
    sigma = latent("sigma", dist.HalfNormal(3).expand((states,)).to_event(1))
    log_weights_later = jax.nn.log_softmax(jnp.asarray(inputs[1:]) @ w.T, axis=1)
    weights = jnp.concatenate([log_weights_later, jnp.zeros((1, states))]).at[0].add(jnp.log(first))[step - 1]
    mean = (jnp.asarray(inputs) @ b.T)[step - 1]

    observe("y", _normals(weights, mean, sigma, step.shape[0]), y, step.shape[0])


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _records(data: Data) -> Records:
    return {"y": np.asarray(data["y"], float)}


MODELS: tuple[Shipped, ...] = (
    from_program(
        iohmm_reg,
        "regressions on public inputs, mixed by hidden states that follow them",
        domain=lambda u: {"step": levels(len(u))},
        records=lambda data: {"step": np.arange(1, int(data["T"]) + 1), **_records(data)},
        posteriors=("iohmm_reg_simulated-iohmm_reg",),
        constants=lambda data: {"u": floats(data["u"]), "states": int(data["K"])},
        design=("step",),
    ),
)

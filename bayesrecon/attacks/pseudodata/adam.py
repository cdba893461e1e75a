"""The published descent: Adam on the sliced or exact divergence, with free weights and records.

The sliced objective, for directions `v = Sigma^(1/2) epsilon` with `E[epsilon epsilon'] = 1`, is

    J(w, Z) = sum_t a_t [ tau mean_l v_l' Hess log p v_l + 1/2 |Sigma^(1/2)' grad log p|^2 ]

with `log p = sum_m w_m l(., z_m) + log pi0`. The second term is the variance-reduced one, which needs no slices. With
`reduced=False` it is sliced as well: `1/2 mean_l <v_l, grad log p>^2`. The expectation over slices is the Fisher
divergence (Wynne 2025, section 3; Song et al. 2020).
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.pseudodata.support import Chart, Sweep, Variables, sweep_slopes
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.divergence.score import along, prior_score, taylor
from bayesrecon.model import Model, Records
from bayesrecon.regularisers import Regulariser

_BLOCK = 1000  # atoms evaluated at once
_FEW = 16  # for records with more entries, a reverse sweep over all atoms is faster than forward sweeps

Slices = Literal["normal", "rademacher"]


@dataclass(frozen=True)
class Slicing:
    """How the divergence is sliced.

    Attributes:
        count: L, directions per atom; 0 if the divergence is not sliced.
        distribution: "normal" or "rademacher".
        fresh: whether each step draws new directions.
        reduced: whether the second term is the variance-reduced one.
    """

    count: int = 10
    distribution: Slices = "normal"
    fresh: bool = True
    reduced: bool = True


def directions(key: Array, slicing: Slicing, atoms: int, dimension: int) -> jax.Array:
    """Random directions `epsilon (T, L, k)`."""
    draw = jax.random.normal if slicing.distribution == "normal" else jax.random.rademacher
    return draw(key, (atoms, slicing.count, dimension)).astype(float)


def divergence_slopes(
    chart: Chart,
    model: Model,
    temperature: float,
    atoms: tuple[Array, Array, Array],
    slicing: Slicing,
    epsilon: Array | None,
    start_weights: Array,
    fixed: Records,
    whiten: tuple[Records, Records],
    x: Variables,
) -> Variables:
    """Gradient of the (sliced) divergence in the chart's variables.

    Let `S_t` be the score of the pseudo-posterior and `q(z) = sum_t a_t [<phi_z(t), S_t> + tau curvature_z(t)]`. The
    derivatives are `q(z_m)` in the weights and `w_m grad q(z_m)` in the records. This needs no reverse sweep through
    all atoms.
    """
    metric, theta, weights = atoms

    def records(y: Variables) -> Records:
        return chart.records_at(y, fixed, *whiten)

    def score(t: Array, z: Records) -> Array:
        return jax.grad(lambda s: model.log_lik(s, z))(t)

    w, z = chart.weights_at(x, start_weights), records(x)
    gradients = jax.vmap(jax.vmap(score, in_axes=(None, 0)), in_axes=(0, None))(theta, z)  # (T, M, d)
    total = jnp.einsum("tmd,m->td", gradients, w) @ metric + prior_score(model, metric, theta, temperature)
    if slicing.count and epsilon is not None:
        if not slicing.reduced:
            total = jnp.einsum("tlk,tl->tk", epsilon, jnp.einsum("tlk,tk->tl", epsilon, total)) / slicing.count
        frames = metric @ _frames(epsilon)
    else:
        frames = jnp.broadcast_to(metric, (len(theta), *metric.shape))
    pulled_back = total @ metric.T

    def influence(record: Records) -> Array:
        def at(t: Array, frame: Array, direction: Array) -> Array:
            curvature = jax.vmap(lambda v: along(lambda s: model.log_lik(s, record), t, v)[2], in_axes=1)(frame)
            return score(t, record) @ direction + temperature * curvature.sum()

        return weights @ jax.vmap(at)(theta, frames, pulled_back)

    # Forward sweeps, unless a record has many entries, as an image has.
    size = sum(int(np.prod(x[name].shape[1:])) for name, _ in chart.moved)
    moving = {name: z[name] for name, _ in chart.moved}
    derivative = jax.jacfwd if size <= _FEW else jax.grad

    def valued(free: Records, held: Records) -> tuple[Array, Array]:
        value = influence({**held, **free})
        return value, value

    by_record, in_weights = jax.vmap(derivative(valued, has_aux=True))(moving, fixed)
    slopes = {name: by_record[name] * w.reshape(-1, *([1] * (z[name].ndim - 1))) for name in moving}
    _, pull = jax.vjp(lambda y: (chart.weights_at(y, start_weights), {n: records(y)[n] for n in moving}), x)
    return pull((in_weights, slopes))[0]


def _frames(epsilon: Array) -> Array:
    """`(T, k, q)` with `q = min(L, k)` columns whose outer products sum to `mean_l eps_l eps_l'`."""
    count, dimension = epsilon.shape[1:]
    if count <= dimension:
        return jnp.swapaxes(epsilon, 1, 2) / jnp.sqrt(count)
    second = jnp.einsum("tlk,tlj->tkj", epsilon, epsilon) / count
    # Random signs can be linearly dependent by chance. A shift far below rounding keeps the factor real.
    shift = 1e-13 * jnp.trace(second, axis1=1, axis2=2)[:, None, None] * jnp.eye(dimension)
    return jnp.linalg.cholesky(second + shift)


@partial(jax.jit, static_argnames=("chart", "model", "temperature", "slicing", "rate", "steps", "regulariser"))
def adam_steps(
    chart: Chart,
    model: Model,
    temperature: float,
    slicing: Slicing,
    rate: float,
    steps: int,
    atoms: tuple[Array, Array, Array] | Sweep,
    start_weights: Array,
    fixed: Records,
    whiten: tuple[Records, Records],
    key: Array,
    first: int | Array,
    state: tuple[Variables, optax.OptState],
    regulariser: Regulariser | None = None,
) -> tuple[Variables, optax.OptState]:
    """Steps of Adam from `state = (variables, optimiser state)`.

    Args:
        atoms: metric, atoms and their weights. For a kernel of finite rank a `Sweep` gives the same steps faster.
        first: number of the first step.
    """
    if isinstance(atoms, Sweep):
        shape = atoms.prior.shape
    else:
        shape = len(atoms[1]), atoms[0].shape[1]
    optimiser = optax.adam(rate)

    def penalty(x: Variables) -> Array | float:
        return (
            regulariser(chart.weights_at(x, start_weights), chart.records_at(x, fixed, *whiten)) if regulariser else 0.0
        )

    def step(carry: tuple[Variables, optax.OptState], number: Array) -> tuple[tuple[Variables, optax.OptState], None]:
        x, inner = carry
        epsilon = None
        if slicing.count:
            drawn = jax.random.fold_in(key, number) if slicing.fresh else key
            epsilon = directions(drawn, slicing, *shape)
        if isinstance(atoms, Sweep):
            slopes = sweep_slopes(
                chart, model, temperature, atoms, slicing.reduced, epsilon, start_weights, fixed, whiten, x
            )
        else:
            slopes = divergence_slopes(
                chart, model, temperature, atoms, slicing, epsilon, start_weights, fixed, whiten, x
            )
        if regulariser is not None:
            slopes = jax.tree_util.tree_map(jnp.add, slopes, jax.grad(penalty)(x))
        updates, inner = optimiser.update(slopes, inner, x)
        return (optax.apply_updates(x, updates), inner), None  # type: ignore[return-value]

    return jax.lax.scan(step, state, first + jnp.arange(steps))[0]


def adam_start(rate: float, x: Variables) -> optax.OptState:
    """The optimiser's state before the first step."""
    return optax.adam(rate).init(x)  # type: ignore[arg-type]


@partial(jax.jit, static_argnames="model")
def _curvature_difference(
    model: Model, metric: Array, theta: Array, atoms: Array, epsilon: Array, records: Records, coefficients: Array
) -> Array:
    exact = taylor(model, metric, theta, records)[2] @ coefficients

    def at_atom(t: Array, e: Array) -> Array:
        return taylor(model, metric @ e.T, t[None], records)[2][0] / e.shape[0]

    sliced = jax.vmap(at_atom)(theta, epsilon) @ coefficients
    return atoms @ (exact - sliced)


def sliced_target(
    embedding: OneRelease, basis: Basis, target: np.ndarray, slicing: Slicing, key: Array
) -> Float[np.ndarray, " r"]:
    """The target `(r,)` of a basis, with averages over fixed slices instead of traces."""
    theta, weights = np.asarray(embedding.release.theta), embedding.weights
    epsilon = np.asarray(directions(key, slicing, len(theta), embedding.metric.shape[1]))
    total = np.array(target)
    for start in range(0, len(theta), _BLOCK):
        rows = slice(start, start + _BLOCK)
        total += embedding.temperature * np.asarray(
            _curvature_difference(
                embedding.release.model,
                embedding.metric,
                theta[rows],
                weights[rows],
                epsilon[rows],
                basis.records,
                basis.coefficients,
            )
        )
    return total

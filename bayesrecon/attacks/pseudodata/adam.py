"""The published descent: Adam on the sliced or exact divergence, weights and records free.

The sliced objective of directions `v = Sigma^(1/2) epsilon`, `E[epsilon epsilon'] = 1`:

    J(w, Z) = sum_t a_t [ tau mean_l v_l' Hess log p v_l + 1/2 |Sigma^(1/2)' grad log p|^2 ]

with `log p = sum_m w_m l(., z_m) + log pi0`. Its second term is the variance-reduced one, which needs no slices;
`reduced=False` slices it as well, `1/2 mean_l <v_l, grad log p>^2`. Over fresh slices it is the Fisher divergence in
expectation (Wynne 2025, section 3; Song et al. 2020).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from bayesrecon.attacks.pseudodata.support import Chart, Variables
from bayesrecon.attacks.pseudodata.sweep import Sweep, sweep_slopes
from bayesrecon.kernels.embedding import Basis
from bayesrecon.kernels.one_release import OneRelease
from bayesrecon.kernels.score import along, prior_score, taylor
from bayesrecon.model import Model, Records
from bayesrecon.regularisers import Regulariser

_BLOCK = 1000  # atoms evaluated at once
_FEW = 16  # numbers of a record up to which forward sweeps cost less than a reverse one over all atoms

Slices = Literal["normal", "rademacher"]


@dataclass(frozen=True)
class Slicing:
    """How the divergence is sliced; `count` 0 means not at all.

    Attributes:
        count: L, directions per atom.
        law: "normal" or "rademacher".
        fresh: new directions at every step, or the same ones throughout.
        reduced: the variance-reduced second term.
    """

    count: int = 10
    law: Slices = "normal"
    fresh: bool = True
    reduced: bool = True


def directions(key: Any, slicing: Slicing, atoms: int, dimension: int) -> Any:
    """`epsilon (T, L, k)`."""
    draw = jax.random.normal if slicing.law == "normal" else jax.random.rademacher
    return draw(key, (atoms, slicing.count, dimension)).astype(float)


def sliced_divergence(
    model: Model,
    temperature: float,
    reduced: bool,
    metric: Any,
    theta: Any,
    atoms: Any,
    epsilon: Any,
    weights: Any,
    records: Records,
) -> Any:
    """J(w, Z) of one set of directions, a scalar; the constant of the prior is included.

    Args:
        theta, atoms: `(T, d)` and their weights `(T,)`.
        epsilon: `(T, L, k)`.
    """

    def log_p(t: Any) -> Any:
        fitted = weights @ jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)
        return fitted + model.log_prior(t) + temperature * model.log_det(t)

    def one(t: Any, e: Any) -> Any:
        curvature = jax.vmap(lambda v: along(log_p, t, v)[2])(e @ metric.T)
        score = metric.T @ jax.grad(log_p)(t)
        square = score @ score if reduced else jnp.mean((e @ score) ** 2)
        return temperature * curvature.mean() + 0.5 * square

    return atoms @ jax.vmap(one)(theta, epsilon)


def divergence_slopes(
    chart: Chart,
    model: Model,
    temperature: float,
    atoms: tuple[Any, Any, Any],
    slicing: Slicing,
    epsilon: Any,
    given: Any,
    fixed: Records,
    whiten: tuple[Records, Records],
    x: Variables,
) -> Variables:
    """Gradient of the (sliced) divergence in the chart's variables.

    With `S_t` the score of the pseudo-posterior and `q(z) = sum_t a_t [<phi_z(t), S_t> + tau curvature_z(t)]`, the
    slopes are `q(z_m)` in the weights and `w_m grad q(z_m)` in the records: no reverse sweep through all atoms.
    """
    metric, theta, weights = atoms

    def records(y: Variables) -> Records:
        return chart.records_at(y, fixed, *whiten)

    def score(t: Any, z: Records) -> Any:
        return jax.grad(lambda s: model.log_lik(s, z))(t)

    w, z = chart.weights_at(x, given), records(x)
    gradients = jax.vmap(jax.vmap(score, in_axes=(None, 0)), in_axes=(0, None))(theta, z)  # (T, M, d)
    total = jnp.einsum("tmd,m->td", gradients, w) @ metric + prior_score(model, metric, theta, temperature)
    if slicing.count:
        if not slicing.reduced:
            total = jnp.einsum("tlk,tl->tk", epsilon, jnp.einsum("tlk,tk->tl", epsilon, total)) / slicing.count
        frames = metric @ _frames(epsilon)
    else:
        frames = jnp.broadcast_to(metric, (len(theta), *metric.shape))
    pulled = total @ metric.T

    def influence(record: Records) -> Any:
        def at(t: Any, frame: Any, direction: Any) -> Any:
            curvature = jax.vmap(lambda v: along(lambda s: model.log_lik(s, record), t, v)[2], in_axes=1)(frame)
            return score(t, record) @ direction + temperature * curvature.sum()

        return weights @ jax.vmap(at)(theta, frames, pulled)

    # A record has few numbers, the atoms are many: forward sweeps, unless it is an image.
    size = sum(int(np.prod(x[name].shape[1:])) for name, _ in chart.moved)
    moving = {name: z[name] for name, _ in chart.moved}
    derivative = jax.jacfwd if size <= _FEW else jax.grad

    def valued(m: Records, f: Records) -> tuple[Any, Any]:
        value = influence({**f, **m})
        return value, value

    by_record, in_weights = jax.vmap(derivative(valued, has_aux=True))(moving, fixed)
    slopes = {name: by_record[name] * w.reshape(-1, *([1] * (z[name].ndim - 1))) for name in moving}
    _, pull = jax.vjp(lambda y: (chart.weights_at(y, given), {n: records(y)[n] for n in moving}), x)
    return pull((in_weights, slopes))[0]


def _frames(epsilon: Any) -> Any:
    """`(T, k, q)` with `q = min(L, k)` columns whose outer products sum to `mean_l eps_l eps_l'`."""
    count, dimension = epsilon.shape[1:]
    if count <= dimension:
        return jnp.swapaxes(epsilon, 1, 2) / jnp.sqrt(count)
    second = jnp.einsum("tlk,tlj->tkj", epsilon, epsilon) / count
    # Slices can be dependent by chance (signs are): a shift far below rounding of the average keeps the factor real.
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
    atoms: tuple[Any, Any, Any] | Sweep,
    given: Any,
    fixed: Records,
    whiten: tuple[Records, Records],
    key: Any,
    first: Any,
    state: tuple[Variables, Any],
    regulariser: Regulariser | None = None,
) -> tuple[Variables, Any]:
    """`steps` steps of Adam from `state = (variables, optimiser state)`; `first` is the number of the first one.

    Args:
        atoms: metric, atoms and their weights, or what a kernel of finite rank needs of them: the same steps, sooner.
    """
    if isinstance(atoms, Sweep):
        shape = atoms.prior.shape
    else:
        shape = len(atoms[1]), atoms[0].shape[1]
    optimiser = optax.adam(rate)

    def penalty(x: Variables) -> Any:
        return regulariser(chart.weights_at(x, given), chart.records_at(x, fixed, *whiten)) if regulariser else 0.0

    def step(carry: tuple[Variables, Any], number: Any) -> tuple[tuple[Variables, Any], None]:
        x, inner = carry
        epsilon = None
        if slicing.count:
            drawn = jax.random.fold_in(key, number) if slicing.fresh else key
            epsilon = directions(drawn, slicing, *shape)
        if isinstance(atoms, Sweep):
            slopes = sweep_slopes(chart, model, temperature, atoms, slicing.reduced, epsilon, given, fixed, whiten, x)
        else:
            slopes = divergence_slopes(chart, model, temperature, atoms, slicing, epsilon, given, fixed, whiten, x)
        if regulariser is not None:
            slopes = jax.tree_util.tree_map(jnp.add, slopes, jax.grad(penalty)(x))
        updates, inner = optimiser.update(slopes, inner, x)
        return (optax.apply_updates(x, updates), inner), None  # type: ignore[return-value]

    return jax.lax.scan(step, state, first + jnp.arange(steps))[0]


def adam_start(rate: float, x: Variables) -> Any:
    """The optimiser's state before the first step."""
    return optax.adam(rate).init(x)  # type: ignore[arg-type]


@partial(jax.jit, static_argnames="model")
def _curvature_difference(
    model: Model, metric: Any, theta: Any, atoms: Any, epsilon: Any, records: Records, coefficients: Any
) -> Any:
    exact = taylor(model, metric, theta, records)[2] @ coefficients

    def one(t: Any, e: Any) -> Any:
        return taylor(model, metric @ e.T, t[None], records)[2][0] / e.shape[0]

    sliced = jax.vmap(one)(theta, epsilon) @ coefficients
    return atoms @ (exact - sliced)


def sliced_target(
    embedding: OneRelease, basis: Basis, target: np.ndarray, slicing: Slicing, key: Any
) -> Float[np.ndarray, " r"]:
    """The target `(r,)` of a basis when traces are replaced by averages over fixed slices."""
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

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

from bayesrecon.embedding import Basis, Embedding
from bayesrecon.score import prior_score, taylor
from bayesrecon.support import Chart, Variables
from bayesrecon.types import Model, Records

_BLOCK = 1000

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
        slope = jax.grad(log_p)

        def along(v: Any) -> tuple[Any, Any]:
            gradient, turned = jax.jvp(slope, (t,), (v,))
            return gradient, turned @ v

        gradients, curvature = jax.vmap(along)(e @ metric.T)
        score = metric.T @ gradients[0]
        square = score @ score if reduced else jnp.mean((e @ score) ** 2)
        return temperature * curvature.mean() + 0.5 * square

    return atoms @ jax.vmap(one)(theta, epsilon)


def divergence(
    model: Model, temperature: float, metric: Any, theta: Any, atoms: Any, weights: Any, records: Records
) -> Any:
    """`sum_t a_t [tau tr(Sigma Hess sum_m w_m l_m) + 1/2 |sum_m w_m phi_m + prior score|^2]`, a scalar."""
    _, phi, lap = taylor(model, metric, theta, records)
    score = phi @ weights + prior_score(model, metric, theta, temperature)
    return atoms @ (temperature * (lap @ weights) + 0.5 * (score**2).sum(axis=1))


@partial(jax.jit, static_argnames=("chart", "model", "temperature", "slicing", "rate", "steps"))
def adam_steps(
    chart: Chart,
    model: Model,
    temperature: float,
    slicing: Slicing,
    rate: float,
    steps: int,
    atoms: tuple[Any, Any, Any],
    given: Any,
    fixed: Records,
    whiten: tuple[Records, Records],
    key: Any,
    first: Any,
    state: tuple[Variables, Any],
) -> tuple[Variables, Any]:
    """`steps` steps of Adam from `state = (variables, optimiser state)`; `first` is the number of the first one."""
    metric, theta, weights = atoms

    def loss(x: Variables, number: Any) -> Any:
        pseudo = chart.weights_at(x, given), chart.records_at(x, fixed, *whiten)
        if not slicing.count:
            return divergence(model, temperature, metric, theta, weights, *pseudo)
        key_ = jax.random.fold_in(key, number) if slicing.fresh else key
        epsilon = directions(key_, slicing, theta.shape[0], metric.shape[1])
        return sliced_divergence(model, temperature, slicing.reduced, metric, theta, weights, epsilon, *pseudo)

    optimiser = optax.adam(rate)

    def step(carry: tuple[Variables, Any], number: Any) -> tuple[tuple[Variables, Any], None]:
        x, inner = carry
        updates, inner = optimiser.update(jax.grad(loss)(x, number), inner, x)
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


def sliced_target(embedding: Embedding, basis: Basis, target: np.ndarray, slicing: Slicing, key: Any) -> np.ndarray:
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

"""Second-order descent on weights and records together.

The divergence is a sum of r squares of many variables: `1/2 |R (s - y)|^2` with `s = sum_m w_m c(z_m)`. A trust-region
Gauss-Newton method (SciPy) needs tens of steps, each with a decomposition of an `(r, variables)` matrix. If only the
weights are free, this is a non-negative least-squares problem.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.pseudodata.support import Chart, Features, Support, Variables, amplitudes
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.regularisers import Regulariser

Watch = Callable[[Variables, float], bool]
"""Called with the variables and `1/2 |u|^2` at every trial step. The descent ends if it returns True."""


_Release = tuple[Array, Array, Array, Array, Array]
"""Metric, a few atoms, the pseudo-inverse of the basis' scores there, R, and `R y`, as in `Features`."""

_HEAVY = 1e4  # weight of the equation for the total
_SAME = 1e-3  # records closer than this, in units of their scale, are merged


class _StopDescent(Exception):
    pass


@partial(jax.jit, static_argnames=("chart", "model"))
def _residual(
    chart: Chart,
    model: Model,
    release: _Release,
    start_weights: Array,
    fixed: Records,
    whiten: tuple[Records, Records],
    x: Variables,
) -> Array:
    metric, theta, inverse, root, matched = release
    records = chart.records_at(x, fixed, *whiten)
    c = amplitudes(model, metric, theta, inverse, records)
    return root @ (c.T @ chart.weights_at(x, start_weights)) - matched


@partial(jax.jit, static_argnames=("chart", "model"))
def _jacobian(
    chart: Chart,
    model: Model,
    release: _Release,
    start_weights: Array,
    fixed: Records,
    whiten: tuple[Records, Records],
    x: Variables,
) -> Variables:
    metric, theta, inverse, root, _ = release
    names = [name for name, _ in chart.moved]

    def of_record(free: Records, held: Records) -> Array:
        record = chart.records_at(free, held, *whiten)
        batch = {k: jnp.asarray(v)[None] for k, v in record.items()}
        return amplitudes(model, metric, theta, inverse, batch)[0]

    moving = {name: x[name] for name in names}
    c = jax.vmap(of_record)(moving, fixed) @ root.T  # (M, r)
    result = {}
    if names:
        weights = chart.weights_at(x, start_weights)
        slopes = jax.vmap(jax.jacfwd(of_record))(moving, fixed)  # {field: (M, r, *shape)}
        for name, slope in slopes.items():
            flat = jnp.einsum("rs,msp->mrp", root, slope.reshape(*slope.shape[:2], -1)) * weights[:, None, None]
            result[name] = jnp.moveaxis(flat, 1, 0).reshape(len(root), -1)
    other_variables = {k: v for k, v in x.items() if k not in names}
    if other_variables:
        slopes = jax.jacrev(lambda q: c.T @ chart.weights_at(q, start_weights))(other_variables)
        result |= {name: slope.reshape(len(root), -1) for name, slope in slopes.items()}
    return result


def newton(features: Features, support: Support, watch: Watch, *, steps: int = 300) -> str:
    """Descend from the support's start until `watch` returns True. Returns why the descent ended."""
    embedding = features.embedding
    release = (embedding.metric, *features.atoms, features.root, features.matched)
    static = (support.chart, embedding.release.model, release, np.asarray(support.start.weights), support.fixed)
    whiten = (support.centre, support.scale)
    x = {k: jnp.asarray(v, float) for k, v in support.pack().items()}
    if not x:
        return "converged"
    start, unravel = ravel_pytree(x)
    sizes = np.asarray(ravel_pytree(support.steps())[0])
    names = sorted(x)

    def residual(v: np.ndarray) -> np.ndarray:
        u = np.asarray(_residual(*static, whiten, unravel(jnp.asarray(v))))
        u = np.nan_to_num(u, nan=1e100, posinf=1e100, neginf=-1e100)
        if watch(unravel(jnp.asarray(v)), 0.5 * float(u @ u)):
            raise _StopDescent
        return u

    def jacobian(v: np.ndarray) -> np.ndarray:
        blocks = _jacobian(*static, whiten, unravel(jnp.asarray(v)))
        return np.concatenate([np.asarray(blocks[name]) for name in names], axis=1)

    tight = 3e-16
    jac: Any = jacobian  # SciPy declares names of methods only
    try:
        solution = scipy.optimize.least_squares(
            residual, np.asarray(start), jac, x_scale=sizes, xtol=tight, ftol=1e-12, gtol=tight, max_nfev=steps
        )
    except _StopDescent:
        return "converged"
    return "no further progress" if solution.status > 0 else "all steps taken"


def nonnegative(features: Features, records: Records, total: float | None = None) -> Float[np.ndarray, " M"]:
    """The best weights `w >= 0` of given records, `(M,)`, with sum `total` if it is fixed.

    Where no feature is visible, all weights are as good: they are equal, and zero without a total.

    Raises `BayesreconError` if there are no records that could have the total.
    """
    matrix, matched = features.root @ np.asarray(features.at(records)).T, features.matched
    count = matrix.shape[1]
    if total and not count:
        raise BayesreconError(f"total={total:g}: there are no records that could have it")
    if not matrix.size:
        return np.full(count, (total or 0.0) / max(count, 1))
    length = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    if total is not None:
        # The equality is one heavy equation. Its remaining error is removed by rescaling.
        heavy = _HEAVY * np.linalg.norm(matched) / total
        matrix = np.concatenate([matrix, np.full((1, matrix.shape[1]), heavy)])
        matched = np.append(matched, heavy * total)
        length = np.linalg.norm(matrix, axis=0)
    weights = scipy.optimize.nnls(matrix / length, matched, maxiter=100 * len(length))[0] / length
    return weights if total is None else weights * (total / weights.sum())


def merge(pseudo: PseudoData, scale: Records, most: int) -> PseudoData:
    """Drop records of weight zero, merge coinciding ones, and keep at most the heaviest `most`."""
    alive = np.flatnonzero(pseudo.weights > 1e-9 * pseudo.weights.sum())
    order = alive[np.argsort(-pseudo.weights[alive])]
    unit = [np.where(np.asarray(scale.get(k, 1.0)) > 0, scale.get(k, 1.0), 1.0) for k in pseudo.records]
    points = np.concatenate(
        [
            (np.asarray(v, float)[order] / u).reshape(len(order), -1)
            for v, u in zip(pseudo.records.values(), unit, strict=True)
        ],
        axis=1,
    )
    weights, kept = pseudo.weights[order].copy(), []
    for i, point in enumerate(points):
        close = [j for j in kept if np.abs(points[j] - point).max() < _SAME]
        if close:
            weights[close[0]] += weights[i]
        else:
            kept.append(i)
    kept = kept[:most]
    return PseudoData(weights[kept], {k: np.asarray(v)[order[kept]] for k, v in pseudo.records.items()})


def quasi_newton(
    features: Features, support: Support, watch: Watch, regulariser: Regulariser, *, steps: int = 2000
) -> tuple[Variables, str]:
    """L-BFGS on the divergence plus a regulariser. Returns the variables, and why the descent ended."""
    embedding = features.embedding
    release = (embedding.metric, *features.atoms, features.root, features.matched)
    start_weights, fixed, whiten = np.asarray(support.start.weights), support.fixed, (support.centre, support.scale)
    chart, model = support.chart, embedding.release.model
    start, unravel = ravel_pytree({k: jnp.asarray(v, float) for k, v in support.pack().items()})

    def objective(v: jax.Array) -> tuple[Array, Array]:
        x = unravel(v)
        u = _residual(chart, model, release, start_weights, fixed, whiten, x)
        pseudo = chart.weights_at(x, start_weights), chart.records_at(x, fixed, *whiten)
        half = 0.5 * u @ u
        return half + regulariser(*pseudo), half

    run = jax.jit(jax.value_and_grad(objective, has_aux=True))
    best = {"x": np.asarray(start), "value": np.inf}

    def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
        (value, half), slope = run(jnp.asarray(v))
        if float(value) < best["value"]:
            best["x"], best["value"] = np.array(v), float(value)
        watch(
            unravel(jnp.asarray(v)), float(half)
        )  # it does not end the descent: a small divergence is not the optimum here
        return float(value), np.asarray(slope)

    options = {"maxiter": steps, "maxcor": 50, "ftol": 1e-15, "gtol": 1e-12}
    solution = scipy.optimize.minimize(evaluate, np.asarray(start), jac=True, method="L-BFGS-B", options=options)
    return unravel(jnp.asarray(best["x"])), "converged" if solution.success else "all steps taken"

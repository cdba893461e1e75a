"""Second-order descent on weights and records together.

The divergence is a sum of few squares, `1/2 |R (s - y)|^2` with `s = sum_m w_m c(z_m)`, in many variables: a
trust-region Gauss-Newton method (SciPy) solves it in tens of steps, each a decomposition of an `(r, variables)`
matrix. Where the weights are all that moves, it is a non-negative least-squares problem.
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

from bayesrecon.attacks.pseudodata.quadratic import Features, amplitudes
from bayesrecon.attacks.pseudodata.support import Chart, Support, Variables
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.regularisers import Regulariser

Watch = Callable[[Variables, float], bool]
"""Called with the variables and `1/2 |u|^2` at every accepted or tried step; True ends the descent."""


_HEAVY = 1e4  # of the equation that fixes the total, next to all others
_SAME = 1e-3  # records this close, in units of their scale, are one


class _StopDescent(Exception):
    pass


@partial(jax.jit, static_argnames=("chart", "model"))
def _residual(
    chart: Chart, model: Model, at: tuple[Any, ...], given: Any, fixed: Records, whiten: tuple[Records, Records], x: Any
) -> Any:
    metric, theta, inverse, root, wanted = at
    records = chart.records_at(x, fixed, *whiten)
    c = amplitudes(model, metric, theta, inverse, records)
    return root @ (c.T @ chart.weights_at(x, given)) - wanted


@partial(jax.jit, static_argnames=("chart", "model"))
def _jacobian(
    chart: Chart, model: Model, at: tuple[Any, ...], given: Any, fixed: Records, whiten: tuple[Records, Records], x: Any
) -> dict[str, Any]:
    metric, theta, inverse, root, _ = at
    names = [name for name, _ in chart.moved]

    def one(moving: Any, still: Records) -> Any:
        record = chart.records_at(moving, still, *whiten)
        batch = {k: jnp.asarray(v)[None] for k, v in record.items()}
        return amplitudes(model, metric, theta, inverse, batch)[0]

    moving = {name: x[name] for name in names}
    c = jax.vmap(one)(moving, fixed) @ root.T  # (M, r)
    result = {}
    if names:
        weights = chart.weights_at(x, given)
        slopes = jax.vmap(jax.jacfwd(one))(moving, fixed)  # {field: (M, r, *shape)}
        for name, slope in slopes.items():
            flat = jnp.einsum("rs,msp->mrp", root, slope.reshape(*slope.shape[:2], -1)) * weights[:, None, None]
            result[name] = jnp.moveaxis(flat, 1, 0).reshape(len(root), -1)
    rest = {k: v for k, v in x.items() if k not in names}
    if rest:
        slopes = jax.jacrev(lambda q: c.T @ chart.weights_at(q, given))(rest)
        result |= {name: slope.reshape(len(root), -1) for name, slope in slopes.items()}
    return result


def newton(features: Features, support: Support, watch: Watch, *, steps: int = 300) -> str:
    """Descend from the support's start until `watch`, which sees every point, says so; returns why it ended."""
    embedding = features.embedding
    at = (embedding.metric, *features.atoms, features.root, features.wanted)
    static = (support.chart, embedding.release.model, at, np.asarray(support.start.weights), support.fixed)
    whiten = (support.centre, support.scale)
    x = {k: jnp.asarray(v, float) for k, v in support.pack().items()}
    if not x:
        return "converged"
    start, shape = ravel_pytree(x)
    sizes = np.asarray(ravel_pytree(support.steps())[0])
    names = sorted(x)

    def residual(v: np.ndarray) -> np.ndarray:
        u = np.asarray(_residual(*static, whiten, shape(jnp.asarray(v))))
        u = np.nan_to_num(u, nan=1e100, posinf=1e100, neginf=-1e100)
        if watch(shape(jnp.asarray(v)), 0.5 * float(u @ u)):
            raise _StopDescent
        return u

    def jacobian(v: np.ndarray) -> np.ndarray:
        blocks = _jacobian(*static, whiten, shape(jnp.asarray(v)))
        return np.concatenate([np.asarray(blocks[name]) for name in names], axis=1)

    tight = 3e-16
    jac: Any = jacobian
    try:
        solution = scipy.optimize.least_squares(
            residual, np.asarray(start), jac, x_scale=sizes, xtol=tight, ftol=1e-12, gtol=tight, max_nfev=steps
        )
    except _StopDescent:
        return "converged"
    return "no further progress" if solution.status > 0 else "all steps taken"


def nonnegative(features: Features, records: Records, total: float | None = None) -> Float[np.ndarray, " M"]:
    """The best weights `w >= 0` on given records, `(M,)`; with a total, they sum to it."""
    matrix, wanted = features.root @ np.asarray(features.at(records)).T, features.wanted
    length = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    if total is not None:
        # The equality as one heavy equation; what is left of its error is scaled away.
        heavy = _HEAVY * np.linalg.norm(wanted) / total
        matrix = np.concatenate([matrix, np.full((1, matrix.shape[1]), heavy)])
        wanted = np.append(wanted, heavy * total)
        length = np.linalg.norm(matrix, axis=0)
    weights = scipy.optimize.nnls(matrix / length, wanted, maxiter=100 * len(length))[0] / length
    return weights if total is None else weights * (total / weights.sum())


def merge(pseudo: PseudoData, scale: Records, most: int) -> PseudoData:
    """The measure without its empty records, those that coincide as one, and at most the heaviest `most`."""
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
        near = [j for j in kept if np.abs(points[j] - point).max() < _SAME]
        if near:
            weights[near[0]] += weights[i]
        else:
            kept.append(i)
    kept = kept[:most]
    return PseudoData(weights[kept], {k: np.asarray(v)[order[kept]] for k, v in pseudo.records.items()})


def quasi_newton(
    features: Features, support: Support, watch: Watch, regulariser: Regulariser, *, steps: int = 2000
) -> tuple[Variables, str]:
    """L-BFGS on the divergence plus a regulariser of weights and records: the variables, and why it ended."""
    embedding = features.embedding
    at = (embedding.metric, *features.atoms, features.root, features.wanted)
    given, fixed, whiten = np.asarray(support.start.weights), support.fixed, (support.centre, support.scale)
    chart, model = support.chart, embedding.release.model
    start, shape = ravel_pytree({k: jnp.asarray(v, float) for k, v in support.pack().items()})

    def objective(v: Any) -> tuple[Any, Any]:
        x = shape(v)
        u = _residual(chart, model, at, given, fixed, whiten, x)
        pseudo = chart.weights_at(x, given), chart.records_at(x, fixed, *whiten)
        half = 0.5 * u @ u
        return half + regulariser(*pseudo), half

    run = jax.jit(jax.value_and_grad(objective, has_aux=True))
    last = {"x": np.asarray(start), "value": np.inf}

    def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
        (value, half), slope = run(jnp.asarray(v))
        if float(value) < last["value"]:
            last["x"], last["value"] = np.array(v), float(value)
        watch(shape(jnp.asarray(v)), float(half))  # a small divergence is not the end here
        return float(value), np.asarray(slope)

    options = {"maxiter": steps, "maxcor": 50, "ftol": 1e-15, "gtol": 1e-12}
    solution = scipy.optimize.minimize(evaluate, np.asarray(start), jac=True, method="L-BFGS-B", options=options)
    return shape(jnp.asarray(last["x"])), "converged" if solution.success else "all steps taken"

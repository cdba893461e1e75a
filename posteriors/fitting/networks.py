"""Training of small networks to a stationary point."""

import time
from collections.abc import Mapping
from functools import partial

import jax
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Records
from bayesrecon.models.losses import named_leaves
from bayesrecon.posteriors.fitting.training import TrainingResult
from bayesrecon.posteriors.sources import dirac
from bayesrecon.precision import in_float64

_MOST = 3000  # largest number of parameters whose Hessian is factorised
_NEWTON = 50  # largest number of Newton steps
_LBFGS, _TRUST_REGION = 500, 2000  # largest numbers of steps of models with more parameters


@in_float64
def train_network(
    model: Model,
    params: Mapping[str, Array | float],
    records: Mapping[str, object],
    *,
    tolerance: float = 1e-10,
    steps: int = 20_000,
) -> TrainingResult:
    """Train a model on its summed loss until the gradient vanishes: L-BFGS, then Newton's method.

    Above 3,000 parameters, Newton's steps are those of a trust region in Krylov spaces (Gould et al. 1999). They need
    only products with the Hessian.

    Args:
        model: any model of trained parameters, for example from `models.from_loss`.
        params: starting point, nested like the model's parameters.
        records: `{field: (N, *shape)}`.
        tolerance: gradient norm to reach, relative to the largest gradient norm of a record.
        steps: largest number of L-BFGS steps; 500 above 3,000 parameters.

    Returns:
        A `TrainingResult` with `release`, the relative `gradient` norm that was reached, and `seconds`. A local optimum
        is accepted. A gradient above the tolerance is reported, not refused.

    Raises:
        BayesreconError: the records lack a field, or the objective is not finite at `params`.

    >>> import jax.numpy as jnp
    >>> from bayesrecon.models import from_loss
    >>> apply, loss = (lambda p, x: p["v"] * jnp.tanh(p["w"] * x)), (lambda out, y: (out - y) ** 2)
    >>> model = from_loss(apply, loss, params={"v": 1.0, "w": 1.0}, record={"x": (), "y": ()})
    >>> train_network(model, {"v": 1.0, "w": 1.0}, {"x": [0.5, 1.0, 2.0], "y": [0.5, 0.9, 1.0]}).gradient < 1e-8
    True
    """
    import scipy.optimize  # slow, and this module is also imported to read draws

    start = time.perf_counter()
    table = check_knowledge(model, known=records).known
    missing = [f for f in model.fields if f not in table]
    if missing:
        raise BayesreconError(f"the records lack field {missing[0]}")
    theta = np.asarray(model.unconstrain(named_leaves(params)), float)

    def evaluate(t: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _objective(model, t, table)
        return float(value), np.asarray(gradient)

    if not np.isfinite(evaluate(theta)[0]):
        raise BayesreconError("the objective is not finite at these params")
    large = len(theta) > _MOST
    max_steps = min(steps, _LBFGS) if large else steps
    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-12}
    theta = scipy.optimize.minimize(evaluate, theta, jac=True, method="L-BFGS-B", options=options).x
    if large:
        options = {"maxiter": _TRUST_REGION, "gtol": tolerance * _largest_gradient(model, theta, table)}
        with np.errstate(invalid="ignore"):  # rounding can shrink a trust region to nothing
            theta = scipy.optimize.minimize(
                evaluate,
                theta,
                jac=True,
                hessp=lambda t, v: np.asarray(_hessian_product(model, t, v, table)),
                method="trust-krylov",
                options=options,
            ).x
    value, gradient = evaluate(theta)
    for _ in range(_NEWTON):
        if np.linalg.norm(gradient) <= tolerance * _largest_gradient(model, theta, table) or not np.isfinite(value):
            break
        if large:
            step = _conjugate_gradient_step(model, theta, gradient, table)
        else:
            step = _newton_step(np.asarray(_hessian(model, theta, table)), gradient)
        for length in (1.0, 0.3, 0.1, 0.01):
            trial = evaluate(theta - length * step)
            if trial[0] <= value + 1e-13 * abs(value):
                break
        else:
            break
        theta, (value, gradient) = theta - length * step, trial
    relative_norm = float(np.linalg.norm(gradient)) / _largest_gradient(model, theta, table)
    release = dirac(model, {k: np.asarray(v) for k, v in model.constrain(theta).items()}, name=model.name)
    return TrainingResult(release, relative_norm, time.perf_counter() - start)


def _largest_gradient(model: Model, theta: np.ndarray, records: Records) -> float:
    """The largest gradient norm of a record; one if all are zero."""
    return float(np.linalg.norm(np.asarray(gradients(model, theta, records)), axis=1).max()) or 1.0


def _newton_step(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Newton's step, with a ridge if the Hessian is not positive definite."""
    ridge = 0.0
    for _ in range(12):
        try:
            factor = scipy.linalg.cho_factor(hessian + ridge * np.eye(len(gradient)), check_finite=False)
            return np.asarray(scipy.linalg.cho_solve(factor, gradient, check_finite=False))
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-10 * float(np.abs(np.diag(hessian)).max()))
    return gradient


def _conjugate_gradient_step(model: Model, theta: np.ndarray, gradient: np.ndarray, records: Records) -> np.ndarray:
    """Newton's step by conjugate gradients, close to the optimum."""
    from scipy.sparse.linalg import LinearOperator, cg

    size = len(gradient)
    hessian = LinearOperator(
        (size, size), lambda v: np.asarray(_hessian_product(model, theta, np.asarray(v, float).ravel(), records))
    )
    return np.asarray(cg(hessian, gradient, rtol=1e-6, maxiter=size)[0])


def _total(model: Model, theta: Array, records: Records) -> jax.Array:
    """The summed loss and the penalty."""
    return -jax.vmap(model.log_lik, in_axes=(None, 0))(theta, records).sum() - model.log_prior(theta)


@partial(jax.jit, static_argnames="model")
def _objective(model: Model, theta: Array, records: Records) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda t: _total(model, t, records))(theta)


@partial(jax.jit, static_argnames="model")
def _hessian_product(model: Model, theta: Array, direction: Array, records: Records) -> jax.Array:
    """The Hessian times a direction."""
    return jax.jvp(jax.grad(lambda t: _total(model, t, records)), (theta,), (direction,))[1]


@partial(jax.jit, static_argnames="model")
def _hessian(model: Model, theta: Array, records: Records) -> jax.Array:
    return jax.hessian(lambda t: _total(model, t, records))(theta)

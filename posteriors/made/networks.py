"""Training of small networks to a stationary point."""

import time
from collections.abc import Mapping
from functools import partial

import jax
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.score import gradients
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Records
from bayesrecon.models.losses import named_leaves
from bayesrecon.posteriors.made.training import Trained
from bayesrecon.posteriors.sources import dirac
from bayesrecon.precision import in_float64

_MOST = 3000  # parameters whose Hessian is factorised
_NEWTON = 50  # steps after L-BFGS, which bring a dozen digits or nothing
_LBFGS, _TRUST = 500, 2000  # steps of larger ones: far from quadratic, and then in trust regions


@in_float64
def train_network(
    model: Model,
    params: Mapping[str, Array | float],
    records: Mapping[str, object],
    *,
    tolerance: float = 1e-10,
    steps: int = 20_000,
) -> Trained:
    """Train a model on its summed loss until the gradient vanishes: L-BFGS, then Newton's method.

    Above 3,000 parameters Newton's steps are those of trust regions in Krylov spaces (Gould et al. 1999), which need
    products with the Hessian alone.

    Args:
        model: any model of trained parameters, for example from `models.from_loss`.
        params: starting point, with the nesting of the model's parameters.
        records: `{field: (N, *shape)}`.
        tolerance: gradient norm to reach, relative to the largest gradient norm of a record.
        steps: largest number of L-BFGS steps; 500 above 3,000 parameters.

    Returns:
        A `Trained` with `release`, the relative `gradient` norm that was reached, and `seconds`. A local optimum is
        accepted. A gradient above the tolerance is reported, not refused.

    Raises:
        BayesreconError: records that lack a field, or an objective that is not finite.

    >>> import jax.numpy as jnp
    >>> from bayesrecon.models import from_loss
    >>> apply, loss = (lambda p, x: p["v"] * jnp.tanh(p["w"] * x)), (lambda out, y: (out - y) ** 2)
    >>> model = from_loss(apply, loss, params={"v": 1.0, "w": 1.0}, record={"x": (), "y": ()})
    >>> train_network(model, {"v": 1.0, "w": 1.0}, {"x": [0.5, 1.0, 2.0], "y": [0.5, 0.9, 1.0]}).gradient < 1e-8
    True
    """
    import scipy.optimize  # reading draws loads this module, too

    began = time.perf_counter()
    table = check_knowledge(model, known=records).known
    missing = [f for f in model.fields if f not in table]
    if missing:
        raise BayesreconError(f"the records lack field {missing[0]}")
    theta = np.asarray(model.unconstrain(named_leaves(params)), float)

    def evaluate(t: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _objective(model, t, table)
        return float(value), np.asarray(slope)

    if not np.isfinite(evaluate(theta)[0]):
        raise BayesreconError("the objective is not finite at these params")
    large = len(theta) > _MOST
    most = min(steps, _LBFGS) if large else steps
    options = {"maxiter": most, "maxfun": 2 * most, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-12}
    theta = scipy.optimize.minimize(evaluate, theta, jac=True, method="L-BFGS-B", options=options).x
    if large:
        options = {"maxiter": _TRUST, "gtol": tolerance * _largest(model, theta, table)}
        with np.errstate(invalid="ignore"):  # a trust region that rounding has shrunk to nothing
            theta = scipy.optimize.minimize(
                evaluate,
                theta,
                jac=True,
                hessp=lambda t, v: np.asarray(_curve(model, t, v, table)),
                method="trust-krylov",
                options=options,
            ).x
    value, slope = evaluate(theta)
    for _ in range(_NEWTON):
        if np.linalg.norm(slope) <= tolerance * _largest(model, theta, table) or not np.isfinite(value):
            break
        step = _krylov(model, theta, slope, table) if large else _step(np.asarray(_hessian(model, theta, table)), slope)
        for length in (1.0, 0.3, 0.1, 0.01):
            trial = evaluate(theta - length * step)
            if trial[0] <= value + 1e-13 * abs(value):
                break
        else:
            break
        theta, (value, slope) = theta - length * step, trial
    size = float(np.linalg.norm(slope)) / _largest(model, theta, table)
    release = dirac(model, {k: np.asarray(v) for k, v in model.constrain(theta).items()}, name=model.name)
    return Trained(release, size, time.perf_counter() - began)


def _largest(model: Model, theta: np.ndarray, records: Records) -> float:
    return float(np.linalg.norm(np.asarray(gradients(model, theta, records)), axis=1).max()) or 1.0


def _step(hessian: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Newton's step, ridged as much as it takes to go downhill."""
    ridge = 0.0
    for _ in range(12):
        try:
            factor = scipy.linalg.cho_factor(hessian + ridge * np.eye(len(slope)), check_finite=False)
            return np.asarray(scipy.linalg.cho_solve(factor, slope, check_finite=False))
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-10 * float(np.abs(np.diag(hessian)).max()))
    return slope


def _krylov(model: Model, theta: np.ndarray, slope: np.ndarray, records: Records) -> np.ndarray:
    """Newton's step by conjugate gradients, close to the optimum."""
    from scipy.sparse.linalg import LinearOperator, cg

    size = len(slope)
    curve = LinearOperator(
        (size, size), lambda v: np.asarray(_curve(model, theta, np.asarray(v, float).ravel(), records))
    )
    return np.asarray(cg(curve, slope, rtol=1e-6, maxiter=size)[0])


def _total(model: Model, theta: Array, records: Records) -> jax.Array:
    return -jax.vmap(model.log_lik, in_axes=(None, 0))(theta, records).sum() - model.log_prior(theta)


@partial(jax.jit, static_argnames="model")
def _objective(model: Model, theta: Array, records: Records) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda t: _total(model, t, records))(theta)


@partial(jax.jit, static_argnames="model")
def _curve(model: Model, theta: Array, direction: Array, records: Records) -> jax.Array:
    """The Hessian times a direction."""
    return jax.jvp(jax.grad(lambda t: _total(model, t, records)), (theta,), (direction,))[1]


@partial(jax.jit, static_argnames="model")
def _hessian(model: Model, theta: Array, records: Records) -> jax.Array:
    return jax.hessian(lambda t: _total(model, t, records))(theta)

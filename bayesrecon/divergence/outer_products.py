"""Gradients of models with a linear predictor, as outer products of slopes and records.

With `l(theta, z) = h(W x + b, y)` the gradient in (W, b) is `s (x, 1)'`, s the slope of h in eta, and minus the Hessian
applied to a change (V, c) is `kappa (x, 1)'`, kappa `= -h''(eta) (V x + c)`: both cost matrix products of the records.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import LinearPredictor, Model


def predictor_of(model: Model) -> LinearPredictor:
    """The model's linear predictor, or an error that says what to use instead."""
    if model.linear is None:
        raise BayesreconError(
            f"model {model.name} has no linear predictor; build it with models.load('linear_predictor') or "
            "posteriors.from_sklearn, over features of a fixed embedding if there is one"
        )
    return model.linear


def split_gradient(model: Model, gradient: Array) -> np.ndarray:
    """A vector over the parameters `(d,)` as `(K, p + 1)`, the intercept last; `(K, p)` without one."""
    linear = predictor_of(model)
    parts = model.split(np.asarray(gradient))
    coef = np.asarray(parts[linear.coef])
    if linear.intercept is None:
        return coef
    return np.concatenate([coef, np.asarray(parts[linear.intercept])[:, None]], axis=1)


def join(model: Model, outer: np.ndarray) -> np.ndarray:
    """The inverse of `split_gradient`, of one parameter or of several, `(..., d)`."""
    linear = predictor_of(model)
    parts = {linear.coef: outer}
    if linear.intercept is not None:
        parts = {linear.coef: outer[..., :-1], linear.intercept: outer[..., -1]}
    return np.concatenate([parts[p.name].reshape(*outer.shape[:-2], -1) for p in model.parameters], axis=-1)


def design(model: Model, x: npt.ArrayLike) -> np.ndarray:
    """Records' features with a one for the intercept, `(N, p + 1)`."""
    features = np.asarray(x, float)
    if predictor_of(model).intercept is None:
        return features
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def penalty_of(model: Model) -> np.ndarray:
    """The quadratic regulariser's curvature as `(K, p + 1)`; an error for another regulariser."""
    curvature = jax.device_get(_curvature_of_prior(model))
    return split_gradient(model, np.concatenate([np.ravel(curvature[p.name]) for p in model.parameters]))


@partial(jax.jit, static_argnames="model")
def _curvature_of_prior(model: Model) -> dict[str, jax.Array]:
    """Minus the second derivatives of the log prior at zero, times ones."""
    zero = {k: jnp.zeros(v.shape) for k, v in model.split(np.zeros(model.dimension)).items()}
    ones = {k: jnp.ones_like(v) for k, v in zero.items()}
    return jax.jvp(jax.grad(lambda params: -model.log_prior_at(params)), (zero,), (ones,))[1]


@partial(jax.jit, static_argnames="linear")
def slopes(linear: LinearPredictor, eta: Array, y: Array) -> Array:
    """`dh / deta` of records, `(N, K)`."""
    return jax.vmap(jax.grad(linear.log_lik))(eta, y)


@partial(jax.jit, static_argnames="linear")
def bends(linear: LinearPredictor, eta: Array, y: Array, change: Array) -> Array:
    """`kappa = -h''(eta) change` of records, `(N, K)`."""

    def of_record(e: Array, label: Array, v: Array) -> Array:
        return -jax.jvp(lambda q: jax.grad(linear.log_lik)(q, label), (e,), (v,))[1]

    return jax.vmap(of_record)(eta, y, change)


@partial(jax.jit, static_argnames="linear")
def curvatures(linear: LinearPredictor, eta: Array, y: Array) -> Array:
    """`-h''(eta)` of records, `(N, K, K)`."""
    return -jax.vmap(jax.hessian(linear.log_lik))(eta, y)


@partial(jax.jit, static_argnames="linear")
def log_liks(linear: LinearPredictor, eta: Array, y: Array) -> Array:
    """`h(eta, y)` of records, `(N,)`."""
    return jax.vmap(linear.log_lik)(eta, y)


def label_of(linear: LinearPredictor, slope: np.ndarray) -> int | None:
    """The label that a slope belongs to: raising its own class's predictor always raises the likelihood."""
    if not linear.labels:
        return None
    return int(slope[0] > 0) if len(slope) == 1 else int(np.argmax(slope))

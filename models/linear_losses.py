"""Losses of a linear predictor with a quadratic penalty, for trained models."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.domains import REAL, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, LinearPredictor, Model, Parameter
from bayesrecon.models.entry import Shipped


def _squared(eta: Array, y: Array | float) -> jax.Array:
    return -0.5 * jnp.sum((y - eta) ** 2)


def _logistic(eta: Array, y: Array | float) -> jax.Array:
    return jax.nn.log_sigmoid((2 * y - 1) * eta[0])


def _softmax(eta: Array, y: Array | float) -> jax.Array:
    return jax.nn.log_softmax(eta) @ jax.nn.one_hot(y, eta.shape[0])


def _squared_hinge(eta: Array, y: Array | float) -> jax.Array:
    side = 2 * y - 1 if eta.shape[0] == 1 else 2 * jax.nn.one_hot(y, eta.shape[0]) - 1
    return -jnp.sum(jnp.maximum(0.0, 1 - side * eta) ** 2)


LOSSES: dict[str, Callable[[Array, Array | float], jax.Array]] = {
    "squared": _squared,
    "logistic": _logistic,
    "softmax": _softmax,
    "squared_hinge": _squared_hinge,
}
"""Minus the loss of one record, `h(eta (K,), y)`."""


@cache  # releases of one model belong together by the model object
def linear_predictor(
    loss: str = "squared",
    features: int = 1,
    outputs: int = 1,
    penalty: float = 0.0,
    intercept: bool = True,
    intercept_penalty: float = 0.0,
) -> Model:
    """A linear predictor trained on a summed loss, `eta = coef x + intercept`.

    The trained parameter is stationary for

        sum_n loss(eta_n, y_n) + penalty / 2 |coef|^2 + intercept_penalty / 2 |intercept|^2

    with `loss` "squared" (`|y - eta|^2 / 2`), "logistic" (y 0 or 1), "softmax" (y from 0 to K - 1) or "squared_hinge"
    (`max(0, 1 - s eta)^2`, s the sign of the class, one against the rest for K > 1). Features may be any fixed
    embedding of a record.

    Args:
        features: p.
        outputs: K.

    Returns:
        A `Model` with parameters `coef (K, p)` and `intercept (K,)`, and fields `x (p,)` and `y`.

    >>> linear_predictor("logistic", features=2).coordinates
    ('coef[1,1]', 'coef[1,2]', 'intercept[1]')
    """
    if loss not in LOSSES:
        raise BayesreconError(f"loss={loss!r}: expected {', '.join(LOSSES)}")
    counts: dict[str, object] = {"features": features, "outputs": outputs}
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BayesreconError(f"{name}={value!r}: expected a positive whole number")
    if loss == "logistic" and outputs != 1:
        raise BayesreconError("the logistic loss has one output; use loss='softmax' for several classes")
    if loss == "softmax" and outputs < 2:
        raise BayesreconError("the softmax loss needs outputs, one per class")
    if not (penalty >= 0 and intercept_penalty >= 0):
        raise BayesreconError("penalties must be non-negative")
    h = LOSSES[loss]
    labels = () if loss == "squared" else tuple(range(max(outputs, 2)))
    response = Domain("levels", levels=tuple(map(float, labels))) if labels else REAL
    parameters = (Parameter("coef", (outputs, features)),)
    if intercept:
        parameters += (Parameter("intercept", (outputs,)),)

    def predictor(params: dict[str, Array], x: Array | float) -> Array:
        eta = params["coef"] @ x
        return eta + params["intercept"] if intercept else eta

    def log_lik_at(params: dict[str, Array], record: dict[str, Array | float]) -> jax.Array:
        eta = predictor(params, record["x"])
        return h(eta, jnp.reshape(record["y"], eta.shape) if loss == "squared" else record["y"])

    def log_prior_at(params: dict[str, Array]) -> jax.Array:
        value = -0.5 * penalty * jnp.sum(params["coef"] ** 2)
        return value - 0.5 * intercept_penalty * jnp.sum(params["intercept"] ** 2) if intercept else value

    return Model(
        name="linear_predictor",
        parameters=parameters,
        fields={
            "x": Field((features,)),
            "y": Field((outputs,) if loss == "squared" and outputs > 1 else (), response),
        },
        log_lik_at=log_lik_at,
        log_prior_at=log_prior_at,
        settings={
            "loss": loss,
            "features": features,
            "outputs": outputs,
            "penalty": penalty,
            "intercept": intercept,
            "intercept_penalty": intercept_penalty,
        },
        linear=LinearPredictor("coef", "intercept" if intercept else None, "x", "y", h, loss, labels),
    )


MODELS: tuple[Shipped, ...] = (
    Shipped(
        "linear_predictor",
        linear_predictor,
        "trained linear, ridge, logistic, softmax or squared-hinge model (a trained parameter, not draws)",
    ),
)

"""A check that a prior has derivatives at a released mode."""

from functools import partial

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model

_SIDES = np.array([1e-5, 1e-7])  # distances, relative to the largest coordinate or to one
_JUMP = 1e-4  # smallest jump of the gradient that counts as a kink, relative to the gradient


def check_smooth(model: Model, theta: np.ndarray) -> None:
    """Refuse a prior that has a kink at a parameter `(d,)`.

    For a smooth prior, the gradients on both sides differ in proportion to the distance.

    Raises:
        BayesreconError: there is a kink along a coordinate.
    """
    slopes = [
        np.array([_prior_slope(model, theta + h * e) - _prior_slope(model, theta - h * e) for e in np.eye(len(theta))])
        for h in _SIDES * np.maximum(1.0, np.abs(theta).max(initial=0.0))
    ]
    wide, narrow = (np.abs(np.diagonal(s)) for s in slopes)
    jumps = (narrow > 0.5 * wide) & (narrow > _JUMP * (1 + np.abs(_prior_slope(model, theta))))
    if jumps.any():
        raise BayesreconError(
            f"the prior of model {model.name} has no derivative in {model.coordinates[int(np.argmax(jumps))]} at its "
            "released value, so the estimates are not stationary"
        )


@partial(jax.jit, static_argnames="model")
def _prior_slope(model: Model, theta: Array) -> jax.Array:
    return jax.grad(model.log_prior)(theta)

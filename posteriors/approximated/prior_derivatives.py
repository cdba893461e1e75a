"""A check that a prior has derivatives at a released mode."""

from functools import partial

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model

_DISTANCES = np.array([1e-5, 1e-7])  # relative to the largest coordinate, or to one if all are smaller
_JUMP = 1e-4  # smallest jump of the gradient that counts as a kink, relative to the gradient


def check_smooth(model: Model, theta: np.ndarray) -> None:
    """Refuse a prior that has a kink at a parameter `(d,)`.

    The gradients at two points on opposite sides are compared. For a smooth prior, their difference is proportional to
    the distance of the points.
    """
    differences = [
        np.array([_gradient(model, theta + h * e) - _gradient(model, theta - h * e) for e in np.eye(len(theta))])
        for h in _DISTANCES * np.maximum(1.0, np.abs(theta).max(initial=0.0))
    ]
    far, near = (np.abs(np.diagonal(difference)) for difference in differences)
    jumps = (near > 0.5 * far) & (near > _JUMP * (1 + np.abs(_gradient(model, theta))))
    if jumps.any():
        raise BayesreconError(
            f"the prior of model {model.name} has no derivative in {model.coordinates[int(np.argmax(jumps))]} at its "
            "released value, so the estimates are not stationary"
        )


@partial(jax.jit, static_argnames="model")
def _gradient(model: Model, theta: Array) -> jax.Array:
    return jax.grad(model.log_prior)(theta)

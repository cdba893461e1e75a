"""The density of the posterior that is fitted to a release, up to a constant."""

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.divergence.metric_view import blocks
from bayesrecon.divergence.score import log_lik
from bayesrecon.estimation.span import Fit
from bayesrecon.model import Model, Records

_BLOCK = 512  # places at once: those next to an edge are nearly as many


@dataclass(frozen=True, eq=False)
class Density:
    """The log density of the fitted data's posterior, `sum_k y_k l_k + log pi0 + log det`.

    Args:
        model: the model in the chosen coordinates.
        solved: the fit, which has finite rank.
    """

    model: Model
    solved: Fit

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log density `(T,)` at points `(T, d)`, and its derivatives `(T, r)` in the amplitudes y."""
        basis = self.solved.basis
        parts_of_theta = blocks(np.asarray(theta, float), np.ones(len(theta)), _BLOCK)
        evaluated = jax.device_get(
            [_density_parts(self.model, block, basis.records, basis.coefficients) for block, *_ in parts_of_theta]
        )
        base, slopes = (np.concatenate(parts)[: len(theta)] for parts in zip(*evaluated, strict=True))
        return base + slopes @ self.solved.y, slopes

    @cached_property
    def covariance(self) -> Float[np.ndarray, "r r"]:
        """Sampling covariance of the amplitudes, `(r, r)`."""
        response = self.solved.response
        return np.asarray(response @ self.solved.noise() @ response)


@partial(jax.jit, static_argnames="model")
def _density_parts(model: Model, theta: Array, anchors: Records, coefficients: Array) -> tuple[Array, Array]:
    """The log density without the data, and the basis functions; compiled once for every number of points."""
    each = jax.vmap(jax.vmap(partial(log_lik, model), in_axes=(None, 0)), in_axes=(0, None))
    base = jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(theta)
    return base, each(theta, anchors) @ coefficients

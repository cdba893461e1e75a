"""The density of the posterior that is fitted to a release, up to a constant."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from bayesrecon.estimation.span import Fit
from bayesrecon.kernels.metric_view import blocks
from bayesrecon.kernels.score import log_lik
from bayesrecon.model import Model, Records

_BLOCK = 512  # places at once: those next to an edge are nearly as many


@dataclass(frozen=True, eq=False)
class Density:
    """The log density of the fitted data's posterior, `sum_k y_k l_k + log pi0 + log det`.

    Args:
        model: in the coordinates in use.
        solved: the fit, of finite rank.
    """

    model: Model
    solved: Fit

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At places `(T, d)`: the log density `(T,)`, and its slopes `(T, r)` by the amplitudes y."""
        basis = self.solved.basis
        some = blocks(np.asarray(theta, float), np.ones(len(theta)), _BLOCK)
        found = jax.device_get([_at(self.model, block, basis.records, basis.coefficients) for block, *_ in some])
        base, slopes = (np.concatenate(parts)[: len(theta)] for parts in zip(*found, strict=True))
        return base + slopes @ self.solved.y, slopes

    @cached_property
    def covariance(self) -> Float[np.ndarray, "r r"]:
        """Of the amplitudes, `(r, r)`, by sampling."""
        response = self.solved.response
        return np.asarray(response @ self.solved.noise() @ response)


@partial(jax.jit, static_argnames="model")
def _at(model: Model, theta: Any, anchors: Records, coefficients: Any) -> tuple[Any, Any]:
    """The part that is not of the data, and the basis functions: one program, for every number of places."""
    each = jax.vmap(jax.vmap(partial(log_lik, model), in_axes=(None, 0)), in_axes=(0, None))
    base = jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(theta)
    return base, each(theta, anchors) @ coefficients

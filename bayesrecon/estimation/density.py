"""The density of the posterior that is fitted to a release, up to a constant."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from bayesrecon.estimation.solve import Fit
from bayesrecon.kernels.dense import log_likelihoods
from bayesrecon.model import Model


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
        slopes = log_likelihoods(self.model, np.asarray(theta), self.solved.basis)
        return slopes @ self.solved.y + np.asarray(_log_base(self.model, theta)), slopes

    @cached_property
    def covariance(self) -> np.ndarray:
        """Of the amplitudes, `(r, r)`, by sampling."""
        response = self.solved.response
        return np.asarray(response @ self.solved.noise() @ response)


@partial(jax.jit, static_argnames="model")
def _log_base(model: Model, theta: Any) -> Any:
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(theta)

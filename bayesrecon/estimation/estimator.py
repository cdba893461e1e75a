"""Options of an estimate: its metric, its coordinates and its random key."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.releases import Release


@dataclass(frozen=True)
class Estimator:
    """The metric and coordinates of the divergence.

    Attributes:
        metric: "covariance" whitens by the covariance of the draws. It is nearly efficient, and the default for draws.
            "identity" gives the unwhitened divergence, and is the default for a trained parameter. An approximation
            brings its "own" metric.
        coordinates: "unconstrained" is the default. "constrained" requires that the density vanishes at every boundary.

    >>> Estimator(metric="identity").coordinates is None
    True
    """

    metric: str | None = None
    coordinates: str | None = None

    def __post_init__(self) -> None:
        if self.metric not in (None, "covariance", "identity", "own"):
            raise BayesreconError(f"metric={self.metric!r}: expected 'covariance' or 'identity'")
        if self.coordinates not in (None, "unconstrained", "constrained"):
            raise BayesreconError(f"coordinates={self.coordinates!r}: expected 'unconstrained' or 'constrained'")

    def with_defaults(self, release: Release) -> "Estimator":
        """This estimator with the defaults for a release filled in."""
        return Estimator(self.metric or release.default_metric, self.coordinates or "unconstrained")


def generator(key: Any) -> np.random.Generator:
    """A NumPy generator from an integer or a JAX key."""
    if isinstance(key, (int, np.integer)):
        if key < 0:
            raise BayesreconError(f"key {key}: a seed must be a non-negative integer")
        return np.random.default_rng(int(key))
    import jax

    try:
        data = jax.random.key_data(key)
    except TypeError:
        raise BayesreconError(f"key must be an integer or a JAX random key, got {type(key).__name__}") from None
    return np.random.default_rng(np.asarray(data, np.uint32).ravel().tolist())

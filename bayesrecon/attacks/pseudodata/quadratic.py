"""The divergence as a quadratic function of a few numbers.

A record enters the divergence only through the amplitudes `c(z)` of its scores in the basis, `phi_z = psi c(z)`.
With `s = sum_m w_m c(z_m)`,

    FD(w, Z) = 1/2 s' G s - s' b + const = 1/2 |u|^2 + bound,   u = R (s - y),   R'R = G,   G y = b

so an evaluation needs the scores of M records at a few atoms only.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.divergence.score import scores
from bayesrecon.estimation.span import Fit
from bayesrecon.model import Model, Records

_ROWS = 6  # rows of the score matrix per feature, from which a record's amplitudes are computed


@partial(jax.jit, static_argnames="model")
def amplitudes(model: Model, metric: Array, theta: Array, inverse: Array, records: Records) -> Array:
    """`c(z)` of records, `(M, r)`, from the pseudo-inverse `(r, C k)` of the basis' scores."""
    return (inverse @ scores(model, metric, theta, records)).T


@dataclass(frozen=True)
class Features:
    """The solved embedding in the form that a descent needs.

    Attributes:
        embedding: the mean embedding of the release.
        solved: its solution.
        target: `(r,)` target of the basis. It differs from `solved.target` if the objective is sliced.
        rows: rows of the score matrix per feature, from which a record's amplitudes are computed.
    """

    embedding: OneRelease
    solved: Fit
    target: np.ndarray
    rows: int = _ROWS

    @cached_property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """A few atoms, and the pseudo-inverse of the basis' scores at them."""
        embedding, basis = self.embedding, self.solved.basis
        size, k = embedding.release.size, embedding.metric.shape[1]
        number = min(size, max(4, -(-self.rows * basis.size // k)))
        theta = np.asarray(embedding.release.theta)[evenly(size, number)]
        model, temperature = embedding.release.model, embedding.temperature
        phi = np.asarray(scores(model, embedding.metric, theta, basis.records, temperature))
        return theta, np.linalg.pinv(phi @ basis.coefficients, rcond=1e-13)

    def at(self, records: Records) -> Array:
        """`c(z)` of records, `(M, r)`. JAX can trace it."""
        embedding = self.embedding
        theta, inverse = self.atoms
        return amplitudes(embedding.release.model, embedding.metric, theta, inverse, records)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.solved.gram)
        return np.maximum(values, 1e-14 * values[-1]), vectors

    @cached_property
    def root(self) -> np.ndarray:
        """R `(r, r)` with `R'R = G`."""
        values, vectors = self._eigen
        return np.sqrt(values)[:, None] * vectors.T

    @cached_property
    def matched(self) -> np.ndarray:
        """`R y`, `(r,)`, which `R s` should match."""
        values, vectors = self._eigen
        return (vectors.T @ self.target) / np.sqrt(values)

    @property
    def bound(self) -> float:
        """Smallest value of the divergence over all signed measures, `-b' G^-1 b / 2` (up to the constant)."""
        return -0.5 * float(self.matched @ self.matched)

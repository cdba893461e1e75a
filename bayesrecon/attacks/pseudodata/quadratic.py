"""The divergence as a quadratic in few numbers.

A record enters the divergence only through the amplitudes `c(z)` of its scores in the basis, `phi_z = psi c(z)`.
With `s = sum_m w_m c(z_m)`,

    FD(w, Z) = 1/2 s' G s - s' b + const = 1/2 |u|^2 + bound,   u = R (s - y),   R'R = G,   G y = b

so one evaluation costs M scores at a few atoms instead of all of them.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.estimation.span import Fit
from bayesrecon.kernels.one_release import OneRelease
from bayesrecon.kernels.score import scores
from bayesrecon.model import Model, Records

_ROWS = 6  # score rows per feature that fix a record's amplitudes


@partial(jax.jit, static_argnames="model")
def amplitudes(model: Model, metric: Any, theta: Any, inverse: Any, records: Records) -> Any:
    """`c(z)` of records `(M, r)`: the pseudo-inverse `(r, C k)` of the basis' scores applied to the records'."""
    return (inverse @ scores(model, metric, theta, records)).T


@dataclass(frozen=True)
class Features:
    """The solved embedding in the form that descent needs.

    Attributes:
        embedding: of the release.
        solved: its solution.
        target: `(r,)` of the basis; differs from the solution's own where the objective is sliced.
        rows: rows of the score matrix that fix a record's amplitudes, per feature.
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

    def at(self, records: Records) -> Any:
        """`c(z)` of records, `(M, r)`; may be traced."""
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
    def wanted(self) -> np.ndarray:
        """`R y`, `(r,)`: what `R s` is to match."""
        values, vectors = self._eigen
        return (vectors.T @ self.target) / np.sqrt(values)

    @property
    def bound(self) -> float:
        """Smallest value of the divergence over all signed measures, `-b' G^-1 b / 2` (up to the constant)."""
        return -0.5 * float(self.wanted @ self.wanted)

"""Conjugate gradients for sums of layers, with an approximate inverse and deflation of the layers' common movements.

The sum over all rows of a set is large in K and small in the inverse, in every layer. The means of the derivatives over
the rows of a set span these movements. They are solved for exactly. The condition number of the remaining matrix does
not grow with the table (two-level preconditioning, method A-DEF2 of Tang, Nabben, Vuik and Erlangga 2009).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, Inverse, NotSolved

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_STEPS = 200  # largest number of steps; tables take about twenty
_RESIDUAL = 1e-10  # relative residual, if the matrix has a unit diagonal
_AT_ONCE = 2**23  # entries of right-hand sides that are solved together
_JITTER = 1e-12  # added to the diagonal for the common movements, some of which are sums of others


@dataclass(frozen=True)
class Solver:
    """`(Q + diag(added))^-1` applied to right-hand sides.

    Attributes:
        matrix: Q.
        inverse: approximate inverse of `multiple * (Q + diag(added))`.
        common: `(M, c)` sparse vectors of common movements.
        added: `(M,)`.
        multiple: 2 if Q is from half of the draws and the inverse from all of them.
    """

    matrix: Blocks
    inverse: Inverse
    common: "csr_array"
    added: Float[np.ndarray, " M"]
    multiple: float = 1.0

    @cached_property
    def _unit(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.matrix.diagonals().sum(axis=0) + self.added, 1e-300))[:, None]

    @cached_property
    def _coarse(self) -> tuple[np.ndarray, tuple[np.ndarray, bool]]:
        """Units of the common movements, and the factor of the matrix restricted to them."""
        added = ((self.common.T * self.added) @ self.common).toarray()
        between = self.matrix.between(self.common, len(added)) + added
        unit = np.sqrt(np.maximum(np.diag(between), 1e-300))
        between = between / unit / unit[:, None]
        between[np.diag_indices_from(between)] += _JITTER
        try:
            return unit, scipy.linalg.cho_factor(between, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotSolved from None

    def __call__(self, right: np.ndarray, start: np.ndarray | None = None, residual: float = _RESIDUAL) -> np.ndarray:
        """Solutions for `right (M,)` or `(M, S)`.

        Args:
            start: first iterate.
            residual: relative residual at which to stop.

        Raises:
            NotSolved: it does not converge.
        """
        tall = right.reshape(len(right), -1)
        x = np.zeros_like(tall) if start is None else start.reshape(tall.shape).copy()
        width = max(1, _AT_ONCE // len(tall))
        for i in range(0, tall.shape[1], width):
            x[:, i : i + width] = self._solved(tall[:, i : i + width], x[:, i : i + width], residual)
        return x.reshape(right.shape)

    def _solved(self, right: np.ndarray, x: np.ndarray, residual: float) -> np.ndarray:
        goal = residual * np.linalg.norm(right / self._unit, axis=0)
        r = right - self._times(x) if x.any() else right.copy()
        x = x + self._exact(r)
        r = right - self._times(x)
        p, rz = np.zeros_like(r), np.ones(r.shape[1])
        for _ in range(_STEPS):
            open_ = np.linalg.norm(r / self._unit, axis=0) > goal
            if not open_.any():
                return x
            z = self.multiple * (self.inverse.layers @ r)
            z += self._exact(r - self._times(z))
            now = np.einsum("ms,ms->s", r, z)
            p = z + (now / rz) * p
            rz = np.where(now > 0, now, 1.0)
            q = self._times(p)
            length = np.einsum("ms,ms->s", p, q)
            step = np.where(open_ & (length > 0), now / np.where(length > 0, length, 1.0), 0.0)
            x += step * p
            r -= step * q
        raise NotSolved

    def _times(self, x: np.ndarray) -> np.ndarray:
        return self.matrix @ x + self.added[:, None] * x

    def _exact(self, r: np.ndarray) -> np.ndarray:
        """Solution restricted to the space of common movements."""
        unit, factor = self._coarse
        inner = scipy.linalg.cho_solve(factor, (self.common.T @ r) / unit[:, None], check_finite=False)
        return np.asarray(self.common @ (inner / unit[:, None]))

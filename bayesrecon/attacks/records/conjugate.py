"""Conjugate gradients for sums of layers, with an approximate inverse and the layers' common movements taken out.

What all rows of a set do together is large in K and small in the inverse, and every layer has it: the means of the
derivatives over a set's rows span it. Solved exactly, they leave a matrix whose condition does not grow with the table
(two-level preconditioning, the method A-DEF2 of Tang, Nabben, Vuik and Erlangga 2009).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, Inverse, NotSolved

_STEPS = 200  # at most: some twenty are enough for tables
_RESIDUAL = 1e-10  # of the right-hand side, in units in which the matrix has a diagonal of ones
_AT_ONCE = 2**23  # numbers of right-hand sides that are solved together
_JITTER = 1e-12  # of the common movements, some of which are sums of others


@dataclass(frozen=True)
class Solver:
    """`(Q + diag(more))^-1` applied to right-hand sides.

    Attributes:
        matrix: Q.
        inverse: approximate inverse of a multiple of the matrix.
        common: `(M, c)` sparse vectors of common movements.
        more: `(M,)`.
        share: the multiple.
    """

    matrix: Blocks
    inverse: Inverse
    common: Any
    more: Float[np.ndarray, " M"]
    share: float = 1.0

    @cached_property
    def _unit(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.matrix.diagonals().sum(axis=0) + self.more, 1e-300))[:, None]

    @cached_property
    def _coarse(self) -> tuple[np.ndarray, Any]:
        """Units of the common movements, and the factor of the matrix between them."""
        between = self.matrix.between(self.common) + (self.common.T * self.more) @ self.common
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
            start: where to begin.
            residual: how much of the right-hand side may be left.

        Raises:
            NotSolved: after too many steps.
        """
        tall = right.reshape(len(right), -1)
        x = np.zeros_like(tall) if start is None else start.reshape(tall.shape).copy()
        wide = max(1, _AT_ONCE // len(tall))
        for i in range(0, tall.shape[1], wide):
            x[:, i : i + wide] = self._solved(tall[:, i : i + wide], x[:, i : i + wide], residual)
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
            z = self.share * (self.inverse.layers @ r)
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
        return self.matrix @ x + self.more[:, None] * x

    def _exact(self, r: np.ndarray) -> np.ndarray:
        """Solution for a right-hand side in the space of common movements."""
        unit, factor = self._coarse
        inner = scipy.linalg.cho_solve(factor, (self.common.T @ r) / unit[:, None], check_finite=False)
        return np.asarray(self.common @ (inner / unit[:, None]))

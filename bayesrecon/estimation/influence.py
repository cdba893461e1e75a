"""Influence series of many statistics that are linear in a few series."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Stored
from bayesrecon.running.draws_on_disk import mean_and_covariance, row_blocks


@dataclass(frozen=True, eq=False)
class Influence:
    """Series `(T, P)` as linear combinations of others, which may be in a file.

    Attributes:
        raw: `(T, R)` series.
        combined: `(R, P)` coefficients.
        weights: `(T,)` weights of the atoms.
    """

    raw: np.ndarray | Stored
    combined: Float[np.ndarray, "R P"]
    weights: Float[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.raw)

    def __matmul__(self, slopes: np.ndarray) -> np.ndarray:
        """Combinations `(T, S)` of the series by their coefficients `(P, S)`."""
        taken = self.combined @ slopes
        found = np.zeros((len(self.raw), slopes.shape[1]))
        used = np.flatnonzero(taken.any(axis=1))
        if not isinstance(self.raw, Stored):
            return self.raw @ taken
        if 2 * used.size > len(taken):
            for at, rows in row_blocks(self.raw):
                found[at] = rows @ taken
        else:
            for k in used.tolist():
                found += self.raw.columns(k, k + 1) * taken[k]
        return found

    @cached_property
    def covariance(self) -> Float[np.ndarray, "P P"]:
        """Covariance of the series over the atoms, `(P, P)`."""
        return self.combined.T @ mean_and_covariance(self.raw, self.weights)[1] @ self.combined

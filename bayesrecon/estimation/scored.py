"""Draws with the score of the posterior fitted to them, and standard errors of violated identities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesrecon.arrays import Stored
from bayesrecon.estimation.standard import Rows, Standard
from bayesrecon.running.draws_on_disk import mean_and_covariance

Moved = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]
"""Influence of errors of the fitted data on identities. The arguments are functions of the atoms `h (T, P)` (`Rows`),
coordinates `j (P,)`, and numbers `into (P,)` from 0 to K - 1. All `E[h_p score_j]` with the same number are summed. The
result is the influence series of these sums, `(T, K)`."""


Unseen = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]
"""A function of the same arguments: the standard deviations `(K,)` of the sums, due to the invisible part of the
records' score."""


@dataclass(frozen=True)
class ScoredDraws:
    """Draws with the score of the posterior that was fitted to them.

    Attributes:
        theta: `(T, d)` atoms, in memory or in a file.
        weights, chain: `(T,)` weights of the atoms, and their chains.
        scores: `(T, s)` scores at the atoms, for the first s coordinates.
    """

    theta: np.ndarray | Stored
    weights: Float[np.ndarray, " T"]
    chain: Int[np.ndarray, " T"]
    scores: np.ndarray | Stored

    def part(self, at: np.ndarray | slice, scores: np.ndarray) -> "ScoredDraws":
        """Some of the draws, with another score."""
        weights = self.weights[at]
        return ScoredDraws(self.theta[at], weights / weights.sum(), self.chain[at], scores)

    def standardised(self) -> tuple[Standard, Standard, np.ndarray]:
        """Atoms and scores free of units, and the `(d,)` units."""
        mean, covariance = mean_and_covariance(self.theta, self.weights)
        sd = np.sqrt(np.diag(covariance))
        width = self.scores.shape[1]
        return Standard(self.theta, mean, 1 / sd), Standard(self.scores, np.zeros(width), sd[:width]), sd


def confirmed(size: Any, z: Any, half: Any) -> Any:
    """The size of a violation in standard errors, given its size on half of the draws.

    The data were fitted to these draws. Effects of second order in their errors, and of shrinkage, are not violations.
    They are not in `moved`, and are about twice as large on half of the draws.
    """
    return np.abs(size) / np.hypot(size / z, size - half)


def allowed(size: Any, z: Any, unseen: Any) -> Any:
    """The size of a violation in standard errors that include the invisible part of the records' score.

    >>> round(float(allowed(np.array(4.0), np.array(4.0), np.array(3.0))), 3)
    1.265
    """
    return np.abs(size) / np.hypot(size / z, unseen)


def summed(values: Float[np.ndarray, "M P"], into: np.ndarray) -> np.ndarray:
    """Sums `(M, K)` of the columns of `values (M, P)` with the same number in `into`.

    >>> summed(np.array([[1.0, 2.0, 3.0]]), np.array([0, 1, 0]))
    array([[4., 2.]])
    """
    return np.asarray(values @ (into[:, None] == np.arange(into.max(initial=-1) + 1)))

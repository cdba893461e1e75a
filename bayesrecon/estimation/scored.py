"""Draws with the score of what was fitted to them, and what its errors do to a violation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesrecon.arrays import Stored
from bayesrecon.estimation.standard import Rows, Standard
from bayesrecon.running.draws_on_disk import mean_and_covariance

Moved = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]
"""For functions of the atoms `h (T, P)` (`Rows`), coordinates `j (P,)` and numbers `into (P,)` from zero to K, the
series `(T, K)` by which errors of the fitted data move the sums of the `E[h_p score_j]` that go into the same one."""


Unseen = Callable[[Rows, np.ndarray, np.ndarray], np.ndarray]
"""Of the same arguments, by how much `(K,)` the sums may be off since part of the records' score is not seen at all, as
a standard deviation."""


@dataclass(frozen=True)
class ScoredDraws:
    """Draws with the score of the posterior that was fitted to them.

    Attributes:
        theta: `(T, d)` atoms, in memory or in a file.
        weights, chain: `(T,)`.
        scores: `(T, s)` at the atoms, in the first of the same coordinates.
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
    """Standard errors of a violation whose size on half of the draws is known.

    The fitted data are fitted to these draws: what is of second order in their errors, or was left out where they are
    shrunk, is no disagreement. It is not in `moved`, and on half as many draws it is about twice as large.
    """
    return np.abs(size) / np.hypot(size / z, size - half)


def allowed(size: Any, z: Any, unseen: Any) -> Any:
    """Standard errors of a violation where what is not seen of the records' score can be part of it.

    >>> round(float(allowed(np.array(4.0), np.array(4.0), np.array(3.0))), 3)
    1.265
    """
    return np.abs(size) / np.hypot(size / z, unseen)


def summed(values: Float[np.ndarray, "M P"], into: np.ndarray) -> np.ndarray:
    """Sums `(M, K)` of the columns of `values (M, P)` that go into the same number.

    >>> summed(np.array([[1.0, 2.0, 3.0]]), np.array([0, 1, 0]))
    array([[4., 2.]])
    """
    return np.asarray(values @ (into[:, None] == np.arange(into.max(initial=-1) + 1)))

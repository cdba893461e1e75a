"""Fields of the draws for which `E[<h, score> + div h] = 0`, whatever the posterior."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from bayesrecon.estimation.standard import Standard

_AT_ONCE = 2**20  # numbers of a block of rows


@dataclass(frozen=True, eq=False)
class Fields:
    """Three fields: the distance from the mean, and the regressions of the score on other coordinates and on squares.

    The first tests the spread of all coordinates, which differs for another likelihood. The second is zero for
    independent coordinates, and the third for a normal distribution. Both regressions are fitted to the half of the
    draws on which they are not tested.

    Attributes:
        t, s: standardised atoms and scores, `(T, d)` and `(T, s)`.
        linear, quadratic: `(2, d, s)` coefficients for draws with even and odd numbers, fitted to the others.
        labels: labels of the fields, with the rates of false alarms above and below zero. Other likelihoods and
            approximations give values above zero. Fields that are sensitive to heavy tails have the smallest rates.
    """

    labels: ClassVar[dict[str, tuple[float, float]]] = {
        "the distance from the mean": (2.5e-3, 2e-4),
        "the regression of the score on other coordinates": (4e-4, 0.0),
        "the regression of the score on squares": (1e-4, 0.0),
    }

    t: Standard
    s: Standard
    linear: Float[np.ndarray, "2 d s"]
    quadratic: Float[np.ndarray, "2 d s"]

    @classmethod
    def of(cls, t: Standard, s: Standard) -> "Fields":
        d, width = t.shape[1], s.shape[1]
        gram, inner, count = np.zeros((2, 2 * d, 2 * d)), np.zeros((2, 2 * d, width)), np.zeros(2)
        for at in _rows(t):
            theta, score = t[at], s[at]
            powers = np.concatenate([theta, theta**2 - 1], axis=1)  # of standardised draws the mean square is one
            for half in (0, 1):
                use = slice((half - at.start) % 2, None, 2)
                gram[half] += powers[use].T @ powers[use]
                inner[half] += powers[use].T @ score[use]
                count[half] += len(powers[use])
        linear, quadratic = np.zeros((2, d, width)), np.zeros((2, d, width))
        j = np.arange(width)
        for half in (0, 1):
            other = 1 - half
            all_of, by_score = gram[other] / count[other], inner[other] / count[other]
            linear[half] = _coefficients(all_of[:d, :d], by_score[:d], count[other])
            unexplained = by_score[d:] - all_of[d:, :d] @ linear[half]
            quadratic[half] = _coefficients(all_of[d:, d:], unexplained, count[other])
            linear[half, j, j] = 0.0
        return cls(t, s, linear, quadratic)

    def at(self, rows: slice) -> list[tuple[np.ndarray, np.ndarray]]:
        """h and the terms of its divergence, `(n, s)` each, for every field."""
        theta, j = self.t[rows], np.arange(self.s.shape[1])
        squares = theta**2 - 1
        across, second, slope = (np.zeros((len(theta), len(j))) for _ in range(3))
        for half in (0, 1):
            use = slice((half - (rows.start or 0)) % 2, None, 2)
            across[use] = theta[use] @ self.linear[half]
            second[use] = squares[use] @ self.quadratic[half]
            slope[use] = 2 * theta[use][:, j] * self.quadratic[half, j, j]
        return [(theta[:, j], np.ones_like(second)), (across, np.zeros_like(second)), (second, slope)]

    def sums(self) -> Float[np.ndarray, "T 3"]:
        """`<h, score> + div h` at the draws, `(T, 3)`."""
        sums = np.empty((len(self.t), len(self.labels)))
        for at in _rows(self.t):
            score = self.s[at]
            for k, (h, divergence) in enumerate(self.at(at)):
                sums[at, k] = (h * score + divergence).sum(axis=1)
        return sums

    def sizes(self, sums: np.ndarray, weights: np.ndarray) -> list[float]:
        """Means of the sums over the draws. The first is corrected for the estimation of the mean."""
        bias = self.s.shape[1] * float(np.sum(weights**2))
        return [float(weights @ sums[:, k]) - (bias if k == 0 else 0.0) for k in range(sums.shape[1])]


def _rows(t: Standard) -> Iterator[slice]:
    height = max(1, _AT_ONCE // t.shape[1])
    for start in range(0, len(t), height):
        yield slice(start, min(start + height, len(t)))


def _coefficients(gram: np.ndarray, inner: np.ndarray, count: float) -> np.ndarray:
    """Coefficients of the regression of s scores on d features, `(d, s)`, with a ridge for d noisy features.

    Args:
        gram, inner: mean products of features `(d, d)`, and of features with scores `(d, s)`.
        count: draws.
    """
    scale = np.sqrt(np.diag(gram))
    correlation = gram / scale / scale[:, None]
    correlation[np.diag_indices_from(correlation)] += len(gram) / count
    return np.linalg.solve(correlation, inner / scale[:, None]) / scale[:, None]

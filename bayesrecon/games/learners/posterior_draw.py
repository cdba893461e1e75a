"""One draw from a tempered posterior of logistic regression."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError
from bayesrecon.games.data import Records
from bayesrecon.games.learner import check_positive
from bayesrecon.games.private import Private, Released

_POINTS, _BLOCK, _LARGEST = 200_000, 500_000, 100.0
"""Largest number of grid points, largest number of log likelihoods in memory, and largest radius."""


@dataclass(frozen=True)
class PosteriorDraw(Private):
    """One draw from a tempered posterior (Wang, Fienberg and Smola 2015; Dimitrakakis et al. 2017).

    Theta is drawn with probability proportional to `exp(power sum_i -log(1 + exp(-<theta, z_i>)))` from the points of a
    fixed grid in the ball `|theta| <= radius`. The draw is exact, because the probabilities of all points are summed.

    For `|z| <= 1` the log likelihood of a record is between `-log(1 + e^radius)` and `-log(1 + e^-radius)`. The two
    differ by `radius`. So substituting one record changes the log of every weight, and of their sum, by at most
    `power radius`, and `epsilon = 2 power radius`. The power of the likelihood is therefore `epsilon / (2 radius)`. A
    power of 1 is the posterior itself.

    The log ratios of the weights are in an interval of length epsilon. So the success rate of any adversary of the game
    is at most `e^(epsilon/2) / (1 + e^(epsilon/2))`.

    Attributes:
        radius: radius of the ball.
        dimensions: number of dimensions of theta, including the intercept. If the data have more columns, they are
            projected on directions that are the same for all data.
        points: number of grid points along each dimension.

    >>> learner = PosteriorDraw(epsilon=1.0, radius=4.0)
    >>> learner.power
    0.125
    """

    radius: float = 4.0
    dimensions: int = 3
    points: int = 17
    mechanism: ClassVar[str] = "one posterior draw"
    quick: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(radius=self.radius)
        if self.radius > _LARGEST:
            raise BayesreconError(
                f"radius={self.radius:g}: log odds above {_LARGEST} mean certainty; use a smaller radius"
            )
        least = 2 if self.intercept else 1
        if self.dimensions < least or self.points < 2 or self.points**self.dimensions > _POINTS:
            raise BayesreconError(
                f"dimensions={self.dimensions}, points={self.points}: expected at least {least} dimensions, at least "
                f"two points per dimension, and at most {_POINTS} points in all"
            )

    @property
    def power(self) -> float:
        """Power of the likelihood."""
        return self.epsilon / (2 * self.radius)

    def reduced(self, x: np.ndarray) -> np.ndarray:
        width, reduced = x.shape[1], self.dimensions - self.intercept
        # Projections are shorter. If all columns matter equally, this restores their length.
        return x @ _directions(width, reduced) * (width / reduced) ** 0.5 if width > reduced else x

    def fit(self, records: Records, classes: int, seed: int) -> Released:
        grid, log_probability = self.posterior(records)
        draw = np.random.default_rng(seed).choice(len(grid), p=np.exp(log_probability))
        return Released(grid[draw], self.rows)

    def log_density(self, fitted: Released, records: Records) -> float:
        grid, log_probability = self.posterior(records)
        return float(log_probability[(grid == fitted.theta).all(axis=1)][0])

    def posterior(self, records: Records) -> tuple[np.ndarray, np.ndarray]:
        """The points of the grid `(G, d)` and their log probabilities `(G,)`."""
        signed = self.signed(records)
        grid = _grid(self.radius, signed.shape[1], self.points)
        log_weight, size = np.zeros(len(grid)), max(1, _BLOCK // len(grid))
        for start in range(0, len(signed), size):
            log_weight -= np.log1p(np.exp(-grid @ signed[start : start + size].T)).sum(axis=1)
        log_weight *= self.power
        return grid, log_weight - scipy.special.logsumexp(log_weight)


@cache
def _grid(radius: float, width: int, points: int) -> np.ndarray:
    axes = np.meshgrid(*[np.linspace(-radius, radius, points)] * width, indexing="ij")
    cube = np.stack([axis.ravel() for axis in axes], axis=1)
    grid = cube[np.linalg.norm(cube, axis=1) <= radius * (1 + 1e-12)]
    if len(grid) < 2:
        raise BayesreconError(f"points={points}: fewer than two grid points are in the ball; use more points")
    grid.flags.writeable = False
    return grid


@cache
def _directions(width: int, reduced: int) -> np.ndarray:
    """Orthonormal columns `(width, reduced)`, the same for all data."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(width, reduced)))[0]


LEARNERS = {
    "private-posterior": (
        "logistic regression, one draw of a tempered posterior, epsilon 1",
        lambda classes: PosteriorDraw(),
    )
}

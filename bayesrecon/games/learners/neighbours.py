"""Nearest neighbours; a deletion only moves the others up."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesrecon.games.data import Records
from bayesrecon.games.learner import Learner
from bayesrecon.games.outputs import PROBABILITIES, VALUES


@dataclass(frozen=True, eq=False)
class Voters:
    """The nearest of the records that are left: k more are looked up than were deleted, and those are passed over."""

    index: Any
    y: np.ndarray
    k: int
    classes: int
    gone: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        found = self.index.kneighbors(x, min(self.k + len(self.gone), len(self.y)), return_distance=False)
        if len(self.gone):
            # A stable sort brings those that are left to the front, in their order.
            rank = np.argsort(np.isin(found, self.gone), axis=1, kind="stable")[:, : self.k]
            found = np.take_along_axis(found, rank, axis=1)
        votes = self.y[found]
        if not self.classes:
            return votes.mean(axis=1)
        return (votes[:, :, None] == np.arange(self.classes)).mean(axis=1)


@dataclass(frozen=True)
class Neighbours(Learner):
    """The average response, or share of every class, among the k nearest records (Euclidean).

    >>> data = Records(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1]))
    >>> learner = Neighbours(1, PROBABILITIES)
    >>> learner.without(learner.fit(data, 2, 0), data, np.array([0]), 2, 0)(np.array([[0.1]]))
    array([[0., 1.]])
    """

    k: int = 5
    answers: str = PROBABILITIES

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.k} nearest neighbours"

    def fit(self, records: Records, classes: int, seed: int) -> Voters:
        from sklearn.neighbors import NearestNeighbors

        return Voters(NearestNeighbors(algorithm="brute").fit(records.x), records.y, self.k, classes)

    def without(self, fitted: Voters, records: Records, rows: np.ndarray, classes: int, seed: int) -> Voters:
        return Voters(fitted.index, fitted.y, fitted.k, fitted.classes, np.union1d(fitted.gone, rows))


def _of(k: int) -> Any:
    return lambda classes: Neighbours(k, PROBABILITIES if classes else VALUES)


LEARNERS = {"knn": ("5 nearest neighbours", _of(5)), "1-nn": ("the nearest neighbour", _of(1))}

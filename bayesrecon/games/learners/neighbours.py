"""Nearest neighbours. After a deletion, the next neighbours move up."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesrecon.games.answers import PROBABILITIES, VALUES
from bayesrecon.games.data import Records
from bayesrecon.games.learner import Learner

_LARGEST = 2**22  # largest number of distances in memory


@dataclass(frozen=True, eq=False)
class Voters:
    """Answers from the nearest remaining records.

    At equal distance the first records count, so that a deletion changes an answer only if the deleted record had a
    vote. Without records (`x=None`), queries are rows of distances.
    """

    x: np.ndarray | None
    y: np.ndarray
    k: int
    classes: int
    gone: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        length = max(_LARGEST // len(self.y), 1)
        parts = [self._votes(x[start : start + length]) for start in range(0, max(len(x), 1), length)]
        return np.concatenate(parts)

    def _votes(self, x: np.ndarray) -> np.ndarray:
        from sklearn.metrics import euclidean_distances

        far = np.array(x, float) if self.x is None else euclidean_distances(x, self.x, squared=True)
        far[:, self.gone] = np.inf
        k = min(self.k, len(self.y) - len(self.gone))
        last = np.partition(far, k - 1, axis=1)[:, k - 1 : k]
        nearer, level = far < last, far == last
        chosen = nearer | (level & (np.cumsum(level, axis=1) <= k - nearer.sum(axis=1, keepdims=True)))
        responses = self.y[:, None] == np.arange(self.classes) if self.classes else self.y[:, None]
        votes = chosen @ responses.astype(float) / k
        return np.asarray(votes if self.classes else votes[:, 0])


@dataclass(frozen=True)
class Neighbours(Learner):
    """The average response, or the share of every class, among the k nearest records.

    Distances are Euclidean. At equal distance the first records count.

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
        return Voters(records.x, records.y, self.k, classes)

    def without(self, fitted: Voters, records: Records, rows: np.ndarray, classes: int, seed: int) -> Voters:
        return Voters(fitted.x, fitted.y, fitted.k, fitted.classes, np.union1d(fitted.gone, rows))


def _of(k: int) -> Any:
    return lambda classes: Neighbours(k, PROBABILITIES if classes else VALUES)


LEARNERS = {"knn": ("5 nearest neighbours", _of(5)), "1-nn": ("the nearest neighbour", _of(1))}

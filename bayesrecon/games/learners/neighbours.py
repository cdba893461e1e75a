"""Nearest neighbours. After a deletion, the next neighbours move up."""

from collections.abc import Callable
from dataclasses import dataclass, field

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

    Attributes:
        x: features of the training records, `(n, p)`.
        y: their responses, `(n,)`.
        k: number of neighbours.
        classes: number of classes; 0 for a number.
        deleted: positions of the deleted records.
    """

    x: np.ndarray | None
    y: np.ndarray
    k: int
    classes: int
    deleted: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        length = max(_LARGEST // len(self.y), 1)
        parts = [self._votes(x[start : start + length]) for start in range(0, max(len(x), 1), length)]
        return np.concatenate(parts)

    def _votes(self, x: np.ndarray) -> np.ndarray:
        from sklearn.metrics import euclidean_distances

        distances = np.array(x, float) if self.x is None else euclidean_distances(x, self.x, squared=True)
        distances[:, self.deleted] = np.inf
        k = min(self.k, len(self.y) - len(self.deleted))
        last = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        nearer, tied = distances < last, distances == last
        chosen = nearer | (tied & (np.cumsum(tied, axis=1) <= k - nearer.sum(axis=1, keepdims=True)))
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
        return Voters(fitted.x, fitted.y, fitted.k, fitted.classes, np.union1d(fitted.deleted, rows))


def _nearest(k: int) -> Callable[[int], Neighbours]:
    return lambda classes: Neighbours(k, PROBABILITIES if classes else VALUES)


LEARNERS = {"knn": ("5 nearest neighbours", _nearest(5)), "1-nn": ("the nearest neighbour", _nearest(1))}

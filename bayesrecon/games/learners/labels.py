"""A learner that only answers with labels."""

from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import PROBABILITIES, VALUES
from bayesrecon.games.data import Records
from bayesrecon.games.learner import FittedModel, Learner


@dataclass(frozen=True, eq=False)
class Labelled:
    """A model that shows only its most likely class, as a one in the class's column and zeros elsewhere."""

    model: FittedModel
    classes: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.eye(self.classes)[self.model(x).argmax(axis=1)]


@dataclass(frozen=True, eq=False)
class Labels(Learner):
    """Another learner whose models only answer with labels: the defence of a service that hides its confidences.

    >>> from bayesrecon.games import Logistic
    >>> data = Records(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]))
    >>> Labels(Logistic()).fit(data, 2, 0)(np.array([[2.9]]))
    array([[0., 1.]])
    """

    learner: Learner
    answers = PROBABILITIES

    def __post_init__(self) -> None:
        if self.learner.answers == VALUES:
            raise BayesreconError(f"{self.learner.name} answers with {VALUES}, which are not labels; use a classifier")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.learner.name}, labels alone"

    @property
    def epsilon(self) -> float | None:  # type: ignore[override]
        """That of the other learner: labels are computed from its model alone."""
        return self.learner.epsilon

    def fit(self, records: Records, classes: int, seed: int) -> Labelled:
        return Labelled(self.learner.fit(records, classes, seed), classes)

    def without(self, fitted: Labelled, records: Records, rows: np.ndarray, classes: int, seed: int) -> Labelled:
        return Labelled(self.learner.without(fitted.model, records, rows, classes, seed), classes)

"""What an adversary sees of one round, and the order in which it may query the models."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.data import Records
from bayesrecon.games.learner import FittedModel, Learner


class Oracles:
    """Both models as black boxes. h must be queried before h'."""

    def __init__(self, before: FittedModel, after: FittedModel):
        self._before, self._after, self._replaced = before, after, False

    def before(self, x: np.ndarray) -> np.ndarray:
        """Answers of h, the model with the deleted record.

        Raises `BayesreconError` after h' was queried, because h has been replaced by then.
        """
        if self._replaced:
            raise BayesreconError("query the model before the deletion first: it is gone once the new one was queried")
        return self._before(x)

    def after(self, x: np.ndarray) -> np.ndarray:
        """Answers of h', the model without the deleted record."""
        self._replaced = True
        return self._after(x)


@dataclass(frozen=True, eq=False)
class View:
    """What an adversary sees.

    Attributes:
        ask: both models.
        x: `(k, p)`, features of the challenges; None if they are withheld, and in reconstruction games.
        y: `(k,)`, their responses, likewise.
        classes: number of classes of the response; 0 for a number.
        answers: the kind of the models' answers.
        public: auxiliary records outside S from the same distribution; None if the game grants none.
        others: all records of S except for the challenges; None likewise.
        fitted: both models themselves, in white-box games; None otherwise.
        learner: how the models were trained. Adversaries may train it on their own records.
        total: size of S.
        rng: the adversary's own random generator.
    """

    ask: Oracles
    x: np.ndarray | None
    y: np.ndarray | None
    classes: int
    answers: str
    public: Records | None
    others: Records | None
    fitted: tuple[FittedModel, FittedModel] | None
    learner: Learner
    total: int
    rng: np.random.Generator

    @property
    def trained(self) -> tuple[Any, Any] | None:
        """Both models as releases, in games that show parameters."""
        if self.fitted is None:
            return None
        before, after = self.fitted
        return self.learner.release(before), self.learner.release(after)

    @property
    def features(self) -> np.ndarray:
        """Features of the challenges. The game has checked that they are shown."""
        assert self.x is not None
        return self.x

    @property
    def labels(self) -> np.ndarray:
        """Responses of the challenges. The game has checked that they are shown."""
        assert self.y is not None
        return self.y

    @property
    def auxiliary(self) -> Records:
        """The public records. The game has checked that they are granted."""
        assert self.public is not None
        return self.public

    def fit(self, records: Records) -> FittedModel:
        """A model trained on the adversary's own records, with its own randomness."""
        return self.learner.fit(records, self.classes, int(self.rng.integers(2**31)))

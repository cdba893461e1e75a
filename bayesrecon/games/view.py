"""What an adversary is shown of one round, and the order in which it may ask."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.data import Records
from bayesrecon.games.learner import Fitted, Learner


class Oracles:
    """Both models as black boxes: h is asked first, and no more once h' was."""

    def __init__(self, before: Fitted, after: Fitted):
        self._before, self._after, self._over = before, after, False

    def before(self, x: np.ndarray) -> np.ndarray:
        """Answers of h, the model with the deleted record.

        Raises `BayesreconError` once h' was asked: h has been replaced by then.
        """
        if self._over:
            raise BayesreconError("the model before the deletion is gone once the one after it was asked; ask it first")
        return self._before(x)

    def after(self, x: np.ndarray) -> np.ndarray:
        """Answers of h', the model without it."""
        self._over = True
        return self._after(x)


@dataclass(frozen=True, eq=False)
class View:
    """What an adversary is shown.

    Attributes:
        ask: both models.
        x: `(k, p)` the challenges' features, None where they are withheld (and in reconstruction games).
        y: `(k,)` their responses, likewise.
        classes: of the response, 0 for a number; answers: the kind of the models' answers.
        public: auxiliary records of the same law, outside S; None where the game grants none.
        others: all records of S but the challenges; None likewise.
        fitted: both models themselves, where the game opens the box; None likewise.
        learner: how the models were trained: adversaries may train on their own records.
        total: the size of S.
        rng: the adversary's own coins.
    """

    ask: Oracles
    x: np.ndarray | None
    y: np.ndarray | None
    classes: int
    answers: str
    public: Records | None
    others: Records | None
    fitted: tuple[Any, Any] | None
    learner: Learner
    total: int
    rng: np.random.Generator

    @property
    def trained(self) -> tuple[Any, Any] | None:
        """Both models as releases, where parameters are read."""
        return None if self.fitted is None else tuple(map(self.learner.release, self.fitted))  # type: ignore[return-value]

    @property
    def features(self) -> np.ndarray:
        """The challenges' features; the game made sure that they are there."""
        assert self.x is not None
        return self.x

    @property
    def labels(self) -> np.ndarray:
        """The challenges' responses; the game made sure that they are there."""
        assert self.y is not None
        return self.y

    @property
    def auxiliary(self) -> Records:
        """The public records; the game made sure that they are there."""
        assert self.public is not None
        return self.public

    def fit(self, records: Records) -> Fitted:
        """A model trained on the adversary's own records, with its own randomness."""
        return self.learner.fit(records, self.classes, int(self.rng.integers(2**31)))

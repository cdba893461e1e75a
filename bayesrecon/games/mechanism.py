"""Deletion mechanisms: how the model without the deleted records is computed."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.data import Records
from bayesrecon.games.learner import FittedModel, Learner, check_positive


class DeletionMechanism(Protocol):
    """A deletion mechanism.

    Args of a call:
        learner: what trained the model.
        fitted: model trained on `records` with the first seed. The second seed is fresh.
        rows: positions of the deleted records.
        classes: number of classes of the response; 0 for a number.
    """

    def __call__(
        self,
        learner: Learner,
        fitted: Any,
        records: Records,
        rows: np.ndarray,
        classes: int,
        seeds: tuple[int, int],
        /,
    ) -> FittedModel: ...


@dataclass(frozen=True)
class Retrain:
    """Ideal deletion, `Del(h, e) = Learn(S without e)`: full retraining with the same settings.

    Any object with the same call signature can be used as a mechanism (`DeletionMechanism`).

    Attributes:
        fresh: whether the randomness is drawn anew. Otherwise the seed is that of the first training.
    """

    fresh: bool = True

    def __call__(
        self,
        learner: Learner,
        fitted: Any,
        records: Records,
        rows: np.ndarray,
        classes: int,
        seeds: tuple[int, int],
    ) -> FittedModel:
        """The model after the deletion. Arguments are as in `DeletionMechanism`."""
        return learner.without(fitted, records, rows, classes, seeds[1] if self.fresh else seeds[0])


IDEAL = Retrain()


def claimed_epsilon(learner: Learner, deletion: DeletionMechanism) -> float | None:
    """The epsilon that holds for a game: the learner's, if the second training has independent randomness.

    None if the learner claims none, or if nothing is known of the mechanism.
    """
    if learner.epsilon is None:
        return None
    check_positive(epsilon=learner.epsilon)
    if deletion == Retrain(fresh=False):
        raise BayesreconError(
            f"{learner.name} promises epsilon {learner.epsilon:g} for trainings with independent noise, and "
            "Retrain(fresh=False) uses the same noise twice, which cancels out; use Retrain()"
        )
    return float(learner.epsilon) if deletion == IDEAL else None


def train_and_delete(
    deletion: DeletionMechanism,
    learner: Learner,
    records: Records,
    rows: np.ndarray,
    classes: int,
    rng: np.random.Generator,
) -> tuple[FittedModel, FittedModel]:
    """The models before and after the deletion of some rows, each trained with a seed of its own."""
    seeds = (int(rng.integers(2**31)), int(rng.integers(2**31)))
    before = learner.fit(records, classes, seeds[0])
    return before, deletion(learner, before, records, rows, classes, seeds)

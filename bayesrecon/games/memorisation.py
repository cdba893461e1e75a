"""Memorisation: how much more often a record's label is predicted correctly if the record was in the training data."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.rate_intervals import clopper_pearson
from bayesrecon.games.data import Records
from bayesrecon.games.learner import Trainable, as_learner

_LEVEL = 0.975
"""Level of the intervals of the two rates, so that their difference has a 95 % interval."""


class Memorisation(NamedTuple):
    """Memorisation scores of some records.

    Attributes:
        rows: `(m,)`, positions of the records.
        scores: `(m,)`, from -1 to 1. They are the difference `trained - without`.
        trained, without: `(m,)`, rates of correct predictions after training with and without the record.
        limits: `(m, 2)`, 95 % intervals of the scores; None if each model was trained once.
    """

    rows: np.ndarray
    scores: np.ndarray
    trained: np.ndarray
    without: np.ndarray
    limits: np.ndarray | None


def memorisation(
    learner: Trainable,
    records: Records,
    classes: int,
    *,
    rows: npt.ArrayLike | None = None,
    trainings: int = 1,
    seed: int = 0,
) -> Memorisation:
    """`mem(i) = P(h(x_i) = y_i, h trained on S) - P(h(x_i) = y_i, h trained on S without i)` (Feldman 2020).

    It equals the expected score of Del-Inf-Exm with zero-one loss for a deleted record (Gao et al. 2022, appendix G.2).
    A model that memorises therefore reveals deletions.

    Args:
        learner: a `Learner`, an estimator, or a pair of functions.
        records: S.
        classes: number of classes of the response.
        rows: positions of the records to score; all by default.
        trainings: number of models with and without each record. One is exact if training is deterministic.
        seed: seed of everything random.

    Raises:
        BayesreconError: the response is not a class, a row does not exist, or there is no training.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> data = Records(np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 1, 1, 1]))
    >>> memorisation(KNeighborsClassifier(1), data, 2).scores.tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    if classes < 2 or trainings < 1:
        raise BayesreconError(f"classes={classes}, trainings={trainings}: expected at least 2 classes and 1 training")
    method = as_learner(learner, classes)
    chosen = np.arange(len(records.y)) if rows is None else np.asarray(rows, int).reshape(-1)
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(records.y)):
        raise BayesreconError(f"rows must be between 0 and {len(records.y) - 1}")
    seeds = np.random.default_rng(seed).integers(2**31, size=(trainings, 1 + len(chosen))).tolist()
    trained, without = np.zeros(len(chosen)), np.zeros(len(chosen))
    for first, *others in seeds:
        fitted = method.fit(records, classes, first)
        trained += fitted(records.x[chosen]).argmax(axis=1) == records.y[chosen]
        for k, (i, other_seed) in enumerate(zip(chosen, others, strict=True)):
            retrained = method.without(fitted, records, np.array([i]), classes, other_seed)
            without[k] += retrained(records.x[[i]]).argmax() == records.y[i]
    limits = (
        None if trainings == 1 else np.stack([_limits(a, b, trainings) for a, b in zip(trained, without, strict=True)])
    )
    trained, without = trained / trainings, without / trainings
    return Memorisation(chosen, trained - without, trained, without, limits)


def _limits(trained: float, without: float, trainings: int) -> tuple[float, float]:
    with_record, without_record = (clopper_pearson(int(count), trainings, level=_LEVEL) for count in (trained, without))
    return with_record.lower - without_record.upper, with_record.upper - without_record.lower

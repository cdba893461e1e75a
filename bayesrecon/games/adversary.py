"""The base class of adversaries: a frozen dataclass of options that scores challenges. The larger score means deleted.

A module of `bayesrecon.games` registers adversaries with `ADVERSARIES`, `{name: (one line, adversary)}`. The command
line then finds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError, near
from bayesrecon.games.data import Records
from bayesrecon.games.learner import FittedModel, Learner

# What an adversary sees of one round, and the order in which it may query the models.


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


X, Y, PUBLIC, PARAMETERS = "instances", "labels", "auxiliary records", "parameters"
DENSITY = "density of the parameter"
"""What an adversary may need."""

_REFERENCE = 0.95
"""Quantile of the scores of kept records. A single challenge with a larger score is called deleted."""


@dataclass(frozen=True)
class Adversary:
    """An adversary of the inference game.

    Attributes:
        name: name in tables and on the command line.
        needs: what it requires the game to grant.
        quick: whether it answers in less than a millisecond.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y)
    quick: ClassVar[bool] = False

    @property
    def name(self) -> str:
        raise NotImplementedError

    def required(self) -> tuple[str, ...]:
        """What it requires with these options."""
        return self.needs

    def scores(self, view: View) -> np.ndarray:
        """A score for each challenge, `(k,)`. The larger the score, the more likely the challenge was deleted."""
        raise NotImplementedError

    def margin(self, view: View) -> float:
        """For a single challenge: its score minus the threshold above which it is called deleted.

        The threshold is a quantile of the scores of public records, none of which was deleted.
        """
        if view.public is None:
            raise BayesreconError(f"{self.name}: a single challenge needs auxiliary records; set auxiliary=100")
        challenge_and_public = replace(
            view,
            x=None if view.x is None else np.concatenate([view.x, view.public.x]),
            y=None if view.y is None else np.concatenate([view.y, view.public.y]),
        )
        scores = self.scores(challenge_and_public)
        return float(scores[0] - np.quantile(scores[1:], _REFERENCE))


@cache
def named_adversaries() -> Mapping[str, tuple[str, Adversary]]:
    """All adversaries by name, each with its description in one line (read-only)."""
    return MappingProxyType(
        {name: entry for part in discover("bayesrecon.games", "ADVERSARIES") for name, entry in part.items()}
    )


def named_adversary(name: str) -> Adversary:
    """The adversary with this name.

    Raises:
        BayesreconError: no adversary has this name.

    >>> named_adversary("ins").name
    'Del-Inf-Ins'
    """
    known = named_adversaries()
    if name not in known:
        raise BayesreconError(f"there is no adversary {name!r}{near(name, known)}; known: {', '.join(known)}")
    return known[name][1]

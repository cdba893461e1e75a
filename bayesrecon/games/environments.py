"""Environments of the compliance game: one that watches, one that clears the neighbourhood first, and one that plays
both worlds itself."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import distance, loss_of
from bayesrecon.games.compliance import WEAK, Collector, Environment

_ROUNDING = 1e-7
"""Moves of an answer, relative to its size, that training to convergence leaves in it."""


def _moved(collector: Collector, loss: str | None, before: np.ndarray) -> np.ndarray:
    """What the direct adversaries look at, for each challenge: the rise of a loss, or the move of the answer."""
    x, y = collector.challenges
    after = collector.ask(x)
    if loss is None:
        return distance(before, after)
    return loss_of(loss, collector.answers, after, y) - loss_of(loss, collector.answers, before, y)


def _verdict(moved: np.ndarray, size: float) -> float:
    """The second challenge moved more; of one alone, it moved at all."""
    return float(moved[1] - moved[0]) if len(moved) == 2 else (1.0 if abs(moved[0]) > _ROUNDING * size else -1.0)


@dataclass(frozen=True)
class Watching(Environment):
    """Asks at the challenges before the user's deletion and after, as Del-Inf-Exm (with a loss) and Del-Inf-Ins
    (without) do. In the strong notion it says that a record was stored where the answer moved at all.

    Attributes:
        loss: of `Exm`; None for the move of the answer. between: so many of its own records, at random, are deleted
            between both looks, one request after the other.
    """

    loss: str | None = None
    between: int = 0

    @property
    def name(self) -> str:
        what = f"the {self.loss} loss" if self.loss else "the answer"
        return f"watches {what}" + (f", {self.between} deletions between" if self.between else "")

    def score(self, collector: Collector) -> float:
        before = collector.ask(collector.challenges.x)
        half = self.between // 2
        rows = collector.rng.permutation(len(collector.others.y))[: self.between]
        for row in rows[:half]:
            collector.delete(row)
        collector.leave()
        for row in rows[half:]:
            collector.delete(row)
        return _verdict(_moved(collector, self.loss, before), float(np.abs(before).max()))


@dataclass(frozen=True)
class Clearing(Environment):
    """Chooses by what it was answered: it has its own records deleted that hold up the model near the challenge of
    which the model is surer, the nearest first, and then watches. A record without neighbours shows more of itself.

    Attributes:
        count: of records to delete. requests: in which it deletes them, asking the model before each.
        loss: as for `Watching`.
    """

    notions: ClassVar[tuple[str, ...]] = (WEAK,)
    count: int = 20
    requests: int = 5
    loss: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.requests <= self.count:
            raise BayesreconError(f"count={self.count}, requests={self.requests}: expected 1 <= requests <= count")

    @property
    def name(self) -> str:
        return f"clears {self.count} neighbours, then watches {self.loss + ' loss' if self.loss else 'the answer'}"

    def score(self, collector: Collector) -> float:
        x, y = collector.challenges
        scale = collector.others.x.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        far = (((collector.others.x[:, None] - x[None]) / scale) ** 2).sum(axis=2)  # (others, 2)
        cleared = np.zeros(2)
        for size in np.diff(np.linspace(0, self.count, self.requests + 1).astype(int)).tolist():
            losses = loss_of(self.loss, collector.answers, collector.ask(x), y)
            surer = int(np.lexsort([cleared, losses])[0])  # of equal ones that with more neighbours left
            nearest = np.argsort(far[:, surer], kind="stable")[:size]
            far[nearest], cleared[surer] = np.inf, cleared[surer] + size
            collector.delete(nearest)
        before = collector.ask(x)
        collector.leave()
        return _verdict(_moved(collector, self.loss, before), 0.0)


@dataclass(frozen=True)
class Comparing(Environment):
    """Looks after the user's deletion alone, and compares the answers at the challenges with those of both worlds,
    which it plays itself: an exact deletion leaves nothing to compare, up to rounding, an approximate one does.

    Attributes:
        deletions: of its own records, at random, for which it asks after the user, one after the other.
    """

    deletions: int = 0

    @property
    def name(self) -> str:
        return "compares both worlds" + (f" after {self.deletions} deletions" if self.deletions else "")

    def score(self, collector: Collector) -> float:
        rows = collector.rng.permutation(len(collector.others.y))[: self.deletions]
        worlds = [collector, collector.imagine(False), collector.imagine(True)]
        answers, first, second = (self._played(one, rows) for one in worlds)
        if np.abs(first - second).max() <= _ROUNDING * np.abs(answers).max():
            return 0.0
        return float(distance(answers, first).sum() - distance(answers, second).sum())

    def _played(self, collector: Collector, rows: np.ndarray) -> np.ndarray:
        collector.leave()
        for row in rows:
            collector.delete(row)
        return collector.ask(collector.challenges.x)

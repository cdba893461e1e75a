"""Environments of the compliance game.

`Watching` compares answers before and after the deletion. `Clearing` first deletes neighbours of a challenge.
`Comparing` simulates both worlds.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import distance, loss_of
from bayesrecon.games.compliance import WEAK, Collector, Environment

_ROUNDING = 1e-7
"""Smaller relative changes of an answer are noise of the optimiser."""


def _changes(collector: Collector, loss: str | None, before: np.ndarray) -> np.ndarray:
    """The increase of the loss at each challenge, or without a loss the change of the answer."""
    x, y = collector.challenges
    after = collector.ask(x)
    if loss is None:
        return distance(before, after)
    return loss_of(loss, collector.answers, after, y) - loss_of(loss, collector.answers, before, y)


def _verdict(changes: np.ndarray, scale: float) -> float:
    """A score that is positive if the second challenge changed more, or if a single challenge changed at all."""
    return (
        float(changes[1] - changes[0]) if len(changes) == 2 else (1.0 if abs(changes[0]) > _ROUNDING * scale else -1.0)
    )


@dataclass(frozen=True)
class Watching(Environment):
    """Queries the challenges before and after the user's deletion, like Del-Inf-Exm (with a loss) and Del-Inf-Ins.

    In the strong notion it says that the record was stored if the answer changed at all.

    Attributes:
        loss: a loss of `Exm`; None for the change of the answer.
        between: number of its own records, chosen at random, that are deleted one by one between the queries.
    """

    loss: str | None = None
    between: int = 0

    @property
    def name(self) -> str:
        watched = f"the {self.loss} loss" if self.loss else "the answer"
        return f"watches {watched}" + (f", {self.between} deletions between" if self.between else "")

    def score(self, collector: Collector) -> float:
        before = collector.ask(collector.challenges.x)
        half = self.between // 2
        rows = collector.rng.permutation(len(collector.others.y))[: self.between]
        for row in rows[:half]:
            collector.delete(row)
        collector.leave()
        for row in rows[half:]:
            collector.delete(row)
        return _verdict(_changes(collector, self.loss, before), float(np.abs(before).max()))


@dataclass(frozen=True)
class Clearing(Environment):
    """Deletes its own records near the challenge that the model predicts better, and then watches.

    The nearest records are deleted first. A record without neighbours has more influence on the answer there.

    Attributes:
        count: number of records to delete.
        requests: number of requests in which they are deleted. The model is queried before each.
        loss: as in `Watching`.
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
        distances = (((collector.others.x[:, None] - x[None]) / scale) ** 2).sum(axis=2)  # (others, 2)
        cleared = np.zeros(2)
        for size in np.diff(np.linspace(0, self.count, self.requests + 1).astype(int)).tolist():
            losses = loss_of(self.loss, collector.answers, collector.ask(x), y)
            surer = int(np.lexsort([cleared, losses])[0])  # if losses tie, the one with more neighbours left
            nearest = np.argsort(distances[:, surer], kind="stable")[:size]
            distances[nearest], cleared[surer] = np.inf, cleared[surer] + size
            collector.delete(nearest)
        before = collector.ask(x)
        collector.leave()
        return _verdict(_changes(collector, self.loss, before), 0.0)


@dataclass(frozen=True)
class Comparing(Environment):
    """Queries the model only after the user's deletion, and compares its answers with those in two simulated worlds.

    After an exact deletion the two worlds agree up to rounding. After an approximate deletion they may differ.

    Attributes:
        deletions: number of its own records, chosen at random, that it deletes one by one after the user's deletion.
    """

    deletions: int = 0

    @property
    def name(self) -> str:
        return "compares both worlds" + (f" after {self.deletions} deletions" if self.deletions else "")

    def score(self, collector: Collector) -> float:
        rows = collector.rng.permutation(len(collector.others.y))[: self.deletions]
        worlds = [collector, collector.imagine(False), collector.imagine(True)]
        answers, first, second = (self._played(world, rows) for world in worlds)
        if np.abs(first - second).max() <= _ROUNDING * np.abs(answers).max():
            return 0.0
        return float(distance(answers, first).sum() - distance(answers, second).sum())

    def _played(self, collector: Collector, rows: np.ndarray) -> np.ndarray:
        collector.leave()
        for row in rows:
            collector.delete(row)
        return collector.ask(collector.challenges.x)

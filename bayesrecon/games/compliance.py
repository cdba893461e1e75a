"""The deletion compliance game: can an environment that interacts with a data collector distinguish two worlds?

Environments: `Watching` compares answers before and after the deletion. `Clearing` first deletes neighbours of a
challenge. `Comparing` simulates both worlds.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import distance, loss_of
from bayesrecon.games.data import Data, Records
from bayesrecon.games.learner import as_learner
from bayesrecon.games.mechanism import IDEAL, DeletionMechanism, claimed_epsilon
from bayesrecon.games.outcome import Played, compared, generator, rate_row
from bayesrecon.results.game import GameResult

WEAK, STRONG = "weak", "strong"
"""Notions of compliance. Weak: which of two records was deleted? Strong: was a deleted record ever stored?"""


class Collector:
    """A data collector as an environment sees it. It answers queries, deletes the environment's own records, and once
    deletes the user's record.

    Attributes:
        challenges: the one or two records that the user may delete.
        others: all other records, which belong to the environment.
        answers: the kind of the model's answers.
        classes: number of classes.
        rng: the environment's random generator.
    """

    def __init__(self, game: "ComplianceGame", worlds: "_Worlds", second: bool, rng: np.random.Generator) -> None:
        challenges = len(worlds.challenges.y)
        stored = worlds.others if challenges == 1 and not second else _joined(worlds.others, worlds.challenges)
        self._game, self._worlds, self._stored = game, worlds, stored
        self._first_challenge = len(worlds.others.y)
        self._users_record = self._first_challenge + (second if challenges == 2 else 0)
        self._present = np.arange(len(stored.y))
        self._remaining_deletions, self._collector_rng = game.deletions, rng
        self.rng = np.random.default_rng(rng.integers(2**31))
        self.others, self.challenges = worlds
        self.answers, self.classes = game.learner.answers, game.data.classes
        self._seed = self._new_seed()
        self._model = game.learner.fit(stored, self.classes, self._seed)
        self._user_left = False

    def ask(self, x: np.ndarray) -> np.ndarray:
        """Answers of the current model."""
        return self._model(x)

    def imagine(self, second: bool) -> "Collector":
        """A simulated collector in one of the two worlds, with independent randomness.

        The environment can simulate it, because everything except the coin is public.
        """
        return self._game.collector(self._worlds, second, self.rng)

    def delete(self, others: npt.ArrayLike) -> None:
        """Delete records of the environment in one request, by their positions in `others`."""
        rows = np.asarray(others, int).reshape(-1)
        self._remaining_deletions -= len(rows)
        if self._remaining_deletions < 0:
            raise BayesreconError(f"the environment may delete at most {self._game.deletions} of its records")
        if not np.isin(rows, self._present[self._present < self._first_challenge]).all() or len(
            set(rows.tolist())
        ) < len(rows):
            raise BayesreconError("the environment can delete only its own records, and each of them once")
        self._remove(rows)

    def leave(self) -> None:
        """Delete the user's record, if there is one."""
        if self._user_left:
            raise BayesreconError("the user's record was already deleted")
        self._user_left = True
        self._remove(np.intersect1d([self._users_record], self._present))

    def _remove(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        records = self._stored.rows(self._present)
        seeds = (self._seed, self._new_seed())
        positions = np.flatnonzero(np.isin(self._present, rows))
        self._model = self._game.deletion(self._game.learner, self._model, records, positions, self.classes, seeds)
        self._seed, self._present = seeds[1], np.setdiff1d(self._present, rows)

    def _new_seed(self) -> int:
        return int(self._collector_rng.integers(2**31))


class _Worlds(NamedTuple):
    others: Records
    challenges: Records  # two, one of which the user deletes, or one that was stored or not


def _joined(a: Records, b: Records) -> Records:
    return Records(np.concatenate([a.x, b.x]), np.concatenate([a.y, b.y]))


@dataclass(frozen=True)
class Environment:
    """The base class of environments: a frozen dataclass of options that interacts with a collector and scores the
    worlds.

    Attributes:
        looks: number of models that it queries after the user's deletion. Each of them costs the claimed epsilon once.
        notions: the notions of compliance that it can play.
    """

    looks: ClassVar[int] = 1
    notions: ClassVar[tuple[str, ...]] = (WEAK, STRONG)

    @property
    def name(self) -> str:
        raise NotImplementedError

    def score(self, collector: Collector) -> float:
        """A score that is positive for the second world.

        In the second world, the second challenge was deleted (weak), or the record was stored (strong). The method must
        call `collector.leave()`.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ComplianceGame:
    """Deletion compliance as a game (Gao et al. 2022, section 5 and appendix G.5; Garg, Goldwasser and Vasudevan 2020).

    * *weak*: the user stored two records and deletes one of them. Which one?
    * *strong*: the user stored a record and deleted it, or never stored one. Which of the two?

    An environment stores all other records. It may query the model at any time and have some of its own records
    deleted. It then names the world. Guessing is right half the time, and the advantage is `2 success - 1`. Every
    environment plays with its own collector, because its requests change the model.

    If training is epsilon-private and has fresh randomness, success in the weak notion is at most
    `e^epsilon / (1 + e^epsilon)` for environments that query one model after the user's deletion. For the strong notion
    no bound is stated, because epsilon is for the substitution of a record.

    Attributes:
        data: sampler of data sets.
        learner: what is trained.
        environments: the players.
        deletion: deletion mechanism. Defaults to retraining with fresh randomness.
        notion: "weak" or "strong".
        deletions: number of its own records that an environment may have deleted.

    >>> from bayesrecon.games import Law, LeastSquares, LinearLaw, play
    >>> from bayesrecon.games.compliance import Watching
    >>> game = ComplianceGame(Law("linear", LinearLaw(), size=50), LeastSquares(), Watching("absolute"))
    >>> play(game, 50, seed=1).rows[0].success.estimate > 0.8
    True
    """

    data: Data
    learner: Any
    environments: Any
    deletion: DeletionMechanism = IDEAL
    notion: str = WEAK
    deletions: int = 0
    name: str = "compliance"
    quick: bool = False

    def __post_init__(self) -> None:
        players = self.environments
        players = (players,) if isinstance(players, Environment) else tuple(players)
        object.__setattr__(self, "environments", players)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        if self.notion not in (WEAK, STRONG) or self.deletions < 0:
            raise BayesreconError(
                f"notion={self.notion!r}, deletions={self.deletions}: expected 'weak' or 'strong', and 0 or more"
            )
        if not players or not all(isinstance(player, Environment) for player in players):
            raise BayesreconError("a compliance game needs environments: bayesrecon.games.compliance.Watching(), ...")
        for player in players:
            if self.notion not in player.notions:
                raise BayesreconError(f"{player.name} plays the {player.notions[0]} notion alone")

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """Correct, undecided, wrong, and undecided ones that the coin made correct, `(environments, 4)`."""
        rng = generator(seed, number)
        private, _ = self.data.draw(rng)
        challenges, second = 2 if self.notion == WEAK else 1, bool(rng.integers(2))
        if len(private.y) < self.deletions + challenges + 1:
            raise BayesreconError(f"{self.data.name}: {len(private.y)} private records are too few")
        records = private.rows(rng.permutation(len(private.y)))
        worlds = _Worlds(records.rows(slice(challenges, None)), records.rows(slice(challenges)))
        counts = []
        for player in self.environments:
            coins = generator(seed, number, player.name)
            score = float(player.score(self.collector(worlds, second, coins)))
            counts.append(compared(score if second else -score, 0.0, coins))
        return np.stack(counts)

    def collector(self, worlds: "_Worlds", second: bool, rng: np.random.Generator) -> Collector:
        """A collector in one of the two worlds."""
        return Collector(self, worlds, second, rng)

    def result(self, outcomes: np.ndarray, **played: Unpack[Played]) -> GameResult:
        """The result of the rounds `(N, environments, 4)`."""
        players = self.environments
        rows = tuple(rate_row(player.name, "answers", outcomes[:, i], len(players)) for i, player in enumerate(players))
        covered = self.notion == WEAK and all(player.looks == 1 for player in players)
        variant = f"{self.notion} compliance" + (f", {self.deletions} other deletions" if self.deletions else "")
        epsilon = claimed_epsilon(self.learner, self.deletion) if covered else None
        return GameResult(
            rows=rows, outcomes=outcomes, game=self.name, data=self.data.name, learner=self.learner.name,
            variant=variant, claimed_epsilon=epsilon, **played,
        )  # fmt: skip


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
        loss: a loss of `LossChange`; None for the change of the answer.
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

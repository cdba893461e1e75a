"""Compliance of deletions: can somebody who lives beside the collector tell two worlds apart?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.data import Data, Records
from bayesrecon.games.learner import as_learner
from bayesrecon.games.mechanism import IDEAL, promised
from bayesrecon.games.outcome import compared, generator, rate_row
from bayesrecon.results.game import GameResult

WEAK, STRONG = "weak", "strong"
"""Notions: which of two records was deleted; or whether one was ever stored."""


class Collector:
    """A collector as an environment meets it: it answers, deletes records of the environment's own, and at one time
    deletes that of the user.

    Attributes:
        challenges: one or two records that the user may have deleted. others: all other records, in the order in which
            the environment names them. answers, classes: of the models. rng: the environment's coins.
    """

    def __init__(self, game: "ComplianceGame", worlds: "_Worlds", second: bool, rng: np.random.Generator) -> None:
        own = len(worlds.challenges.y)
        stored = worlds.others if own == 1 and not second else _joined(worlds.others, worlds.challenges)
        self._game, self._worlds, self._stored, self._kept = game, worlds, stored, len(worlds.others.y)
        self._gone = self._kept + (second if own == 2 else 0)
        self._present = np.arange(len(stored.y))
        self._left, self._noise = game.deletions, rng
        self.rng = np.random.default_rng(rng.integers(2**31))
        self.others, self.challenges = worlds
        self.answers, self.classes = game.learner.answers, game.data.classes
        self._seed = self._draw()
        self._model = game.learner.fit(stored, self.classes, self._seed)
        self._over = False

    def ask(self, x: np.ndarray) -> np.ndarray:
        """Answers of the model as it is now."""
        return self._model(x)

    def imagine(self, second: bool) -> "Collector":
        """A collector of the environment's own in one of both worlds, with randomness of its own: all but the coin is
        public."""
        return self._game.collector(self._worlds, second, self.rng)

    def delete(self, others: Any) -> None:
        """Records of the environment are deleted, by their places in `others`, in one request."""
        rows = np.asarray(others, int).reshape(-1)
        self._left -= len(rows)
        if self._left < 0:
            raise BayesreconError(f"the environment may delete {self._game.deletions} records and asked for more")
        if not np.isin(rows, self._present[self._present < self._kept]).all() or len(set(rows.tolist())) < len(rows):
            raise BayesreconError("the environment deletes records of its own, each once")
        self._remove(rows)

    def leave(self) -> None:
        """The user's deletion takes place, if there is something to delete."""
        if self._over:
            raise BayesreconError("the user deletes once")
        self._over = True
        self._remove(np.intersect1d([self._gone], self._present))

    def _remove(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        here = self._stored.rows(self._present)
        seeds = (self._seed, self._draw())
        at = np.flatnonzero(np.isin(self._present, rows))
        self._model = self._game.deletion(self._game.learner, self._model, here, at, self.classes, seeds)
        self._seed, self._present = seeds[1], np.setdiff1d(self._present, rows)

    def _draw(self) -> int:
        return int(self._noise.integers(2**31))


class _Worlds(NamedTuple):
    others: Records
    challenges: Records  # two, one of which the user deletes, or one that was stored or not


def _joined(one: Records, other: Records) -> Records:
    return Records(np.concatenate([one.x, other.x]), np.concatenate([one.y, other.y]))


@dataclass(frozen=True)
class Environment:
    """A frozen dataclass of options that plays beside a collector and scores the worlds.

    Attributes:
        looks: models that it asks after the user's deletion; a promised epsilon is spent once on each.
        notions: in which it can play.
    """

    looks: ClassVar[int] = 1
    notions: ClassVar[tuple[str, ...]] = (WEAK, STRONG)

    @property
    def name(self) -> str:
        raise NotImplementedError

    def score(self, collector: Collector) -> float:
        """Above zero for the second world: the second challenge was deleted, or the record was stored; the user's
        deletion must have taken place at the end."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ComplianceGame:
    """Deletion compliance as a game (Gao et al. 2022, section 5 and appendix G.5; Garg, Goldwasser and Vasudevan 2020).

    *weak*: the user stored two records and deletes one of them; *strong*: the user stored a record and deleted it, or
    never stored any. An environment stores all other records, asks the model at any time, may have some of its own
    records deleted, and names the world: half the time is guessing, and its advantage is `2 success - 1`. Every
    environment has a collector of its own, since what it asks for changes the model.

    Under weak compliance with epsilon-private training whose randomness is fresh, success is at most
    `e^epsilon / (1 + e^epsilon)` for environments that look once after the user's deletion; of the strong notion an
    epsilon for the substitution of a record says nothing, and no bound is stated.

    Attributes:
        data: sampler of data sets. learner: what trains. environments: who plays.
        deletion: mechanism; retraining with fresh randomness by default.
        notion: "weak" or "strong".
        deletions: of its own records that an environment may ask for.

    >>> from bayesrecon.games import Law, LeastSquares, LinearLaw, play
    >>> from bayesrecon.games.environments import Watching
    >>> game = ComplianceGame(Law("linear", LinearLaw(), size=50), LeastSquares(), Watching("absolute"))
    >>> play(game, 50, seed=1).rows[0].stated.estimate > 0.8
    True
    """

    data: Data
    learner: Any
    environments: Any
    deletion: Any = IDEAL
    notion: str = WEAK
    deletions: int = 0
    name: str = "compliance"
    quick: bool = False

    def __post_init__(self) -> None:
        given = self.environments
        players: Sequence[Any] = (given,) if isinstance(given, Environment) else tuple(given)
        object.__setattr__(self, "environments", players)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        if self.notion not in (WEAK, STRONG) or self.deletions < 0:
            raise BayesreconError(
                f"notion={self.notion!r}, deletions={self.deletions}: expected weak or strong, and 0 deletions or more"
            )
        if not players or not all(isinstance(one, Environment) for one in players):
            raise BayesreconError("a compliance game needs environments: bayesrecon.games.environments.Watching(), ...")
        for one in players:
            if self.notion not in one.notions:
                raise BayesreconError(f"{one.name} plays the {one.notions[0]} notion alone")

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """Right, undecided, wrong, and coins that were right, `(environments, 4)`."""
        rng = generator(seed, number)
        private, _ = self.data.draw(rng)
        own, second = 2 if self.notion == WEAK else 1, bool(rng.integers(2))
        if len(private.y) < self.deletions + own + 1:
            raise BayesreconError(f"{self.data.name}: {len(private.y)} private records are too few")
        records = private.rows(rng.permutation(len(private.y)))
        worlds = _Worlds(records.rows(slice(own, None)), records.rows(slice(own)))
        found = []
        for one in self.environments:
            coins = generator(seed, number, one.name)
            score = float(one.score(self.collector(worlds, second, coins)))
            found.append(compared(score if second else -score, 0.0, coins))
        return np.stack(found)

    def collector(self, worlds: "_Worlds", second: bool, rng: np.random.Generator) -> Collector:
        """One of both worlds."""
        return Collector(self, worlds, second, rng)

    def result(self, outcomes: np.ndarray, **about: Any) -> GameResult:
        """The result of played rounds `(N, environments, 4)`."""
        players = self.environments
        rows = tuple(rate_row(one.name, "answers", outcomes[:, i], len(players)) for i, one in enumerate(players))
        covered = self.notion == WEAK and all(one.looks == 1 for one in players)
        variant = f"{self.notion} compliance" + (f", {self.deletions} other deletions" if self.deletions else "")
        return GameResult(
            rows=rows, outcomes=outcomes, game=self.name, data=self.data.name, learner=self.learner.name,
            variant=variant, promised=promised(self.learner, self.deletion) if covered else None, **about,
        )  # fmt: skip

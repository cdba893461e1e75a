"""Deletion inference, reconstruction and membership as games."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.rate_intervals import bootstrap, clopper_pearson
from bayesrecon.games.adversary import DENSITY, PARAMETERS, PUBLIC, Adversary, Oracles, View, X, Y
from bayesrecon.games.choosing import Candidates, Choose, chosen_pair
from bayesrecon.games.data import Data, Records
from bayesrecon.games.learner import FittedModel, as_learner
from bayesrecon.games.mechanism import IDEAL, DeletionMechanism, Retrain, claimed_epsilon, train_and_delete
from bayesrecon.games.membership import Membership
from bayesrecon.games.outcome import Played, compared, generator, rate_row
from bayesrecon.games.reconstructor import Reconstructor
from bayesrecon.results.game import GameResult, Rate, ReconstructionResult, ReconstructionRow

RECORDS, INSTANCES, LABELS = "records", "instances", "labels"
"""Which parts of the challenges the adversary sees."""

_TRIES = 1000
"""Largest number of attempts to draw two different challenges. A table of copies of one record has no such pair."""


@dataclass(frozen=True, eq=False)
class Game:
    """The deletion inference game (Gao et al. 2022, definition 3.1) as data; `play` plays it.

    A round samples a data set S and two records of it, and trains h on S. A fair coin decides which of the two records
    is deleted, which gives h'. The adversary sees both records and both models. It wins if it names the deleted record.
    Guessing wins with probability 1/2.

    Additions (`added`) are the same game with the models in the other order: h' is trained on S without the record, the
    record is added, and h is trained on S. The other record is in neither. The adversary asks h first in both cases,
    which matters only to one whose questions depend on answers.

    Attributes:
        data: sampler of data sets (`table`, `Law`).
        learner: what is trained: a `Learner`, an estimator, or a pair of functions.
        adversaries: the players. All of them play the same rounds, which needs no further training.
        deletion: deletion mechanism. Defaults to retraining with fresh randomness.
        given: what is shown of the challenges: "records", "instances" (labels withheld) or "labels".
        single: whether there is one challenge only: was this record deleted, or another one?
        outside: whether the other challenge is outside S for both models.
        added: whether the record is added and not deleted. It implies `outside`.
        deletions: number k of records deleted together. k kept records are shown as well, and all k x k pairs are
            compared.
        auxiliary: number of records outside S, from the same distribution, that the adversary holds; None for all.
        others: whether the adversary holds all records of S except for the challenges.
        distinct: whether to draw again if challenges are equal in every field that is shown, since nobody can tell
            copies apart.
        choose: function of `Candidates` that returns two positions, such as `Outlying()`: the adversary's side sees S
            and picks the two challenges from it before the coin is tossed. None for a random pair. All adversaries play
            this pair.
        canaries: records `(x, y)` chosen by the adversary. They are added to every S, and the challenges are two of
            them.

    Raises:
        BayesreconError: data and learner, or options and adversaries, do not fit together.

    >>> from bayesrecon.games import LossChange, Law, LeastSquares, LinearLaw, play
    >>> game = Game(Law("linear", LinearLaw(), size=50), LeastSquares(), LossChange("absolute"))
    >>> play(game, n=50, seed=1).rows[0].success.estimate > 0.8
    True
    """

    data: Data
    learner: Any
    adversaries: Any
    deletion: DeletionMechanism = IDEAL
    name: str = "game"
    given: str = RECORDS
    single: bool = False
    outside: bool = False
    added: bool = False
    deletions: int = 1
    auxiliary: int | None = 0
    others: bool = False
    distinct: bool = False
    choose: Choose | None = None
    canaries: Any = None

    def __post_init__(self) -> None:
        players = (self.adversaries,) if isinstance(self.adversaries, Adversary) else tuple(self.adversaries)
        object.__setattr__(self, "adversaries", players)
        object.__setattr__(self, "outside", self.outside or self.added)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        self.learner.check(self.data.classes)
        claimed_epsilon(self.learner, self.deletion)
        if not players or not all(isinstance(player, Adversary) for player in players):
            raise BayesreconError("a game needs adversaries: bayesrecon.games.LossChange(), ...")
        names = [player.name for player in players]
        if len(set(names)) < len(names):
            raise BayesreconError(f"two adversaries are called {max(names, key=names.count)}; give each of them once")
        if self.given not in (RECORDS, INSTANCES, LABELS):
            raise BayesreconError(f"given={self.given!r}: expected {RECORDS}, {INSTANCES} or {LABELS}")
        if self.deletions < 1 or (self.single and self.deletions > 1):
            raise BayesreconError(f"deletions={self.deletions}: expected one or more, and exactly one with single=True")
        if self.added and not isinstance(self.deletion, Retrain):
            raise BayesreconError(
                "added=True needs two trainings; a deletion mechanism other than Retrain adds nothing"
            )
        if self.auxiliary is not None and self.auxiliary < 0:
            raise BayesreconError(f"auxiliary={self.auxiliary}: expected a number of records, or None for all")
        pairs = not (self.single or self.outside or self.deletions > 1)
        if self.choose is not None and not (pairs and callable(self.choose) and self.canaries is None):
            raise BayesreconError(
                "choose= must be a function, and cannot be combined with single, outside, deletions or canaries"
            )
        if self.canaries is not None:
            object.__setattr__(self, "canaries", self._canary_records())
        for player in players:
            self._check(player)

    def _canary_records(self) -> Records:
        """The canaries as records."""
        x, y = self.canaries
        canaries = Records(np.asarray(x, float), np.asarray(y, int if self.data.classes else float))
        if canaries.x.ndim != 2 or canaries.y.shape != canaries.x.shape[:1] or len(canaries.y) < 2 * self.deletions:
            raise BayesreconError(
                f"canaries of shapes {canaries.x.shape} and {canaries.y.shape}: expected features (c, p) and responses "
                f"(c,), c {2 * self.deletions} or more"
            )
        if self.data.classes and not set(canaries.y.tolist()) <= set(range(self.data.classes)):
            raise BayesreconError(f"the canaries' classes lie between 0 and {self.data.classes - 1}")
        if self.outside:
            raise BayesreconError("canaries= and outside=True exclude each other, because canaries are in the data")
        return canaries

    def _check(self, player: Adversary) -> None:
        withheld = {INSTANCES: Y, LABELS: X}.get(self.given)
        needs = player.required()
        if withheld in needs:
            raise BayesreconError(
                f"{player.name} needs the challenges' {withheld}, which given={self.given!r} withholds"
            )
        if PUBLIC in needs and self.auxiliary == 0:
            raise BayesreconError(f"{player.name} needs auxiliary records; set auxiliary=100, or None for all")
        if DENSITY in needs and not self.learner.density:
            raise BayesreconError(
                f"{player.name} needs the density of the released model, which {self.learner.name} does not have; "
                "use a private learner"
            )
        if PARAMETERS in needs and DENSITY not in needs and not self.learner.open:
            raise BayesreconError(
                f"{player.name} needs parameters, which {self.learner.name} does not show; "
                "use linear, ridge or logistic regression"
            )

    @property
    def quick(self) -> bool:
        """Whether rounds are so short that worker processes do not pay off."""
        return bool(self.learner.quick) and all(player.quick for player in self.adversaries)

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """Wins, ties, losses and ties won by the coin, `(adversaries, 4)`: counts of compared pairs in one round."""
        rng = generator(seed, number)
        drawn = self._drawn(rng, seed, number)
        before, after = train_and_delete(
            self.deletion, self.learner, drawn.private, drawn.deleted, self.data.classes, rng
        )
        order = rng.permutation(len(drawn.challenges.y))  # the order of the challenges carries no information
        counts = []
        for player in self.adversaries:
            view = self._view(player, drawn, order, before, after, generator(seed, number, player.name))
            if self.single:
                verdict = _checked_scores(player, player.margin(view), 1)[0]
                counts.append(compared(verdict if drawn.first_deleted else -verdict, 0.0, view.rng))
                continue
            scores = np.empty(len(order))
            scores[order] = _checked_scores(player, player.scores(view), len(order))
            counts.append(compared(scores[: self.deletions, None], scores[None, self.deletions :], view.rng))
        return np.stack(counts)

    def result(self, outcomes: np.ndarray, **played: Unpack[Played]) -> GameResult:
        """The result of the rounds `(N, adversaries, 4)`."""
        players = self.adversaries
        rows = tuple(
            rate_row(
                player.name,
                "parameters" if PARAMETERS in player.required() else "answers",
                outcomes[:, i],
                len(players),
            )
            for i, player in enumerate(players)
        )
        played["warnings"] = (*played.get("warnings", ()), *self._caveats())
        return GameResult(
            rows=rows,
            outcomes=outcomes,
            game=self.name,
            data=self.data.name,
            learner=self.learner.name,
            variant=", ".join(self._variant()),
            claimed_epsilon=claimed_epsilon(self.learner, self.deletion),
            **played,
        )

    def _caveats(self) -> list[str]:
        """Warnings about what the promised epsilon does not cover."""
        if self.learner.epsilon is None:
            return []
        caveats = {
            "the learner's epsilon is for retraining: for this deletion mechanism no bound is known": (
                claimed_epsilon(self.learner, self.deletion) is None
            ),
            "columns were standardised over the whole table: epsilon covers the training and not this scale; state "
            "public bounds (domain=) instead": getattr(self.data, "standardised", False),
        }
        return [text for text, holds in caveats.items() if holds]

    def _variant(self) -> list[str]:
        parts = {
            f"{self.given} alone": self.given != RECORDS,
            "one challenge": self.single,
            "added, not deleted": self.added,
            "the other challenge outside": self.outside and not self.added,
            f"{self.deletions} {'added' if self.added else 'deleted'} at once": self.deletions > 1,
            "the other private records known": self.others,
            "copies excluded": self.distinct,
            "challenges planted by the adversary": self.canaries is not None,
            "one seed for both trainings": self.deletion == Retrain(fresh=False),
        }
        if self.choose is not None:
            parts[f"challenges chosen: {getattr(self.choose, 'name', 'by a function')}"] = True
        if self.auxiliary is None or self.auxiliary:
            parts[f"{'all' if self.auxiliary is None else self.auxiliary} auxiliary records"] = True
        return [text for text, holds in parts.items() if holds]

    def _drawn(self, rng: np.random.Generator, seed: int, number: int) -> "_Round":
        """S, the deleted rows, and the challenges, with the deleted ones first."""
        private, outside = self.data.draw(rng)
        pool = len(private.y)
        if self.canaries is not None:
            if self.canaries.x.shape[1] != private.x.shape[1]:
                raise BayesreconError(
                    f"canaries have {self.canaries.x.shape[1]} features, and {self.data.name} has {private.x.shape[1]}"
                )
            pool = len(self.canaries.y)
            private = Records(*(np.concatenate(pair) for pair in zip(self.canaries, private, strict=True)))
        k, size = self.deletions, len(private.y)
        if size < 2 * k + 1 or (self.outside and len(outside.y) < k):
            raise BayesreconError(
                f"{self.data.name}: {size} private records and {len(outside.y)} others are too few for {k} deletions"
            )
        pair = None if self.choose is None else self._chosen(private, outside, generator(seed, number, "choose"))
        for _ in range(_TRIES):
            rows = rng.choice(pool, 2 * k, replace=False) if pair is None else rng.permutation(pair)
            spare = rng.permutation(len(outside.y))
            remaining = outside.rows(spare[:k]) if self.outside else private.rows(rows[k:])
            deleted = private.rows(rows[:k])
            if not self.distinct or not self._share_a_copy(deleted, remaining):
                break
        else:
            raise BayesreconError(f"{self.data.name}: no two different challenges were found; set distinct=False")
        unused = outside.rows(np.sort(spare[k:] if self.outside else spare))
        if self.single:
            first = bool(rng.integers(2))
            gone, shown = rows[:1] if first or self.outside else rows[1:], deleted
            if self.outside and not first:
                shown = remaining
            return _Round(private, unused, gone, shown, private.without(rows[:1]), first)
        challenges = Records(np.concatenate([deleted.x, remaining.x]), np.concatenate([deleted.y, remaining.y]))
        return _Round(private, unused, rows[:k], challenges, private.without(rows[:k] if self.outside else rows), True)

    def _share_a_copy(self, records: Records, others: Records) -> bool:
        """Whether a record equals one of the others in every field that is shown."""
        same_x = (records.x[:, None] == others.x[None]).all(axis=2) | (self.given == LABELS)
        same_y = (records.y[:, None] == others.y[None]) | (self.given == INSTANCES)
        return bool((same_x & same_y).any())

    def _chosen(self, private: Records, outside: Records, rng: np.random.Generator) -> np.ndarray:
        assert self.choose is not None
        x = None if self.given == LABELS else private.x
        y = None if self.given == INSTANCES else private.y
        candidates = Candidates(x, y, self._public(outside), self.data.classes, rng)
        return chosen_pair(self.choose, candidates, len(private.y))

    def _public(self, outside: Records) -> Records | None:
        """The auxiliary records among those outside."""
        if self.auxiliary is not None and len(outside.y) < self.auxiliary:
            raise BayesreconError(
                f"{self.data.name}: {self.auxiliary} auxiliary records were requested, and {len(outside.y)} are "
                "not private; request fewer, or use a smaller private share"
            )
        return None if self.auxiliary == 0 else outside.rows(slice(self.auxiliary))

    def _view(
        self,
        player: Adversary,
        drawn: "_Round",
        order: np.ndarray,
        before: FittedModel,
        after: FittedModel,
        rng: np.random.Generator,
    ) -> View:
        challenges, learner = drawn.challenges.rows(order), self.learner
        white_box = PARAMETERS in player.required()
        return View(
            ask=Oracles(before, after),
            x=None if self.given == LABELS else challenges.x,
            y=None if self.given == INSTANCES else challenges.y,
            classes=self.data.classes,
            answers=learner.answers,
            public=self._public(drawn.outside),
            others=drawn.others if self.others else None,
            fitted=(before, after) if white_box else None,
            learner=learner,
            total=len(drawn.private.y),
            rng=rng,
        )


class _Round(NamedTuple):
    """One round: S, records outside, positions of the deleted records, challenges, and S without the challenges."""

    private: Records
    outside: Records
    deleted: np.ndarray
    challenges: Records
    others: Records
    first_deleted: bool


def _checked_scores(player: Adversary, scores: npt.ArrayLike, count: int) -> np.ndarray:
    flat = np.asarray(scores, float).reshape(-1)
    if len(flat) != count or np.isnan(flat).any():
        raise BayesreconError(f"{player.name} returned {flat}, expected {count} scores that are numbers")
    return flat


@dataclass(frozen=True, eq=False)
class ReconstructionGame:
    """The reconstruction game (Gao et al. 2022, definition 4.1) as data; `play` plays it.

    A round samples S, trains h, deletes a record chosen uniformly at random, and shows the reconstructors both models.
    Rounds without an answer are counted separately from wrong answers.

    Attributes:
        data, learner, deletion, auxiliary: as in `Game`.
        reconstructors: the players.
        known: whether the deleted instance is given, so that only its response is unknown (definition C.2).
    """

    data: Data
    learner: Any
    reconstructors: Any
    deletion: DeletionMechanism = IDEAL
    name: str = "reconstruction"
    auxiliary: int | None = None
    known: bool = False

    def __post_init__(self) -> None:
        players = self.reconstructors
        players = (players,) if isinstance(players, Reconstructor) else tuple(players)
        object.__setattr__(self, "reconstructors", players)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        self.learner.check(self.data.classes)
        claimed_epsilon(self.learner, self.deletion)
        if not players or not all(isinstance(player, Reconstructor) for player in players):
            raise BayesreconError("a reconstruction game needs reconstructors: bayesrecon.games.DeletedLabel(), ...")
        for player in players:
            if X in player.required() and not self.known:
                raise BayesreconError(f"{player.name} needs the deleted instance; set known=True")
            if PUBLIC in player.required() and self.auxiliary == 0:
                raise BayesreconError(f"{player.name} needs auxiliary records; set auxiliary=None for all")

    @property
    def quick(self) -> bool:
        """Whether rounds are so short that worker processes do not pay off."""
        return bool(self.learner.quick)

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """The outcome of one round, `(reconstructors, 5)`.

        Columns are: answered (0 or 1), distance of x and error of y (NaN if not guessed), and the errors of h and h' at
        the deleted record (NaN for classes).
        """
        rng = generator(seed, number)
        private, outside = self.data.draw(rng)
        row = rng.integers(len(private.y), size=1)
        before, after = train_and_delete(self.deletion, self.learner, private, row, self.data.classes, rng)
        (x,), (y,) = private.rows(row)
        residuals = [np.nan, np.nan] if self.data.classes else [float(y - h(x[None])[0]) for h in (before, after)]
        outcomes = []
        for player in self.reconstructors:
            view = View(
                ask=Oracles(before, after),
                x=x[None] if self.known else None,
                y=None,
                classes=self.data.classes,
                answers=self.learner.answers,
                public=outside.rows(slice(self.auxiliary)) if self.auxiliary != 0 else None,
                others=None,
                fitted=None,
                learner=self.learner,
                total=len(private.y),
                rng=generator(seed, number, player.name),
            )
            (guess,) = player.guesses(view)
            distance = np.nan if guess is None or guess.x is None else float(np.linalg.norm(guess.x - x))
            error = np.nan if guess is None or guess.y is None else float(y - guess.y)
            outcomes.append([float(guess is not None), distance, error, *residuals])
        return np.array(outcomes)

    def result(self, outcomes: np.ndarray, **played: Unpack[Played]) -> ReconstructionResult:
        """The result of the rounds `(N, reconstructors, 5)`."""
        rows = tuple(self._row(player.name, outcomes[:, i]) for i, player in enumerate(self.reconstructors))
        return ReconstructionResult(
            rows=rows,
            outcomes=outcomes,
            game=self.name,
            data=self.data.name,
            learner=self.learner.name,
            classes=self.data.classes,
            **played,
        )

    def _row(self, name: str, table: np.ndarray) -> ReconstructionRow:
        answered, distances, errors, before, after = table.T
        count = len(table)
        correct, relative, squares = None, None, [None, None, None]
        guessed = ~np.isnan(errors)  # labels, not only instances
        if self.data.classes and (guessed.any() or not answered.any()):
            correct = Rate(*clopper_pearson(int((errors == 0).sum()), count))
        elif guessed.any():
            squares = [float(np.mean(v[guessed] ** 2)) for v in (before, after, errors)]
            smaller = np.minimum(before[guessed] ** 2, after[guessed] ** 2)
            if guessed.sum() > 1:
                pairs = np.stack([errors[guessed] ** 2, smaller], axis=1)
                relative = Rate(*bootstrap(pairs, _ratio))
        distance = None if np.isnan(distances).all() else float(np.nanmedian(distances))
        return ReconstructionRow(
            name, count, int(count - answered.sum()), correct, *squares, relative_error=relative, distance=distance
        )


def _ratio(pairs: np.ndarray, axis: int = 0) -> float:
    """Sum of the first column divided by the sum of the second."""
    numerator, denominator = pairs.sum(axis=axis)
    return float(numerator / denominator) if denominator > 0 else np.nan


@dataclass(frozen=True, eq=False)
class MembershipGame:
    """The membership game (Shokri et al. 2017; Yeom et al. 2018).

    A round trains h on S and shows an attack as many records from S as from outside. The attack calls each "in" or
    "out". Success is the share of correct calls. Guessing succeeds with probability 1/2.

    Attributes:
        data: sampler of data sets.
        learner: what is trained.
        attacks: membership attacks. All of them see the same records.
        records: number of records of either kind in a round.
        auxiliary: number of records outside S that the attacks hold, other than those that are shown; None for all.

    >>> from bayesrecon.games import Law, Neighbours, ShadowModels, TwoNormals, play
    >>> game = MembershipGame(Law("two normals", TwoNormals(), 2, size=60), Neighbours(1), (ShadowModels(2),))
    >>> play(game, 20, workers=1).rows[0].success.lower > 0.5
    True
    """

    data: Data
    learner: Any
    attacks: Any
    records: int = 20
    auxiliary: int | None = None
    name: str = "membership"
    quick: bool = False

    def __post_init__(self) -> None:
        attacks = (self.attacks,) if isinstance(self.attacks, Membership) else tuple(self.attacks)
        object.__setattr__(self, "attacks", attacks)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        if not attacks or not all(isinstance(attack, Membership) for attack in attacks):
            raise BayesreconError("a membership game needs membership attacks: bayesrecon.games.LossThreshold(), ...")
        if self.records < 1 or (self.auxiliary is not None and self.auxiliary < 1):
            raise BayesreconError(f"records={self.records}, auxiliary={self.auxiliary}: expected one or more of each")

    def play_round(self, seed: int, number: int) -> np.ndarray:
        """Correct, undecided, wrong, and undecided calls that the coin made correct, `(attacks, 4)`."""
        rng = generator(seed, number)
        private, outside = self.data.draw(rng)
        k, spare = self.records, rng.permutation(len(outside.y))
        public = outside.rows(spare[k:] if self.auxiliary is None else spare[k : k + self.auxiliary])
        if len(private.y) < k or len(public.y) < max(self.auxiliary or 1, 1):
            raise BayesreconError(
                f"{self.data.name}: too few records for {k} members, {k} non-members and the auxiliary records"
            )
        members, nonmembers = private.rows(rng.choice(len(private.y), k, replace=False)), outside.rows(spare[:k])
        x, y = np.concatenate([members.x, nonmembers.x]), np.concatenate([members.y, nonmembers.y])
        out = np.arange(2 * k) >= k
        model = self.learner.fit(private, self.data.classes, int(rng.integers(2**31)))
        counts = []
        for attack in self.attacks:
            coins = generator(seed, number, attack.name)
            view = View(
                Oracles(model, model), x, y, self.data.classes, self.learner.answers, public, None, None, self.learner,
                len(private.y), coins,
            )  # fmt: skip
            called_out = attack.prepare(view)(model(x))
            counts.append(compared(np.where(out, called_out, 1 - called_out), 0.5, coins))
        return np.stack(counts)

    def result(self, outcomes: np.ndarray, **played: Unpack[Played]) -> GameResult:
        """The result of the rounds `(N, attacks, 4)`."""
        rows = tuple(
            rate_row(attack.name, "answers", outcomes[:, i], len(self.attacks)) for i, attack in enumerate(self.attacks)
        )
        return GameResult(
            rows=rows, outcomes=outcomes, game=self.name, data=self.data.name, learner=self.learner.name,
            variant=f"membership, {self.records} members and as many others a round", claimed_epsilon=None, **played,
        )  # fmt: skip

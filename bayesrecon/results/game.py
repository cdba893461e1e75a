"""Results of games: how often each adversary won, with ties counted separately, and the privacy loss this implies."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Rate:
    """A probability of success and its 95 % interval."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class GameRow:
    """The results of one adversary.

    Attributes:
        adversary: its name.
        sees: whether it saw the models' "answers" or their "parameters".
        wins, ties, losses: numbers of compared pairs over all rounds. A pair is a tie if both scores are equal.
        success: success rate if a fair coin decides every tie, as in the definition of the games.
        success_with_ties: success rate if ties count as wins.
        simultaneous: `success` with an interval that holds for all adversaries of the table together (Bonferroni). Read
            this one when you report the best of several adversaries.
    """

    adversary: str
    sees: str
    wins: int
    ties: int
    losses: int
    success: Rate
    success_with_ties: Rate
    simultaneous: Rate

    @property
    def advantage(self) -> Rate:
        """`2 success - 1`, between -1 and 1. Guessing has 0."""
        return Rate(*(2 * v - 1 for v in (self.success.estimate, self.success.lower, self.success.upper)))

    @property
    def epsilon(self) -> float:
        """The smallest epsilon that is compatible with the success: `log(p / (1 - p))` at the interval's lower end p.

        Under epsilon-differential privacy for the substitution of one record, success is at most
        `e^epsilon / (1 + e^epsilon)`. A learner with a higher success against it is not epsilon-private.
        """
        return implied_epsilon(self.success.lower)

    @property
    def simultaneous_epsilon(self) -> float:
        """`epsilon` at the lower end of `simultaneous`."""
        return implied_epsilon(self.simultaneous.lower)


def implied_epsilon(success: float) -> float:
    """`log(p / (1 - p))`, the smallest epsilon that is compatible with a success rate p; 0 if p is at most 1/2.

    >>> round(implied_epsilon(0.731058578630005), 6)
    1.0
    """
    return math.log(success / (1 - success)) if success > 0.5 else 0.0


def largest_success(epsilon: float) -> float:
    """`e^epsilon / (1 + e^epsilon)`, the largest success rate against an epsilon-private learner.

    >>> round(largest_success(1.0), 6)
    0.731059
    """
    return 1 / (1 + math.exp(-epsilon))


@dataclass(frozen=True, eq=False, repr=False)
class GameResult(Result):
    """The result of a deletion inference game.

    Attributes:
        rows: one per adversary.
        outcomes: `(N, adversaries, 4)`: wins, ties, losses, and ties won by the coin, in each round.
        numbers: `(N,)`, numbers of the rounds.
        game, data, learner, variant: the game that was played.
        seed: seed of the rounds.
        seconds: time spent, without rounds that were read from a folder.
        claimed_epsilon: the epsilon of differential privacy that the learner claims, for the substitution of one
            record.
    """

    plotted_by = "deletion.plot_game"

    rows: tuple[GameRow, ...]
    outcomes: np.ndarray
    numbers: np.ndarray
    game: str
    data: str
    learner: str
    variant: str
    seed: int
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    claimed_epsilon: float | None = None

    @property
    def bound(self) -> float | None:
        """The largest success rate that the claimed epsilon allows, `e^epsilon / (1 + e^epsilon)`.

        The two possible training sets of the second model differ in one record. The first model has the same
        distribution in both cases.
        """
        return None if self.claimed_epsilon is None else largest_success(self.claimed_epsilon)

    @property
    def best(self) -> GameRow:
        """The adversary with the highest success rate. Use its `simultaneous` interval if there are several."""
        return max(self.rows, key=lambda row: row.success.estimate)

    @property
    def failures(self) -> tuple[str, ...]:  # type: ignore[override]
        """One line for each adversary whose success, at the lower end of `simultaneous`, exceeds the bound.

        If the claim is true, this happens in at most 2.5 % of games.
        """
        if self.bound is None:
            return ()
        return tuple(
            f"{row.adversary}: success {row.success.estimate:.1%}, at least {row.simultaneous.lower:.1%}, but "
            f"epsilon {self.claimed_epsilon:g} allows {self.bound:.1%}; this success implies epsilon "
            f"{row.simultaneous_epsilon:.2f} or more"
            for row in self.rows
            if row.simultaneous.lower > self.bound
        )

    @property
    def notice(self) -> str:
        """A notice if the claimed epsilon is refuted."""
        if not self.failures:
            return ""
        return f"ERROR: {self.learner} is not {self.claimed_epsilon:g}-private: its code or its epsilon is wrong"

    @property
    def headline(self) -> str:
        how = f" ({self.variant})" if self.variant else ""
        return f"{self.game}: {self.learner} on {self.data}{how}, {len(self.numbers)} rounds; guessing scores 0.5"

    def __getitem__(self, adversary: str) -> GameRow:
        return next(row for row in self.rows if row.adversary == adversary)

    def to_dict(self) -> Json:
        """Plain types only."""
        names = ("game", "data", "learner", "variant", "seed", "seconds", "claimed_epsilon", "bound")
        rows = [
            {
                **asdict(r),
                "advantage": asdict(r.advantage),
                "epsilon": r.epsilon,
                "simultaneous_epsilon": r.simultaneous_epsilon,
            }
            for r in self.rows
        ]
        return self._document(
            **{name: getattr(self, name) for name in names},
            rounds=len(self.numbers),
            adversaries=rows,
            best=self.best.adversary,
        )

    def to_dataframe(self) -> "DataFrame":
        """One row per adversary: success as defined, success with ties as wins, advantage, and implied epsilon."""
        import pandas as pd

        table = [
            {
                "adversary": r.adversary,
                "sees": r.sees,
                "success": r.success.estimate,
                "lower": r.success.lower,
                "upper": r.success.upper,
                "ties": r.ties / (r.wins + r.ties + r.losses),
                "ties as wins": r.success_with_ties.estimate,
                "ties as wins, lower": r.success_with_ties.lower,
                "ties as wins, upper": r.success_with_ties.upper,
                "advantage": r.advantage.estimate,
                "advantage, lower": r.advantage.lower,
                "advantage, upper": r.advantage.upper,
                "epsilon": r.epsilon,
                "all at once, lower": r.simultaneous.lower,
                "all at once, upper": r.simultaneous.upper,
                "all at once, epsilon": r.simultaneous_epsilon,
                **({} if self.bound is None else {"bound": self.bound}),
            }
            for r in self.rows
        ]
        return pd.DataFrame(table).set_index("adversary")

    def _excerpt(self) -> "DataFrame":
        columns = ["success", "lower", "upper", "ties", "ties as wins", "advantage", "epsilon"]
        return self.to_dataframe().loc[:, columns + (["bound"] if self.bound is not None else [])]


@dataclass(frozen=True)
class ReconstructionRow:
    """The results of one reconstructor.

    Attributes:
        reconstructor: its name.
        rounds: number of rounds played.
        unanswered: number of rounds without an answer.
        correct: share of all rounds in which the label is correct; None for a numeric response. No answer counts as
            incorrect.
        error_before, error_after, error: mean squared errors of the models before and after the deletion (h and h'),
            and of the reconstruction; None for classes.
        relative_error: squared error of the reconstruction relative to the better of h and h', over the rounds with an
            answer, with a bootstrap interval.
        distance: median Euclidean distance of the reconstructed instance; None if no instance was reconstructed.
    """

    reconstructor: str
    rounds: int
    unanswered: int
    correct: Rate | None
    error_before: float | None
    error_after: float | None
    error: float | None
    relative_error: Rate | None
    distance: float | None


@dataclass(frozen=True, eq=False, repr=False)
class ReconstructionResult(Result):
    """The result of a reconstruction game.

    Attributes:
        rows: one per reconstructor.
        outcomes: `(N, reconstructors, 5)`: answered, distance of x, error of y, errors of h and h'.
        numbers: `(N,)`, numbers of the rounds.
    """

    rows: tuple[ReconstructionRow, ...]
    outcomes: np.ndarray
    numbers: np.ndarray
    game: str
    data: str
    learner: str
    classes: int
    seed: int
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        return f"{self.game}: {self.learner} on {self.data}, {len(self.numbers)} deletions"

    def to_dict(self) -> Json:
        """Plain types only."""
        names = ("game", "data", "learner", "classes", "seed", "seconds")
        rows = [asdict(r) for r in self.rows]
        return self._document(
            **{name: getattr(self, name) for name in names}, rounds=len(self.numbers), reconstructors=rows
        )

    def to_dataframe(self) -> "DataFrame":
        """One row per reconstructor."""
        import pandas as pd

        table = []
        for r in self.rows:
            row: Json = {"reconstructor": r.reconstructor, "unanswered": r.unanswered}
            if self.classes:
                rate = r.correct or Rate(np.nan, np.nan, np.nan)
                row |= {"correct": rate.estimate, "lower": rate.lower, "upper": rate.upper}
            else:
                rate = r.relative_error or Rate(np.nan, np.nan, np.nan)
                row |= {"h": r.error_before, "h'": r.error_after, "reconstructed": r.error}
                row |= {"relative error": rate.estimate, "lower": rate.lower, "upper": rate.upper}
            table.append(row if r.distance is None else {**row, "distance": r.distance})
        return pd.DataFrame(table).set_index("reconstructor")

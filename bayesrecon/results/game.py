"""Results of games: how often each adversary won, with ties kept apart, and what that implies."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bayesrecon.results.base import Result


@dataclass(frozen=True)
class Rate:
    """A probability of success and its 95 % interval."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True)
class GameRow:
    """One adversary.

    Attributes:
        adversary: its name; sees: "answers" of the models, or their "parameters".
        wins, ties, losses: compared pairs, over all rounds; a pair ties where both scores are equal.
        stated: success as the games are stated: a fair coin decides every tie.
        counted: success where ties count as wins.
        simultaneous: `stated` with an interval that holds for all adversaries of the table at once (Bonferroni): the
            one to read where the best of several is named.
    """

    adversary: str
    sees: str
    wins: int
    ties: int
    losses: int
    stated: Rate
    counted: Rate
    simultaneous: Rate

    @property
    def advantage(self) -> Rate:
        """`2 success - 1`, between -1 and 1; 0 is guessing."""
        return Rate(*(2 * v - 1 for v in (self.stated.estimate, self.stated.lower, self.stated.upper)))

    @property
    def epsilon(self) -> float:
        """The least epsilon that the success is compatible with, `log(p / (1 - p))` at the interval's lower end p.

        Under epsilon-differential privacy for the substitution of one record, success is at most
        `e^epsilon / (1 + e^epsilon)`: a learner that loses more often is not epsilon-private.
        """
        return implied_epsilon(self.stated.lower)

    @property
    def simultaneous_epsilon(self) -> float:
        """The same at the lower end of `simultaneous`."""
        return implied_epsilon(self.simultaneous.lower)


def implied_epsilon(success: float) -> float:
    """`log(p / (1 - p))`, the least epsilon with which a success of p is compatible; 0 where p is no more than 1/2.

    >>> round(implied_epsilon(0.731058578630005), 6)
    1.0
    """
    return math.log(success / (1 - success)) if success > 0.5 else 0.0


def largest_success(epsilon: float) -> float:
    """`e^epsilon / (1 + e^epsilon)`, the largest success against an epsilon-private learner.

    >>> round(largest_success(1.0), 6)
    0.731059
    """
    return 1 / (1 + math.exp(-epsilon))


@dataclass(frozen=True, eq=False, repr=False)
class GameResult(Result):
    """The result of a deletion inference game.

    Attributes:
        rows: one per adversary.
        outcomes: `(N, adversaries, 4)`: wins, ties, losses and coins that won of every round.
        numbers: `(N,)`, the rounds' numbers.
        game, data, learner, variant: what was played.
        seed: of the rounds; seconds: spent, not counting rounds that a folder held.
        promised: epsilon of differential privacy, under the substitution of one record, that the learner promises.
    """

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
    promised: float | None = None

    @property
    def bound(self) -> float | None:
        """The largest success that the promised epsilon allows, `e^epsilon / (1 + e^epsilon)`: the two data sets that
        h' may have been trained on differ in one record, and h has the same law for both."""
        return None if self.promised is None else largest_success(self.promised)

    @property
    def best(self) -> GameRow:
        """The adversary of the largest success; of several, `simultaneous` is its interval."""
        return max(self.rows, key=lambda row: row.stated.estimate)

    @property
    def failures(self) -> tuple[str, ...]:  # type: ignore[override]
        """Adversaries whose success, at the lower end of `simultaneous`, is above the bound: a line each. Where the
        promise holds there is one in at most 2.5 % of games."""
        if self.bound is None:
            return ()
        return tuple(
            f"{row.adversary}: success {row.stated.estimate:.1%}, at least {row.simultaneous.lower:.1%}, where epsilon "
            f"{self.promised:g} allows {self.bound:.1%}; it takes epsilon {row.simultaneous_epsilon:.2f} or more"
            for row in self.rows
            if row.simultaneous.lower > self.bound
        )

    @property
    def notice(self) -> str:
        """That the promise is broken, where it is."""
        if not self.failures:
            return ""
        return f"ERROR: {self.learner} is not {self.promised:g}-private: its code or its epsilon is wrong"

    @property
    def headline(self) -> str:
        how = f" ({self.variant})" if self.variant else ""
        return f"{self.game}: {self.learner} on {self.data}{how}, {len(self.numbers)} rounds; 0.5 is guessing"

    def __getitem__(self, adversary: str) -> GameRow:
        return next(row for row in self.rows if row.adversary == adversary)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        names = ("game", "data", "learner", "variant", "seed", "seconds", "promised", "bound")
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

    def to_dataframe(self) -> Any:
        """One row per adversary: success as stated, with ties as wins, advantage, and implied epsilon."""
        import pandas as pd

        table = [
            {
                "adversary": r.adversary,
                "sees": r.sees,
                "success": r.stated.estimate,
                "lower": r.stated.lower,
                "upper": r.stated.upper,
                "ties": r.ties / (r.wins + r.ties + r.losses),
                "ties as wins": r.counted.estimate,
                "ties as wins, lower": r.counted.lower,
                "ties as wins, upper": r.counted.upper,
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

    def _excerpt(self) -> Any:
        shown = ["success", "lower", "upper", "ties", "ties as wins", "advantage", "epsilon"]
        return self.to_dataframe()[shown + (["bound"] if self.bound is not None else [])]

    def plot(self, ax: Any = None, path: Any = None) -> Any:
        """Success of every adversary, as stated and with ties as wins; see `bayesrecon.plots.plot_game`."""
        return self.drawn("plot_game", ax=ax, path=path)


@dataclass(frozen=True)
class ReconstructionRow:
    """One reconstructor.

    Attributes:
        reconstructor: its name; rounds: played; silent: rounds in which it said nothing.
        right: share of all rounds in which the label is right, None for a number; silence is not right.
        before, after, error: mean squared errors of h, of h' and of the reconstruction, None for classes.
        left: what is left of the squared error of the better of h and h' where the reconstructor answered, with a
            bootstrap interval.
        distance: median Euclidean distance of the instance, None where none was guessed.
    """

    reconstructor: str
    rounds: int
    silent: int
    right: Rate | None
    before: float | None
    after: float | None
    error: float | None
    left: Rate | None
    distance: float | None


@dataclass(frozen=True, eq=False, repr=False)
class ReconstructionResult(Result):
    """The result of a reconstruction game.

    Attributes:
        rows: one per reconstructor.
        outcomes: `(N, reconstructors, 5)`: answered, distance of x, error of y, errors of h and h'.
        numbers: `(N,)`, the rounds' numbers.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        names = ("game", "data", "learner", "classes", "seed", "seconds")
        rows = [asdict(r) for r in self.rows]
        return self._document(
            **{name: getattr(self, name) for name in names}, rounds=len(self.numbers), reconstructors=rows
        )

    def to_dataframe(self) -> Any:
        """One row per reconstructor."""
        import pandas as pd

        table = []
        for r in self.rows:
            row: dict[str, Any] = {"reconstructor": r.reconstructor, "silent": r.silent}
            if self.classes:
                rate = r.right or Rate(np.nan, np.nan, np.nan)
                row |= {"right": rate.estimate, "lower": rate.lower, "upper": rate.upper}
            else:
                rate = r.left or Rate(np.nan, np.nan, np.nan)
                row |= {"h": r.before, "h'": r.after, "reconstructed": r.error}
                row |= {"error left": rate.estimate, "lower": rate.lower, "upper": rate.upper}
            table.append(row if r.distance is None else {**row, "distance": r.distance})
        return pd.DataFrame(table).set_index("reconstructor")

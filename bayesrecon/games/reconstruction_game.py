"""The reconstruction game: what was the deleted record?"""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.rate_intervals import bootstrap, clopper_pearson
from bayesrecon.games.adversary import PUBLIC, Oracles, View, X
from bayesrecon.games.data import Data
from bayesrecon.games.learner import as_learner
from bayesrecon.games.mechanism import IDEAL, DeletionMechanism, claimed_epsilon, train_and_delete
from bayesrecon.games.outcome import Played, generator
from bayesrecon.games.reconstructor import Reconstructor
from bayesrecon.results.game import Rate, ReconstructionResult, ReconstructionRow


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

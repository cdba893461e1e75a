"""The reconstruction game: what was the deleted record?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.rate_intervals import bootstrap, clopper_pearson
from bayesrecon.games.adversary import PUBLIC, X
from bayesrecon.games.data import Data
from bayesrecon.games.learner import Fitted, as_learner
from bayesrecon.games.mechanism import IDEAL, around, claimed_epsilon
from bayesrecon.games.outcome import generator
from bayesrecon.games.reconstructor import Reconstructor
from bayesrecon.games.view import Oracles, View
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
    deletion: Callable[..., Fitted] = IDEAL
    name: str = "reconstruction"
    auxiliary: int | None = None
    known: bool = False

    def __post_init__(self) -> None:
        given = self.reconstructors
        players = (given,) if isinstance(given, Reconstructor) else tuple(given)
        object.__setattr__(self, "reconstructors", players)
        object.__setattr__(self, "learner", as_learner(self.learner, self.data.classes))
        self.learner.check(self.data.classes)
        claimed_epsilon(self.learner, self.deletion)
        if not players or not all(isinstance(one, Reconstructor) for one in players):
            raise BayesreconError("a reconstruction game needs reconstructors: bayesrecon.games.DeletedLabel(), ...")
        for one in players:
            if X in one.required() and not self.known:
                raise BayesreconError(f"{one.name} needs the deleted instance; set known=True")
            if PUBLIC in one.required() and self.auxiliary == 0:
                raise BayesreconError(f"{one.name} needs auxiliary records; set auxiliary=None for all")

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
        before, after = around(self.deletion, self.learner, private, row, self.data.classes, rng)
        (x,), (y,) = private.rows(row)
        plain = [np.nan, np.nan] if self.data.classes else [float(y - h(x[None])[0]) for h in (before, after)]
        found = []
        for one in self.reconstructors:
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
                rng=generator(seed, number, one.name),
            )
            (guess,) = one.guesses(view)
            x_far = np.nan if guess is None or guess.x is None else float(np.linalg.norm(guess.x - x))
            y_far = np.nan if guess is None or guess.y is None else float(y - guess.y)
            found.append([float(guess is not None), x_far, y_far, *plain])
        return np.array(found)

    def result(self, outcomes: np.ndarray, **about: Any) -> ReconstructionResult:
        """The result of the rounds `(N, reconstructors, 5)`."""
        rows = tuple(self._row(one.name, outcomes[:, i]) for i, one in enumerate(self.reconstructors))
        return ReconstructionResult(
            rows=rows,
            outcomes=outcomes,
            game=self.name,
            data=self.data.name,
            learner=self.learner.name,
            classes=self.data.classes,
            **about,
        )

    def _row(self, name: str, table: np.ndarray) -> ReconstructionRow:
        answered, x_far, y_far, h, h_after = table.T
        count = len(table)
        correct, relative, squares = None, None, [None, None, None]
        sought = not answered.any() or not np.isnan(y_far).all()  # labels, or instances alone
        if self.data.classes and sought:
            correct = Rate(*clopper_pearson(int((y_far == 0).sum()), count))
        elif not np.isnan(y_far).all():
            at = ~np.isnan(y_far)
            squares = [float(np.mean(v[at] ** 2)) for v in (h, h_after, y_far)]
            smaller = np.minimum(h[at] ** 2, h_after[at] ** 2)
            if at.sum() > 1:
                pairs = np.stack([y_far[at] ** 2, smaller], axis=1)
                relative = Rate(*bootstrap(pairs, _ratio))
        distance = None if np.isnan(x_far).all() else float(np.nanmedian(x_far))
        return ReconstructionRow(
            name, count, int(count - answered.sum()), correct, *squares, relative_error=relative, distance=distance
        )


def _ratio(pairs: np.ndarray, axis: int = 0) -> float:
    error, plain = pairs.sum(axis=axis)
    return float(error / plain) if plain > 0 else np.nan

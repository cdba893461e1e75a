"""The base class of reconstructors: a frozen dataclass of options that guesses the deleted record or abstains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bayesrecon.games.adversary import PUBLIC
from bayesrecon.games.view import View


class Guess(NamedTuple):
    """A guess of the deleted record: `x (p,)`, `y`, or both. What is not guessed is None.

    `points` is the number of queries that the guess is computed from, if that measures its quality.
    """

    x: np.ndarray | None = None
    y: float | None = None
    points: int | None = None


@dataclass(frozen=True)
class Reconstructor:
    """A player of the reconstruction game. `Reconstructed` turns it into an adversary of the inference game.

    Attributes:
        needs: what it requires the game to grant. With `adversary.X` it knows instances and guesses their responses.
    """

    needs: ClassVar[tuple[str, ...]] = (PUBLIC,)

    @property
    def name(self) -> str:
        raise NotImplementedError

    def required(self) -> tuple[str, ...]:
        """What it requires with these options."""
        return self.needs

    def guesses(self, view: View) -> Sequence[Guess | None]:
        """One guess for each known instance, or a single guess if no instance is known. None means no answer."""
        raise NotImplementedError

"""What every reconstructor is: a frozen dataclass of its options that guesses the deleted record, or says nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bayesrecon.games.adversary import PUBLIC
from bayesrecon.games.view import View


class Guess(NamedTuple):
    """A guess of the deleted record: `x (p,)`, `y`, or both; what is not guessed is None. `points` is how many answers
    it rests on, where that says how good it is."""

    x: np.ndarray | None = None
    y: float | None = None
    points: int | None = None


@dataclass(frozen=True)
class Reconstructor:
    """A player of the reconstruction game; `Reconstructed` makes an adversary of the inference game of it.

    Attributes:
        needs: what it cannot do without; with `adversary.X` it knows instances and seeks their responses.
    """

    needs: ClassVar[tuple[str, ...]] = (PUBLIC,)

    @property
    def name(self) -> str:
        raise NotImplementedError

    def required(self) -> tuple[str, ...]:
        """What it needs with these options."""
        return self.needs

    def guesses(self, view: View) -> Sequence[Guess | None]:
        """One guess for each instance that is known, or one alone where none is; None says nothing."""
        raise NotImplementedError

"""Challenges that the adversary chooses before the coin is tossed: the records that it expects to tell apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError, near
from bayesrecon.games.data import Records, with_ones


class Candidates(NamedTuple):
    """What an adversary can choose from: the private data set, as far as the game shows it.

    Attributes:
        x: features, `(n, p)`; None if the game withholds them.
        y: responses, `(n,)`; None likewise.
        public: auxiliary records, outside S; None if the game grants none.
        classes: number of classes of the response; 0 for a number.
        rng: random generator for the choice.
    """

    x: np.ndarray | None
    y: np.ndarray | None
    public: Records | None
    classes: int
    rng: np.random.Generator


Choose = Callable[[Candidates], npt.ArrayLike]
"""Returns the positions of two candidates."""


@dataclass(frozen=True)
class Outlying:
    """The two records of largest leverage, `h_i = x_i' (X'X + penalty tr(X'X) / q I)^-1 x_i`, x with a one.

    For least squares, the deletion of record i with residual r changes the prediction at record j by
    `r h_ij / (1 - h_ii)`.

    >>> x = np.array([[0.0], [1.0], [9.0], [-7.0], [0.5]])
    >>> sorted(Outlying()(Candidates(x, None, None, 0, np.random.default_rng(0))))
    [2, 3]
    """

    penalty: float = 0.01

    @property
    def name(self) -> str:
        return "the records with the largest leverage"

    def __call__(self, candidates: Candidates) -> tuple[int, int]:
        if candidates.x is None:
            raise BayesreconError("leverage needs the features, which given='labels' withholds")
        x = with_ones(candidates.x)
        _, singular, right = np.linalg.svd(x, full_matrices=False)
        penalised = singular**2 + self.penalty * float((singular**2).sum()) / x.shape[1]
        leverage = ((x @ right.T) ** 2 / penalised).sum(axis=1)
        first, second = np.argsort(-leverage, kind="stable")[:2]
        return int(first), int(second)


CHOICES: Mapping[str, tuple[str, Choose]] = MappingProxyType(
    {"outlying": ("the two private records of the largest leverage", Outlying())}
)
"""Choices by name, each with its description in one line."""


def named_choice(name: str) -> Choose:
    """The choice with this name.

    >>> named_choice("outlying").name
    'the records with the largest leverage'
    """
    if name not in CHOICES:
        raise BayesreconError(f"there is no choice {name!r}{near(name, CHOICES)}; known: {', '.join(CHOICES)}")
    return CHOICES[name][1]


def chosen_pair(choose: Choose, candidates: Candidates, count: int) -> np.ndarray:
    """The two positions that a choice returned.

    Args:
        choose: the choice.
        candidates: what it may choose from.
        count: number of candidates.
    """
    returned = choose(candidates)
    pair = np.asarray(returned)
    valid = pair.shape == (2,) and pair.dtype.kind in "iu"
    if not valid or pair.min() < 0 or pair.max() >= count or pair[0] == pair[1]:
        raise BayesreconError(f"choose returned {returned}, expected two different positions from 0 to {count - 1}")
    return pair

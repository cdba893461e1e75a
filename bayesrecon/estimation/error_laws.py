"""Equations of draws, which are sampled, and of a stationary parameter, which are not: what differs in solving them.

There is one law for each value of tau (docs/glossary.md); `law_of` gives that of an embedding.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError

DETERMINED, PARTLY = 0.999, 0.5
"""Visibility from which a statistic counts as determined, and below which it is not reported."""

TRAINED = 0.99
"""The same at a trained parameter, both at once: its records shape the network that should see them, and what it does
not see of them can be anything."""

SPANNED = 1 - 1e-10
"""The same where equations span a function exactly or do not, up to rounding, as those of linear predictors do.
Records in a narrow range far from zero make one that they do not span look nearly so, wherever the data lie."""

_EQUATIONS = 4  # per feature, or errors cannot be judged


class ErrorLaw(ABC):
    """What differs.

    Attributes:
        smallest: singular value, relative to the largest, from which a feature counts.
        ends: whether the spectrum ends where the equations do.
    """

    smallest: ClassVar[float]
    ends: ClassVar[bool]

    @abstractmethod
    def most(self, most: int, equations: int) -> int:
        """Generic records at most, of which so many are stated."""

    @abstractmethod
    def check(self, rank: int, equations: int, size: int) -> None:
        """Refuse what has too few equations for its features."""

    @abstractmethod
    def unclear(self, records: int, rank: int) -> bool:
        """Whether so many generic records may show too little."""

    @abstractmethod
    def fresh(self, count: int) -> int:
        """Records, of so many, on which it is looked whether a feature was missed."""

    @abstractmethod
    def alone(self, total: float | None) -> bool:
        """Whether the data are one record, which lies where the law predicts it."""

    @abstractmethod
    def begun(self, reference: Any, standard: Callable[[], Any]) -> Any:
        """The law of generic records that the search for the data begins with."""

    @abstractmethod
    def stretches(self, count: int) -> int:
        """Of the atoms, whose sums are kept apart for the jackknife."""

    @abstractmethod
    def noise(self, size: int, found: Callable[[], np.ndarray]) -> np.ndarray:
        """Covariance `(size, size)` of the target by sampling."""

    @abstractmethod
    def resolution(self, rank: int, size: float) -> float:
        """Of the divergence, what so many independent atoms can resolve."""

    @abstractmethod
    def verdict(self, visibility: float, spanned: bool = False) -> str:
        """What a visibility means for the reader."""


class Sampled(ErrorLaw):
    """Of draws."""

    smallest = 1e-10  # of a decaying spectrum: later ones drown in rounding before they do in noise
    ends = False

    def most(self, most: int, equations: int) -> int:
        return most

    def check(self, rank: int, equations: int, size: int) -> None:
        if equations < _EQUATIONS * rank:
            raise BayesreconError(
                f"too few draws: {size} draws give {equations} equations for at least {rank} "
                f"features; supply more draws ({-(-_EQUATIONS * rank * size // equations)} or more)"
            )

    def unclear(self, records: int, rank: int) -> bool:
        return False

    def fresh(self, count: int) -> int:
        return count

    def alone(self, total: float | None) -> bool:
        return total == 1

    def begun(self, reference: Any, standard: Callable[[], Any]) -> Any:
        return reference

    def stretches(self, count: int) -> int:
        return count

    def noise(self, size: int, found: Callable[[], np.ndarray]) -> np.ndarray:
        return found()

    def resolution(self, rank: int, size: float) -> float:
        return rank / (2 * size)

    def verdict(self, visibility: float, spanned: bool = False) -> str:
        return "determined" if visibility >= DETERMINED else "partly" if visibility >= PARTLY else "undetermined"


class Stationary(ErrorLaw):
    """Of a parameter: nothing was sampled, and there are as many equations as directions."""

    # One atom has as many features as parameters at most; what training resolves of a gradient ends about here.
    smallest = 1e-6
    ends = True

    def most(self, most: int, equations: int) -> int:
        return max(most, equations + equations // 4 + 16)  # never more features than equations

    def check(self, rank: int, equations: int, size: int) -> None:
        pass

    def unclear(self, records: int, rank: int) -> bool:
        return records <= rank + rank // 4

    def fresh(self, count: int) -> int:
        return 0

    def alone(self, total: float | None) -> bool:
        return False

    def begun(self, reference: Any, standard: Callable[[], Any]) -> Any:
        # Over many orders of magnitude a network saturates, and its features look fewer than they are.
        return reference.recentred(*standard())

    def stretches(self, count: int) -> int:
        return 1

    def noise(self, size: int, found: Callable[[], np.ndarray]) -> np.ndarray:
        return np.zeros((size, size))

    def resolution(self, rank: int, size: float) -> float:
        return 0.0

    def verdict(self, visibility: float, spanned: bool = False) -> str:
        return "determined" if visibility >= (SPANNED if spanned else TRAINED) else "undetermined"


SAMPLED, STATIONARY = Sampled(), Stationary()
_BY_TEMPERATURE = {1.0: SAMPLED, 0.0: STATIONARY}


def law_of(embedding: Any) -> ErrorLaw:
    """That of an embedding, by its tau."""
    return _BY_TEMPERATURE[float(embedding.temperature)]

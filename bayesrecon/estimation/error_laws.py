"""How the solution of sampled equations (draws) differs from that of exact ones (a stationary parameter).

There is one distribution for each value of tau (docs/glossary.md); `law_of` gives that of an embedding.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError

DETERMINED, PARTLY = 0.999, 0.5
"""Visibility from which a statistic counts as determined, and below which it is not reported."""

TRAINED = 0.99
"""Both limits at a trained parameter, where they are equal. The records shape the network's features, and the invisible
part of a statistic can have any size."""

SPANNED = 1 - 1e-10
"""The same limit if equations either span a function exactly or not at all, as for linear predictors.
Among records in a narrow range far from zero, a function that is not spanned has almost this visibility."""

_EQUATIONS = 4  # per feature, or errors cannot be judged


class ErrorLaw(ABC):
    """What differs between sampled and stationary equations.

    Attributes:
        smallest: smallest singular value of a feature, relative to the largest.
        ends: whether the spectrum ends with the equations, so that there is always a gap.
    """

    smallest: ClassVar[float]
    ends: ClassVar[bool]

    @abstractmethod
    def largest_pool(self, limit: int, equations: int) -> int:
        """The largest number of generic records to draw, where the reference distribution allows `limit`."""

    @abstractmethod
    def check_equations(self, rank: int, equations: int, size: int) -> None:
        """Raise `BayesreconError` if there are too few equations for the number of features."""

    @abstractmethod
    def needs_larger_pool(self, records: int, rank: int) -> bool:
        """Whether this number of generic records may not show every feature."""

    @abstractmethod
    def validation_records(self, count: int) -> int:
        """Number of fresh records, at most `count`, on which missed features are looked for."""

    @abstractmethod
    def is_single_record(self, total: float | None) -> bool:
        """Whether the data are a single record, which lies where the posterior predicts it."""

    @abstractmethod
    def initial_reference(self, reference: Any, standard: Callable[[], Any]) -> Any:
        """The distribution of generic records from which the search for the data starts."""

    @abstractmethod
    def jackknife_blocks(self, count: int) -> int:
        """Number of blocks of atoms whose sums are kept separately for the jackknife."""

    @abstractmethod
    def noise(self, size: int, sampled: Callable[[], np.ndarray]) -> np.ndarray:
        """Sampling covariance `(size, size)` of the target."""

    @abstractmethod
    def resolution(self, rank: int, size: float) -> float:
        """Smallest difference of the divergence that `size` independent atoms can resolve."""

    @abstractmethod
    def verdict(self, visibility: float, spanned: bool = False) -> str:
        """The verdict "determined", "partly" or "undetermined" that belongs to a visibility."""


class Sampled(ErrorLaw):
    """Equations of posterior draws."""

    smallest = 1e-10  # of a decaying spectrum: later ones drown in rounding before they do in noise
    ends = False

    def largest_pool(self, limit: int, equations: int) -> int:
        return limit

    def check_equations(self, rank: int, equations: int, size: int) -> None:
        if equations < _EQUATIONS * rank:
            raise BayesreconError(
                f"too few draws: {size} draws give {equations} equations for at least {rank} "
                f"features; supply more draws ({-(-_EQUATIONS * rank * size // equations)} or more)"
            )

    def needs_larger_pool(self, records: int, rank: int) -> bool:
        return False

    def validation_records(self, count: int) -> int:
        return count

    def is_single_record(self, total: float | None) -> bool:
        return total == 1

    def initial_reference(self, reference: Any, standard: Callable[[], Any]) -> Any:
        return reference

    def jackknife_blocks(self, count: int) -> int:
        return count

    def noise(self, size: int, sampled: Callable[[], np.ndarray]) -> np.ndarray:
        return sampled()

    def resolution(self, rank: int, size: float) -> float:
        return rank / (2 * size)

    def verdict(self, visibility: float, spanned: bool = False) -> str:
        return "determined" if visibility >= DETERMINED else "partly" if visibility >= PARTLY else "undetermined"


class Stationary(ErrorLaw):
    """Equations of a trained parameter: nothing was sampled, and there are as many equations as directions."""

    # One atom has as many features as parameters at most; what training resolves of a gradient ends about here.
    smallest = 1e-6
    ends = True

    def largest_pool(self, limit: int, equations: int) -> int:
        return max(limit, equations + equations // 4 + 16)  # never more features than equations

    def check_equations(self, rank: int, equations: int, size: int) -> None:
        pass

    def needs_larger_pool(self, records: int, rank: int) -> bool:
        return records <= rank + rank // 4

    def validation_records(self, count: int) -> int:
        return 0

    def is_single_record(self, total: float | None) -> bool:
        return False

    def initial_reference(self, reference: Any, standard: Callable[[], Any]) -> Any:
        # Over many orders of magnitude a network saturates, and its features look fewer than they are.
        return reference.recentred(*standard())

    def jackknife_blocks(self, count: int) -> int:
        return 1

    def noise(self, size: int, sampled: Callable[[], np.ndarray]) -> np.ndarray:
        return np.zeros((size, size))

    def resolution(self, rank: int, size: float) -> float:
        return 0.0

    def verdict(self, visibility: float, spanned: bool = False) -> str:
        return "determined" if visibility >= (SPANNED if spanned else TRAINED) else "undetermined"


SAMPLED, STATIONARY = Sampled(), Stationary()
_BY_TEMPERATURE = {1.0: SAMPLED, 0.0: STATIONARY}


def law_of(embedding: Any) -> ErrorLaw:
    """The error distribution of an embedding, by its temperature tau."""
    return _BY_TEMPERATURE[float(embedding.temperature)]

"""The interface of a check of draws and model: a function of the draws and the score of the posterior fitted to them.

A module of this package adds a check by defining `CHECK`. `failures` finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from bayesrecon.discovery import discover
from bayesrecon.estimation.fitted_density import Density
from bayesrecon.estimation.scored import Moved, ScoredDraws, Unseen
from bayesrecon.estimation.standard import Rows


def nothing(h: Rows, j: np.ndarray, into: np.ndarray) -> np.ndarray:
    """The `Unseen` function if the whole score is visible."""
    return np.zeros(into.max(initial=-1) + 1)


@dataclass(frozen=True)
class CheckInput:
    """What the checks of draws and model are given.

    Attributes:
        names: `(d,)` names of the coordinates.
        draws: the draws with the score of the fitted posterior.
        moved: how much errors of the fitted data change an identity. With many features these errors would look like
            a failed identity.
        halves: the same of every other draw alone, each fitted by itself; computed only if an identity seems to fail.
        finite: whether the kernel has finite rank, so that the fitted data explain the draws up to rounding. Otherwise
            they are shrunk, and `moved` subtracts more than they explain.
        release: the release that the draws belong to.
        independent: number of independent draws.
        unseen: how much an identity may be off because part of the score is not visible; computed only if an identity
            seems to fail.
        features: number of features that the generic records show, and the kernel's rank (None if it is not finite).
        density: density of the posterior of the fitted data; None if these are shrunk or no data were fitted.
    """

    names: tuple[str, ...]
    draws: ScoredDraws
    moved: Moved
    halves: Callable[[], Sequence[ScoredDraws]] = tuple
    finite: bool = True
    release: Any = None
    independent: float = 1.0
    features: tuple[int, int | None] = (0, None)
    unseen: Unseen = nothing
    density: Density | None = None


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        rank: checks are made in the order of their ranks.
        failures: one line each.
    """

    rank: int
    failures: Callable[[CheckInput], tuple[str, ...]]


@cache
def checks() -> tuple[Check, ...]:
    """All checks in their order."""
    return tuple(sorted(discover("bayesrecon.estimation.checks", "CHECK"), key=lambda check: check.rank))


def failures(inputs: CheckInput) -> tuple[str, ...]:
    """Do draws and model belong together: one line for each check that failed."""
    return tuple(line for check in checks() for line in check.failures(inputs))

"""What every check of draws and model is: a function of draws that were looked at, with the score of what was fitted.

A module of this package that has `CHECK` adds one: `failures` finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from bayesrecon.discovery import discover
from bayesrecon.estimation.fitted_density import Density
from bayesrecon.estimation.scored import Moved, ScoredDraws, Unseen


def nothing(h: Any, j: np.ndarray, into: np.ndarray) -> np.ndarray:
    """As `Unseen`, where the whole score is seen."""
    return np.zeros(into.max(initial=-1) + 1)


@dataclass(frozen=True)
class Looked:
    """Draws that are looked at.

    Attributes:
        names: `(d,)` of the coordinates.
        draws: with the score of what was fitted to them.
        moved: by how much errors of the fitted data move an identity. With many features they show in the identities,
            and pass for their failure.
        halves: the same of every other draw alone, each fitted by itself; asked only where something seems to fail.
        finite: whether the fitted data explain the draws to rounding, as they do where the kernel has finite rank.
            Elsewhere they are shrunk, and `moved` takes out more than they explain.
        release: that they are of.
        independent: number of independent draws.
        unseen: by how much an identity may be off since part of the score is not seen; asked only where something seems
            to fail.
        features: of the kernel, how many the generic records show and how many there are, None where not finite.
        density: of the posterior of the fitted data, None where these are shrunk or no data were fitted.
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
    failures: Callable[[Looked], tuple[str, ...]]


@cache
def checks() -> tuple[Check, ...]:
    """All that there are, in their order."""
    return tuple(sorted(discover("bayesrecon.estimation.checks", "CHECK"), key=lambda check: check.rank))


def failures(looked: Looked) -> tuple[str, ...]:
    """Do draws and model belong together: one line for each check that failed."""
    return tuple(line for check in checks() for line in check.failures(looked))

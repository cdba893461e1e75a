"""The base class of adversaries: a frozen dataclass of options that scores challenges. The larger score means deleted.

A module of `bayesrecon.games` registers adversaries with `ADVERSARIES`, `{name: (one line, adversary)}`. The command line
then finds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError, near
from bayesrecon.games.view import View

X, Y, PUBLIC, PARAMETERS = "instances", "labels", "auxiliary records", "parameters"
DENSITY = "density of the parameter"
"""What an adversary may need."""

_REFERENCE = 0.95
"""Quantile of the scores of kept records. A single challenge with a larger score is called deleted."""


@dataclass(frozen=True)
class Adversary:
    """An adversary of the inference game.

    Attributes:
        name: name in tables and on the command line.
        needs: what it requires the game to grant.
        quick: whether it answers in less than a millisecond.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y)
    quick: ClassVar[bool] = False

    @property
    def name(self) -> str:
        raise NotImplementedError

    def required(self) -> tuple[str, ...]:
        """What it requires with these options."""
        return self.needs

    def scores(self, view: View) -> np.ndarray:
        """A score for each challenge, `(k,)`. The larger the score, the more likely the challenge was deleted."""
        raise NotImplementedError

    def margin(self, view: View) -> float:
        """For a single challenge: its score minus the threshold above which it is called deleted.

        The threshold is a quantile of the scores of public records, none of which was deleted.
        """
        if view.public is None:
            raise BayesreconError(f"{self.name}: a single challenge needs auxiliary records; set auxiliary=100")
        challenge_and_public = replace(
            view,
            x=None if view.x is None else np.concatenate([view.x, view.public.x]),
            y=None if view.y is None else np.concatenate([view.y, view.public.y]),
        )
        scores = self.scores(challenge_and_public)
        return float(scores[0] - np.quantile(scores[1:], _REFERENCE))


@cache
def named_adversaries() -> Mapping[str, tuple[str, Adversary]]:
    """All adversaries by name, each with its description in one line (read-only)."""
    return MappingProxyType(
        {name: entry for part in discover("bayesrecon.games", "ADVERSARIES") for name, entry in part.items()}
    )


def named_adversary(name: str) -> Adversary:
    """The adversary with this name.

    Raises:
        BayesreconError: no adversary has this name.

    >>> named_adversary("ins").name
    'Del-Inf-Ins'
    """
    known = named_adversaries()
    if name not in known:
        raise BayesreconError(f"there is no adversary {name!r}{near(name, known)}; known: {', '.join(known)}")
    return known[name][1]

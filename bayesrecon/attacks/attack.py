"""What every attack is: a frozen dataclass of its own options that says what it takes and what it returns.

A module of this package that has `ATTACK`, the class, adds one: `reconstruct` and the command line find it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.outputs import Outputs
from bayesrecon.kinds import LIMITS, kind_of_release, shortly
from bayesrecon.knowledge import KNOWS, Knows, check_keywords
from bayesrecon.results.base import Result
from bayesrecon.types import Deletion, Progress, Release

DRAWS_PAIR, TRAINED_PAIR = "posterior draws around a deletion", "trained parameters around a deletion"
APPROXIMATED_PAIR = "approximations around a deletion"
OUTPUTS = "outputs of a model"
"""Kinds of what is more than one release, or none; those of a single one are in `bayesrecon.kinds`."""

R = TypeVar("R", bound=Result, covariant=True)


def option(default: Any, text: str, **more: Any) -> Any:
    """A field of an attack with the line that help and the command line show."""
    return field(default=default, metadata={"help": text, **more})


@dataclass(frozen=True)
class Attack(Generic[R]):
    """An attack with its options.

    Attributes:
        name: on the command line.
        summary: one line.
        takes: the kinds of releases that it works on.
        uses: which of what an attacker knows it has a use for.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    takes: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]] = KNOWS

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(f.name for f in fields(cls) if f.init)

    def run(self, release: Any, knows: Knows, *, key: Any, progress: Progress) -> R:
        """Carry it out on a release that `check` let through."""
        raise NotImplementedError

    def check(self, release: Release | Deletion | Outputs, knows: Mapping[str, Any]) -> None:
        """Refuse what the attack does not take.

        Raises `BayesreconError` naming what it does take, and the attacks that take this release.
        """
        kind = kind_of(release)
        if kind not in self.takes:
            others = [one.__name__ for one in attacks().values() if kind in one.takes]
            told = "; `recover` says which, or supply the correlations of its estimates" if kind == LIMITS else ""
            raise BayesreconError(
                f"{type(self).__name__} takes {' or '.join(map(shortly, self.takes))}, and this is {kind}"
                + (f"; use {' or '.join(others)}" if others else told)
            )
        check_keywords(knows, type(self).__name__, self.uses, _owner_of(knows))


@cache
def attacks() -> Mapping[str, type[Attack[Any]]]:
    """All attacks by their names (read-only)."""
    return MappingProxyType({one.name: one for one in discover("bayesrecon.attacks", "ATTACK")})


def kind_of(release: Release | Deletion | Outputs) -> str:
    """Which kind of release this is.

    Raises `BayesreconError` for what is none.
    """
    if isinstance(release, Outputs):
        return OUTPUTS
    if isinstance(release, Deletion):
        exact = TRAINED_PAIR if release.before.metric is None else APPROXIMATED_PAIR
        return DRAWS_PAIR if release.before.temperature else exact
    if not isinstance(release, Release):
        raise BayesreconError(
            f"expected a release (bayesrecon.posteriors makes one) or a deletion pair, got a {type(release).__name__}"
        )
    return kind_of_release(release)


def _owner_of(knows: Mapping[str, Any]) -> str:
    """Which attacks have the first keyword that nobody knows."""
    unknown = next((name for name in knows if name not in KNOWS), None)
    owners = [one.__name__ for one in attacks().values() if unknown in one.options()]
    return f": it is an option of an attack, attack={owners[0]}({unknown}=...)" if owners else ""

"""What every attack is: a frozen dataclass of its own options that says what it takes and what it returns.

A module of this package that has `ATTACK`, the class, adds one, and so does a plug-in: `reconstruct` and the command
line find it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from bayesrecon.discovery import added, discover
from bayesrecon.kernels.output_embedding import Outputs
from bayesrecon.knowledge import KNOWS, OF_RECORDS, Knows, check_keywords
from bayesrecon.model import Progress
from bayesrecon.pairs import Deletion
from bayesrecon.releases import LIMITED, Release, refuse_others
from bayesrecon.results.base import Result

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
        takes: the kinds of releases that it works on: types of single ones, of pairs, or `Outputs`.
        uses: which of what an attacker knows it has a use for.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    takes: ClassVar[tuple[type, ...]]
    uses: ClassVar[tuple[str, ...]] = OF_RECORDS

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
        refuse_others(release, self.takes, type(self).__name__, takers_of(release))
        check_keywords(knows, type(self).__name__, self.uses, _owner_of(knows))


@cache
def attacks() -> Mapping[str, type[Attack[Any]]]:
    """All attacks by their names (read-only)."""
    own = discover("bayesrecon.attacks", "ATTACK")
    return added("attacks", "attack", _is_attack, lambda one: one.name, own).found


def _is_attack(given: Any) -> bool:
    return isinstance(given, type) and issubclass(given, Attack)


def takers_of(release: Any) -> str:
    """Which attacks take a release, as an advice."""
    names = [one.__name__ for one in attacks().values() if isinstance(release, one.takes)]
    return f"use {' or '.join(names)}" if names else LIMITED


def _owner_of(knows: Mapping[str, Any]) -> str:
    """Which attacks have the first keyword that nobody knows."""
    unknown = next((name for name in knows if name not in KNOWS), None)
    owners = [one.__name__ for one in attacks().values() if unknown in one.options()]
    return f": it is an option of an attack, attack={owners[0]}({unknown}=...)" if owners else ""

"""The base class of attacks: a frozen dataclass whose fields are the options of the attack.

A subclass declares which kinds of releases it accepts and which result it returns. A module of this package, or of a
plug-in, registers an attack by assigning its class to `ATTACK`. `reconstruct` and the command line then find it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from bayesrecon.arrays import Key
from bayesrecon.discovery import added, discover
from bayesrecon.knowledge import KNOWS, OF_RECORDS, Knows, check_keywords
from bayesrecon.model import Progress
from bayesrecon.releases import LIMITED, refuse_others
from bayesrecon.results.base import Result

R = TypeVar("R", bound=Result, covariant=True)
T = TypeVar("T")


def option(default: T, text: str, **metadata: object) -> T:
    """An option of an attack: a dataclass field with the help text that the command line shows."""
    return field(default=default, metadata={"help": text, **metadata})


@dataclass(frozen=True)
class Attack(Generic[R]):
    """An attack together with its options.

    Attributes:
        name: name on the command line.
        summary: one-line description.
        takes: accepted kinds of releases: types of single releases, types of pairs, or `Outputs`.
        uses: names of the keywords in `Knows` that the attack uses.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    takes: ClassVar[tuple[type, ...]]
    uses: ClassVar[tuple[str, ...]] = OF_RECORDS

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of the attack's options."""
        return tuple(f.name for f in fields(cls) if f.init)

    def run(self, release: Any, knows: Knows, *, key: Key, progress: Progress) -> R:
        """Run the attack on a release of one of the types in `takes`, which `check` has accepted."""
        raise NotImplementedError

    def check(self, release: object, knows: Mapping[str, object]) -> None:
        """Raise an error if the attack does not accept this release or these keywords.

        Raises `BayesreconError`. The message lists what the attack accepts, and which attacks accept this release.
        """
        refuse_others(release, self.takes, type(self).__name__, takers_of(release))
        check_keywords(knows, type(self).__name__, self.uses, _owner_hint(knows))


@cache
def attacks() -> Mapping[str, type[Attack[Any]]]:
    """All attacks, by name (a read-only mapping)."""
    shipped: list[type[Attack[Any]]] = discover("bayesrecon.attacks", "ATTACK")
    return added("attacks", "attack", _is_attack, lambda attack: attack.name, shipped).by_name


def _is_attack(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Attack)


def takers_of(release: object) -> str:
    """A hint for error messages: the attacks that accept this release."""
    names = [attack.__name__ for attack in attacks().values() if isinstance(release, attack.takes)]
    return f"use {' or '.join(names)}" if names else LIMITED


def _owner_hint(knows: Mapping[str, object]) -> str:
    """A hint for error messages: the attack that has the first unknown keyword as an option."""
    unknown = next((name for name in knows if name not in KNOWS), None)
    owners = [attack.__name__ for attack in attacks().values() if unknown in attack.options()]
    return f": it is an option of an attack, attack={owners[0]}({unknown}=...)" if owners else ""

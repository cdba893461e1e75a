"""Kinds of releases: the steps from a release to statistics of its data that differ between kinds.

To add a kind, define `KIND`, an instance of `Kind`, in a module of this package or in a plug-in. `kind_of` finds it.
"""

from functools import cache
from typing import Any, ClassVar

from bayesrecon.discovery import Plugins, added, discover
from bayesrecon.divergence.metrics import in_coordinates
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.releases import Release


class Kind:
    """The base class of kinds. A problem is a `bayesrecon.estimation.problem.Problem`.

    Attributes:
        of: the type of the releases. Derived types are of this kind, too, unless they have their own kind.
        states: whether `stated` gives results without solving equations.
    """

    of: ClassVar[type[Release]]
    states: ClassVar[bool] = False

    def opened(self, release: Release, coordinates: str) -> Release:
        """The release in the chosen coordinates, checked.

        Raises:
            BayesreconError: the release has no equations, or they cannot hold.
        """
        return in_coordinates(release, coordinates)

    def unusable(self, release: Any) -> str | None:
        """Why no check of release and model can pass, seen before anything is computed; None if nothing is seen."""
        return None

    def weighted(self, problem: Any) -> Any:
        """The problem, solved again with the errors of its equations as weights."""
        return problem

    def warnings(self, problem: Any) -> tuple[str, ...]:
        """Warnings from reading the release, and questions about it."""
        return problem.release.notes

    def failures(self, problem: Any, fitted: Any) -> tuple[str, ...]:
        """One line for each failed check of release and model.

        Args:
            fitted: `(T, d)` fitted posterior scores.
        """
        return problem.contradicted

    def forecast(self, problem: Any) -> tuple[str, ...]:
        """A forecast of how many more draws would determine the number of records, in words."""
        return ()

    def stated(self, release: Release, statistics: Any, knows: Knows) -> Any:
        """A `Recovery` without solving equations; None if there are equations to solve."""
        return None


@cache
def _kinds() -> Plugins[type[Release], Kind]:
    builtin: list[Kind] = discover("bayesrecon.estimation.kinds", "KIND")
    return added("kinds", "kind of release", lambda value: isinstance(value, Kind), lambda kind: kind.of, builtin)


def kind_of(release: Release) -> Kind:
    """The kind of a release, by its type or the nearest one that it is derived from.

    Raises:
        BayesreconError: there is none, or the release belongs to a plug-in whose kind was skipped.
    """
    kinds = _kinds()
    base = next((base for base in type(release).__mro__ if base in kinds.by_name), None)
    lost = [plugin for plugin in kinds.skipped if plugin.package == type(release).__module__.partition(".")[0]]
    if base is None or (base is not type(release) and lost):
        reason = lost[0].reason if lost else f"{type(release).__name__} has no kind (bayesrecon.estimation.kinds)"
        raise BayesreconError(f"{release.name} cannot be read: {reason}")
    return kinds.by_name[base]

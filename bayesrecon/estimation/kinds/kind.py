"""What differs by the kind of a release on the way from opening it to what is said of its data.

A module of this package that has `KIND`, an instance, adds one, and so does a plug-in: `kind_of` finds it.
"""

from functools import cache
from typing import Any, ClassVar

from bayesrecon.discovery import Plugins, added, discover
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.metric import in_coordinates
from bayesrecon.knowledge import Knows
from bayesrecon.releases import Release


class Kind:
    """What differs by the kind of a release; a problem is a `bayesrecon.estimation.problem.Problem`.

    Attributes:
        of: the type of the releases. Those of a type derived from it are of this kind too, unless they have their own.
        states: whether it says something without solving anything (`stated`).
    """

    of: ClassVar[type[Release]]
    states: ClassVar[bool] = False

    def opened(self, release: Release, coordinates: str) -> Release:
        """Checked, in the coordinates in use.

        Raises `BayesreconError` for what has no equations, or none that hold.
        """
        return in_coordinates(release, coordinates)

    def weighted(self, problem: Any) -> Any:
        """The law of the errors of its equations: the same solved with them as weights."""
        return problem

    def warnings(self, problem: Any) -> tuple[str, ...]:
        """What was noticed while reading, and questions about what was read."""
        return problem.release.notes

    def failures(self, problem: Any, fitted: Any) -> tuple[str, ...]:
        """One line for each check of release and model that failed.

        Args:
            fitted: `(T, d)` fitted posterior scores.
        """
        return problem.contradicted

    def forecast(self, problem: Any) -> tuple[str, ...]:
        """How much more of it would determine the number of records."""
        return ()

    def stated(self, release: Release, statistics: Any, knows: Knows) -> Any:
        """What is said without solving anything, a `Recovery`; None where there are equations to solve."""
        return None


@cache
def _kinds() -> Plugins:
    own = discover("bayesrecon.estimation.kinds", "KIND")
    return added("kinds", "kind of release", lambda given: isinstance(given, Kind), lambda kind: kind.of, own)


def kind_of(release: Release) -> Kind:
    """The kind of a release, by its type or the nearest one that it is derived from.

    Raises:
        BayesreconError: there is none; or the release is of a plug-in whose kind was skipped: that of another would not
            hold of it.
    """
    kinds = _kinds()
    base = next((base for base in type(release).__mro__ if base in kinds.found), None)
    lost = [plugin for plugin in kinds.skipped if plugin.package == type(release).__module__.partition(".")[0]]
    if base is None or (base is not type(release) and lost):
        reason = lost[0].reason if lost else f"{type(release).__name__} has no kind (bayesrecon.estimation.kinds)"
        raise BayesreconError(f"what {release.name} says cannot be told: {reason}")
    return kinds.found[base]

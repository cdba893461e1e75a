"""What separates released numbers from exact ones: noise, rounding, the rest of an optimisation, limits alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Ascent:
    """What an optimiser left, in units that may not be known.

    The gradient of the objective at `theta` is `s * score @ xi`, xi independent standard normal, and what noisy steps
    make of it.

    Args:
        score: `(d, h)`.
        steps: `(d, g)` directions of what noisy gradients moved, each in steps of the size of its own gradient (Adam
            and its kin); none where gradients had no noise.
        points: `(K, d)` parameters at late steps in their order, with `theta` their mean; None where there are none.
        turned: `(K, d, d)` what a step of the optimiser that moves the mean by v moves each point by, `turned[i] @ v`,
            where it moved other numbers than these: its gradients average to zero, those in theta need not.
        freedom: degrees of freedom with which s = 1 is known: infinite where it was stated, 0 where nothing is known of
            s but what the equations tell.
    """

    score: Any
    steps: Any
    points: Any = None
    turned: Any = None
    freedom: float = field(default=math.inf, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Noise:
    """What separates a parameter as it was released from the exact one, in its own coordinates.

    The exact one is `theta + normal @ xi + bounded @ delta`, xi independent standard normal and delta in [-1, 1].

    Args:
        normal: `(d, g)`, sampling noise.
        bounded: `(d, b)`, rounding: a column for every number that was printed.
    """

    normal: Any
    bounded: Any

    def rounded(self, columns: Any) -> "Noise":
        """The same with more `columns (d, b)` of rounding."""
        return Noise(self.normal, np.column_stack([np.asarray(self.bounded), columns]))


NO_CORRELATIONS = "the correlations of the estimates were not given"
"""What limits alone are said for, in notes and in audits."""

_SLACK = 1e-9  # relative, of limits that are one number


@dataclass(frozen=True)
class Limit:
    """Where a statistic lies, whatever else was not told; its value where that is told but for rounding."""

    lower: float = -math.inf
    upper: float = math.inf
    estimate: float | None = None


class Statements(dict[str, Limit]):
    """Limits by the names of statistics, `{statistic: Limit}`.

    Attributes:
        remarks: what else is told, one line each: all whole numbers that print the same table, where they are few.
        failures: why no data print the table, one line each.
        presumed: what nobody stated and limits rest on, to be read behind "if".
    """

    def __init__(
        self,
        limits: Mapping[str, Limit],
        remarks: Sequence[str] = (),
        failures: Sequence[str] = (),
        presumed: Sequence[str] = (),
    ) -> None:
        super().__init__(limits)
        self.remarks, self.failures, self.presumed = tuple(remarks), tuple(failures), tuple(presumed)

    def meeting(self, other: "Statements") -> "Statements":
        """What two ways of reading say, whose limits are cut with each other.

        >>> both = Statements({"n": Limit(3.0)}).meeting(Statements({"n": Limit(1.0, 8.0)}))
        >>> both["n"].lower, both["n"].upper
        (3.0, 8.0)
        """
        found, failures = dict(self), [*self.failures, *other.failures]
        for name, limit in other.items():
            before = found.get(name, Limit())
            low, high = max(before.lower, limit.lower), min(before.upper, limit.upper)
            estimate = before.estimate if before.estimate is not None else limit.estimate
            if low > high + _SLACK * (1 + abs(high)):
                failures.append(f"no data give this table: {name} would be at least {low:.6g}, and at most {high:.6g}")
            elif estimate is not None:
                estimate = min(max(estimate, low), max(low, high))
            found[name] = Limit(low, max(low, high), estimate)
        return Statements(found, (*self.remarks, *other.remarks), failures, (*self.presumed, *other.presumed))


class Limits(Protocol):
    """What a release says of statistics, given the fields with their domains, the number of records where it is known,
    and the factors that somebody stated."""

    def __call__(self, fields: Mapping[str, Any], total: float | None, factors: Sequence[Any] = ()) -> Statements: ...

"""Errors of released numbers: noise, rounding and unfinished optimisation; and limits of statistics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Field


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Ascent:
    """The remaining error of an optimiser, up to a factor that may be unknown.

    The gradient of the objective at `theta` is `s * score @ xi`, xi independent standard normal, plus the effect of
    noisy steps.

    Args:
        score: `(d, h)`.
        steps: `(d, g)` directions in which noisy gradients moved the parameters. The length of a step is that of its
            own gradient (Adam and similar). `g` is 0 if gradients had no noise.
        points: `(K, d)` parameters at late steps in order, whose mean is `theta`; None if there are none.
        turned: `(K, d, d)` matrices for an optimiser that steps in other coordinates. A step that moves the mean by v
            moves point i by `turned[i] @ v`. The optimiser's gradients average to zero, while those in theta need not.
        freedom: degrees of freedom of the estimate s = 1: infinite if it was stated, 0 if s is only known from the
            equations.
    """

    score: Array
    steps: Array
    points: Array | None = None
    turned: Array | None = None
    freedom: float = field(default=math.inf, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Noise:
    """The error of a released parameter, in its coordinates.

    The exact parameter is `theta + normal @ xi + bounded @ delta`, with independent standard normal xi, and delta in
    [-1, 1].

    Args:
        normal: `(d, g)`, sampling noise.
        bounded: `(d, b)`, rounding: one column for each printed number.
    """

    normal: Array
    bounded: Array

    def rounded(self, columns: Array) -> "Noise":
        """The same noise with further `columns (d, b)` of rounding."""
        return Noise(self.normal, np.column_stack([np.asarray(self.bounded), columns]))


NO_CORRELATIONS = "the correlations of the estimates were not given"
"""The reason, in notes and audits, why a release gives limits instead of equations."""

_SLACK = 1e-9  # relative tolerance for a lower limit above an upper one


@dataclass(frozen=True)
class Limit:
    """An interval that contains a statistic, and its value if that is known up to rounding."""

    lower: float = -math.inf
    upper: float = math.inf
    estimate: float | None = None


class Statements(dict[str, Limit]):
    """Limits by the names of statistics, `{statistic: Limit}`.

    Attributes:
        remarks: further statements, one line each, such as all whole numbers that print the same table, if few.
        failures: reasons why no data can print the table, one line each.
        presumed: assumptions behind the limits that nobody stated, each a clause that can follow "if".
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
        """The intersection of the limits of two methods.

        >>> both = Statements({"n": Limit(3.0)}).meeting(Statements({"n": Limit(1.0, 8.0)}))
        >>> both["n"].lower, both["n"].upper
        (3.0, 8.0)
        """
        combined, failures = dict(self), [*self.failures, *other.failures]
        for name, limit in other.items():
            limit_before = combined.get(name, Limit())
            low, high = max(limit_before.lower, limit.lower), min(limit_before.upper, limit.upper)
            estimate = limit_before.estimate if limit_before.estimate is not None else limit.estimate
            if low > high + _SLACK * (1 + abs(high)):
                failures.append(f"no data give this table: {name} would be at least {low:.6g}, and at most {high:.6g}")
            elif estimate is not None:
                estimate = min(max(estimate, low), max(low, high))
            combined[name] = Limit(low, max(low, high), estimate)
        return Statements(combined, (*self.remarks, *other.remarks), failures, (*self.presumed, *other.presumed))


class Limits(Protocol):
    """A function that computes limits of statistics from a release.

    Its arguments are the fields with their domains, the number of records if known, and the stated factors.
    """

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Any] = ()) -> Statements: ...

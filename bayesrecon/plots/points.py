"""What a plot shows of a statistic."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bayesrecon.result import Row

Z95 = 1.959964
INSIDE, OUTSIDE, EXACT = "truth in 95 % interval", "truth outside", "exact"


@dataclass(frozen=True)
class Point:
    """A statistic whose numbers are finite, or None: without a value it is not determined.

    Attributes:
        part: the release shows only a part of the statistic.
        z: error in units of the standard error; infinite for an exact value that is off.
        kind: the legend's words for it; empty without a truth to compare with.
    """

    name: str
    value: float | None
    se: float | None
    interval: tuple[float, float] | None
    floor: float | None
    visibility: float
    part: bool
    true: float | None

    @property
    def z(self) -> float | None:
        if self.value is None or self.se is None or self.true is None:
            return None
        error = self.value - self.true
        if self.se:
            return error / self.se
        return (
            0.0 if math.isclose(self.value, self.true, rel_tol=1e-6, abs_tol=1e-9) else math.copysign(math.inf, error)
        )

    @property
    def kind(self) -> str:
        if self.z is not None and abs(self.z) > Z95:
            return OUTSIDE
        return EXACT if self.se == 0 else "" if self.z is None else INSIDE


def to_point(row: Row, truth: Mapping[str, float] | None) -> Point:
    value = None if row.verdict == "undetermined" else _finite(row.estimate)
    se = None if value is None else _finite(row.se)
    se = None if se is None or se < 0 else se
    lower, upper = _finite(row.lower), _finite(row.upper)
    return Point(
        name=row.name,
        value=value,
        se=se,
        interval=(lower, upper) if se and lower is not None and upper is not None else None,
        floor=_finite(row.floor) if se else None,
        visibility=min(max(_finite(row.visibility) or 0.0, 0.0), 1.0),
        part=row.verdict == "partly",
        true=_finite((truth or {}).get(row.name)),
    )


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and abs(value) < 1e290 else None  # beyond, an axis would overflow

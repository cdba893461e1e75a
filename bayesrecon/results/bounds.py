"""The result of `bound`: intervals over all data sets that the release does not distinguish."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self

from bayesrecon.json_types import Json
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Interval:
    """Range of a statistic over all data sets on the domain that the release does not distinguish from the private one.

    `lower` or `upper` is None if that side is unbounded.
    """

    name: str
    lower: float | None
    upper: float | None

    @property
    def width(self) -> float | None:
        return None if self.lower is None or self.upper is None else self.upper - self.lower


@dataclass(frozen=True, repr=False)
class Bounds(Result):
    """Intervals and the domain on which they hold. `level` is their joint coverage."""

    plotted_by = "bounds.plot_bounds"

    release: str
    level: float
    domain: Json
    intervals: tuple[Interval, ...]
    failures: tuple[str, ...] = ()
    model: str = ""
    draws: int = 0

    def _lowered(self, force: bool) -> Self:
        return self if force else replace(self, intervals=tuple(Interval(i.name, None, None) for i in self.intervals))

    def __getitem__(self, name: str) -> Interval:
        for interval in self.intervals:
            if interval.name == name:
                return interval
        raise KeyError(name)

    def to_dict(self) -> Json:
        """Plain types only."""
        return self._document(**{k: v for k, v in asdict(self).items() if k != "failures"})

    def to_dataframe(self) -> "DataFrame":
        """One row per statistic."""
        import pandas as pd

        rows = [{**asdict(i), "width": i.width} for i in self.intervals]
        return pd.DataFrame(rows).set_index("name").astype(float)

    @property
    def headline(self) -> str:
        return f"{self.release}: {self.level:.0%} bounds on {self.domain}"

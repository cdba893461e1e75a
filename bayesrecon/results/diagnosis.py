"""What a release determines: the results of `diagnose`, `bound` and `witness`."""

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.results.base import Result, by_name
from bayesrecon.results.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True)
class Feature:
    """A function of one record, and how much of it the release determines.

    Attributes:
        name: a monomial of the standardised fields ("1", "x", "x^2*y"), a unit, or the user's function.
        order: degree of the monomial; 0 for other functions.
        visibility: share of the function that infinitely many draws would determine.
        seen: share that these draws resolve above their noise. Equal to `visibility` if the rank is finite.
        se: standard error of the function's average over the records, from these draws; None if it is not resolved.
        floor: Cramer-Rao floor of `se`.
        residual: root mean square of the unresolved part, in units of the function.
        verdict: "determined", "partly" or "undetermined".
    """

    name: str
    order: int
    visibility: float
    seen: float
    se: float | None
    floor: float | None
    residual: float
    verdict: str


@dataclass(frozen=True)
class Eigenfunction:
    """A leading eigenfunction of the kernel: its eigenvalue, noise, and the features it loads on."""

    eigenvalue: float
    noise: float
    loads: tuple[tuple[str, float], ...]


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """What a release determines about its data.

    Attributes:
        rank: number of features above rounding error.
        gap: whether the spectrum ends in a gap (finite rank).
        resolved: number of features above the noise of these draws.
        index: effective dimension at the noise level, `sum_k lambda_k / (lambda_k + noise_k)`. It measures,
            independently of scale, how much the release reveals.
        spectrum: `(r,)` eigenvalues of the kernel operator on generic records, largest scaled to one.
        noise: `(r,)` noise of the target in the same units.
        features: monomials up to the requested order, units, and the user's functions.
        eigenfunctions: the leading eigenfunctions, described by the fields.
        plan: what fewer draws or digits would reveal, if it was requested (`diagnose --plan`).
    """

    plotted_by = "diagnosis.plot_diagnosis"

    release: str
    model: str
    draws: int
    rank: int
    gap: bool
    resolved: int
    index: float
    spectrum: np.ndarray
    noise: np.ndarray
    features: tuple[Feature, ...]
    eigenfunctions: tuple[Eigenfunction, ...]
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    plan: Plan | None = None

    def _lowered(self, force: bool) -> Self:
        blank = {} if force else {"se": None, "floor": None}
        verdict = "partly" if force else "undetermined"
        features = (replace(f, verdict=verdict, **blank) if f.verdict != "undetermined" else f for f in self.features)
        return replace(self, features=tuple(features))

    def __getitem__(self, name: str) -> Feature:
        return by_name(self.features, name, "feature")

    def to_dataframe(self) -> "DataFrame":
        """One row per feature."""
        import pandas as pd

        return pd.DataFrame([asdict(f) for f in self.features]).set_index("name")

    def plot_spectrum(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the eigenvalues with their noise; see `bayesrecon.plots.diagnosis`."""
        return self.plotted("diagnosis.plot_diagnosis_spectrum", ax=ax)

    def plot_visibility(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the visibility of the features; see `bayesrecon.plots.diagnosis`."""
        return self.plotted("diagnosis.plot_visibility", ax=ax)

    @property
    def headline(self) -> str:
        kind = "finite" if self.gap else "decaying spectrum"
        by = f"{self.resolved} resolved by {self.draws} draws" if self.draws > 1 else "at one trained parameter"
        return f"{self.release}: rank {self.rank} ({kind}), {by}, index {self.index:.2f}"


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

    plotted_by = "diagnosis.plot_bounds"

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
        return by_name(self.intervals, name, "interval")

    def to_dataframe(self) -> "DataFrame":
        """One row per statistic."""
        import pandas as pd

        rows = [{**asdict(i), "width": i.width} for i in self.intervals]
        return pd.DataFrame(rows).set_index("name").astype(float)

    @property
    def headline(self) -> str:
        return f"{self.release}: {self.level:.0%} bounds on {self.domain}"


@dataclass(frozen=True, repr=False)
class Witness(Result):
    """The witness on a grid.

    Attributes:
        fields: names of the one or two fields.
        grids: grid values of each field, `(G,)` each.
        values, se: density of the private records and its standard error, `(G,)` or `(G, G)`, first field first. For a
            field with finitely many values, shares of the records. `se` is zero for a trained parameter.
        visibility: `(G,)` or `(G, G)`, share of each bump function that the release determines.
    """

    plotted_by = "diagnosis.plot_witness"

    release: str
    fields: tuple[str, ...]
    grids: tuple[np.ndarray, ...]
    values: np.ndarray
    se: np.ndarray
    visibility: np.ndarray
    model: str = ""
    draws: int = 0

    def to_dataframe(self) -> "DataFrame":
        """One row per grid point."""
        import pandas as pd

        mesh = np.meshgrid(*self.grids, indexing="ij")
        columns = {name: m.ravel() for name, m in zip(self.fields, mesh, strict=True)}
        found = {"density": self.values.ravel(), "se": self.se.ravel(), "visibility": self.visibility.ravel()}
        return pd.DataFrame({**columns, **found})

    @property
    def headline(self) -> str:
        return f"{self.release}: density of the private records over {' and '.join(self.fields)}"

"""The result of `diagnose`: what a release determines about its data."""

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.results.base import Result
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
        for feature in self.features:
            if feature.name == name:
                return feature
        raise KeyError(name)

    def to_dict(self) -> Json:
        """Plain types only. Numbers that are not determined are None."""
        body = {k: v for k, v in asdict(replace(self, plan=None)).items() if k not in ("warnings", "failures")}
        return self._document(**{**body, "plan": None if self.plan is None else self.plan.to_dict()})

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

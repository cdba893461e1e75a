"""Results of `reconstruct`: weighted records with their certificate, and records of matched gradients."""

import json
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.results.base import Result
from bayesrecon.results.row import Row

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction(Result):
    """Weighted pseudo-data whose score matches that of the release.

    Attributes:
        pseudo: weights `(M,)` and records.
        trace, columns: trace of the optimisation, and names of its columns: iteration, seconds, objective, gap, n, and
            the weighted means and variances of the fields.
        objective_value: final divergence, up to a constant.
        bound: its minimum over all signed measures.
        gap: upper bound on the distance of the divergence from its optimum; see `certificate`.
        relative_gap: `gap / |bound|`; None if the bound is zero.
        gap_in_noise: the gap in units of `rank / (2 T_eff)`, the resolution of the draws; None at temperature 0.
        certificate: the set over which the optimum is taken: "signed measures" (kernel of finite rank), "measures of
            bounded mass" on `domain` (conditional-gradient duality gap; total weight at most `mass`), or "one record a
            row".
        rank: number of features in the divergence.
        weights: constraint on the weights.
        stopped: why the optimisation ended.
    """

    plotted_by = "reconstruction.plot_reconstruction"
    _omitted, _derived = ("pseudo", "trace", "columns"), ("statistics",)

    pseudo: PseudoData
    trace: tuple[tuple[float, ...], ...]
    columns: tuple[str, ...]
    release: str
    model: str
    draws: int
    n: int
    objective: str
    method: str
    metric: str
    coordinates: str
    objective_value: float
    bound: float
    gap: float
    relative_gap: float | None
    gap_in_noise: float | None
    certificate: str
    domain: Json
    mass: float | None
    rank: int
    weights: str
    stopped: str
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    judge: InitVar[Callable[[PseudoData, Model], tuple[Row, ...]] | None] = None

    def __post_init__(self, judge: Callable[[PseudoData, Model], tuple[Row, ...]] | None) -> None:
        object.__setattr__(self, "_judge", judge)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_judge": None}  # the release does not travel with its result

    def supports(self, refit: Model) -> tuple[Row, ...]:
        """Whether another model has the same estimates on the pseudo-data as on the private data.

        A refit solves `sum_n psi(x_n, theta) = 0`, where psi is the score of one record (the prior's is added once).
        Let `theta` be its solution on the pseudo-data, J the curvature there, and `f_j = (J^-1 psi(., theta))_j` the
        influence of a record on parameter j. Refitted to the private data, the parameter is

            theta_j + sum_n f_j(x_n),

        up to squares of the change. Pseudo-data have the totals that the release determines, and the total of f_j over
        them is zero. So if f_j is in the span of the visible features, its total over the private data is zero too:
        if this holds for all parameters, `theta` itself solves the private equations and the refit is *supported*. The
        release alone decides: `visibility` is the share of f_j in the span, as in `recover`.

        Args:
            refit: a model whose fields the pseudo-data have. It need not be that of the release. It is fitted to the
                weighted records at the mode of its likelihood times prior.

        Returns:
            One row per parameter. `estimate` is that on the pseudo-data, `se` the sampling error of the difference
            between it and that on the private data, and the interval is for the latter. All rows have the verdict of
            the least visible parameter, because each moves with the others: "determined" (the refit is supported),
            "partly" (what is not visible may move it by more than `se`), or "undetermined" (without intervals).

        Raises:
            BayesreconError: the result was loaded from a file; the fields do not suffice; the pseudo-data do not
                determine the parameters.
        """
        judge = getattr(self, "_judge", None)
        if judge is None:
            raise BayesreconError("which refits are supported is judged with the release: run reconstruct again")
        return tuple(judge(self.pseudo, refit))

    def statistics(self) -> dict[str, float]:
        """Sum of the weights, and weighted means and variances of the reconstructed fields."""
        names = [c[5:-1] for c in self.columns if c.startswith("mean(")]
        bases = list(dict.fromkeys(n.split("[")[0] for n in names))
        total, mean, variance = moments_of(np.asarray(self.pseudo.weights), self.pseudo.records, bases)
        statistics = {"n": total}
        statistics |= {f"mean({n})": float(v) for n, v in zip(names, mean, strict=True)}
        return statistics | {f"var({n})": float(v) for n, v in zip(names, variance, strict=True)}

    def to_dataframe(self) -> "DataFrame":
        """One row per pseudo-record: its weight and its fields."""
        return self.pseudo.to_dataframe()

    def trace_dataframe(self) -> "DataFrame":
        """The trace as a table."""
        import pandas as pd

        return pd.DataFrame(list(self.trace), columns=list(self.columns)).astype({"iteration": int})

    def to_dataset(self) -> "Dataset":
        """An `xarray.Dataset` of records, weights and trace, with the settings as attributes."""
        import xarray as xr

        variables: dict[str, tuple[str | tuple[str, ...], np.ndarray]] = {
            "weight": ("record", np.asarray(self.pseudo.weights))
        }
        for name, values in self.pseudo.records.items():
            values = np.asarray(values)
            variables[f"record_{name}"] = (("record", *(f"{name}_dim_{i}" for i in range(values.ndim - 1))), values)
        variables["trace"] = (("step", "column"), np.array(self.trace).reshape(-1, len(self.columns)))
        attributes = {f"bayesrecon_{k}": json.dumps(v) for k, v in self.to_dict().items()}
        return xr.Dataset(variables, {"column": list(self.columns)}, attributes)

    @property
    def headline(self) -> str:
        gap = "" if self.relative_gap is None else f", relative gap {self.relative_gap:.2g}"
        return f"{self.release}: {self.n} weighted records, {self.method}, {self.objective}{gap}"

    def _excerpt(self) -> "DataFrame":
        return self.to_dataframe().sort_values("weight", ascending=False)


def moments_of(weights: np.ndarray, records: Records, names: list[str]) -> tuple[float, np.ndarray, np.ndarray]:
    """Sum of the weights, and weighted means and population variances of the fields' entries."""
    total = float(weights.sum())
    flat = [np.asarray(records[n], float).reshape(len(weights), -1) for n in names]
    values = np.concatenate(flat, axis=1) if flat else np.zeros((len(weights), 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = weights @ values / total
        variance = weights @ (values - mean) ** 2 / total
    return total, mean, variance


@dataclass(frozen=True, eq=False, repr=False)
class Matched(Result):
    """Records and multipliers whose gradients cancel the gradient of the regulariser.

    Attributes:
        pseudo: multipliers `(M,)` and records.
        residual: norm of the remaining gradient, relative to that of the regulariser.
        residual_floor: certified lower bound: every measure of at most `mass` records on `domain` leaves at least this
            residual. Zero if nothing can be excluded. If it is positive, the parameter is not stationary.
        strength: c, strength of the regulariser relative to that in the model; 1 if it is known.
        residuals: residuals of all restarts, best first. With a regulariser, half the squared residual plus the
            penalty.
        equations, unknowns: number of independent equations at the solution, and number of unknowns.
        determined: `(M,)`, whether each record is determined. Three conditions must hold: the residual is at its floor
            (`residual_floor`, or rounding error); a second start reached the same record; and the equations fix the
            record even if the other records are only approximate.
        error: `{field: (M, *shape)}` and "weight": change of the record that a gradient of the residual's size causes,
            and at least the distance between the starts. Infinite for a record that is not determined.
        multipliers: "free" or "one".
        penalty: the regulariser's term in the objective, which is added to half the squared residual.
        regulariser: its description; empty if there is none.
    """

    plotted_by = "matched.plot_matched"
    _omitted, _derived = ("pseudo", "error"), ("total",)

    pseudo: PseudoData
    residual: float
    residual_floor: float
    mass: float
    domain: Json
    strength: float
    residuals: tuple[float, ...]
    equations: int
    unknowns: int
    determined: np.ndarray
    error: dict[str, np.ndarray]
    multipliers: str
    release: str
    model: str
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    penalty: float = 0.0
    regulariser: str = ""

    @property
    def total(self) -> float:
        """Sum of the multipliers. It equals N if the visibility of n in `recover` says that n is determined."""
        return float(np.sum(self.pseudo.weights))

    def to_dict(self) -> Json:
        """Plain types only, without the records."""
        return {**super().to_dict(), "n": len(self.pseudo.weights)}

    def to_dataframe(self) -> "DataFrame":
        """One row per record: its multiplier, whether it is determined, and its fields."""
        return self.pseudo.to_dataframe(determined=self.determined)

    @property
    def headline(self) -> str:
        return (
            f"{self.release}: {len(self.pseudo.weights)} records, residual {self.residual:.2g} of the regulariser's "
            f"gradient, {int(self.determined.sum())} records determined"
        )

    def _excerpt(self) -> "DataFrame":
        return self.to_dataframe().sort_values("weight", ascending=False)

"""The result of `reconstruct`: weighted records, the trace of the optimisation, and its certificate."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData, Records
from bayesrecon.results.base import Result

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

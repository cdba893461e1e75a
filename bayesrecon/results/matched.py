"""The result of gradient-norm matching."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame


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

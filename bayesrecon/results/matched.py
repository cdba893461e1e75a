"""The result of gradient-norm matching."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.model import PseudoData
from bayesrecon.results.base import Result

_LEFT_OUT = ("pseudo", "error", "warnings")


@dataclass(frozen=True, eq=False, repr=False)
class Matched(Result):
    """Records and multipliers whose gradients cancel the regulariser's.

    Attributes:
        pseudo: multipliers `(M,)` and records.
        residual: norm of what is left of the gradient, relative to the regulariser's.
        least: certified: every measure of at most `mass` records on `domain` leaves at least this much. Zero when
            nothing can be excluded; above zero the parameter is not stationary.
        strength: c, the regulariser's strength relative to the model's; 1 when it is known.
        residuals: of all restarts, the best first: it was chosen by the residual alone, or with a regulariser by half
            its square plus the penalty.
        equations, unknowns: independent equations at the solution, and numbers they were solved for.
        determined: `(M,)`, whether the residual is at its floor (`least`, or rounding), a second start ended there with
            the same record, and the equations fix it once the others are only near, too.
        error: `{field: (M, *shape)}` and "weight": change that a gradient of the residual's size makes, and no less
            than the starts are apart; infinite for a record that is not determined.
        multipliers: "free" or "one".
        penalty: what the regulariser adds to half the squared residual.
        regulariser: its description; empty for none.
    """

    pseudo: PseudoData
    residual: float
    least: float
    mass: float
    domain: dict[str, Any]
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
        """Sum of the multipliers: N, where the visibility of n in `recover` says that it is determined."""
        return float(np.sum(self.pseudo.weights))

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, without the records."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _LEFT_OUT}
        return self._document(n=len(self.pseudo.weights), total=self.total, **given)

    def to_dataframe(self) -> Any:
        """One row per record: its multiplier, whether it is determined, and its fields."""
        return self.pseudo.to_dataframe(determined=self.determined)

    def plot(self, ax: Any = None, shape: tuple[int, int] | None = None, path: str | Path | None = None) -> Any:
        """Records by multiplier, or as images; see `bayesrecon.plots.plot_matched`."""
        return self.drawn("plot_matched", ax=ax, shape=shape, path=path)

    @property
    def headline(self) -> str:
        return (
            f"{self.release}: {len(self.pseudo.weights)} records, residual {self.residual:.2g} of the regulariser's "
            f"gradient, {int(self.determined.sum())} records determined"
        )

    def _excerpt(self) -> Any:
        return self.to_dataframe().sort_values("weight", ascending=False)

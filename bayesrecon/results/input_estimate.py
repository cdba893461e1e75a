"""What outputs of a model tell about one input: an estimate of every field with its error, and how many numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.model import entry
from bayesrecon.results.base import Result
from bayesrecon.results.diagnosis import Diagnosis

_DETERMINED, _PARTLY = 0.999, 0.5  # visibilities, as everywhere


@dataclass(frozen=True, eq=False, repr=False)
class InputEstimate(Result):
    """An input as its outputs tell it.

    Attributes:
        release, method: what was read, and how.
        shape: of the record, whose fields the arrays hold one after the other, `(p,)`.
        estimate: `(p,)`. se: root mean squared error on held-out public records, or, of posterior draws, the posterior
            standard deviation scaled by them.
        lower, upper: 95 % interval, widened or narrowed to hold on public records that were not fitted.
        visibility: `1 - mean squared error / variance` on held-out public records; zero where a field does not vary.
        spread: standard deviation of the field among public records.
        coverage: share of fields that vary which the intervals held on further public records; None where there were
            too few to tell. checked: number of these records.
        draws: `(D, p)` of the posterior; none of other methods.
        settings: what was chosen.
    """

    release: str
    method: str
    shape: tuple[int, ...]
    estimate: np.ndarray
    se: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    visibility: np.ndarray
    spread: np.ndarray
    coverage: float | None
    checked: int
    draws: np.ndarray
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Of every field: "determined" from a visibility of 0.999, "partly" from 0.5, else "undetermined"."""
        return tuple(
            "determined" if v >= _DETERMINED else "partly" if v >= _PARTLY else "undetermined" for v in self.visibility
        )

    @property
    def gain(self) -> float:
        """Share of the variance of all fields that the outputs tell: `sum visibility * variance / sum variance`."""
        variance = self.spread**2
        return float(self.visibility @ variance / max(variance.sum(), 1e-300))

    @property
    def condition(self) -> str:
        """What the numbers rest on."""
        return "if the input is of the law of the public records, and the outputs are this model's"

    def record(self) -> np.ndarray:
        """The estimate in the record's own shape."""
        return self.estimate.reshape(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, without the draws."""
        names = ("release", "method", "shape", "gain", "coverage", "checked", "settings", "seconds")
        told = {name: getattr(self, name) for name in names}
        return self._document(**told, fields=self.to_dataframe().reset_index().to_dict("records"))

    def to_dataframe(self) -> Any:
        """One row per field."""
        import pandas as pd

        index = [entry("x", at) for at in np.ndindex(*self.shape)]
        columns = ("estimate", "se", "lower", "upper", "visibility")
        table = pd.DataFrame({name: getattr(self, name) for name in columns}, index=pd.Index(index, name="field"))
        return table.assign(verdict=self.verdicts)

    def plot(self, shape: tuple[int, int] | None = None, path: str | Path | None = None) -> Any:
        """Estimate, error and visibility as images, or the fields with intervals; see `bayesrecon.plots.plot_input`."""
        return self.drawn("plot_input", shape=shape, path=path)

    @property
    def headline(self) -> str:
        held = "" if self.coverage is None else f"; 95 % intervals held {self.coverage:.1%} on {self.checked} records"
        return f"{self.release}: {len(self.estimate)} fields by {self.method}, {self.gain:.1%} of their variance{held}"

    def _excerpt(self) -> Any:
        return self.to_dataframe().sort_values("visibility", ascending=False, kind="stable")


@dataclass(frozen=True, repr=False)
class OutputsDiagnosis(Diagnosis):
    """How many numbers about its input the outputs of a model determine.

    Attributes:
        numbers: outputs that are not functions of the others; `resolved` of them stand out of noise and rounding.
        bits: that one answer can carry at all: of its alphabet where that is finite, else of a normal channel with the
            stated noise; None without noise, where nothing limits it but precision.
        view: what was released.
    """

    numbers: int = 0
    bits: float | None = None
    view: str = "logits"

    @property
    def condition(self) -> str:
        """What the numbers rest on."""
        return "for linear decoders; what is packed otherwise is not counted in visibilities"

    @property
    def headline(self) -> str:
        bits = "no limit of bits" if self.bits is None else f"at most {self.bits:.1f} bits"
        return f"{self.release} ({self.view}): {self.numbers} numbers about the input, {self.resolved} resolved, {bits}"

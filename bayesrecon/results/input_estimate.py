"""What the outputs of a model reveal about one input: an estimate of every field with its error."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.model import entry
from bayesrecon.results.base import Result
from bayesrecon.results.diagnosis import Diagnosis

if TYPE_CHECKING:
    from pandas import DataFrame

_DETERMINED, _PARTLY = 0.999, 0.5  # visibilities, as everywhere


@dataclass(frozen=True, eq=False, repr=False)
class InputEstimate(Result):
    """An input, reconstructed from a model's outputs.

    Attributes:
        release, method: name of the release, and name of the attack.
        shape: shape of the record. The arrays below hold its p fields in one axis, `(p,)`.
        estimate: `(p,)`.
        se: root mean squared error on held-out public records, or for posterior draws the posterior standard deviation,
            scaled to these records.
        lower, upper: 95 % interval, scaled to have 95 % coverage on public records that were not used to fit.
        visibility: `1 - mean squared error / variance` on held-out public records; zero if a field does not vary.
        spread: standard deviation of the field among the public records.
        coverage: share of the varying fields that the intervals cover on further public records; None if there were too
            few of them.
        coverage_records: number of these records.
        draws: `(D, p)` posterior draws; empty for other methods.
        settings: settings of the attack.
    """

    plotted_by = "input_image.plot_input"

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
    coverage_records: int
    draws: np.ndarray
    settings: Json
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def verdicts(self) -> tuple[str, ...]:
        """For every field: "determined" from a visibility of 0.999, "partly" from 0.5, else "undetermined"."""
        return tuple(
            "determined" if v >= _DETERMINED else "partly" if v >= _PARTLY else "undetermined" for v in self.visibility
        )

    @property
    def gain(self) -> float:
        """Share of the total variance that the outputs explain: `sum visibility * variance / sum variance`."""
        variance = self.spread**2
        return float(self.visibility @ variance / max(variance.sum(), 1e-300))

    @property
    def condition(self) -> str:
        """The assumption that the numbers rest on."""
        return "if the input comes from the distribution of the public records, and the outputs are this model's"

    def record(self) -> np.ndarray:
        """The estimate in the record's own shape."""
        return self.estimate.reshape(self.shape)

    def to_dict(self) -> Json:
        """Plain types only, without the draws."""
        names = ("release", "method", "shape", "gain", "coverage", "coverage_records", "settings", "seconds")
        values = {name: getattr(self, name) for name in names}
        return self._document(**values, fields=self.to_dataframe().reset_index().to_dict("records"))

    def to_dataframe(self) -> "DataFrame":
        """One row per field."""
        import pandas as pd

        index = [entry("x", at) for at in np.ndindex(*self.shape)]
        columns = ("estimate", "se", "lower", "upper", "visibility")
        table = pd.DataFrame({name: getattr(self, name) for name in columns}, index=pd.Index(index, name="field"))
        return table.assign(verdict=self.verdicts)

    @property
    def headline(self) -> str:
        held = ""
        if self.coverage is not None:
            held = f"; 95 % intervals covered {self.coverage:.1%} on {self.coverage_records} records"
        return f"{self.release}: {len(self.estimate)} fields by {self.method}, {self.gain:.1%} of their variance{held}"

    def _excerpt(self) -> "DataFrame":
        return self.to_dataframe().sort_values("visibility", ascending=False, kind="stable")


@dataclass(frozen=True, repr=False)
class OutputsDiagnosis(Diagnosis):
    """How many numbers about its input the outputs of a model determine.

    Attributes:
        numbers: number of outputs that are not functions of the others.
        resolved: number of these above noise and rounding.
        bits: largest information in one answer, in bits. For finitely many possible answers it follows from their
            number, otherwise from a normal channel with the stated noise. None without noise, where only the precision
            of numbers limits it.
        view: what was released.
    """

    numbers: int = 0
    bits: float | None = None
    view: str = "logits"

    @property
    def condition(self) -> str:
        """The assumption that the numbers rest on."""
        return "for linear decoders; visibilities do not count what is encoded non-linearly"

    @property
    def headline(self) -> str:
        bits = "no limit in bits" if self.bits is None else f"at most {self.bits:.1f} bits"
        return f"{self.release} ({self.view}): {self.numbers} numbers about the input, {self.resolved} resolved, {bits}"

"""Results around a deletion: the deleted record, which candidate it was, and the one record that was not known."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bayesrecon.model import entry
from bayesrecon.results.base import Result
from bayesrecon.results.row import Row

_TRAINED = "if both were trained to their optimum, and no noise was added"


def _condition(model: str) -> str:
    return f"if these are exact draws of {model}, with and without the record"


@dataclass(frozen=True, eq=False, repr=False)
class DeletedRecord(Result):
    """A reconstruction of the deleted record.

    Attributes:
        record: `{field: value}`; without the response for least squares from trained parameters, which do not show it.
        se: standard errors of the fields that were free, from the curvature of the likelihood, or of the
            totals; None for HRec.
        method: "tilt", "HRec" or "difference".
        evidence: log likelihood gained over no tilt at all; None for HRec.
        effective: public records, or draws, that the estimate effectively rests on.
        doubts: what speaks against it, one line each; also among the warnings.
        probability: of HRec with labelled public records: that the label is right, or the sign of `x` about the mean
            record where there are no labels; None where it is not stated.
    """

    record: dict[str, np.ndarray]
    se: dict[str, np.ndarray] | None
    method: str
    evidence: float | None
    effective: float
    before: str
    after: str
    model: str
    warnings: tuple[str, ...] = ()
    probability: float | None = None
    doubts: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        names = ("before", "after", "model", "method", "record", "se", "evidence", "effective", "probability")
        return self._document(**{name: getattr(self, name) for name in names})

    def to_dataframe(self) -> Any:
        """One row per entry of the record."""
        import pandas as pd

        rows = []
        for name, value in self.record.items():
            value = np.asarray(value)
            errors = None if self.se is None or name not in self.se else np.asarray(self.se[name])
            for index in np.ndindex(value.shape):
                error = np.nan if errors is None else float(errors[index])
                rows.append((entry(name, index), float(value[index]), error))
        return pd.DataFrame(rows, columns=["field", "estimate", "se"]).set_index("field")

    def plot(self, ax: Any = None, shape: tuple[int, int] | None = None) -> Any:
        """The record as an image, or field by field; see `bayesrecon.plots.plot_deleted`."""
        return self.drawn("plot_deleted", ax=ax, shape=shape)

    @property
    def headline(self) -> str:
        what = "sign" if len(self.record) == 1 else "label"
        sure = "" if self.probability is None else f", {what} right with probability {self.probability:.2f}"
        return f"{self.before} and {self.after}: the deleted record ({self.method}{sure})"

    @property
    def condition(self) -> str:
        return {"tilt": _condition(self.model), "HRec": _TRAINED}.get(self.method, "")


@dataclass(frozen=True, eq=False, repr=False)
class DeletionInference(Result):
    """How likely each candidate is to be the deleted record.

    Attributes:
        probability: `(N,)`, posterior probabilities under equal prior ones, given that one of them was deleted; where
            more were, that it is among them.
        log_likelihood: `(N,)`, up to a constant; of the best set with the candidate, where more were deleted.
        method: "ratio" (posterior draws), "shift" (their means alone), "gradient" (trained parameters) or "totals"
            (approximations).
        effective_draws: of both releases, smallest over the candidates.
        deleted: of approximations: how many records were deleted, and the totals of their fields.
    """

    probability: np.ndarray
    log_likelihood: np.ndarray
    method: str
    effective_draws: float
    before: str
    after: str
    model: str
    warnings: tuple[str, ...] = ()
    deleted: tuple[Row, ...] = ()

    @property
    def ranking(self) -> np.ndarray:
        """Candidates' row numbers, most likely first."""
        return np.argsort(-self.log_likelihood, kind="stable")

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        names = ("before", "after", "model", "method", "effective_draws", "probability", "log_likelihood", "ranking")
        return self._document(
            **{name: getattr(self, name) for name in names}, deleted=[asdict(row) for row in self.deleted]
        )

    def to_dataframe(self) -> Any:
        """One row per candidate, most likely first."""
        import pandas as pd

        frame = pd.DataFrame({"probability": self.probability, "log_likelihood": self.log_likelihood})
        return frame.iloc[self.ranking].rename_axis("candidate")

    @property
    def headline(self) -> str:
        return f"{self.before} and {self.after}: which of {len(self.probability)} records was deleted"

    @property
    def condition(self) -> str:
        return {"totals": "", "gradient": _TRAINED}.get(self.method, _condition(self.model))


@dataclass(frozen=True, repr=False)
class MissingRecord(Result):
    """The one record that was not known.

    Attributes:
        record: `{field: value}`.
        slope: `(K,)`, the loss's slope at the record: what the gradient consists of besides the record.
        amplification: error of x per unit of error in the gradient, `sqrt(1 + |x|^2) / |s|`.
        error: bound on the error of x, for a gradient norm `left` by training: `sqrt(1 + |x|^2) left / (|s| - left)`;
            infinite where as much was left as the record's own gradient, or slope and record disagree altogether.
        disagreement: relative distance between the slope found and the one that the record implies; zero for an exactly
            stationary parameter, None where it cannot be checked (squared loss with one output).
        left: gradient norm: stated, or as the disagreement tells for 95 % of leftovers of random direction; never less
            than it proves.
        warnings: one line each.
    """

    record: dict[str, Any]
    slope: np.ndarray
    amplification: float
    error: float
    disagreement: float | None
    left: float
    release: str
    model: str
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return self._document(**{k: v for k, v in vars(self).items() if k != "warnings"})

    def to_dataframe(self) -> Any:
        """One row: the record's fields, and the error."""
        import pandas as pd

        row = {}
        for name, value in self.record.items():
            value = np.asarray(value)
            for index in np.ndindex(value.shape):
                row[entry(name, index)] = value[index]
        return pd.DataFrame([{**row, "error": self.error}])

    @property
    def headline(self) -> str:
        if not np.isfinite(self.error):
            return f"{self.release}: the missing record is not determined"
        condition = f" if training left a gradient of {self.left:.1g} or less" if self.disagreement is None else ""
        return f"{self.release}: the missing record, error at most {self.error:.2g}{condition}"


@dataclass(frozen=True, eq=False)
class Inversion:
    """Inverted embeddings.

    Attributes:
        x: `(N, p)` records.
        misfit: `(N,)` of them, 0 for an embedding that points exactly the same way, 1 for an unrelated one.
        start: `(N,)` which start each came from: 0 the nearest public record, and so on; the last is the mean of them.
        misfits: `(N, starts)` of all starts.
    """

    x: np.ndarray
    misfit: np.ndarray
    start: np.ndarray
    misfits: np.ndarray

"""Results about a deletion: the deleted record, the probabilities of candidates, and the one unknown record."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.model import entry
from bayesrecon.pairs import Deletion
from bayesrecon.results.base import Result
from bayesrecon.results.row import Row

if TYPE_CHECKING:
    from pandas import DataFrame


_TRAINED = "if both were trained to their optimum, and no noise was added"


def _condition(model: str) -> str:
    return f"if these are exact draws of {model}, with and without the record"


@dataclass(frozen=True, eq=False, repr=False)
class DeletedRecord(Result):
    """A reconstruction of the deleted record.

    Attributes:
        record: `{field: value}`; empty if nothing can be said. For least squares from trained parameters there is no
            response, because they do not determine it.
        se: standard errors of the estimated fields, from the curvature of the likelihood or from the errors of the
            totals; None for HRec.
        method: "tilt", "HRec" or "difference".
        evidence: gain in log likelihood over no deletion at all; None for HRec.
        effective_size: effective number of public records, or of draws, behind the estimate.
        doubts: what speaks against the estimate, one line each; also among the warnings.
        probability: for HRec. With labelled public records, the probability that the label is right. Without labels,
            the probability that the sign of `x` about the mean record is right. None if it is not computed.
        other: for a label or sign in doubt, the record with the second most probable one, and `other_probability` its
            probability.
        columns: names of the entries of fields, where the model knows them.
        deleted: for "difference": the number of deleted records and the sums of their fields. If several were deleted,
            there is no `record`.
    """

    plotted_by = "deletion.plot_deleted"

    record: dict[str, np.ndarray]
    se: dict[str, np.ndarray] | None
    method: str
    evidence: float | None
    effective_size: float
    before: str
    after: str
    model: str
    warnings: tuple[str, ...] = ()
    probability: float | None = None
    doubts: tuple[str, ...] = ()
    other: dict[str, np.ndarray] | None = None
    other_probability: float | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deleted: tuple[Row, ...] = ()

    @classmethod
    def unchanged(cls, pair: Deletion, method: str, reason: str) -> "DeletedRecord":
        """The result without a record, for two releases that do not differ by more than rounding."""
        one, two, model = pair.before.name, pair.after.name, pair.before.model.name
        return cls({}, None, method, None, 0.0, one, two, model, warnings=(reason,), doubts=(reason,))

    def to_dataframe(self) -> "DataFrame":
        """One row per entry of the record, or per total of several."""
        import pandas as pd

        rows = []
        for name, value in self.record.items():
            value = np.asarray(value)
            errors = None if self.se is None or name not in self.se else np.asarray(self.se[name])
            for index in np.ndindex(value.shape):
                error = np.nan if errors is None else float(errors[index])
                column = self.columns[name][index[0]] if name in self.columns else entry(name, index)
                rows.append((column, float(value[index]), error))
        if not self.record:
            rows = [(row.name, row.estimate, row.se) for row in self.deleted]
        frame = pd.DataFrame(rows, columns=["field", "estimate", "se"]).set_index("field")
        if self.other is not None:
            frame["other"] = np.concatenate([np.ravel(self.other[name]) for name in self.record]).astype(float)
        return frame

    @property
    def headline(self) -> str:
        target = "sign" if len(self.record) == 1 else "label"
        confidence = "" if self.probability is None else f", {target} right with probability {self.probability:.2f}"
        return f"{self.before} and {self.after}: {self.title} ({self.method}{confidence})"

    @property
    def title(self) -> str:
        """What the record is called: a result with doubts does not look like one without."""
        if self.deleted and not self.record:
            return f"{self.deleted[0].estimate:.3g} deleted records"
        if not self.record:
            return "nothing can be said of a deletion"
        return "in doubt, a record that may have been deleted" if self.doubts else "the deleted record"

    @property
    def condition(self) -> str:
        return {"tilt": _condition(self.model), "HRec": _TRAINED}.get(self.method, "")


@dataclass(frozen=True, eq=False, repr=False)
class DeletionInference(Result):
    """The probability of each candidate that it is the deleted record.

    Attributes:
        probability: `(N,)`, posterior probability that the candidate was deleted. For draws it holds under any of the
            `hypotheses`; otherwise one of the candidates is assumed to have been deleted. If several records were
            deleted, the probability of being among them.
        log_likelihood: `(N,)`, up to a constant. If several records were deleted, that of the best set with the
            candidate.
        method: "ratio" (posterior draws), "gradient" (trained parameters) or "totals" (approximations).
        effective_draws: effective number of draws of both releases, smallest value over the candidates.
        deleted: number of deleted records (the change of n); for approximations also totals of their fields.
        hypotheses: for draws: posterior probabilities of the premise (one candidate was deleted), and of what else may
            have happened: the deleted record is "absent" among the candidates, "two" candidates were deleted, one was
            "replaced" by another record, a record was "added", before and after are "exchanged", or "none" was deleted.
        bayes_factors: logarithms of the Bayes factors of the hypotheses against the premise.
    """

    plotted_by = "deletion.plot_inference"
    _derived = ("ranking",)

    probability: np.ndarray
    log_likelihood: np.ndarray
    method: str
    effective_draws: float
    before: str
    after: str
    model: str
    warnings: tuple[str, ...] = ()
    deleted: tuple[Row, ...] = ()
    hypotheses: dict[str, float] = field(default_factory=dict)
    bayes_factors: dict[str, float] = field(default_factory=dict)

    @property
    def ranking(self) -> np.ndarray:
        """Row numbers of the candidates, most likely first."""
        return np.argsort(-self.log_likelihood, kind="stable")

    def to_dataframe(self) -> "DataFrame":
        """One row per candidate, most likely first."""
        import pandas as pd

        frame = pd.DataFrame({"probability": self.probability, "log_likelihood": self.log_likelihood})
        return frame.iloc[self.ranking].rename_axis("candidate")

    @property
    def headline(self) -> str:
        which = f"{self.before} and {self.after}: which of {len(self.probability)} records was deleted"
        if not self.hypotheses:
            return which
        return f"{which}, if one was (probability {self.hypotheses['premise']:.2f})"

    @property
    def condition(self) -> str:
        return {"totals": "", "gradient": _TRAINED}.get(self.method, _condition(self.model))


@dataclass(frozen=True, repr=False)
class MissingRecord(Result):
    """The one unknown record.

    Attributes:
        record: `{field: value}`.
        slope: `(K,)`, slope s of the loss at the record. The gradient is the product of slope and record.
        amplification: error of x per unit of error in the gradient, `sqrt(1 + |x|^2) / |s|`.
        error: bound on the error of x if training left a gradient of norm r, `remaining_gradient`:
            `sqrt(1 + |x|^2) r / (|s| - r)`. Infinite if r is as large as the record's own gradient, or if
            slope and record disagree completely.
        disagreement: relative distance between the slope found and the slope that the record implies. Zero for an
            exactly stationary parameter; None if it cannot be computed (squared loss with one output).
        remaining_gradient: norm of the gradient that training left: as stated by the caller, or else the 95 % quantile
            that the disagreement implies if the remaining gradient has a random direction. Never below what the
            disagreement proves.
        warnings: one line each.
    """

    record: Json
    slope: np.ndarray
    amplification: float
    error: float
    disagreement: float | None
    remaining_gradient: float
    release: str
    model: str
    warnings: tuple[str, ...] = ()

    def to_dataframe(self) -> "DataFrame":
        """One row with the record's fields and the error."""
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
        condition = ""
        if self.disagreement is None:
            condition = f" if training left a gradient of {self.remaining_gradient:.1g} or less"
        return f"{self.release}: the missing record, error at most {self.error:.2g}{condition}"


@dataclass(frozen=True, eq=False)
class Inversion:
    """Records from inverted embeddings.

    Attributes:
        x: `(N, p)` records.
        misfit: `(N,)`, misfit of each record: 0 for an embedding of exactly the same direction, 1 for an unrelated one.
        start: `(N,)`, index of the start of each record: 0 for the closest public record, and so on. The last index is
            the mean of these records.
        misfits: `(N, starts)`, misfit of each start's end point.
    """

    x: np.ndarray
    misfit: np.ndarray
    start: np.ndarray
    misfits: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class DeletedSentence(Result):
    """A reconstruction of the deleted sentence.

    Attributes:
        words: the sentence. If several explain the change equally well, one of them, drawn at random.
        count: number of sentences that explain the change equally well.
        listed: some or all of these sentences, sorted by their words.
        length: n, the length of the n-grams.
    """

    _derived = ("probability", "complete")

    words: tuple[str, ...]
    count: int
    listed: tuple[tuple[str, ...], ...]
    length: int
    warnings: tuple[str, ...] = ()

    @property
    def probability(self) -> float:
        """Probability that the words are right and in the right order, if one sentence was deleted: `1 / count`."""
        return 1 / self.count

    @property
    def complete(self) -> bool:
        """Whether all possible sentences are listed."""
        return len(self.listed) == self.count

    @property
    def headline(self) -> str:
        alone = "the only sentence" if self.count == 1 else f"one of {self.count} sentences"
        return f"deleted: {' '.join(self.words)!r}, {alone} with these {self.length}-grams"

    def to_dataframe(self) -> "DataFrame":
        """One row per listed sentence."""
        import pandas as pd

        return pd.DataFrame({"sentence": [" ".join(words) for words in self.listed]}).rename_axis("sequence")

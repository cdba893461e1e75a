"""Findings of an audit with evidence and remedies, and attacks that could not be run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np

from bayesrecon.json_types import Json, plain

Severity = Literal["info", "low", "medium", "high"]
LEVELS: tuple[Severity, ...] = ("info", "low", "medium", "high")

UNRECOGNISED = "unrecognised"
"""The kind of the finding that lists unrecognised items."""
DRAWS_OR_RECORDS, SAY_WHICH = "draws or records?", "say --draws or --records (rows='draws' or rows='records' in Python)"
"""The question that precedes an audit of rows that may be either, and what to do; it is a `NotRun`."""
_LISTED = 10  # records in the JSON document: the report must not be a second copy of the data


@dataclass(frozen=True)
class Thresholds:
    """Thresholds that decide what counts as severe.

    Attributes:
        exact_count: statistics count as exact if the standard error of the number of records is below this.
        record: a record counts as recovered if the standard error of its field, in units of the field's standard
            deviation, is below this.
        vague: like `record`; below this, something is learnt about a single record.
        share: a finding about records is severe if it concerns at least this share of the records.
        misfit: values do not belong to the model and draws if their residuals, in units of the noise, exceed this.
        small_count: levels and cells with fewer records than this count as small.
        freedom: fewer residual degrees of freedom than this count as small; None for `small_count`.
        zeros: whether cells without records count as small.
        largest, largest_share: a sum is dominated if the largest records, so many, are more than this share of it.
        p_ratio: a sum is dominated if all but its two largest records are less than this share of the largest; 0 for
            no such rule.
        digits: largest number of significant digits of published numbers; 0 for any.
    """

    exact_count: float = 0.5
    record: float = 0.1
    vague: float = 0.5
    share: float = 0.01
    misfit: float = 5.0
    small_count: int = 10
    freedom: int | None = None
    zeros: bool = False
    largest: int = 1
    largest_share: float = 0.5
    p_ratio: float = 0.0
    digits: int = 0


@dataclass(frozen=True)
class RecordScore:
    """How many of the recovered records match records of the private data.

    Attributes:
        matched, total: number of recovered records that lie within the tolerance of the private record assigned to
            them, and number of all recovered records.
        lower, upper: exact 95 % interval of the share (Clopper-Pearson).
        null: the same share for records made of the private data's columns, each column shuffled independently.
        tolerance: tolerance of each field, as a share of its range.
        median_error: `{field: median absolute error}` over the assignment.
    """

    matched: int
    total: int
    share: float
    lower: float
    upper: float
    null: float
    tolerance: float
    median_error: dict[str, float]


@dataclass(frozen=True)
class Item:
    """One recovered value.

    Attributes:
        name, estimate, se: its name, the value and its standard error.
        truth: the true value, if private data were given.
        lower, upper: its 95 % interval.
        person: whether it is a value of one person or unit, which reports show on request only.
    """

    name: str
    estimate: float | None
    se: float | None = None
    truth: float | None = None
    lower: float | None = None
    upper: float | None = None
    person: bool = False


@dataclass(frozen=True)
class Remedy:
    """A remedy, and the error that remains to the attack after it.

    Attributes:
        action: what to do.
        statistic: the statistic that the errors refer to.
        before: error of the attack on the file as it is.
        predicted: error after the remedy, predicted by theory.
        measured: error after the remedy, measured by applying it and repeating the attack many times. It combines the
            shift of the results with the error they had before. If private data were given, it is the actual error.
        leaves: severity of the finding after the remedy, "info" if it is gone; None if that is not known.
        untried: whether the remedy was skipped for lack of time, neither predicted nor measured.
        trials: results of the attack after the remedy: `(R,)` for a statistic. For a field of records they are
            `(R, B, size)`, at positions `rows (B,)` among the recovered records.
    """

    action: str
    statistic: str | None = None
    before: float | None = None
    predicted: float | None = None
    measured: float | None = None
    leaves: Severity | None = None
    untried: bool = False
    trials: np.ndarray | None = field(default=None, compare=False, repr=False)
    rows: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def status(self) -> Literal["measured", "predicted", "not tried", "stated"]:
        """How the error after the remedy is known.

        It is "measured", "predicted" (by theory only), "not tried", or "stated" if there is no error to report.
        """
        if self.untried:
            return "not tried"
        return "measured" if self.measured is not None else "predicted" if self.predicted is not None else "stated"

    @property
    def left(self) -> str:
        """The severity of the finding after the remedy, in words."""
        return {None: "not known", "info": "none"}.get(self.leaves, str(self.leaves))

    def to_dict(self) -> Json:
        """Plain types only, without the individual trials."""
        return {k: v for k, v in vars(self).items() if k not in ("untried", "trials", "rows")} | {"status": self.status}


@dataclass(frozen=True)
class Finding:
    """One way in which the file reveals private data.

    Attributes:
        kind: short name of the channel.
        where: the variables, attributes or comments concerned.
        needs: what an attacker must know to use it.
        evidence: recovered values.
        records: some recovered records, `{field: values}`; `errors` has the same form.
        score: comparison of the recovered records with the private data, if these were given.
        drop: what `fix` removes.
    """

    kind: str
    severity: Severity
    title: str
    where: tuple[str, ...]
    summary: str
    needs: str = "nothing but the file"
    evidence: tuple[Item, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    records: Mapping[str, np.ndarray] = field(default_factory=dict)
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    score: RecordScore | None = None
    drop: tuple[str, ...] = ()

    @property
    def offered(self) -> tuple[Remedy, ...]:
        """The remedies that are not known to leave the severity as it is."""
        level = LEVELS.index(self.severity)
        return tuple(r for r in self.remedies if r.leaves is None or LEVELS.index(r.leaves) < level)

    def to_dict(self) -> Json:
        """Plain types only, with None for missing numbers and only the first rows of the records."""
        document = {k: getattr(self, k) for k in ("kind", "severity", "title", "summary", "needs")}
        document |= {"where": self.where, "drop": self.drop}
        document["evidence"] = [asdict(item) for item in self.evidence]
        document["remedies"] = [remedy.to_dict() for remedy in self.remedies]
        document["records"] = {k: v[:_LISTED] for k, v in self.records.items()}
        document["errors"] = {k: v[:_LISTED] for k, v in self.errors.items()}
        document["score"] = None if self.score is None else asdict(self.score)
        return plain(document)


@dataclass(frozen=True)
class NotRun:
    """An attack that could not be run. What it might reveal is therefore not ruled out.

    Attributes:
        attack: name of the attack.
        reason: why it was not run.
        remedy: what to pass in, or to remove from the file.
        where: the variables that it would attack.
    """

    attack: str
    reason: str
    remedy: str
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.attack}: {self.reason}"

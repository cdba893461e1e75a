"""Results of the attack on one posterior, as numbers. `bayesrecon.cli.verdicts` puts them into words."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from bayesrecon.diagnostics import Z95

_OFF = 4.0  # an estimate this many stated errors from the truth contradicts its error
_CHANCE = 0.05  # if so many records are right by chance with at least this probability, none count as revealed


class Attacked(StrEnum):
    """What was attacked: rows with a known design, counts per group, totals, or one record that is a series."""

    RECORDS = "records"
    GROUPS = "groups"
    STATISTICS = "statistics"
    SERIES = "series"


class Exposure(StrEnum):
    """How many records are revealed one by one. `PUBLIC`: the model's own guess is right for all of them."""

    NONE = "none"
    SOME = "some"
    MOST = "most"
    EVERY = "every"
    PUBLIC = "public"


@dataclass(frozen=True)
class Values:
    """One private field of all records.

    Attributes:
        records: number of values.
        determined: number of values with an estimate.
        nearer: number of values whose stated error is smaller than the error of the naive guess.
        correct: number of correct values; None for real numbers, for which `nearer` counts instead.
        error, expected, floor: RMSE of the estimates, its value according to the attack, and its Cramer-Rao bound. For
            real numbers, they are those of the nearer values, if there are any.
        naive_correct, naive_error: the same for the model's own guess; None without one.
        p_value: p value of McNemar's test that the attack is correct more often than the guess only by chance; None if
            either cannot be counted.
    """

    field: str
    records: int
    determined: int
    nearer: int
    correct: int | None = None
    error: float | None = None
    expected: float | None = None
    floor: float | None = None
    naive_correct: int | None = None
    naive_error: float | None = None
    p_value: float | None = None

    @property
    def share(self) -> float:
        """The share of correct values."""
        return (self.nearer if self.correct is None else self.correct) / self.records

    @property
    def naive_share(self) -> float:
        return (self.naive_correct or 0) / self.records


@dataclass(frozen=True)
class RecordsFound:
    """Private fields of the rows of a known design, one by one."""

    attacked: ClassVar[Attacked] = Attacked.RECORDS
    fields: tuple[Values, ...]

    @property
    def exposure(self) -> Exposure:
        """How many records are revealed beyond the best guess. The field with the smallest share counts."""
        share = min((v.share for v in self.fields), default=0.0)
        guessed = max((v.naive_share for v in self.fields), default=0.0)
        if share == guessed == 1:
            return Exposure.PUBLIC
        # Of the records that the posterior mean does not show to anyone.
        gained = (share - guessed) / (1 - guessed) if guessed < 1 else 0.0
        if gained <= 0 or max((v.p_value or 0.0 for v in self.fields), default=0.0) >= _CHANCE:
            return Exposure.NONE
        return Exposure.EVERY if share == 1 else Exposure.MOST if gained > 0.5 else Exposure.SOME


@dataclass(frozen=True)
class GroupsFound:
    """How many records each group has.

    Attributes:
        group: the field whose values are groups.
        part: another field and one of its values, if only such records are counted.
        groups: number of groups.
        determined: number of groups whose count is determined.
        correct: number of determined counts that are exact after rounding.
        n: estimate of the number of all records.
        error, expected, floor: RMSE of the determined counts, its value according to the attack, and its Cramer-Rao
            bound.
        consistent: whether the draws agree with the model, as the attack checks.
    """

    attacked: ClassVar[Attacked] = Attacked.GROUPS
    group: str
    part: tuple[str, float] | None
    groups: int
    determined: int
    correct: int
    n: float | None
    error: float
    expected: float
    floor: float | None
    consistent: bool


@dataclass(frozen=True)
class StatisticsFound:
    """Totals over all records.

    Attributes:
        statistics: number of statistics.
        estimated: number of statistics with an estimate.
        determined: number of statistics that are completely determined.
        n, n_se, n_floor: estimate of the number of records, its standard error and its Cramer-Rao bound; None if the
            number was known.
        z: largest error, in stated standard errors that include the undetermined part.
        rank: number of features that the release determines.
        finite: whether the spectrum ends after these features.
        consistent: whether the draws agree with the model, as the attack checks.
    """

    attacked: ClassVar[Attacked] = Attacked.STATISTICS
    statistics: int
    estimated: int
    determined: int
    n: float | None
    n_se: float | None
    n_floor: float | None
    z: float | None
    rank: int
    finite: bool
    consistent: bool


@dataclass(frozen=True)
class Average:
    """An average over a series; `half` is half the width of its 95 % interval."""

    name: str
    estimate: float
    truth: float
    half: float

    @property
    def z(self) -> float:
        """The error, in stated standard errors."""
        return Z95 * abs(self.estimate - self.truth) / self.half


@dataclass(frozen=True)
class SeriesFound:
    """One record that is the whole series.

    Attributes:
        entries: number of values of the series.
        determined: number of values that are determined.
        averages: averages over the series that are recovered.
        error, expected: RMSE of the determined values, and its value according to the attack; None if there are none.
        naive_error: RMSE of the guess that all values equal their mean.
        rank: number of features that the release determines.
        finite: whether the spectrum ends after these features.
        assumed_bound: bound on the values that the attack assumed; None if it needed none.
        consistent: whether the draws agree with the model, as the attack checks. If not, nothing counts as determined.
    """

    attacked: ClassVar[Attacked] = Attacked.SERIES
    entries: int
    determined: int
    averages: tuple[Average, ...]
    error: float | None
    expected: float | None
    naive_error: float
    rank: int
    finite: bool
    assumed_bound: float | None
    consistent: bool

    @property
    def z(self) -> float | None:
        """The largest error of an average, in stated standard errors."""
        return max((average.z for average in self.averages), default=None)

    @property
    def astray(self) -> bool:
        """Whether an average is further from the truth than stated."""
        return self.z is not None and self.z > _OFF


@dataclass(frozen=True)
class Verdict:
    """What one posterior of posteriordb reveals.

    Attributes:
        records, parameters, draws: numbers of records, of parameters, and of the draws that were used.
        reference: whether the draws are posteriordb's reference draws. Otherwise they were sampled with NUTS.
        converged: whether NUTS converged.
        found: the result of the attack that suits the model.
        warnings: warnings of the attack.
        seconds: duration of the attack.
    """

    posterior: str
    records: int
    parameters: int
    draws: int
    reference: bool
    converged: bool
    found: RecordsFound | GroupsFound | StatisticsFound | SeriesFound
    warnings: tuple[str, ...]
    seconds: float

    @property
    def attacked(self) -> Attacked:
        return self.found.attacked

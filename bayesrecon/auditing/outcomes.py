"""What the attack on one posterior came to, in numbers; `bayesrecon.cli.verdicts` says it in words."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from bayesrecon.diagnostics import Z95

_OFF = 4.0  # stated errors from which a number is off
_CHANCE = 0.05  # probability of so many records right by chance from which none count as given away


class Attacked(StrEnum):
    """What was sought: rows with a known design, counts per group, totals, or one record that is a whole series."""

    RECORDS = "records"
    GROUPS = "groups"
    STATISTICS = "statistics"
    SERIES = "series"


class Given(StrEnum):
    """How many records are given away one by one; `PUBLIC` where the model's own guess shows all of them to anyone."""

    NONE = "none"
    SOME = "some"
    MOST = "most"
    EVERY = "every"
    PUBLIC = "public"


@dataclass(frozen=True)
class Values:
    """One private field of all records.

    Attributes:
        records: values sought.
        determined: values with an estimate; `nearer` of them have a stated error below the naive guess's.
        correct: values that are correct; None where they are real numbers, of which the nearer ones count.
        error, expected, floor: RMSE of the estimates, what the attack says it is, and its Cramer-Rao floor; where
            values are real and some are nearer, of these alone.
        naive_correct, naive_error: the same for the model's own guess, where there is one.
        p_value: p value of McNemar's test that values are right this much more often than guesses by chance; None where
            either has no right ones to count.
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
        """Of the values, those that count as right."""
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
    def given(self) -> Given:
        """A record is right where its worst field is, and counts for more than the best guess and chance give."""
        share = min((v.share for v in self.fields), default=0.0)
        guessed = max((v.naive_share for v in self.fields), default=0.0)
        if share == guessed == 1:
            return Given.PUBLIC
        # Of the records that the posterior mean does not show to anyone.
        gained = (share - guessed) / (1 - guessed) if guessed < 1 else 0.0
        if gained <= 0 or max((v.p_value or 0.0 for v in self.fields), default=0.0) >= _CHANCE:
            return Given.NONE
        return Given.EVERY if share == 1 else Given.MOST if gained > 0.5 else Given.SOME


@dataclass(frozen=True)
class GroupsFound:
    """How many records each group has.

    Attributes:
        group: the field whose values are groups; `part`, another field and the value of it that is counted alone.
        groups: counts sought; `determined` of them are, and `correct` of these to the record.
        n: estimate of all records.
        error, expected, floor: RMSE of the determined counts, what the attack says it is, and its Cramer-Rao floor.
        consistent: whether the solution agrees with the draws it was solved from.
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
        statistics: those sought; `estimated` of them have an estimate, `determined` of these nothing unseen in them.
        n, n_se, n_floor: estimate of the number of records, where none was known, its standard error and floor.
        z: the largest error in stated ones, those for what is not seen included.
        rank, finite: features that the release determines, and whether its spectrum ends with them.
        consistent: whether the solution agrees with the draws it was solved from.
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
    """An average over a series, with half its 95 % interval."""

    name: str
    estimate: float
    truth: float
    half: float

    @property
    def z(self) -> float:
        """Its error in stated ones."""
        return Z95 * abs(self.estimate - self.truth) / self.half


@dataclass(frozen=True)
class SeriesFound:
    """One record that is the whole series.

    Attributes:
        entries: values of the series; `determined` of them are.
        averages: those over the series that are seen.
        error, expected: RMSE of the determined entries and what the attack says it is; None where there are none.
        naive_error: naive error of the guess that all entries are their mean.
        rank, finite: features that the release determines, and whether its spectrum ends with them.
        assumed_bound: bound on the values that the attack had to be told, where it had to.
        consistent: whether the solution agrees with the draws it was solved from; nothing of it is stated otherwise.
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
        """The largest error of an average in stated ones."""
        return max((average.z for average in self.averages), default=None)

    @property
    def astray(self) -> bool:
        """Whether an average is further from the truth than stated."""
        return self.z is not None and self.z > _OFF


@dataclass(frozen=True)
class Verdict:
    """What one posterior of posteriordb gives away.

    Attributes:
        records, parameters, draws: the sizes of the problem, the draws as many as were used.
        reference: whether the draws are posteriordb's; sampled here otherwise, and then `converged` or not.
        found: the outcome of the attack that its model invites.
        warnings: warnings of the attack.
        seconds: that the attack took.
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

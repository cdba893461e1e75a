"""What channels examine: a file, a fit or tables, and what is known about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.auditing.effort import Effort, Open
from bayesrecon.auditing.sensitive_values import DRAWS, LOG_DENSITIES, parameters_of
from bayesrecon.auditing.stage import INCALCULABLE, Stage, not_computed
from bayesrecon.auditing.vouchers import Subject
from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import DATA, WIDE, Contents, Variable
from bayesrecon.results.findings import Finding, NotRun, Thresholds

if TYPE_CHECKING:
    from bayesrecon.attacks.differences.gram import Gram
    from bayesrecon.domains import Domain
    from bayesrecon.model import Model, Records
    from bayesrecon.releases import Release
    from bayesrecon.results.row import Row

Needs = Literal["model", "data", "nothing"]


class Named(Protocol):
    """Function that names the private column that values contain, or returns None (`column_matches.Matching`)."""

    def __call__(self, values: object, sampled: bool = False) -> str | None: ...


def nobody(values: object, sampled: bool = False) -> None:
    """The `Named` function if there are no private data."""


@dataclass(frozen=True)
class Asked:
    """What the caller of an audit asks for, which is the same for all its subjects.

    Attributes:
        knows: what an attacker knows, as keywords of `Knows`.
        data: the private data; None if there are none.
        public: names and places of what may stay.
        rows: what a row is, "draws" or "records"; empty if the source is to say so.
        remedies: whether to try remedies.
        effort: how long.
        thresholds: what counts as severe.
        key: seed of everything random.
        membership: which release contains whom, `{release or group: its disjoint groups}`.
        several: whether there are several subjects, to be compared with one another.
        earlier: names of what was published before.
    """

    knows: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    public: tuple[str, ...] = ()
    rows: str = ""
    remedies: bool = True
    effort: Effort = "quick"
    thresholds: Thresholds = field(default_factory=Thresholds)
    key: int = 0
    membership: Mapping[str, Sequence[str]] = field(default_factory=dict)
    several: bool = False
    earlier: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """Fields that an attacker knows row by row."""
        return tuple(self.knows.get("known") or ())

    @property
    def unit(self) -> str | None:
        """The field that identifies the units; None if there is none, or several do together."""
        unit = self.knows.get("unit")
        return unit if isinstance(unit, str) else None

    @property
    def settings(self) -> Json:
        """What was stated, without values of records."""
        knows = self.knows
        fields = {name: sorted(map(str, knows[name])) for name in ("domain", "factors") if knows.get(name) is not None}
        numbers = {k: knows[k] for k in ("total", "unit", "fit_weights", "offset") if k in knows}
        return {
            "unit": None,
            "known": sorted(self.known),
            **numbers,
            **fields,
            "earlier": len(self.earlier),
            "public": list(self.public),
            "remedies": self.remedies,
            "effort": self.effort,
            "key": self.key,
        }


@dataclass(frozen=True, eq=False)
class Determined:
    """What one output determines, and where its errors come from.

    Attributes:
        rows: its statistics.
        draws: `(T, d)`, draws that it shows, to see whether another output has the same ones; None if it has none.
        worth: of a measure that was added to the data, in draws; None if there is none.
        guaranteed: whether it has a guarantee of differential privacy, which bounds what it adds to others.
        measure: name of the measure that was added to the data: equal names are one measure, others are independent.
            None if there is none, or if it has no name.
        error: why nothing can be computed, or empty.
    """

    rows: "tuple[Row, ...]"
    draws: np.ndarray | None = None
    worth: float | None = None
    guaranteed: bool = False
    measure: str | None = None
    error: str = ""


@dataclass(frozen=True, eq=False)
class Released:
    """Something of a subject that is compared with what other subjects release.

    Attributes:
        name: name in findings.
        release: a fit or a table; None for draws.
        n: number of records, if it is printed.
        alternatives: `{remedy: function that makes the release instead}`.
        grams: totals of draws, computed where they were attacked.
        domains: possible values of the fields of draws.
        determined: statistics that were computed already; others follow from the release.
        part: the part of the account that it is about; None for anybody.
    """

    name: str
    release: "Release | None"
    n: float | None = None
    alternatives: "Mapping[str, Callable[[], Release]]" = field(default_factory=dict)
    grams: "Sequence[Gram]" = ()
    domains: "Mapping[str, Domain]" = field(default_factory=dict)
    determined: Determined | None = None
    part: str | None = None


@dataclass(frozen=True, eq=False)
class Private:
    """The private data.

    Attributes:
        columns: `{column: (N,)}`, as supplied.
        records: the same data as records of the model; None without a model.
        stamp: path, size and hash of the file; None for a mapping.
    """

    columns: Mapping[str, np.ndarray]
    records: "Records | None"
    stamp: Json | None


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit or a table of estimates.

    Attributes:
        release: its `Release`; None if it determines nothing.
        attack: its name as an attack.
        alternatives: `{remedy: function that makes what is published instead}`; None for those of `posteriors.coarser`.
        untried: attacks that cannot be tried.
        where: places that findings name instead of its own; empty for those.
        n: number of records, if it is printed.
        place: its place in a file of several.
    """

    release: Any
    attack: str = "fit"
    alternatives: "Mapping[str, Callable[[], Release]] | None" = None
    untried: tuple[NotRun, ...] = ()
    where: tuple[str, ...] = ()
    n: float | None = None
    place: str = ""


def _unset() -> Subject:
    """The default of `Look.items`, which stands for those of its own file."""
    raise AssertionError


@dataclass(frozen=True)
class Look:
    """The subject of an audit, as channels see it.

    Attributes:
        contents: the file; empty if there is none.
        model: the model behind the draws or the fit, if known.
        named: function that compares values with the private columns.
        key: seed of everything random.
        findings: findings of earlier channels.
        asked: what the caller asks for.
        private: the private data, if given.
        fit: the fit, if it is one.
        together: what several subjects release, to compare with one another.
        opened: the draws as a release of the model (`opened.Opened`), if they can be attacked.
        without_items: whether it has no items of a file: containers, printed counts, and what could not be read.
        begun: what was said before any channel.
        determined: what attacked fits determine, by their place; channels add to it.
        progress: called with a label and the completed fraction of a channel.
        items: function that returns what the file's items say about each other, computed once for all channels.
    """

    contents: Contents
    model: "Model | None" = None
    named: Named = nobody
    key: int = 0
    findings: tuple[Finding, ...] = field(default=())
    asked: Asked = field(default_factory=Asked)
    private: Private | None = None
    fit: Fit | None = None
    together: Sequence[Released] = ()
    opened: Any = None
    without_items: bool = False
    begun: Stage = field(default_factory=Stage)
    determined: dict[str, Determined] = field(default_factory=dict)
    progress: Progress | None = None
    items: Callable[[], Subject] = field(default=_unset, repr=False)

    def __post_init__(self) -> None:
        if self.items is _unset:
            object.__setattr__(self, "items", cache(partial(Subject, self.contents)))

    @property
    def has(self) -> tuple[Needs, ...]:
        """What channels may need."""
        there: dict[Needs, bool] = {"nothing": True, "data": self.private is not None, "model": self.opened is not None}
        return tuple(need for need, is_there in there.items() if is_there)

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    @cached_property
    def reported(self) -> set[str]:
        """Places that earlier findings name."""
        return {where for f in self.findings for where in f.where}

    def is_parameter(self, variable: Variable) -> bool:
        """Whether a variable is a parameter of the model, or without a model, may be one."""
        parameters = parameters_of(self.model)
        if variable.group != "posterior" or not variable.per_draw:
            return False
        return variable.name in parameters if parameters is not None else variable.name not in LOG_DENSITIES

    @cached_property
    def rows(self) -> set[str]:
        """Places of arrays that contain rows of data, according to findings other than the draws."""
        return {where for f in self.findings if f.kind != DRAWS and f.severity != "info" for where in f.where}

    @cached_property
    def parameter_axes(self) -> set[str]:
        """Names of the dimensions of parameters."""
        drawn = (v for v in self.contents.variables if self.is_parameter(v) and v.where not in self.rows)
        return {dimension for variable in drawn for dimension in variable.dimensions}

    @cached_property
    def record_axes(self) -> set[str]:
        """Names of dimensions with an entry per record: of data, log likelihoods, predictions, and arrays of rows."""
        groups = (*DATA, *WIDE, "prior_predictive")
        variables = (v for v in self.contents.variables if v.group in groups or v.where in self.rows)
        return {dimension for variable in variables for dimension in variable.dimensions} - {"chain", "draw", "sample"}


def rows_of(variable: Variable) -> np.ndarray | None:
    """Values as `(draws, columns)`, also for draws of other groups; None if an array has no draws."""
    values = variable.values
    if values.dtype.kind not in "biuf":
        return None
    if variable.per_draw:
        return values.reshape(len(values), -1).astype(float, copy=False)
    axes = [d for d in variable.dimensions if d in ("chain", "draw", "sample")]
    if not axes or len(variable.dimensions) != values.ndim:
        return None
    order = [variable.dimensions.index(a) for a in axes] + [
        i for i, d in enumerate(variable.dimensions) if d not in axes
    ]
    moved = values.transpose(order)
    count = int(np.prod(moved.shape[: len(axes)], dtype=int))
    return moved.reshape(count, -1).astype(float, copy=False) if count and values.size else None


Found = tuple[Sequence[Finding | Open], Sequence[str | NotRun]]
"""Findings, and notes."""


@dataclass(frozen=True)
class Channel:
    """A way in which data are revealed.

    Attributes:
        name: name of the channel, with which its warnings start.
        find: function that returns findings and notes, or neither if there is nothing of the kind. A note is a warning,
            or a `NotRun` for values that are present and were not examined; without it they count as tried. An `Open`
            finding has remedies that take time. They are tried after all channels.
        rank: order of the channels, and of findings with the same severity. Each knows the findings of earlier ones.
        needs: what it cannot do without: the model behind the draws, the private data, or nothing.
    """

    name: str
    find: Callable[[Look], Found]
    rank: int
    needs: Needs = "nothing"

    def stage(self, subject: Look) -> Stage:
        """What it finds. Numbers with which it cannot compute are a `NotRun`, as is an error about draws of a model."""
        found: Sequence[Finding | Open] = ()
        notes: Sequence[str | NotRun]
        try:
            found, notes = self.find(subject)
        except INCALCULABLE as error:
            notes = [not_computed(self.name, error)]
        except BayesreconError as error:
            if self.needs != "model":
                raise
            notes = [NotRun(self.name, str(error), "correct what the reason names, or drop these values")]
        untried = tuple(note for note in notes if isinstance(note, NotRun))
        warnings = tuple(
            note if isinstance(note, str) else str(note)
            for note in notes
            if isinstance(note, str) or self.needs == "model"
        )
        return Stage(tuple(found), warnings, untried)

"""The term of one record: the program run on its data alone, of which the part counts that depends on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Params, Records
from bayesrecon.models.inspection import drawn, typical
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.coordinates import Coordinates
from bayesrecon.models.stan.frame import STEPS, Frame, Run
from bayesrecon.models.stan.machine import StanMachine, in_order
from bayesrecon.models.stan.needs import computing
from bayesrecon.models.stan.posterior import declarations, machine_of, transform_data
from bayesrecon.models.stan.program_fields import NAME, RecordField, count_of_log_lik, counted_numbers, sizes_of
from bayesrecon.models.stan.values import SPECIAL, V, consolidated
from bayesrecon.models.windows import LONGEST_LAG, CoupledError, Windows, shortest


@dataclass(frozen=True, eq=False)
class RecordsOf:
    """The records that a count of the program numbers.

    Args:
        count: name of the count; None if all data are one record.
        columns: data that follow the count.
        cut: transformed data that are fields, because they are computed from all records (centred columns).
        record: runs what these records have a part in.
        unit: the field that numbers the records if parameters have one entry per record; there are `units`.
        per_record: the axis of records, by the name of each parameter that has one entry per record.
        lag: how many values before its own the term of a record needs, in a series.
        places: the column that a field is taken from, and how many places back.
        domains: of the columns.
        starts: whether the first values of a series have a term of their own.
    """

    count: str | None
    columns: Mapping[str, RecordField]
    cut: Mapping[str, RecordField]
    record: StanMachine
    unit: str | None
    units: int
    per_record: Mapping[str, int]
    domains: Mapping[str, Field]
    places: Mapping[str, tuple[str, int]]
    lag: int = 0
    starts: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Fields of a record."""
        return (*((self.unit,) if self.unit else ()), *self.places)

    def windows(self, columns: Mapping[str, Array]) -> Records:
        """Records of whole columns `{name: (N, *shape)}`, in order."""
        length = len(next(iter(columns.values())))
        result = {f: columns[name][self.lag - back : length - back] for f, (name, back) in self.places.items()}
        return {self.unit: np.arange(length) % self.units + 1, **result} if self.unit else result

    def column(self, name: str, batch: Records, rows: int, before: Frame, xp: ModuleType) -> Array:
        """The column that records in order are windows of; values that none of them depends on are typical."""
        fields = {back: f for f, (column, back) in self.places.items() if column == name}
        if not self.lag:
            return batch[fields[0]]
        shape = self.domains[name].shape
        filler = xp.asarray(typical(self.domains[name]))
        first = [batch[fields[back]][:1] if back in fields else filler[None] for back in range(self.lag, 0, -1)]
        if name in before and self.lag == before[str(self.count)].a:
            first = [xp.moveaxis(xp.asarray(before[name].a), {**self.columns, **self.cut}[name].axis, 0)]
        last = batch[fields[0]] if 0 in fields else xp.broadcast_to(filler, (rows, *shape))
        return xp.concatenate([*(first if rows else []), last])

    def data(self, batch: Records, before: Frame, xp: ModuleType, tainted: bool, short: int = 0) -> Frame:
        """The variables of the data that hold records in order.

        Args:
            before: what holds the first values of a series.
            short: how many of the last values are left out.
        """
        frame: Frame = {}
        rows = len(next(iter(batch.values())))
        if not rows and self.count in before:
            return frame
        wholes = {n: self.column(n, batch, rows, before, xp) for n in (*self.columns, *self.cut)}
        if self.count is not None:
            # With parameters of their own, records are as many as there are: a public number.
            length = len(next(iter(wholes.values()))) - short
            frame[self.count] = V("int", length, 0, tainted and self.unit is None)
        for name, column in {**self.columns, **self.cut}.items():
            values = xp.moveaxis(wholes[name][: len(wholes[name]) - short], 0, column.axis)
            if not column.follows:
                values = values[0] if np.ndim(values[0]) or xp is jnp else values[0].item()
            base = SPECIAL.get(column.node.type.base, column.node.type.base)
            frame[name] = V(base, values, len(column.node.type.dims), tainted)
        return frame

    def blank(self, count: int, rng: np.random.Generator) -> Records:
        """So many records inside their domains; with parameters of their own, at least one of each."""
        count = max(self.units, count) if self.unit and count else count
        size = count + self.lag if count else 0
        columns = {k: drawn(f.domain, rng, (size, *f.shape)) for k, f in self.domains.items()}
        if not count:
            return {f: columns[name].reshape(0, *self.domains[name].shape) for f, (name, _) in self.places.items()}
        return self.windows(columns)


@dataclass(frozen=True, eq=False)
class Start(RecordsOf):
    """The first values of a series, one record."""

    def windows(self, columns: Mapping[str, Array]) -> Records:
        return {field: columns[name][None, : self.lag] for field, (name, _) in self.places.items()}

    def column(self, name: str, batch: Records, rows: int, before: Frame, xp: ModuleType) -> Array:
        field = next(f for f, (column, _) in self.places.items() if column == name)
        return batch[field][0] if rows else batch[field].reshape(0, *self.domains[name].shape)


@dataclass(frozen=True, eq=False)
class Parts:
    """A program cut into records.

    Args:
        machine: runs the program.
        constants: data that are no fields.
        kinds: the records of each count.
        fields: of a record, by name; with several kinds, the first is `tag`, which tells them apart.
        coordinates: parameters of the model.
        whole: the same program with all transformed data computed; None if none are cut.
    """

    machine: StanMachine
    constants: Frame
    kinds: tuple[RecordsOf, ...]
    fields: Mapping[str, Field]
    tag: str | None
    coordinates: Coordinates
    whole: "Parts | None" = None

    @property
    def name(self) -> str:
        return self.machine.program.name

    @property
    def count(self) -> str | None:
        """Names of the counts, None if all data are one record."""
        return " and ".join(str(kind.count) for kind in self.kinds) if self.kinds[0].count else None

    @property
    def columns(self) -> dict[str, RecordField]:
        return {name: column for kind in self.kinds for name, column in kind.columns.items()}

    @property
    def cut(self) -> dict[str, RecordField]:
        return {name: column for kind in self.kinds for name, column in kind.cut.items()}

    @property
    def unit(self) -> str | None:
        """The field that numbers the records, if all have parameters of their own."""
        return self.kinds[0].unit if len(self.kinds) == 1 else None

    def batches(self, records: Records) -> list[Records]:
        """Records `{field: (N, *shape)}` by kind."""
        if self.tag is None:
            return [records]
        kind = np.asarray(records[self.tag])
        return [{k: records[k][kind == i] for k in one.names} for i, one in enumerate(self.kinds, 1)]

    def joined(self, batches: Sequence[Records]) -> Records:
        """Records of all kinds; what is no field of a record has a typical value."""
        if self.tag is None:
            return batches[0]
        sizes = [len(next(iter(batch.values()))) for batch in batches]
        result = {self.tag: np.repeat(np.arange(1, len(sizes) + 1), sizes)}
        for name, field in self.fields.items():
            if name != self.tag:
                parts = [
                    batch.get(name, np.broadcast_to(typical(field), (n, *field.shape)))
                    for batch, n in zip(batches, sizes, strict=True)
                ]
                result[name] = np.concatenate(parts)
        return result

    def frame_of(self, batches: Sequence[Records], xp: ModuleType, only: int | None = None, short: int = 0) -> Frame:
        """Data and transformed data of records by kind; the target depends on all of them, or on those of one kind."""
        data: Frame = {}
        for i, (kind, batch) in enumerate(zip(self.kinds, batches, strict=True)):
            data |= kind.data(batch, data, xp, only is None or only == i, short if only == i else 0)
        return transform_data(self.machine, self.constants | data)

    def one(self, record: Records, at: int, xp: ModuleType, short: int = 0) -> Frame:
        """As `frame_of` of one record of a kind."""
        rng = np.random.default_rng(0)
        batches = [
            {k: xp.asarray(record[k])[None] for k in kind.names} if i == at else kind.blank(int(bool(kind.unit)), rng)
            for i, kind in enumerate(self.kinds)
        ]
        return self.frame_of(batches, xp, at, short)

    def field_of(self, name: str, value: V, like: Array) -> jax.Array:
        """The field of one record, of the type of `like`, that a variable of the program holds."""
        column = self.columns[name]
        array = jnp.take(jnp.asarray(value.a), -1, axis=column.axis) if column.follows else jnp.asarray(value.a)
        return array.astype(jnp.asarray(like).dtype)

    def terms(self, frame: Frame, machine: StanMachine, run: Run | None = None) -> Run:
        """The run of the model with data and parameters in place."""
        run = Run() if run is None else run
        with np.errstate(all="ignore"):
            machine.block(machine.program.transformed_parameters, frame, run)
            machine.block(machine.program.model, frame, run)
        return run

    def run_record(
        self, params: Params, record: Records, at: int = 0, machine: StanMachine | None = None, run: Run | None = None,
        short: int = 0,
    ) -> tuple[Frame, Run]:  # fmt: skip
        """The run on one record, and its variables: what of it is tainted is the record's term.

        Args:
            at: the kind of the record.
            machine: another one that runs it.
            run: what it has done already.
            short: how many of the last values of a window are left out.
        """
        kind, frame = self.kinds[at], self.one(record, at, jnp, short)
        values, _ = self.coordinates.values(params)
        for place in self.coordinates.places:
            v = values[place.name]
            if place.name in kind.per_record:
                unit = jnp.round(jnp.asarray(record[str(kind.unit)])).astype(int) - 1
                axis = kind.per_record[place.name]
                v = V(v.base, jnp.expand_dims(jnp.take(v.a, unit, axis=axis), axis), v.depth)
            frame[place.name] = v
        return frame, self.terms(frame, machine or kind.record, run)

    def run_joint(self, params: Params, batches: Sequence[Records], xp: ModuleType = np) -> Run:
        """The run on several records together, by kind."""
        frame = self.frame_of(batches, xp)
        values, _ = self.coordinates.values(params)
        frame.update({p.name: values[p.name] for p in self.coordinates.places})
        return self.terms(frame, self.machine)

    def log_lik(self, params: Params, record: Records) -> jax.Array:
        def term(record: Records, at: int) -> jax.Array:
            total = self.run_record(params, record, at)[1].total(True)
            if self.kinds[at].starts:
                total = total - self.run_record(params, record, at, short=1)[1].total(True)
            return jnp.asarray(total, float)

        if self.tag is None:
            return term(record, 0)
        result, kind_of = jnp.zeros(()), jnp.round(jnp.asarray(record[self.tag]))
        for at, kind in enumerate(self.kinds):
            # Where it is of another kind, what is computed and dropped has to be finite, with its derivatives.
            chosen = kind_of == at + 1
            inside = {k: jnp.where(chosen, record[k], typical(self.fields[k])) for k in kind.names}
            result = result + jnp.where(chosen, term(inside, at), 0.0)
        return result

    def log_prior(self, params: Params) -> jax.Array:
        """The part of the target that no record affects, with the Jacobians of computed parameters."""
        run = self.run_joint(params, self.blank(1, 0))
        return jnp.asarray(run.total(False), float) + self.coordinates.values(params)[1]

    def blank(self, count: int, seed: int) -> list[Records]:
        """So many records of each kind, or one for each unit."""
        return [kind.blank(1 if kind.unit else count, np.random.default_rng(seed)) for kind in self.kinds]


_MOST_STEPS = STEPS // 4  # of all runs that look for windows: twice what a dozen lags take


def windowed(parts: Parts) -> Parts | None:
    """The program cut into windows of its series, for the shortest ones over which the likelihood is a product."""
    (kind,) = parts.kinds
    if kind.unit or kind.count is None:
        return None
    rng, program = np.random.default_rng(0), parts.machine.program
    in_order_parts = replace(parts, machine=StanMachine(program, parts.machine.higher, in_order))
    points = [
        {p.name: p.transform(jnp.asarray(rng.normal(size=p.free_shape))) for p in parts.coordinates.parameters}
        for _ in range(3)
    ]
    spent = 0

    def target(columns: Mapping[str, np.ndarray], params: Params) -> float:
        nonlocal spent
        run = in_order_parts.run_joint(params, [dict(columns)])
        if (spent := spent + run.steps) > _MOST_STEPS:
            raise CoupledError(f"{parts.name}: no short windows of a series were found")
        return float(run.total(True))

    values = kind.blank(2 * LONGEST_LAG + 4, np.random.default_rng(1))
    series, other = ({k: v[i::2] for k, v in values.items()} for i in range(2))
    windows = shortest(target, series, other, points)
    return None if windows is None else _of_windows(parts, kind, windows)


def _of_windows(parts: Parts, kind: RecordsOf, windows: Windows) -> Parts:
    fields, tag, firsts = windows.fields({name: parts.fields[name] for name in kind.domains}, str(kind.count))
    one = replace(kind, lag=windows.lag, places=windows.places, starts=windows.starts)
    if tag is None:
        return replace(parts, kinds=(one,), fields=fields)
    shared: dict[str, Any] = {**vars(kind), "lag": windows.lag, "places": {f: (name, 0) for f, name in firsts.items()}}
    begin = Start(**shared)
    return replace(parts, kinds=(begin, one), fields=fields, tag=tag)


# Transformed data that one record does not determine: columns centred by their own mean, and the like.


class NeedsAllRecordsError(BayesreconError):
    """A variable of the transformed data is computed from all records, so its value has to be stated.

    Args:
        name: name of the variable.
        message: text of the error.
    """

    def __init__(self, name: str, message: str):
        super().__init__(message)
        self.name = name


_PROBED = 6  # random records on which totals are checked


def coupled_column(parts: Parts) -> RecordField | None:
    """The first of the transformed data that follow the records and that a record alone does not determine."""
    if parts.count is None:
        return None
    of_counts = counted_numbers(parts.machine.program, {str(kind.count) for kind in parts.kinds})
    batches = parts.blank(3, 1)
    joint = parts.frame_of(batches, np)
    for at, (kind, batch) in enumerate(zip(parts.kinds, batches, strict=True)):
        rows = [{k: v[n] for k, v in batch.items()} for n in range(len(next(iter(batch.values()))))]
        frames = [parts.one(row, at, np) for row in rows]
        for node in declarations(parts.machine.program.transformed_data):
            v = joint.get(node.name)
            if v is None or not frames[0][node.name].tainted or node.name in kind.cut or node.name in of_counts:
                continue
            sizes, singles = sizes_of(node), [variables[node.name].a for variables in frames]
            axes = [k for k, s in enumerate(sizes) if isinstance(s, tree.VariableName) and s.name == kind.count]
            if len(axes) == 1:
                together = np.concatenate(singles, axis=axes[0])
                if together.shape != np.shape(v.a) or not np.allclose(
                    together, v.a, rtol=1e-10, atol=1e-12, equal_nan=True
                ):
                    return RecordField(node, axes[0])
            elif any(np.shape(s) != np.shape(v.a) or not np.allclose(s, v.a, equal_nan=True) for s in singles):
                line, column = node.position
                raise NeedsAllRecordsError(
                    node.name,
                    f"{parts.name}, line {line}, column {column}: {node.name} is computed from all records; it "
                    f'cannot be recovered from one: pass it in constants={{"{node.name}": ...}}, or make it part of '
                    "the record",
                )
    return None


def identities_of(parts: Parts) -> dict[str, tuple[Callable[[Records], Array], float]]:
    """Totals that such columns satisfy whatever the data: of centred ones the sum is zero, of standardised ones the sum
    of squares is the number of records less one, times the square of the scale."""
    result: dict[str, tuple[Callable[[Records], Array], float]] = {}
    for at, kind in enumerate(parts.kinds if parts.tag else (), 1):
        if kind.unit or isinstance(kind, Start):  # there are as many as draws show
            result[f"number of kind {at}"] = (_is_kind(str(parts.tag), at), float(kind.units or 1))
    if not parts.cut or len(parts.kinds) > 1 or parts.unit:
        return result
    raw = _raw_frames(parts)
    for name, column in parts.cut.items():
        tables = [np.moveaxis(np.asarray(f[name].a, float), column.axis, 0).reshape(_PROBED, -1) for f in raw]
        width = tables[0].shape[1]
        shape = parts.fields[name].shape
        for i in range(width):
            label = f"{name}[{i + 1}]" if shape else name
            if all(abs(t[:, i].sum()) <= 1e-9 * (1 + np.abs(t[:, i]).sum()) for t in tables):
                result[f"sum({label})"] = (_entry(name, i), 0.0)
            spread = [float((t[:, i] ** 2).sum()) / (_PROBED - 1) for t in tables]
            if spread[0] > 0 and all(abs(s - spread[0]) <= 1e-9 * spread[0] for s in spread):
                result[f"sum({label}^2) / {spread[0]:g} - n"] = (_square(name, i, spread[0]), -1.0)
    return result


def _is_kind(tag: str, at: int) -> Callable[[Records], Array]:
    return lambda record: jnp.where(jnp.round(jnp.asarray(record[tag])) == at, 1.0, 0.0)


def _entry(name: str, i: int) -> Callable[[Records], Array]:
    return lambda record: record[name].reshape(-1)[i]


def _square(name: str, i: int, spread: float) -> Callable[[Records], Array]:
    return lambda record: record[name].reshape(-1)[i] ** 2 / spread - 1.0


def _raw_frames(parts: Parts) -> "list[dict[str, V]]":
    """Transformed data of random records, computed from the data themselves."""
    assert parts.whole is not None
    return [parts.whole.frame_of(parts.whole.blank(_PROBED, seed), np) for seed in (5, 6)]


# The log likelihood of each record that a program computes itself: `log_lik` of its generated quantities.
#
# It says which count its author takes for that of records, and what the term of a record is; both are compared.


RECORDS, POINTS = 3, 3  # at which it is compared
_CLOSE = 1e-8  # relative to the terms


def pointwise_notes(program: tree.Program, parts: Parts, model: Model) -> tuple[str, ...]:
    """Notes on whether `log_lik`, if present, agrees with the choice of a record."""
    stated = count_of_log_lik(program)
    if stated is None or parts.count is None or len(parts.kinds) > 1 or any(kind.lag for kind in parts.kinds):
        return ()
    if stated != parts.count:
        return (f"{NAME} has an entry for each of {stated}, but the records are {parts.count}",)
    records = {k: jnp.asarray(v) for k, v in parts.blank(RECORDS, 1)[0].items()}
    statements, machine = computing(program, NAME), machine_of(program)

    def both(theta: Array) -> tuple[jax.Array, jax.Array]:
        params = model.constrain(theta)
        frame = parts.frame_of([records], jnp)
        values, _ = parts.coordinates.values(params)
        frame.update({p.name: values[p.name] for p in parts.coordinates.places})
        machine.block(statements, frame, Run())
        return consolidated(frame[NAME]).a, jax.vmap(model.log_lik_at, (None, 0))(params, records)

    points = np.random.default_rng(2).normal(size=(POINTS, model.dimension)) * 0.5
    try:
        stated_terms, terms = (np.asarray(a) for a in jax.jit(jax.vmap(both))(points))
    except (BayesreconError, TypeError, ValueError, IndexError):
        return (f"{NAME} could not be compared with the log likelihood terms of the records",)
    changes, size = np.abs(np.diff(stated_terms - terms, axis=0)), 1 + np.abs(terms).max()
    if not np.isfinite(changes).any() or np.nanmax(changes) <= _CLOSE * size:
        return ()
    return (f"{NAME} differs from a record's term in the target by more than a constant",)

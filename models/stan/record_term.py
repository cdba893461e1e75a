"""The term of one record: the program run on its data alone, of which the part counts that depends on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Params, Records
from bayesrecon.models.inspection import typical_values
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.coordinates import Coordinates
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.layout import RecordField, counts, sizes_of, stacked
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.needs import computing, pruned
from bayesrecon.models.stan.posterior import declarations, machine_of, transform_data
from bayesrecon.models.stan.values import V, consolidated


@dataclass(frozen=True, eq=False)
class Parts:
    """A program cut into records.

    Args:
        machine: runs the program.
        record: runs what a record has a part in.
        constants: data that are no fields.
        count: the name of the number of records, None if all data are one record.
        columns, fields: of a record, by name.
        cut: transformed data that are fields, because they are computed from all records (centred columns).
        unit: the field that numbers the records if parameters have one entry per record; there are `units`.
        per_record: the axis of records, by the name of each parameter that has one entry per record.
        coordinates: parameters of the model.
        whole: the same program with all transformed data computed; None if none are cut.
    """

    machine: StanMachine
    record: StanMachine
    constants: Frame
    count: str | None
    columns: Mapping[str, RecordField]
    fields: Mapping[str, Field]
    cut: Mapping[str, RecordField]
    unit: str | None
    units: int
    per_record: Mapping[str, int]
    coordinates: Coordinates
    whole: "Parts | None" = None

    @property
    def name(self) -> str:
        return self.machine.program.name

    def frame_of(self, records: Records, count: int, xp: ModuleType) -> Frame:
        """Data and transformed data of records `{field: (count, *shape)}`."""
        frame = dict(self.constants)
        if self.count is not None:
            # With parameters of their own, records are as many as there are: a public number.
            frame[self.count] = V("int", count, 0, self.unit is None)
        for name, column in {**self.columns, **self.cut}.items():
            frame[name] = self._column(column, records[name], xp)
        return transform_data(self.machine, frame)

    def _column(self, column: RecordField, values: Array, xp: ModuleType) -> V:
        if not column.follows:
            value = stacked(column, values, xp)
            a = value.a[0]
            return V(value.base, a if np.ndim(a) or xp is jnp else a.item(), value.depth, True)
        return stacked(column, values, xp)

    def field_of(self, name: str, value: V, like: Array) -> jax.Array:
        """The field of one record, of the type of `like`, that a variable of the program holds."""
        column = self.columns[name]
        array = jnp.take(jnp.asarray(value.a), 0, axis=column.axis) if column.follows else jnp.asarray(value.a)
        return array.astype(jnp.asarray(like).dtype)

    def terms(self, frame: Frame, machine: StanMachine, run: Run | None = None) -> Run:
        """The run of the model with data and parameters in place."""
        run = Run() if run is None else run
        with np.errstate(all="ignore"):
            machine.block(machine.program.transformed_parameters, frame, run)
            machine.block(machine.program.model, frame, run)
        return run

    def run_record(
        self, params: Params, record: Records, machine: StanMachine | None = None, run: Run | None = None
    ) -> tuple[Frame, Run]:
        """The run on one record, and its variables: what of it is tainted is the record's term.

        Args:
            machine: another one that runs it.
            run: what it has done already.
        """
        batch = {k: jnp.asarray(record[k])[None] for k in self.fields}
        frame = self.frame_of(batch, 1, jnp)
        values, _ = self.coordinates.values(params)
        for place in self.coordinates.places:
            v = values[place.name]
            if place.name in self.per_record:
                at = jnp.round(jnp.asarray(record[str(self.unit)])).astype(int) - 1
                axis = self.per_record[place.name]
                v = V(v.base, jnp.expand_dims(jnp.take(v.a, at, axis=axis), axis), v.depth)
            frame[place.name] = v
        return frame, self.terms(frame, machine or self.record, run)

    def run_joint(self, params: Params, records: Records, count: int, xp: ModuleType = np) -> Run:
        """The run on several records together."""
        frame = self.frame_of(records, count, xp)
        values, _ = self.coordinates.values(params)
        frame.update({p.name: values[p.name] for p in self.coordinates.places})
        return self.terms(frame, self.machine)

    def log_lik(self, params: Params, record: Records) -> jax.Array:
        return jnp.asarray(self.run_record(params, record)[1].total(True), float)

    def log_prior(self, params: Params) -> jax.Array:
        """The part of the target that no record affects, with the Jacobians of computed parameters."""
        count = self.units if self.unit else 1
        run = self.run_joint(params, self.blank(count, 0), count)
        return jnp.asarray(run.total(False), float) + self.coordinates.values(params)[1]

    def blank(self, count: int, seed: int) -> Records:
        """Records inside their domains; with parameters of their own, each of another one."""
        rng = np.random.default_rng(seed)
        drawn = {k: _drawn(f.domain, rng, (count, *f.shape)) for k, f in self.fields.items() if k != self.unit}
        if self.unit:
            drawn[self.unit] = np.arange(1, count + 1)
        return drawn


def _drawn(domain: Domain, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    if domain.kind == "integer" and np.isfinite(domain.low + domain.high):
        return rng.integers(int(domain.low), int(domain.high) + 1, size=shape)
    return typical_values(domain, rng, shape)


def record_parameters(nodes: tuple[tree.Declare, ...], count: str) -> dict[str, int] | None:
    """Parameters that follow the count, with their axis; None if one follows it in another way."""
    result: dict[str, int] = {}
    for p in nodes:
        sizes = (*p.type.dims, *p.type.sizes)
        uses = [k for k, size in enumerate(sizes) if count in tree.names_in(size)]
        if not uses:
            continue
        plain_size = isinstance(sizes[uses[0]], tree.VariableName)
        if len(uses) > 1 or not plain_size or p.type.base in ("simplex", "ordered", "sum_to_zero_vector"):
            return None
        result[p.name] = uses[0]
    return result


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
    count = parts.units if parts.unit else 3
    records = parts.blank(count, 1)
    joint = parts.frame_of(records, count, np)
    single_frames = [parts.frame_of({k: v[n : n + 1] for k, v in records.items()}, 1, np) for n in range(count)]
    for node in declarations(parts.machine.program.transformed_data):
        v = joint.get(node.name)
        if v is None or not v.tainted or node.name in parts.cut:
            continue
        sizes = sizes_of(node)
        axes = [k for k, s in enumerate(sizes) if isinstance(s, tree.VariableName) and s.name == parts.count]
        singles = [variables[node.name].a for variables in single_frames]
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
                f"{parts.name}, line {line}, column {column}: {node.name} is computed from all records; it cannot be "
                f'recovered from one: pass it in constants={{"{node.name}": ...}}, or make it part of the record',
            )
    return None


def identities_of(parts: Parts) -> dict[str, tuple[Callable[[Records], Array], float]]:
    """Totals that such columns satisfy whatever the data: of centred ones the sum is zero, of standardised ones the sum
    of squares is the number of records less one, times the square of the scale."""
    result: dict[str, tuple[Callable[[Records], Array], float]] = {}
    if not parts.cut or parts.unit:
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


def _entry(name: str, i: int) -> Callable[[Records], Array]:
    return lambda record: record[name].reshape(-1)[i]


def _square(name: str, i: int, spread: float) -> Callable[[Records], Array]:
    return lambda record: record[name].reshape(-1)[i] ** 2 / spread - 1.0


def _raw_frames(parts: Parts) -> "list[dict[str, V]]":
    """Transformed data of random records, computed from the data themselves."""
    assert parts.whole is not None
    return [parts.whole.frame_of(parts.whole.blank(_PROBED, seed), _PROBED, np) for seed in (5, 6)]


# The log likelihood of each record that a program computes itself: `log_lik` of its generated quantities.
#
# It says which count its author takes for that of records, and what the term of a record is; both are compared.


NAME = "log_lik"
"""The name that loo and ArviZ expect."""

RECORDS, POINTS = 3, 3  # at which it is compared
_CLOSE = 1e-8  # relative to the terms


def possible_counts(program: tree.Program) -> list[str]:
    """The counts of a program, that of `log_lik` first, those with the most data before others."""
    stated = _count(program)
    return sorted(counts(pruned(program)), key=lambda count: count != stated)


def _count(program: tree.Program) -> str | None:
    """The variable that is the size of `log_lik`, None if there is none."""
    declared = [d for d in declarations(program.generated) if d.name == NAME]
    sizes = sizes_of(declared[0]) if declared else ()
    return sizes[0].name if len(sizes) == 1 and isinstance(sizes[0], tree.VariableName) else None


def pointwise_notes(program: tree.Program, parts: Parts, model: Model) -> tuple[str, ...]:
    """Notes on whether `log_lik`, if present, agrees with the choice of a record."""
    stated = _count(program)
    if stated is None or parts.count is None:
        return ()
    if stated != parts.count:
        return (f"{NAME} has an entry for each of {stated}, but the records are {parts.count}",)
    count = parts.units if parts.unit else RECORDS
    records = {k: jnp.asarray(v) for k, v in parts.blank(count, 1).items()}
    statements, machine = computing(program, NAME), machine_of(program)

    def both(theta: Array) -> tuple[jax.Array, jax.Array]:
        params = model.constrain(theta)
        frame = parts.frame_of(records, count, jnp)
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

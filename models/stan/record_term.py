"""The term of one record: the program run on its data alone, of which the part counts that depends on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.model import Field, Params, Records
from bayesrecon.models.inspection import typical_values
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.coordinates import Coordinates
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.layout import RecordField, stacked
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.posterior import transform_data
from bayesrecon.models.stan.values import V


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

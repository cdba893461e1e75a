"""The term of one record: the program run on its data alone, of which the part counts that depends on them."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.domains import BINARY, REAL, Domain, RecordKind
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Params, Records
from bayesrecon.models.inspection import typical_values
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.coordinates import Coordinates
from bayesrecon.models.stan.frame import STEPS, Frame, Run
from bayesrecon.models.stan.machine import StanMachine, in_order
from bayesrecon.models.stan.needs import computing, pruned, tainted_names
from bayesrecon.models.stan.posterior import declarations, machine_of, transform_data, value_of
from bayesrecon.models.stan.values import SPECIAL, StanError, V, consolidated, number

# Fields and constants in a program's data, and sizes that follow from the shapes of parameters.


FEW = 32
"""Integers between two ends, below which each is a level, as of observed sites of NumPyro programs."""

LISTED = 1_000
"""Levels of a field of integers that indexes something; beyond it they are numbers like others."""


@dataclass(frozen=True, eq=False)
class RecordField:
    """A field of the record: where it is declared, and on which axis records follow each other; `follows` is false of
    data that are one record as a whole."""

    node: tree.Declare
    axis: int
    follows: bool = True


def sizes_of(node: tree.Declare) -> tuple[tree.Expression, ...]:
    """Sizes of a variable: of the array around it, then its own."""
    return (*node.type.dims, *node.type.sizes)


def counts(program: tree.Program) -> tuple[str, ...]:
    """Integers in the data that data have as a size, those of most variables first."""
    numbers = {d.name for d in declarations(program.data) if d.type.base == "int" and not sizes_of(d)}
    result: dict[str, int] = {}
    for d in declarations(program.data):
        for k, size in enumerate(sizes_of(d)):
            if isinstance(size, tree.VariableName) and size.name in numbers:
                result[size.name] = result.get(size.name, 0) + (3 if k == 0 else 1)
    return tuple(sorted(result, key=lambda name: -result[name]))


def columns(program: tree.Program, count: str) -> dict[str, RecordField] | None:
    """The data that follow a count, as fields; None if one of them does so in another way than by one axis."""
    result: dict[str, RecordField] = {}
    for d in declarations(program.data):
        uses = [k for k, size in enumerate(sizes_of(d)) if count in tree.names_in(size)]
        if not uses:
            continue
        if len(uses) > 1 or not isinstance(sizes_of(d)[uses[0]], tree.VariableName):
            return None
        result[d.name] = RecordField(d, uses[0])
    return result


def implied_sizes(program: tree.Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int | list[int]]:
    """Integers of the data that the shapes of variables tell: `vector[K - 1] b` of length 3 tells K."""
    defined = {d.name: d.value for d in program.transformed_data if isinstance(d, tree.Declare) and d.value is not None}
    for s in program.transformed_data:
        if isinstance(s, tree.Assign) and isinstance(s.assigned, tree.VariableName):
            defined.setdefault(s.assigned.name, s.value)
    data = {d.name for d in declarations(program.data)}
    result: dict[str, int | list[int]] = {}
    lists: dict[str, dict[int, int]] = {}
    blocks = (program.parameters, program.transformed_parameters, program.generated)
    for d in (d for block in blocks for d in declarations(block)):
        shape = shapes.get(d.name)
        if shape is None:
            continue
        sizes = sizes_of(d)
        if d.type.base in ("cholesky_factor_corr", "corr_matrix", "cov_matrix"):
            sizes = (*sizes, sizes[-1])
        if len(shape) != len(sizes):
            # An array of one element is written without its index by some tools, and with it by others.
            continue
        for size, value in zip(sizes, shape, strict=True):
            if (entry := _entry_of(size)) is not None:
                lists.setdefault(entry[0], {})[entry[1]] = int(value)
                continue
            solved = _solve(size, int(value), defined)
            if solved is None or solved[0] not in data:
                continue
            if result.setdefault(*solved) != solved[1]:
                raise BayesreconError(
                    f"{program.name}: the draws give {solved[0]} as {result[solved[0]]} and as {solved[1]} "
                    f"({d.name} has sizes {shape}); do they belong to this program?"
                )
    return result | _implied_lists(program, lists)


def _entry_of(size: tree.Expression) -> tuple[str, int] | None:
    """The list and the place in it of a size that is an element of one, `knots[2]`."""
    if isinstance(size, tree.Index) and isinstance(size.container, tree.VariableName) and len(size.indices) == 1:
        at = size.indices[0]
        if isinstance(at, tree.Number) and isinstance(at.value, int):
            return size.container.name, at.value
    return None


def _implied_lists(program: tree.Program, lists: Mapping[str, dict[int, int]]) -> dict[str, int | list[int]]:
    """Lists of sizes of which every element is told, and how long they are."""
    result: dict[str, int | list[int]] = {}
    for d in declarations(program.data):
        entries, sizes = lists.get(d.name, {}), sizes_of(d)
        if entries and d.type.base == "int" and len(sizes) == 1 and sorted(entries) == [*range(1, len(entries) + 1)]:
            result[d.name] = [entries[k + 1] for k in range(len(entries))]
            if isinstance(sizes[0], tree.VariableName):
                result[sizes[0].name] = len(entries)
    return result


def _solve(size: tree.Expression, value: int, defined: Mapping[str, tree.Expression]) -> tuple[str, int] | None:
    """The variable that makes an expression of a size equal to a value."""
    for _ in range(20):
        if isinstance(size, tree.VariableName):
            if size.name not in defined:
                return size.name, value
            size = defined[size.name]
        elif isinstance(size, tree.Binary) and size.op in "+-" and isinstance(size.right, tree.Number):
            value = value - int(size.right.value) if size.op == "+" else value + int(size.right.value)
            size = size.left
        elif isinstance(size, tree.Binary) and size.op == "+" and isinstance(size.left, tree.Number):
            value, size = value - int(size.left.value), size.right
        else:
            return None
    return None


class MissingConstantsError(BayesreconError):
    """Data that are no fields have no value."""


def constants_of(
    machine: StanMachine,
    fields: Mapping[str, RecordField],
    numbers: Collection[str | None],
    constants: Mapping[str, npt.ArrayLike],
    implied: Mapping[str, npt.ArrayLike],
) -> Frame:
    """The data that are not fields, from stated constants and from the shapes of parameters."""
    program = machine.program
    frame: Frame = {}
    missing: list[str] = []
    for node in declarations(program.data):
        if node.name in fields or node.name in numbers:
            continue
        value = constants.get(node.name, implied.get(node.name))
        if node.name == "prior_only" and value is None:  # brms' switch for leaving the data out
            value = 0
        if (
            node.name in constants
            and node.name in implied
            and not np.array_equal(constants[node.name], implied[node.name])
        ):
            raise BayesreconError(
                f"{program.name}: {node.name} is given as {constants[node.name]}, and the draws give it as "
                f"{implied[node.name]}; do they belong to this program?"
            )
        if value is None:
            missing.append(node.name)
            continue
        if missing:
            continue
        try:
            frame[node.name] = value_of(node, value, machine.shape_of(node.type, frame, Run()))
        except StanError as error:
            raise machine.placed(error, node) from None
    if missing:
        listed = ", ".join(missing)
        example = ", ".join(f'"{name}": ...' for name in missing[:2])
        raise MissingConstantsError(
            f"{program.name}: neither the record nor the draws determine {listed}: pass constants={{{example}}} "
            "(--constants FILE.json)"
        )
    return frame


def domain_of(machine: StanMachine, node: tree.Declare, frame: Frame, indexed: list[tree.Expression] | None) -> Domain:
    """Domain of a field, from its declared bounds and the sizes of the variables it indexes."""
    indexes = indexed is not None
    bounds = {"lower": -math.inf, "upper": math.inf}
    for name, bound in node.type.bounds:
        if name in bounds:
            try:
                value = machine.value(bound, frame, Run())
            except StanError:
                continue  # a bound that depends on other data
            if value.scalar and value.known:
                bounds[name] = float(value.a)
    low, high = bounds["lower"], bounds["upper"]
    if node.type.base == "int":
        if indexed is not None:
            high = min([high, *(float(n) for n in (_known(machine, size, frame) for size in indexed) if n)])
            low = max(low, 1.0) if math.isfinite(high) and high > 1 else low
        if (low, high) == (0.0, 1.0) and not indexes:
            return BINARY
        most = LISTED if indexes else FEW
        if math.isfinite(low) and math.isfinite(high) and low < high and high - low < most:
            return Domain("levels", levels=tuple(np.arange(low, high + 1)))
        return Domain("integer", low, high)
    if SPECIAL.get(node.type.base):
        return Domain("interval", 0.0, 1.0) if node.type.base == "simplex" else REAL
    if low == -math.inf and high == math.inf:
        return REAL
    return Domain("interval", low, high)


def _known(machine: StanMachine, size: tree.Expression, frame: Frame) -> int | None:
    try:
        return number(machine.value(size, frame, Run()), "a size")
    except StanError:
        return None


def _categorical(node: tree.Node) -> tuple[str, tree.Expression, tuple[tree.Expression, ...]] | None:
    """A distribution of categories: its name, its value and its arguments."""
    if isinstance(node, tree.Tilde):
        name, y, args = node.name, node.variate, node.args
    elif isinstance(node, tree.Call) and node.args:
        name, y, args = node.name.removesuffix("_lpmf").removesuffix("_lupmf"), node.args[0], node.args[1:]
    else:
        return None
    return (name, y, args) if name in _CATEGORIES else None


_CATEGORIES = {"categorical", "categorical_logit", "ordered_logistic", "ordered_probit", "ordered_logistic_glm"}


def indexing(program: tree.Program) -> dict[str, list[tree.Expression]]:
    """Variables that index something, with the sizes of what they index, as expressions."""
    blocks = (program.data, program.transformed_data, program.parameters, program.transformed_parameters, program.model)
    nodes = tree.walk((*blocks, program.functions))
    sizes = {n.name: sizes_of(n) for n in nodes if isinstance(n, tree.Declare)}
    result: dict[str, list[tree.Expression]] = {}
    for n in nodes:
        categorical = _categorical(n)
        if categorical is not None:
            name, y, args = categorical
            inside = y.container if isinstance(y, tree.Index) else y
            last = args[-1] if args else None
            if isinstance(inside, tree.VariableName) and isinstance(last, tree.VariableName) and sizes.get(last.name):
                size = sizes[last.name][-1]
                more = (
                    tree.Binary(n.position, "+", size, tree.Number(n.position, 1))
                    if name.startswith("ordered")
                    else size
                )
                result.setdefault(inside.name, []).append(more)
        if not isinstance(n, tree.Index):
            continue
        indexed = sizes.get(n.container.name, ()) if isinstance(n.container, tree.VariableName) else ()
        for k, i in enumerate(n.indices):
            inside = i.container if isinstance(i, tree.Index) else i
            if isinstance(inside, tree.VariableName):
                result.setdefault(inside.name, []).extend(indexed[k : k + 1])
    return result


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
        columns = {k: _drawn(f.domain, rng, (size, *f.shape)) for k, f in self.domains.items()}
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


LONGEST_LAG = 13
"""Values back that are looked for in a series: a year of months, and one more."""

_ALIKE = 1e-9  # relative, of sums of terms
_MOST_STEPS = STEPS // 4  # of all runs that look for windows: twice what a dozen lags take


def windowed(parts: Parts) -> Parts | None:
    """The program cut into windows of its series, for the shortest ones over which the likelihood is a product.

    The first values may have a term of their own, as in `y[1] ~ normal(0, 1)`: they are a record of another kind. A
    window then adds what its last value changes.
    """
    (kind,) = parts.kinds
    if kind.unit or kind.count is None:
        return None
    rng, program = np.random.default_rng(0), parts.machine.program
    in_order_parts = replace(parts, machine=StanMachine(program, parts.machine.higher, in_order))
    here, there, elsewhere = (
        {p.name: p.transform(jnp.asarray(rng.normal(size=p.free_shape))) for p in parts.coordinates.parameters}
        for _ in range(3)
    )

    spent = 0

    def target(columns: Mapping[str, np.ndarray], params: Params = here) -> float:
        nonlocal spent
        run = in_order_parts.run_joint(params, [dict(columns)])
        if (spent := spent + run.steps) > _MOST_STEPS:
            raise CoupledError(f"{parts.name}: no short windows of a series were found")
        return float(run.total(True))

    drawn = kind.blank(2 * LONGEST_LAG + 4, np.random.default_rng(1))
    series, other = ({k: v[i::2] for k, v in drawn.items()} for i in range(2))

    def with_ends(first: bool, last: bool) -> dict[str, np.ndarray]:
        begin, end = (other if first else series), (other if last else series)
        return {k: np.concatenate([begin[k][:1], v[1:-1], end[k][-1:]]) for k, v in series.items()}

    for params in (here, there, elsewhere):
        ends = [target(with_ends(first, last), params) for first in (False, True) for last in (False, True)]
        if not abs(ends[0] + ends[3] - ends[1] - ends[2]) <= 1e-13 * sum(map(abs, ends)):
            return None  # the first and the last value belong to one term

    def part(low: int, high: int, columns: Mapping[str, np.ndarray] = series) -> dict[str, np.ndarray]:
        return {k: v[low:high] for k, v in columns.items()}

    def last_term(window: Mapping[str, np.ndarray], params: Params = here) -> float:
        return target(window, params) - target({k: v[:-1] for k, v in window.items()}, params)

    for lag in range(1, LONGEST_LAG + 1):
        try:
            window = part(2, lag + 3)
            added, moved = last_term(window), last_term(window, there)
            if moved == added or not _same(last_term(part(0, lag + 3)), added):
                continue
            starts = not _same(target(part(0, lag)), 0.0) and target(part(0, lag)) != target(part(0, lag), there)
        except CoupledError:
            raise
        except BayesreconError:  # an index beyond the end
            continue
        places = {}
        for back in range(lag + 1):
            for name in kind.domains:
                others = ({**window, name: window[name].copy()} for _ in range(_PROBED))
                for n, changed in enumerate(others):
                    changed[name][lag - back] = other[name][n]
                    if last_term(changed) != added:
                        places[_lagged(name, back)] = (name, back)
                        break
        return _of_windows(parts, kind, lag, places, starts)
    return None


def _same(a: float, b: float, *parts: float) -> bool:
    return abs(a - b) <= _ALIKE * (1 + abs(a) + abs(b) + sum(map(abs, parts)))


def _of_windows(parts: Parts, kind: RecordsOf, lag: int, places: Mapping[str, tuple[str, int]], starts: bool) -> Parts:
    fields = {field: parts.fields[name] for field, (name, _) in places.items()}
    one = replace(kind, lag=lag, places=places, starts=starts)
    if not starts:
        return replace(parts, kinds=(one,), fields=fields)
    tag = "kind"
    while tag in fields:
        tag += "_"
    start, own = RecordKind(tag, 1.0, "start", True), RecordKind(tag, 2.0, str(kind.count))
    firsts = {f"{name}_first": name for name in kind.domains}
    described = {
        tag: Field((), Domain("levels", levels=(1.0, 2.0))),
        **{f: Field((lag, *parts.fields[name].shape), parts.fields[name].domain, start) for f, name in firsts.items()},
        **{name: replace(field, kind=own) for name, field in fields.items()},
    }
    begin = Start(**{**vars(kind), "lag": lag, "places": {f: (name, 0) for f, name in firsts.items()}})
    return replace(parts, kinds=(begin, one), fields=described, tag=tag)


def _lagged(name: str, back: int) -> str:
    return f"{name}_lag{back}" if back else name


def typical(field: Field) -> np.ndarray:
    """A value of a field, always the same."""
    return _drawn(field.domain, np.random.default_rng(0), (1, *field.shape))[0]


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


class CoupledError(BayesreconError):
    """The likelihood is no product over the records."""


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


def counted_numbers(program: tree.Program, numbers: set[str]) -> set[str]:
    """Numbers of the transformed data that follow from sizes alone."""
    data = {d.name for d in declarations(program.data)} - numbers
    of_data, of_numbers = (tainted_names(program, sources) for sources in (data, numbers))
    declared = (d for d in declarations(program.transformed_data) if not sizes_of(d))
    return {d.name for d in declared if d.name in of_numbers - of_data}


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


NAME = "log_lik"
"""The name that loo and ArviZ expect."""

RECORDS, POINTS = 3, 3  # at which it is compared
_CLOSE = 1e-8  # relative to the terms


def counts_to_try(program: tree.Program, stated: Collection[str], record: str | None) -> tuple[tuple[str, ...], ...]:
    """The counts whose records may be those of a program, by themselves or together; () takes all data as one.

    First comes what `log_lik` is counted by, then those of most data. A count of other outcomes joins the first one:
    a likelihood may have terms for several kinds of records.
    """
    small, of_log_lik = pruned(program), _count(program)
    possible = sorted(counts(small), key=lambda count: count != of_log_lik)
    possible = [count for count in possible if columns(small, count) is not None] or possible
    if record == "all" or (record is None and not possible):
        return ((),)
    if record is not None:
        named = tuple(record.replace(",", " ").replace(" and ", " ").split())
        if not named or not set(named) <= set(possible):
            raise BayesreconError(
                f"record={record!r}: the counts of {program.name} are {', '.join(possible) or 'none'}"
            )
        return (named,)
    together, taken = possible[:1], set(columns(small, possible[0]) or ())
    for count in possible[1:]:
        own = set(columns(small, count) or ())
        if own and not own & (taken | set(stated)) and _has_outcome(small, own):
            together.append(count)
            taken |= own
    return tuple(dict.fromkeys([tuple(together), *((count,) for count in possible)]))


def _has_outcome(program: tree.Program, names: set[str]) -> bool:
    """Whether data enter as what a density is of, or in the target by themselves."""
    computed = tainted_names(program, names)
    for node in tree.walk((program.transformed_parameters, program.model)):
        if isinstance(node, tree.Tilde):
            outcome: object = node.variate
        elif isinstance(node, tree.Call) and node.args and OUTCOME_FIRST.search(node.name):
            outcome = node.args[0]
        elif isinstance(node, tree.Increment):
            inside = [n for n in tree.walk(node.value) if isinstance(n, tree.Call) and OUTCOME_FIRST.search(n.name)]
            outcome = () if inside else node.value
        else:
            continue
        if tree.names_in(outcome) & computed:
            return True
    return False


OUTCOME_FIRST = re.compile(r"_(lu?p[dm]f|l?c?cdf|lcdf|log)$")
"""Ends of names of functions whose first argument is an outcome."""


def _count(program: tree.Program) -> str | None:
    """The variable that is the size of `log_lik`, None if there is none."""
    declared = [d for d in declarations(program.generated) if d.name == NAME]
    sizes = sizes_of(declared[0]) if declared else ()
    return sizes[0].name if len(sizes) == 1 and isinstance(sizes[0], tree.VariableName) else None


def pointwise_notes(program: tree.Program, parts: Parts, model: Model) -> tuple[str, ...]:
    """Notes on whether `log_lik`, if present, agrees with the choice of a record."""
    stated = _count(program)
    if stated is None or parts.count is None or len(parts.kinds) > 1 or parts.kinds[0].lag:
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

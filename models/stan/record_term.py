"""The term of one record: the program run on its data alone, of which the part counts that depends on them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.domains import BINARY, REAL, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Params, Records
from bayesrecon.models.inspection import typical_values
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.coordinates import Coordinates
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.needs import computing, pruned
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


def constants_of(
    machine: StanMachine,
    fields: Mapping[str, RecordField],
    count: str | None,
    constants: Mapping[str, npt.ArrayLike],
    implied: Mapping[str, npt.ArrayLike],
) -> Frame:
    """The data that are not fields, from stated constants and from the shapes of parameters."""
    program = machine.program
    frame: Frame = {}
    missing: list[str] = []
    for node in declarations(program.data):
        if node.name in fields or node.name == count:
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
        raise BayesreconError(
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


def stacked(column: RecordField, values: Array, xp: ModuleType) -> V:
    """Records `(N, *shape)` as the data variable."""
    base = SPECIAL.get(column.node.type.base, column.node.type.base)
    return V(base, xp.moveaxis(values, 0, column.axis), len(column.node.type.dims), True)


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

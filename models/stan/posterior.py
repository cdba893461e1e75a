"""A Stan program with its data: the transformed data, the parameters, and the log density at free coordinates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Transform
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.constraints import Affine, bounded, shaped
from bayesrecon.models.stan.expressions import Expressions
from bayesrecon.models.stan.frame import STEPS, EarlyExit, Frame, Run, Slot, loop_bounds
from bayesrecon.models.stan.higher import HIGHER
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.values import (
    AXES,
    SPECIAL,
    Elements,
    Split,
    StanError,
    Untraceable,
    V,
    check_size,
    consolidated,
    index_base,
)


@dataclass(frozen=True, eq=False)
class ParameterDeclaration:
    """A parameter as it is declared: constrained shape, and whether its bounds depend on other parameters."""

    node: tree.Declare
    shape: tuple[int, ...]
    dependent: bool

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def base(self) -> str:
        return SPECIAL.get(self.node.type.base, self.node.type.base)

    @property
    def depth(self) -> int:
        return len(self.node.type.dims)


def machine_of(program: tree.Program) -> StanMachine:
    return StanMachine(program, HIGHER, run_loop)


def declarations(block: tuple[tree.Statement, ...]) -> list[tree.Declare]:
    return [s for s in block if isinstance(s, tree.Declare)]


def read_data(machine: StanMachine, data: Mapping[str, npt.ArrayLike], frame: Frame | None = None) -> Frame:
    """The variables that the data block declares, from `data`; those in `frame` are kept.

    Raises:
        BayesreconError: what is missing, of other sizes, or no number.
    """
    frame = dict(frame or {})
    run = Run()
    for node in declarations(machine.program.data):
        if node.name in frame:
            continue
        if node.name not in data:
            raise BayesreconError(f"{machine.program.name}: the data lack {node.name}")
        try:
            shape = machine.shape_of(node.type, frame, run)
            check_size(shape, node.name)
            frame[node.name] = value_of(node, data[node.name], shape)
        except StanError as error:
            raise machine.placed(error, node) from None
    return frame


def value_of(node: tree.Declare, value: npt.ArrayLike, shape: tuple[int, ...]) -> V:
    """A value for a declared variable."""
    base = SPECIAL.get(node.type.base, node.type.base)
    depth = len(node.type.dims)
    try:
        a = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise StanError(f"{node.name} is assigned values that are not numbers") from None
    if a.size == 0 and 0 in shape:
        a = a.reshape(shape)
    if a.shape == (1,) and shape == ():
        a = a[0]
    if a.shape != shape and 1 in shape and a.shape == tuple(n for n in shape if n != 1):
        a = a.reshape(shape)  # a column of a table is written as a list by some tools
    if a.shape != shape:
        raise StanError(f"{node.name} has shape {shape} but is assigned {a.shape}")
    if base == "int":
        if a.size and not (np.isfinite(a).all() and (a == np.round(a)).all()):
            raise StanError(f"{node.name} is assigned values that are not integers")
        return V("int", a.astype(np.int64) if a.ndim else int(a), depth)
    return V(base, a if a.ndim else float(a), depth)


def transform_data(machine: StanMachine, frame: Frame) -> Frame:
    """The frame with the transformed data; values that are already given are kept."""
    frame = dict(frame)
    run = Run(frozen=frozenset(frame))
    with np.errstate(all="ignore"):
        machine.block(machine.program.transformed_data, frame, run)
    return frame


def places(
    machine: StanMachine, frame: Frame, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[ParameterDeclaration, ...]:
    """The parameters, of sizes that `shapes` names or that the data give."""
    result: list[ParameterDeclaration] = []
    names = {node.name for node in declarations(machine.program.parameters)}
    for node in machine.program.parameters:
        if not isinstance(node, tree.Declare):
            raise BayesreconError(
                f"{machine.program.name}, line {node.position[0]}: only declarations are allowed in this block"
            )
        kind = node.type
        if any(node.name == p.name for p in result):
            raise BayesreconError(f"{machine.program.name}, line {node.position[0]}: {node.name} is declared twice")
        if kind.base == "int":
            raise BayesreconError(f"{machine.program.name}, line {node.position[0]}: {node.name} is an integer")
        try:
            if shapes is not None and node.name in shapes:
                shape = tuple(shapes[node.name])
            else:
                shape = machine.shape_of(kind, frame, Run())
            check_size(shape, node.name)
        except StanError as error:
            raise machine.placed(error, node) from None
        dependent = bool(names & {n for _, b in kind.bounds for n in tree.names_in(b)})
        result.append(ParameterDeclaration(node, shape, dependent))
    return tuple(result)


def transform_of(machine: StanMachine, place: ParameterDeclaration, frame: Frame, run: Run | None = None) -> Transform:
    """The map from free coordinates to a parameter."""
    kind = place.node.type
    try:
        if kind.base in SPECIAL:
            return shaped(kind.base, place.shape[place.depth :])
        bounds = {name: machine.value(node, frame, run or Run()) for name, node in kind.bounds}
        for name, v in bounds.items():
            if v.shape and v.shape != place.shape[len(place.shape) - len(v.shape) :]:
                raise StanError(f"the bound {name} of {place.name} has shape {v.shape}")
        if "offset" in bounds or "multiplier" in bounds:
            offset = bounds["offset"].a if "offset" in bounds else 0.0
            return Affine(offset, bounds["multiplier"].a if "multiplier" in bounds else 1.0)
        return bounded(*(bounds[n].a if n in bounds else None for n in ("lower", "upper")))
    except StanError as error:
        raise machine.placed(error, place.node) from None


class Posterior:
    """A program with its data.

    Args:
        program: parsed.
        data: data of its data block.
    """

    def __init__(self, program: tree.Program, data: Mapping[str, npt.ArrayLike]):
        self.program = program
        self.machine = machine_of(program)
        self.frame = transform_data(self.machine, read_data(self.machine, data))
        self.places = places(self.machine, self.frame)
        self.free_shapes = {
            p.name: transform_of(self.machine, p, self.frame).inverse_shape(p.shape)
            if p.node.type.base in SPECIAL
            else p.shape
            for p in self.places
        }

    @property
    def dimension(self) -> int:
        return sum(int(np.prod(s)) for s in self.free_shapes.values())

    def constrained(self, theta: Array) -> tuple[Frame, jax.Array]:
        """Data and parameters, with the log Jacobian."""
        frame, total, at = dict(self.frame), jnp.zeros(()), 0
        for p in self.places:
            shape = self.free_shapes[p.name]
            size = int(np.prod(shape))
            x = _filled(p, theta[at : at + size], shape)
            at += size
            transform = transform_of(self.machine, p, frame)
            y = transform(x)
            total = total + jnp.sum(transform.log_abs_det_jacobian(x, y))
            frame[p.name] = V(p.base, y, p.depth)
        return frame, total

    def run(self, theta: Array) -> tuple[Run, jax.Array]:
        """The run of the model at free coordinates `(d,)`, and the log Jacobian."""
        with np.errstate(all="ignore"):
            frame, jacobian = self.constrained(theta)
            run = Run()
            self.machine.block(self.program.transformed_parameters, frame, run)
            self.machine.block(self.program.model, frame, run)
        return run, jacobian

    def log_density(self, theta: Array) -> jax.Array:
        """Log posterior density at free coordinates `(d,)`, up to a constant, with the log Jacobian."""
        run, jacobian = self.run(theta)
        return run.total() + jacobian


def _filled(place: ParameterDeclaration, values: Array, shape: tuple[int, ...]) -> Array:
    """Free coordinates in the order in which Stan stacks them: matrices by columns, arrays by rows."""
    if place.base == "matrix" and place.node.type.base == "matrix":
        swapped = (*shape[:-2], shape[-1], shape[-2])
        return jnp.swapaxes(values.reshape(swapped), -1, -2)
    return values.reshape(shape)


# Long loops over traced values: all iterations at once where they do not need each other, else one after the other in
# a scan; what neither can do is run one iteration at a time.

# Loops run one iteration after the other in a scan, also those that are longer in some iterations of an outer loop.

ALIKE = 6
"""Pairs of bounds up to which iterations of an outer loop are told apart by them: each then runs as it stands."""

JAX_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


class StatementRunner(Protocol):
    """An object that runs statements."""

    def statement(self, node: tree.Statement, frame: Frame, run: Run) -> EarlyExit | None: ...


@dataclass(frozen=True)
class Inside:
    """How the iterations of a loop are run.

    Args:
        run: the run outside of the loop.
        tainted: whether the bounds depend on a record.
        selects: whether both branches may be run where a condition is not known.
        iterations: how many there are.
    """

    run: Run
    tainted: bool
    selects: bool
    iterations: int

    def new(self) -> Run:
        run = self.run
        return Run(
            steps=run.steps,
            entries=run.entries,
            width=run.widened(self.iterations),
            context=run.context or self.tainted,
            selects=self.selects,
            calls=run.calls,
            nested=True,
            frozen=run.frozen,
        )


def consumed_of(variable: V | Slot) -> int:
    return variable.consumed if isinstance(variable, Slot) else 0


def current_value(variable: V | Slot) -> V:
    return consolidated(variable.row if isinstance(variable, Slot) else variable)


def summed(inner: Run) -> tuple[jax.Array, jax.Array]:
    """Sums of the terms that depend on no record, and of those that do."""
    return inner.total(False), inner.total(True)


def around(node: tree.For, frame: Frame) -> Frame:
    """The variables before a loop, with each element accessible."""
    read = tree.names_in(node.body)
    return {n: consolidated(v) if n in read and not isinstance(v, Slot) else v for n, v in frame.items()}


def set_variable(frame: Frame, name: str, v: V) -> None:
    variable: V | Slot = frame[name]
    if isinstance(variable, Slot):
        variable.row = v
    else:
        frame[name] = v


def longest_range(low: V, high: V) -> int | None:
    """The longest run of a loop whose bounds are known and differ between iterations of an outer one; None for other
    loops.
    """
    tags = {id(v.iterations[0]) for v in (low, high) if v.iterations is not None}
    if len(tags) != 1 or not all(v.scalar and (v.known or v.iterations is not None) for v in (low, high)):
        return None
    first, last = np.broadcast_arrays(
        *(np.asarray(v.a if v.iterations is None else v.iterations[1]) for v in (low, high))
    )
    if np.unique(np.stack([first, last]), axis=1).shape[1] <= ALIKE:
        return None
    lengths = last - first + 1
    if (lengths < 1).any() and (lengths >= 1).any():
        raise Split(lengths < 1)
    return max(int(lengths.max()), 0)


def run_longest_range(
    machine: StatementRunner, node: tree.For, low: V, high: V, longest: int, frame: Frame, run: Run
) -> bool:
    """Runs a loop of other lengths in other iterations of an outer one, as long as the longest.

    What is too long comes first, at the place of the first iteration and with what the loop finds, so that nothing is
    computed that the program does not compute; what it leaves is dropped.
    """
    if not longest:
        return True
    if longest > STEPS or any(
        isinstance(n, tree.Return | tree.Jump | tree.While | tree.Target) for n in tree.walk(node.body)
    ):
        return False
    written = sorted((tree.assigned_in(node.body) & frame.keys()) - run.frozen)
    steps = run.steps

    def place(i: jax.Array) -> tuple[Elements, Elements]:
        at = high.a - (longest - 1) + i
        return jnp.maximum(at, low.a), at >= low.a

    for selects in (False, True)[: 1 + run.selects]:
        inside = Inside(run, low.tainted or high.tainted, selects, longest)
        try:
            run_scan(machine, node, np.arange(longest), place, inside, frame, written)
        except (Untraceable, *JAX_ERRORS):
            run.steps = steps
            continue
        return True
    return False


def run_scan(
    machine: StatementRunner,
    node: tree.For,
    iterations: np.ndarray,
    place: Callable[[jax.Array], tuple[Elements, Elements]],
    inside: Inside,
    frame: Frame,
    written: list[str],
) -> None:
    """Iterations one after the other; `place` tells which one is run, and whether what it leaves counts."""
    initial = {name: current_value(frame[name]) for name in written}
    outer = around(node, frame)
    taints = {name: v.tainted for name, v in initial.items()}
    steps: list[tuple[int, int]] = []

    def iteration(carry: dict[str, jax.Array], i: jax.Array) -> tuple[dict[str, jax.Array], tuple[jax.Array, ...]]:
        inner, variables = inside.new(), dict(outer)
        for n, a in carry.items():
            row = V(initial[n].base, a, initial[n].depth, taints[n])
            variables[n] = Slot(row, consumed_of(frame[n])) if isinstance(frame[n], Slot) else row  # type: ignore[assignment]
        at, counts = place(i)
        variables[node.name] = V("int", at)
        machine.statement(node.body, variables, inner)
        final = {name: current_value(variables[name]) for name in written}
        taints.update({name: taints[name] or v.tainted for name, v in final.items()})
        steps.append((inner.steps, inner.entries))
        new = {name: jnp.asarray(v.a, carry[name].dtype) for name, v in final.items()}
        if counts is True:
            return new, summed(inner)
        updated = {name: jnp.where(counts, a, carry[name]) for name, a in new.items()}
        return updated, tuple(jnp.where(counts, a, 0.0) for a in summed(inner))

    if any(v.base == "int" for v in initial.values()):
        raise Untraceable("an integer changes between iterations")
    start = {name: jnp.asarray(np.nan_to_num(v.a) if v.known else v.a, float) for name, v in initial.items()}
    before: dict[str, bool] | None = None
    final, free, bound = start, jnp.zeros(()), jnp.zeros(())
    while taints != before:  # an iteration hands on to the next one what depends on a record
        before = dict(taints)
        final, (free, bound) = jax.lax.scan(iteration, start, jnp.asarray(iterations))
    inside.run.steps, inside.run.entries = max(steps)
    for name, v in initial.items():
        set_variable(frame, name, V(v.base, final[name], v.depth, taints[name]))
    add(node, inside.run, free.sum(), bound.sum())


def add(node: tree.For, run: Run, free: Elements, bound: Elements) -> None:
    """The sum of what the iterations added to the target."""
    if any(isinstance(n, tree.Tilde | tree.Increment | tree.Call | tree.CallStatement) for n in tree.walk(node.body)):
        run.terms.append((node.position[0], free, False))
        run.terms.append((node.position[0], bound, True))


UNROLLED = 8
"""Iterations up to which a loop is run one iteration at a time: a scan of so few compiles more slowly."""

SHORT = 600
"""Nodes times iterations up to which a loop whose branches are not known is run one iteration at a time rather than
with both branches of each: the derivatives of the branch that is not taken are no burden then."""

GROUPS = 12
"""Groups of iterations that take different branches; beyond it compiling them takes longer than running both
branches."""

TRIED = 1_500
"""Steps after which no more is tried to tell iterations apart by their branches."""


def run_loop(machine: Expressions, node: tree.For, low: V, high: V, frame: Frame, run: Run) -> bool:
    """Runs a loop as a whole where that can be done and pays; whether it did."""
    if (longest := longest_range(low, high)) is not None:
        return run_longest_range(machine, node, low, high, longest, frame, run)
    first, last = loop_bounds(low, high)
    tainted = low.tainted or high.tainted
    iterations = last - first + 1
    if iterations <= UNROLLED:
        return False
    nodes = tree.walk(node.body)
    if any(isinstance(n, tree.Return | tree.Jump | tree.While | tree.Target) for n in nodes):
        return False
    if not _traced(nodes, frame):
        return False
    written = sorted((tree.assigned_in(node.body) & frame.keys()) - run.frozen)
    slots = _slots(node, written, nodes, frame)
    steps = run.steps
    values = np.arange(first, last + 1)
    attempts = [(_run_vectorised, False), (_scanned, False)]
    if iterations * len(nodes) > SHORT or run.nested:
        attempts += [(_run_vectorised, True), (_scanned, True)]
    for attempt, selects in attempts:
        if (attempt is _run_vectorised and not slots) or (selects and not run.selects):
            continue
        inner = Inside(run, tainted, selects, iterations)
        try:
            attempt(machine, node, values, inner, frame, written)
        except (Untraceable, *JAX_ERRORS):
            run.steps = steps
            continue
        return True
    return False


def _traced(nodes: list[tree.Node], frame: Frame) -> bool:
    """Whether a loop touches a traced value, or adds to the target."""
    names = {n.name for n in nodes if isinstance(n, tree.VariableName)}
    variables = [frame[n] for n in names if n in frame]
    return any(isinstance(v, Slot) or not v.known for v in variables) or any(
        isinstance(n, tree.Tilde | tree.Increment) for n in nodes
    )


def _slots(node: tree.For, written: list[str], nodes: list[tree.Node], frame: Frame) -> bool:
    """Whether every written variable is used at the element of the iteration only."""
    uses = dict.fromkeys(written, 0)
    at_index = dict.fromkeys(written, 0)
    for n in nodes:
        if isinstance(n, tree.VariableName) and n.name in uses:
            uses[n.name] += 1
        if isinstance(n, tree.Index) and isinstance(n.container, tree.VariableName) and n.container.name in at_index:
            at = n.indices[consumed_of(frame[n.container.name]) :]
            at_index[n.container.name] += bool(at) and isinstance(at[0], tree.VariableName) and at[0].name == node.name
    return uses == at_index and not any(isinstance(n, tree.Declare) and n.name in uses for n in nodes)


def _row(v: V, a: jax.Array) -> V:
    if v.depth:
        return V(v.base, a, v.depth - 1, v.tainted)
    return V(index_base(v.base, (False,) + (True,) * (AXES[v.base] - 1)), a, 0, v.tainted)


def _run_vectorised(
    machine: Expressions, node: tree.For, iterations: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """All iterations together; those that take different branches in groups."""
    groups, outcomes, added = [iterations], [], []
    variables = {name: current_value(frame[name]) for name in written}
    for name, v in variables.items():
        if not v.shape or not 1 <= iterations[0] <= iterations[-1] <= v.shape[0]:
            raise Untraceable(f"{name} does not have an element for every iteration of the loop")
    spent = 0
    while groups:
        group = groups.pop()
        before = inside.run.steps
        try:
            rows, terms = _group(machine, node, group, inside, frame, variables)
        except Split as split:
            if len(split.values) != len(group):
                raise
            groups += [group[split.values == value] for value in np.unique(split.values)]
            spent += split.steps - before
            if len(groups) + len(outcomes) > GROUPS or spent > TRIED:
                raise Untraceable("the iterations of a loop differ in structure") from None
            continue
        outcomes.append((group, rows))
        added.append(terms)
    for name, v in variables.items():
        new, tainted = jnp.asarray(v.a, float), False
        for group, rows in outcomes:
            new = new.at[group - 1].set(rows[name][0])
            tainted |= rows[name][1]
        set_variable(frame, name, V(v.base, new, v.depth, tainted))
    add(node, inside.run, sum(free for free, _ in added), sum(bound for _, bound in added))


def _group(
    machine: Expressions, node: tree.For, group: np.ndarray, inside: Inside, frame: Frame, written: dict[str, V]
) -> tuple[dict[str, tuple[jax.Array, bool]], tuple[jax.Array, jax.Array]]:
    """Iterations that take the same branches: what they leave in the variables that they write, and what they add."""
    outer = around(node, frame)
    taints: dict[str, bool] = {}
    steps: list[tuple[int, int]] = []
    loop = object()

    def iteration(i: jax.Array, rows: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], tuple[jax.Array, jax.Array]]:
        inner, variables = inside.new(), dict(outer)
        variables.update({n: Slot(_row(written[n], a), 1 + consumed_of(frame[n])) for n, a in rows.items()})  # type: ignore[misc]
        variables[node.name] = V("int", i, iterations=(loop, group))
        try:
            machine.statement(node.body, variables, inner)
        except Split as split:
            split.steps = inner.steps
            raise
        final = {name: consolidated(variables[name].row) for name in written}  # type: ignore[attr-defined]
        taints.update({name: v.tainted for name, v in final.items()})
        steps.append((inner.steps, inner.entries))
        return {name: jnp.asarray(v.a, float) for name, v in final.items()}, summed(inner)

    rows = {name: jnp.asarray(v.a, float)[group - 1] for name, v in written.items()}
    outcomes, (free, bound) = jax.vmap(iteration)(jnp.asarray(group), rows)
    inside.run.steps, inside.run.entries = max(steps)
    return {name: (a, taints[name]) for name, a in outcomes.items()}, (free.sum(), bound.sum())


def _scanned(
    machine: Expressions, node: tree.For, iterations: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """One iteration after the other."""
    run_scan(machine, node, iterations, lambda i: (i, True), inside, frame, written)

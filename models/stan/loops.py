"""Long loops over traced values: all turns at once where they do not need each other, else one after the other in a
scan; what neither can do is run turn by turn."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.expressions import Expressions
from bayesrecon.models.stan.frame import Frame, Run, Slot
from bayesrecon.models.stan.values import AXES, Split, Untraceable, V, index_base, settled

UNROLLED = 8
"""Turns up to which a loop is run turn by turn: a scan of so few compiles more slowly."""

SHORT = 600
"""Nodes times turns up to which a loop whose branches are not known is run turn by turn rather than with both branches
of each: the derivatives of the branch that is not taken are no burden then."""

GROUPS = 12
"""Groups of turns that take different branches; beyond it compiling them takes longer than running both branches."""

TRIED = 1_500
"""Steps after which no more is tried to tell turns apart by their branches."""

_JAX_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def run_loop(
    machine: Expressions, node: tree.For, first: int, last: int, tainted: bool, frame: Frame, run: Run
) -> bool:
    """Runs a loop as a whole where that can be done and pays; whether it did."""
    turns = last - first + 1
    if turns <= UNROLLED:
        return False
    nodes = tree.walk(node.body)
    if any(isinstance(n, tree.Return | tree.Jump | tree.While | tree.Target) for n in nodes):
        return False
    if not _traced(machine, nodes, frame):
        return False
    written = sorted((tree.assigned_in(node.body) & frame.keys()) - run.frozen)
    slots = _slots(node, written, nodes, frame)
    steps = run.steps
    every = np.arange(first, last + 1)
    ways = [(_at_once, False), (_scanned, False)]
    if turns * len(nodes) > SHORT or run.nested:
        ways += [(_at_once, True), (_scanned, True)]
    for attempt, selects in ways:
        if (attempt is _at_once and not slots) or (selects and not run.selects):
            continue
        inner = Inside(run, tainted, selects, turns)
        try:
            attempt(machine, node, every, inner, frame, written)
        except (Untraceable, *_JAX_ERRORS):
            run.steps = steps
            continue
        return True
    return False


@dataclass(frozen=True)
class Inside:
    """How the turns of a loop are run."""

    run: Run
    tainted: bool
    selects: bool

    turns: int

    def new(self) -> Run:
        run = self.run
        return Run(
            steps=run.steps,
            entries=run.entries,
            width=run.widened(self.turns),
            context=run.context or self.tainted,
            selects=self.selects,
            calls=run.calls,
            nested=True,
            frozen=run.frozen,
        )


def _traced(machine: Expressions, nodes: list[Any], frame: Frame) -> bool:
    """Whether a loop touches a traced value, or adds to the target."""
    names = {n.name for n in nodes if isinstance(n, tree.Variable)}
    held = [frame[n] for n in names if n in frame]
    return any(isinstance(v, Slot) or not v.known for v in held) or any(
        isinstance(n, tree.Tilde | tree.Increment) for n in nodes
    )


def _slots(node: tree.For, written: list[str], nodes: list[Any], frame: Frame) -> bool:
    """Whether every written variable is used at the loop's own place only."""
    uses = dict.fromkeys(written, 0)
    own = dict.fromkeys(written, 0)
    for n in nodes:
        if isinstance(n, tree.Variable) and n.name in uses:
            uses[n.name] += 1
        if isinstance(n, tree.Index) and isinstance(n.of, tree.Variable) and n.of.name in own:
            at = n.indices[_consumed(frame[n.of.name]) :]
            own[n.of.name] += bool(at) and isinstance(at[0], tree.Variable) and at[0].name == node.name
    return uses == own and not any(isinstance(n, tree.Declare) and n.name in uses for n in nodes)


def _consumed(held: Any) -> int:
    return held.consumed if isinstance(held, Slot) else 0


def _held(held: Any) -> V:
    return settled(held.row if isinstance(held, Slot) else held)


def _summed(inner: Run) -> tuple[Any, Any]:
    zero = jnp.zeros(())
    return tuple(sum((v for _, v, t in inner.terms if t == side), start=zero) for side in (False, True))  # type: ignore[return-value]


def _around(node: tree.For, frame: Frame) -> Frame:
    """What a loop finds, each entry of it at hand."""
    read = tree.names_in(node.body)
    return {n: settled(v) if n in read and not isinstance(v, Slot) else v for n, v in frame.items()}


def _row(v: V, a: Any) -> V:
    if v.depth:
        return V(v.base, a, v.depth - 1, v.tainted)
    return V(index_base(v.base, (False,) + (True,) * (AXES[v.base] - 1)), a, 0, v.tainted)


def _at_once(
    machine: Expressions, node: tree.For, every: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """All turns together; those that take different branches in groups."""
    groups, left, added = [every], [], []
    held = {name: _held(frame[name]) for name in written}
    for name, v in held.items():
        if not v.shape or not 1 <= every[0] <= every[-1] <= v.shape[0]:
            raise Untraceable(f"{name} has no entry for every turn of the loop")
    spent = 0
    while groups:
        group = groups.pop()
        before = inside.run.steps
        try:
            rows, terms = _group(machine, node, group, inside, frame, held)
        except Split as split:
            if len(split.values) != len(group):
                raise
            groups += [group[split.values == value] for value in np.unique(split.values)]
            spent += split.steps - before
            if len(groups) + len(left) > GROUPS or spent > TRIED:
                raise Untraceable("the turns of a loop differ too much") from None
            continue
        left.append((group, rows))
        added.append(terms)
    for name, v in held.items():
        new, tainted = jnp.asarray(v.a, float), False
        for group, rows in left:
            new = new.at[group - 1].set(rows[name][0])
            tainted |= rows[name][1]
        _put(frame, name, V(v.base, new, v.depth, tainted))
    _add(node, inside.run, sum(free for free, _ in added), sum(bound for _, bound in added))


def _put(frame: Frame, name: str, v: V) -> None:
    held: Any = frame[name]
    if isinstance(held, Slot):
        held.row = v
    else:
        frame[name] = v


def _group(
    machine: Expressions, node: tree.For, group: np.ndarray, inside: Inside, frame: Frame, held: dict[str, V]
) -> tuple[dict[str, tuple[Any, bool]], tuple[Any, Any]]:
    """Turns that take the same branches: what they leave in the variables that they write, and what they add."""
    outer = _around(node, frame)
    taints: dict[str, bool] = {}
    steps: list[tuple[int, int]] = []
    loop = object()

    def turn(i: Any, rows: dict[str, Any]) -> Any:
        inner, variables = inside.new(), dict(outer)
        variables.update({n: Slot(_row(held[n], a), 1 + _consumed(frame[n])) for n, a in rows.items()})  # type: ignore[misc]
        variables[node.name] = V("int", i, turns=(loop, group))
        try:
            machine.statement(node.body, variables, inner)
        except Split as split:
            split.steps = inner.steps
            raise
        left = {name: settled(variables[name].row) for name in held}  # type: ignore[attr-defined]
        taints.update({name: v.tainted for name, v in left.items()})
        steps.append((inner.steps, inner.entries))
        return {name: jnp.asarray(v.a, float) for name, v in left.items()}, _summed(inner)

    rows = {name: jnp.asarray(v.a, float)[group - 1] for name, v in held.items()}
    left, (free, bound) = jax.vmap(turn)(jnp.asarray(group), rows)
    inside.run.steps, inside.run.entries = max(steps)
    return {name: (a, taints[name]) for name, a in left.items()}, (free.sum(), bound.sum())


def _scanned(
    machine: Expressions, node: tree.For, every: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """One turn after the other."""
    held = {name: _held(frame[name]) for name in written}
    outer = _around(node, frame)
    taints = {name: v.tainted for name, v in held.items()}
    steps: list[tuple[int, int]] = []

    def turn(carry: dict[str, Any], i: Any) -> Any:
        inner, variables = inside.new(), dict(outer)
        for n, a in carry.items():
            row = V(held[n].base, a, held[n].depth, taints[n])
            variables[n] = Slot(row, _consumed(frame[n])) if isinstance(frame[n], Slot) else row  # type: ignore[assignment]
        variables[node.name] = V("int", i)
        machine.statement(node.body, variables, inner)
        left = {name: _held(variables[name]) for name in written}
        taints.update({name: taints[name] or v.tainted for name, v in left.items()})
        steps.append((inner.steps, inner.entries))
        return {name: jnp.asarray(v.a, carry[name].dtype) for name, v in left.items()}, _summed(inner)

    if any(v.base == "int" for v in held.values()):
        raise Untraceable("a whole number changes from turn to turn")
    start = {name: jnp.asarray(np.nan_to_num(v.a) if v.known else v.a, float) for name, v in held.items()}
    for _ in range(1 + len(held)):  # until what depends on a record is known, which one turn hands to the next
        before = dict(taints)
        left, (free, bound) = jax.lax.scan(turn, start, jnp.asarray(every))
        if taints == before:
            break
    inside.run.steps, inside.run.entries = max(steps)
    for name, v in held.items():
        _put(frame, name, V(v.base, left[name], v.depth, taints[name]))
    _add(node, inside.run, free.sum(), bound.sum())


def _add(node: tree.For, run: Run, free: Any, bound: Any) -> None:
    """What the turns added, where they add at all."""
    if any(isinstance(n, tree.Tilde | tree.Increment | tree.Call | tree.CallStatement) for n in tree.walk(node.body)):
        run.terms.append((node.at[0], free, False))
        run.terms.append((node.at[0], bound, True))

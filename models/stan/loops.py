"""Long loops over traced values: all turns at once where they do not need each other, else one after the other in a
scan; what neither can do is run turn by turn."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.machine import Frame, Machine, Run, Slot
from bayesrecon.models.stan.values import AXES, Split, Untraceable, V, index_base, settled

UNROLLED = 8
"""Turns up to which a loop is run turn by turn: a scan of so few compiles more slowly."""

SHORT = 3_000
"""Nodes times turns up to which a loop whose branches are not known is run turn by turn rather than with both branches
of each: the derivatives of the branch that is not taken are no burden then."""

GROUPS = 64
"""Groups of turns that take different branches; beyond it compiling them takes longer than running them."""

_JAX_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def run_loop(
    machine: Machine, node: tree.For, first: int, last: int, tainted: bool, frame: Frame, run: Run
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
    written = sorted(tree.assigned_in(node.body) & frame.keys())
    slots = _slots(node, written, nodes)
    steps = run.steps
    every = np.arange(first, last + 1)
    ways = [(_at_once, False), (_scanned, False)]
    if turns * len(nodes) > SHORT:
        ways += [(_at_once, True), (_scanned, True)]
    for attempt, selects in ways:
        if (attempt is _at_once and not slots) or (selects and not run.selects):
            continue
        inner = Inside(run, tainted, selects)
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

    def new(self) -> Run:
        run = self.run
        return Run(steps=run.steps, context=run.context or self.tainted, selects=self.selects, calls=run.calls)


def _traced(machine: Machine, nodes: list[Any], frame: Frame) -> bool:
    """Whether a loop touches a traced value, or adds to the target."""
    names = {n.name for n in nodes if isinstance(n, tree.Variable)}
    held = [frame[n] for n in names if n in frame]
    return any(isinstance(v, Slot) or not v.known for v in held) or any(
        isinstance(n, tree.Tilde | tree.Increment) for n in nodes
    )


def _slots(node: tree.For, written: list[str], nodes: list[Any]) -> bool | None:
    """Whether every written variable is used at the loop's own place only; None where one is not."""
    uses = {name: 0 for name in written}
    own = {name: 0 for name in written}
    for n in nodes:
        if isinstance(n, tree.Variable) and n.name in uses:
            uses[n.name] += 1
        if isinstance(n, tree.Index) and isinstance(n.of, tree.Variable) and n.of.name in own:
            first = n.indices[0]
            own[n.of.name] += isinstance(first, tree.Variable) and first.name == node.name
    if any(isinstance(n, tree.Declare) and n.name in uses for n in nodes):
        return None
    return True if uses == own else None


def _summed(inner: Run) -> tuple[Any, Any]:
    zero = jnp.zeros(())
    return tuple(sum((v for _, v, t in inner.terms if t == side), start=zero) for side in (False, True))  # type: ignore[return-value]


def _row(v: V, a: Any) -> V:
    if v.depth:
        return V(v.base, a, v.depth - 1, v.tainted)
    return V(index_base(v.base, (False,) + (True,) * (AXES[v.base] - 1)), a, 0, v.tainted)


def _at_once(
    machine: Machine, node: tree.For, every: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """All turns together; those that take different branches in groups."""
    groups, left, added = [every], [], []
    held = {name: settled(frame[name]) for name in written}
    for name, v in held.items():
        if not v.shape or not 1 <= every[0] <= every[-1] <= v.shape[0]:
            raise Untraceable(f"{name} has no entry for every turn of the loop")
    while groups:
        group = groups.pop()
        try:
            rows, terms = _group(machine, node, group, inside, frame, held)
        except Split as split:
            if len(split.values) != len(group):
                raise
            groups += [group[split.values == value] for value in np.unique(split.values)]
            if len(groups) > GROUPS:
                raise Untraceable("the turns of a loop differ too much") from None
            continue
        left.append((group, rows))
        added.append(terms)
    for name, v in held.items():
        new, tainted = jnp.asarray(v.a, float), False
        for group, rows in left:
            new = new.at[group - 1].set(rows[name][0])
            tainted |= rows[name][1]
        frame[name] = V(v.base, new, v.depth, tainted)
    _add(node, inside.run, sum(free for free, _ in added), sum(bound for _, bound in added))


def _group(
    machine: Machine, node: tree.For, group: np.ndarray, inside: Inside, frame: Frame, held: dict[str, V]
) -> tuple[dict[str, tuple[Any, bool]], tuple[Any, Any]]:
    """Turns that take the same branches: what they leave in the variables that they write, and what they add."""
    outer = {name: v if isinstance(v, Slot) else settled(v) for name, v in frame.items()}
    taints: dict[str, bool] = {}
    steps: list[int] = []
    loop = object()

    def turn(i: Any, rows: dict[str, Any]) -> Any:
        inner, variables = inside.new(), dict(outer)
        variables.update({name: Slot(_row(held[name], a)) for name, a in rows.items()})  # type: ignore[misc]
        variables[node.name] = V("int", i, turns=(loop, group))
        machine.statement(node.body, variables, inner)
        left = {name: settled(variables[name].row) for name in held}  # type: ignore[attr-defined]
        taints.update({name: v.tainted for name, v in left.items()})
        steps.append(inner.steps)
        return {name: jnp.asarray(v.a, float) for name, v in left.items()}, _summed(inner)

    rows = {name: jnp.asarray(v.a, float)[group - 1] for name, v in held.items()}
    left, (free, bound) = jax.vmap(turn)(jnp.asarray(group), rows)
    inside.run.steps = max(steps)
    return {name: (a, taints[name]) for name, a in left.items()}, (free.sum(), bound.sum())


def _scanned(
    machine: Machine, node: tree.For, every: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """One turn after the other."""
    held = {name: frame[name] for name in written}
    if any(isinstance(v, Slot) for v in held.values()):
        raise Untraceable("a loop writes what a loop around it writes")
    held = {name: settled(v) for name, v in held.items()}
    outer = {name: v if isinstance(v, Slot) else settled(v) for name, v in frame.items()}
    taints = {name: v.tainted for name, v in held.items()}
    steps: list[int] = []

    def turn(carry: dict[str, Any], i: Any) -> Any:
        inner, variables = inside.new(), dict(outer)
        variables.update({n: V(held[n].base, a, held[n].depth, taints[n]) for n, a in carry.items()})
        variables[node.name] = V("int", i)
        machine.statement(node.body, variables, inner)
        left = {name: settled(variables[name]) for name in written}
        taints.update({name: taints[name] or v.tainted for name, v in left.items()})
        steps.append(inner.steps)
        return {name: jnp.asarray(v.a, carry[name].dtype) for name, v in left.items()}, _summed(inner)

    if any(v.base == "int" for v in held.values()):
        raise Untraceable("a whole number changes from turn to turn")
    start = {name: jnp.asarray(np.nan_to_num(v.a) if v.known else v.a, float) for name, v in held.items()}
    for _ in range(1 + len(held)):  # until what depends on a record is known, which one turn hands to the next
        before = dict(taints)
        left, (free, bound) = jax.lax.scan(turn, start, jnp.asarray(every))
        if taints == before:
            break
    inside.run.steps = max(steps)
    for name, v in held.items():
        frame[name] = V(v.base, left[name], v.depth, taints[name])
    _add(node, inside.run, free.sum(), bound.sum())


def _add(node: tree.For, run: Run, free: Any, bound: Any) -> None:
    """What the turns added, where they add at all."""
    if any(isinstance(n, tree.Tilde | tree.Increment | tree.Call | tree.CallStatement) for n in tree.walk(node.body)):
        run.terms.append((node.at[0], free, False))
        run.terms.append((node.at[0], bound, True))



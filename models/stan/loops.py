"""Long loops over traced values: all turns at once where they do not need each other, else one after the other in a
scan; what neither can do is run turn by turn."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.machine import Frame, Machine, Run, Slot
from bayesrecon.models.stan.values import AXES, Untraceable, V, index_base, settled

UNROLLED = 8
"""Turns up to which a loop is run turn by turn: a scan of so few compiles more slowly."""

BRANCHING = 30_000
"""Nodes times turns up to which a loop with branches is run turn by turn, so that only the branch that is taken is."""

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
    if turns <= UNROLLED or not run.loops:
        return False
    nodes = tree.walk(node.body)
    if any(isinstance(n, tree.Return | tree.Jump | tree.While | tree.Target) for n in nodes):
        return False
    if turns * len(nodes) <= BRANCHING and any(isinstance(n, tree.If | tree.Ternary) for n in nodes):
        return False
    if not _traced(machine, nodes, frame):
        return False
    written = sorted(tree.assigned_in(node.body) & frame.keys())
    slots = _slots(node, written, nodes)
    steps = run.steps
    for attempt in (_at_once, _scanned):
        if attempt is _at_once and slots is None:
            continue
        try:
            attempt(machine, node, (first, last), tainted, frame, run, written)
        except (Untraceable, *_JAX_ERRORS):
            run.steps = steps
            continue
        return True
    return False


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


def _inside(run: Run, tainted: bool) -> Run:
    return Run(steps=run.steps, context=run.context or tainted, loops=True, calls=run.calls)


def _summed(inner: Run) -> tuple[Any, Any]:
    zero = jnp.zeros(())
    return tuple(sum((v for _, v, t in inner.terms if t == side), start=zero) for side in (False, True))  # type: ignore[return-value]


def _row(v: V, a: Any) -> V:
    if v.depth:
        return V(v.base, a, v.depth - 1, v.tainted)
    return V(index_base(v.base, (False,) + (True,) * (AXES[v.base] - 1)), a, 0, v.tainted)


def _at_once(
    machine: Machine, node: tree.For, ends: tuple[int, int], tainted: bool, frame: Frame, run: Run, written: list[str]
) -> None:
    first, last = ends
    held = {name: settled(frame[name]) for name in written}
    for name, v in held.items():
        if not v.shape or not 1 <= first <= last <= v.shape[0]:
            raise Untraceable(f"{name} has no entry for every turn of the loop")
    outer = {name: v if isinstance(v, Slot) else settled(v) for name, v in frame.items()}
    taints: dict[str, bool] = {}
    steps: list[int] = []

    def turn(i: Any, rows: dict[str, Any]) -> Any:
        inner = _inside(run, tainted)
        inside = dict(outer)
        inside.update({name: Slot(_row(held[name], a)) for name, a in rows.items()})  # type: ignore[misc]
        inside[node.name] = V("int", i)
        machine.statement(node.body, inside, inner)
        left = {name: settled(inside[name].row) for name in written}  # type: ignore[attr-defined]
        taints.update({name: v.tainted for name, v in left.items()})
        steps.append(inner.steps)
        return {name: jnp.asarray(v.a, float) for name, v in left.items()}, _summed(inner)

    rows = {name: jnp.asarray(v.a[first - 1 : last], float) for name, v in held.items()}
    left, (free, bound) = jax.vmap(turn)(jnp.arange(first, last + 1), rows)
    run.steps = max(steps)
    for name, v in held.items():
        new = jnp.asarray(v.a, float).at[first - 1 : last].set(left[name])
        frame[name] = V(v.base, new, v.depth, taints[name])
    _add(node, run, free.sum(), bound.sum())


def _scanned(
    machine: Machine, node: tree.For, ends: tuple[int, int], tainted: bool, frame: Frame, run: Run, written: list[str]
) -> None:
    held = {name: frame[name] for name in written}
    if any(isinstance(v, Slot) for v in held.values()):
        raise Untraceable("a loop writes what a loop around it writes")
    held = {name: settled(v) for name, v in held.items()}
    outer = {name: v if isinstance(v, Slot) else settled(v) for name, v in frame.items()}
    taints = {name: v.tainted for name, v in held.items()}
    steps: list[int] = []

    def turn(carry: dict[str, Any], i: Any) -> Any:
        inner = _inside(run, tainted)
        inside = dict(outer)
        inside.update({n: V(held[n].base, a, held[n].depth, taints[n]) for n, a in carry.items()})
        inside[node.name] = V("int", i)
        machine.statement(node.body, inside, inner)
        left = {name: settled(inside[name]) for name in written}
        taints.update({name: taints[name] or v.tainted for name, v in left.items()})
        steps.append(inner.steps)
        return {name: jnp.asarray(v.a, carry[name].dtype) for name, v in left.items()}, _summed(inner)

    if any(v.base == "int" for v in held.values()):
        raise Untraceable("a whole number changes from turn to turn")
    start = {name: jnp.asarray(np.nan_to_num(v.a) if v.known else v.a, float) for name, v in held.items()}
    for _ in range(1 + len(held)):  # until what depends on a record is known, which one turn hands to the next
        before = dict(taints)
        left, (free, bound) = jax.lax.scan(turn, start, jnp.arange(ends[0], ends[1] + 1))
        if taints == before:
            break
    run.steps = max(steps)
    for name, v in held.items():
        frame[name] = V(v.base, left[name], v.depth, taints[name])
    _add(node, run, free.sum(), bound.sum())


def _add(node: tree.For, run: Run, free: Any, bound: Any) -> None:
    """What the turns added, where they add at all."""
    if any(isinstance(n, tree.Tilde | tree.Increment | tree.Call | tree.CallStatement) for n in tree.walk(node.body)):
        run.terms.append((node.at[0], free, False))
        run.terms.append((node.at[0], bound, True))



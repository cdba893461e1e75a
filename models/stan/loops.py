"""Long loops over traced values: all turns at once where they do not need each other, else one after the other in a
scan; what neither can do is run turn by turn."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.expressions import Expressions
from bayesrecon.models.stan.frame import Frame, Run, Slot, ends_of
from bayesrecon.models.stan.scans import (
    JAX_ERRORS,
    Inside,
    add,
    around,
    consumed_of,
    held_of,
    in_a_scan,
    put,
    run_uneven,
    summed,
    uneven,
)
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


def run_loop(machine: Expressions, node: tree.For, low: V, high: V, frame: Frame, run: Run) -> bool:
    """Runs a loop as a whole where that can be done and pays; whether it did."""
    if (longest := uneven(low, high)) is not None:
        return run_uneven(machine, node, low, high, longest, frame, run)
    first, last = ends_of(low, high)
    tainted = low.tainted or high.tainted
    turns = last - first + 1
    if turns <= UNROLLED:
        return False
    nodes = tree.walk(node.body)
    if any(isinstance(n, tree.Return | tree.Jump | tree.While | tree.Target) for n in nodes):
        return False
    if not _traced(nodes, frame):
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
        except (Untraceable, *JAX_ERRORS):
            run.steps = steps
            continue
        return True
    return False


def _traced(nodes: list[tree.Node], frame: Frame) -> bool:
    """Whether a loop touches a traced value, or adds to the target."""
    names = {n.name for n in nodes if isinstance(n, tree.Variable)}
    held = [frame[n] for n in names if n in frame]
    return any(isinstance(v, Slot) or not v.known for v in held) or any(
        isinstance(n, tree.Tilde | tree.Increment) for n in nodes
    )


def _slots(node: tree.For, written: list[str], nodes: list[tree.Node], frame: Frame) -> bool:
    """Whether every written variable is used at the loop's own place only."""
    uses = dict.fromkeys(written, 0)
    own = dict.fromkeys(written, 0)
    for n in nodes:
        if isinstance(n, tree.Variable) and n.name in uses:
            uses[n.name] += 1
        if isinstance(n, tree.Index) and isinstance(n.of, tree.Variable) and n.of.name in own:
            at = n.indices[consumed_of(frame[n.of.name]) :]
            own[n.of.name] += bool(at) and isinstance(at[0], tree.Variable) and at[0].name == node.name
    return uses == own and not any(isinstance(n, tree.Declare) and n.name in uses for n in nodes)


def _row(v: V, a: Any) -> V:
    if v.depth:
        return V(v.base, a, v.depth - 1, v.tainted)
    return V(index_base(v.base, (False,) + (True,) * (AXES[v.base] - 1)), a, 0, v.tainted)


def _at_once(
    machine: Expressions, node: tree.For, every: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """All turns together; those that take different branches in groups."""
    groups, left, added = [every], [], []
    held = {name: held_of(frame[name]) for name in written}
    for name, v in held.items():
        if not v.shape or not 1 <= every[0] <= every[-1] <= v.shape[0]:
            raise Untraceable(f"{name} does not have an entry for every iteration of the loop")
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
                raise Untraceable("the iterations of a loop differ too much") from None
            continue
        left.append((group, rows))
        added.append(terms)
    for name, v in held.items():
        new, tainted = jnp.asarray(v.a, float), False
        for group, rows in left:
            new = new.at[group - 1].set(rows[name][0])
            tainted |= rows[name][1]
        put(frame, name, V(v.base, new, v.depth, tainted))
    add(node, inside.run, sum(free for free, _ in added), sum(bound for _, bound in added))


def _group(
    machine: Expressions, node: tree.For, group: np.ndarray, inside: Inside, frame: Frame, held: dict[str, V]
) -> tuple[dict[str, tuple[Any, bool]], tuple[Any, Any]]:
    """Turns that take the same branches: what they leave in the variables that they write, and what they add."""
    outer = around(node, frame)
    taints: dict[str, bool] = {}
    steps: list[tuple[int, int]] = []
    loop = object()

    def turn(i: Array, rows: dict[str, Any]) -> Any:
        inner, variables = inside.new(), dict(outer)
        variables.update({n: Slot(_row(held[n], a), 1 + consumed_of(frame[n])) for n, a in rows.items()})  # type: ignore[misc]
        variables[node.name] = V("int", i, turns=(loop, group))
        try:
            machine.statement(node.body, variables, inner)
        except Split as split:
            split.steps = inner.steps
            raise
        left = {name: settled(variables[name].row) for name in held}  # type: ignore[attr-defined]
        taints.update({name: v.tainted for name, v in left.items()})
        steps.append((inner.steps, inner.entries))
        return {name: jnp.asarray(v.a, float) for name, v in left.items()}, summed(inner)

    rows = {name: jnp.asarray(v.a, float)[group - 1] for name, v in held.items()}
    left, (free, bound) = jax.vmap(turn)(jnp.asarray(group), rows)
    inside.run.steps, inside.run.entries = max(steps)
    return {name: (a, taints[name]) for name, a in left.items()}, (free.sum(), bound.sum())


def _scanned(
    machine: Expressions, node: tree.For, every: np.ndarray, inside: Inside, frame: Frame, written: list[str]
) -> None:
    """One turn after the other."""
    in_a_scan(machine, node, every, lambda i: (i, True), inside, frame, written)

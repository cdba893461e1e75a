"""Long loops over traced values: all iterations at once where they do not need each other, else one after the other in
a scan; what neither can do is run one iteration at a time."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.expressions import Expressions
from bayesrecon.models.stan.frame import Frame, Run, Slot, loop_bounds
from bayesrecon.models.stan.scans import (
    JAX_ERRORS,
    Inside,
    add,
    around,
    consumed_of,
    current_value,
    longest_range,
    run_longest_range,
    run_scan,
    set_variable,
    summed,
)
from bayesrecon.models.stan.values import AXES, Split, Untraceable, V, consolidated, index_base

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

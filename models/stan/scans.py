"""Loops run one iteration after the other in a scan, also those that are longer in some iterations of an outer loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.frame import STEPS, EarlyExit, Frame, Run, Slot
from bayesrecon.models.stan.values import Elements, Split, Untraceable, V, consolidated

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

    Raises:
        Split: in some iterations it does not run at all.
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

"""State of a run of a Stan program: the target so far, limits, and the current values of variables."""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.models.stan.values import Elements, StanError, Untraceable, V, number, xp_of

STEPS = 500_000
"""Expressions that one run may evaluate: less than a minute, ten times what programs of posteriordb need."""

TRACED = 24
"""Further steps that a traced expression counts for: tracing it takes so much longer."""

ENTRIES = 300_000_000
"""Elements that one run may make, all containers together and in every iteration of loops that are run at once:
2.4 GB where nothing is let go."""

CALLS = 40
"""Functions inside each other: a recursion deeper than that is none that ends in Stan's own stack either."""

Frame = dict[str, V]
"""Values of variables by name."""

Term = tuple[int, Elements, bool]
"""A term of the target: its line, its value, and whether it depends on a record."""

FOREIGN = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Exceptions that libraries raise on unsupported values."""


@dataclass
class Run:
    """State of a run of a program: what it has added to the target, and what counts towards its limits.

    Args:
        terms: terms of the target.
        steps, entries: expressions evaluated, and elements created.
        width: iterations that are run at once.
        context: whether the statement runs or not depending on a record.
        unsure: whether it runs or not depending on something that is not known.
        selects: whether both branches may be run where the condition is not known.
        nested: whether the run is inside a loop that is run as a whole.
        frozen: variables that are not assigned to.
        calls: depth of function calls.
    """

    terms: list[Term] = field(default_factory=list)
    steps: int = 0
    entries: int = 0
    width: int = 1
    context: bool = False
    unsure: bool = False
    selects: bool = True
    nested: bool = False
    frozen: frozenset[str] = frozenset()
    calls: int = 0

    def count_steps(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise StanError(f"the program takes more than {STEPS} steps")

    def count_entries(self, v: V) -> V:
        """Counts what a value takes."""
        self.entries += math.prod(v.shape) * self.width
        if self.entries > ENTRIES:
            raise StanError(f"the program creates more than {ENTRIES} elements")
        if not v.known:
            self.count_steps(TRACED)
        return v

    def widened(self, iterations: int) -> int:
        """Iterations of this loop and of those around it together."""
        if self.width * iterations > ENTRIES:
            raise StanError(f"nested loops run more than {ENTRIES} times")
        return self.width * iterations

    def total(self, tainted: bool | None = None) -> jax.Array:
        """The target, or the part of it that depends on a record or does not."""
        parts = [value for _, value, t in self.terms if tainted is None or t == tainted]
        return jnp.asarray(sum(parts, start=jnp.zeros(())))


@dataclass(frozen=True)
class EarlyExit:
    """How statements end before their last one."""

    kind: str
    value: V | None = None


class Slot:
    """The element of a variable that an iteration of a loop writes, the variable itself not being at hand.

    `consumed` of its indices are those of the loop and of the loops around it.
    """

    __slots__ = ("consumed", "row")

    def __init__(self, row: V, consumed: int = 1):
        self.row, self.consumed = row, consumed


def library_error(error: Exception) -> StanError:
    """An exception of a library in one line; errors of tracing are raised again."""
    if isinstance(error, (jax.errors.JAXTypeError, jax.errors.JAXIndexError, BayesreconError)):
        raise error
    if isinstance(error, RecursionError):
        return StanError("functions and expressions are nested too deep")
    return StanError(f"this cannot be evaluated ({first_line(error)[:120]})")


def select(test: V, if_true: V, if_false: V) -> V:
    """One of two values of one shape."""
    if if_true.shape != if_false.shape:
        raise Untraceable(f"two branches give values of shapes {if_true.shape} and {if_false.shape}")
    base = "real" if "real" in (if_true.base, if_false.base) and if_true.base != if_false.base else if_true.base
    tainted = test.tainted or if_true.tainted or if_false.tainted
    return V(base, jnp.where(jnp.asarray(test.a) != 0, if_true.a, if_false.a), if_true.depth, tainted)


def fork(frame: Frame) -> Frame:
    """A copy whose arrays can be written to."""
    result: Frame = {}
    for name, v in frame.items():
        result[name] = Slot(writable_copy(v.row), v.consumed) if isinstance(v, Slot) else writable_copy(v)  # type: ignore[assignment]
    return result


def writable_copy(v: V) -> V:
    """A value that belongs to one variable."""
    if isinstance(v.a, np.ndarray) and v.a.ndim:
        return V(v.base, v.a.copy(), v.depth, v.tainted)
    return v


def as_declared(v: V, base: str) -> V:
    """A value as the declared type: integers become real where that is declared."""
    if base == "void" or v.base == base:
        return v
    if v.base == "int" and base == "real":
        return V("real", xp_of(v.a).asarray(v.a, float) if v.shape else v.a * 1.0, v.depth, v.tainted)
    if v.base != base:
        raise StanError(f"a {v.words} is given where a {base} is declared")
    return v


def loop_bounds(low: V, high: V) -> tuple[int, int]:
    """The bounds of a loop, which have to be known."""
    first, last = number(low, "the bound of a loop"), number(high, "the bound of a loop")
    if last - first > STEPS:
        raise StanError(f"a loop runs from {first} to {last}, more than {STEPS} times")
    return first, last

"""A program as a list of its elementary operations, and what every value in it is.

A program's trace is walked once. Every value is marked: free of the parameters, an affine function of some, a multiple
of a power of one, or anything else. Operations that are not known here make anything else, so that what is found out is
so for every value of parameters and records.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax.extend import core

CALLS = frozenset({"closed_call", "core_call", "jit", "pjit"})
"""Operations that are programs themselves, and nothing but them."""

_MOVES = {"broadcast_in_dim", "copy", "dynamic_slice", "gather", "reshape", "rev", "slice", "squeeze", "transpose"}
_SUMS = {"add", "add_any", "concatenate", "cumsum", "neg", "pad", "reduce_sum", "stack", "sub"}
_PRODUCTS = {"dot_general", "mul"}
_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "square": 2.0}


@dataclass(frozen=True)
class Step:
    """One operation: `takes` and `gives` are numbers of values."""

    operation: Any
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    def run(self, values: dict[int, Any]) -> None:
        """Put what it gives beside what it takes."""
        primitive, given = self.operation.primitive, [values[k] for k in self.takes]
        bound: Any = primitive.get_bind_params(self.operation.params)
        more, params = bound if isinstance(bound, tuple) else ((), bound)  # JAX before 0.10 has functions apart
        with self.operation.ctx.manager:
            found = primitive.bind(*more, *given, **params)
        values.update(zip(self.gives, found if primitive.multiple_results else [found], strict=True))


@dataclass(frozen=True)
class Operations:
    """A program without calls.

    Attributes:
        steps: in order.
        arguments, results: numbers of values.
        known: values that are known already, by their numbers.
    """

    steps: list[Step]
    arguments: list[int]
    known: dict[int, Any]
    results: list[int]


def operations_of(closed: Any, inlined: Collection[str] = CALLS) -> Operations:
    """The operations of a trace.

    Args:
        closed: what `jax.make_jaxpr` returns.
        inlined: the operations whose own programs stand in their place.
    """
    steps: list[Step] = []
    known: dict[int, Any] = {}
    seen: dict[Any, Any] = {}  # the same operation of the same values is one: parameters are taken apart at every use
    count = 0

    def fresh() -> int:
        nonlocal count
        count += 1
        return count

    def constant(value: Any) -> int:
        same = (str(getattr(value, "dtype", type(value))), str(value)) if jnp.ndim(value) == 0 else id(value)
        if same not in seen:
            seen[same] = fresh()
            known[seen[same]] = value
        return seen[same]

    def walk(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[int]) -> list[int]:
        numbers = dict(zip(jaxpr.constvars, map(constant, consts), strict=True))
        numbers |= dict(zip(jaxpr.invars, arguments, strict=True))

        def of(atom: Any) -> int:
            return constant(atom.val) if isinstance(atom, core.Literal) else numbers[atom]

        for step in jaxpr.eqns:
            takes = [of(a) for a in step.invars]
            inner = step.params.get("jaxpr") or step.params.get("call_jaxpr")
            if step.primitive.name in inlined and hasattr(inner, "consts"):
                gives = walk(inner.jaxpr, inner.consts, takes)
            else:
                same = (step.primitive.name, str(step.params), *takes)
                if same not in seen:
                    seen[same] = [fresh() for _ in step.outvars]
                    steps.append(Step(step, tuple(takes), tuple(seen[same])))
                gives = seen[same]
            numbers |= dict(zip(step.outvars, gives, strict=True))
        return [of(a) for a in jaxpr.outvars]

    arguments = [fresh() for _ in closed.jaxpr.invars]
    results = walk(closed.jaxpr, closed.consts, arguments)
    return Operations(steps, arguments, known, results)


@dataclass(frozen=True)
class Mark:
    """What a value is.

    Attributes:
        names: parameters that enter it.
        affine: in them.
        power: power of the one parameter that it is a multiple of, the factor free of parameters; None where it is not.
        plain: the factor is one.
        logged: it is a power of that parameter's exponential.
    """

    names: frozenset[str] = frozenset()
    affine: bool = True
    power: float | None = None
    plain: bool = False
    logged: bool = False

    @classmethod
    def of(cls, name: str) -> "Mark":
        """That of a parameter itself."""
        return cls(frozenset([name]), power=1.0, plain=True)

    @property
    def linear(self) -> bool:
        """Whether parameters enter it, as an affine function."""
        return bool(self.names) and self.affine

    def to(self, power: float) -> "Mark":
        """A power of this."""
        return replace(self, affine=False, power=None if self.power is None else power * self.power)


FREE = Mark()


def marked(program: Operations, parameters: Mapping[int, Mark]) -> dict[int, Mark]:
    """The marks of all values that are not free of the parameters.

    Args:
        parameters: those of the arguments that are not.
    """
    marks = dict(parameters)
    for step in program.steps:
        given = [marks.get(k, FREE) for k in step.takes]
        if any(mark.names for mark in given):
            marks |= dict.fromkeys(step.gives, _made(step.operation, given))
    return marks


def _made(operation: Any, given: Sequence[Mark]) -> Mark:
    """The mark of what an operation makes."""
    name, names = operation.primitive.name, frozenset().union(*(mark.names for mark in given))
    moving = [mark for mark in given if mark.names]
    first, alone = given[0], moving == [given[0]]
    if alone and (name in _MOVES or name == "convert_element_type") and _is_real(operation.outvars[0]):
        return first  # where to does not depend on them
    if name in _SUMS or (name == "select_n" and not first.names):
        return Mark(names, affine=all(mark.affine for mark in given))
    if name in _PRODUCTS and len(moving) == 1:
        return replace(moving[0], plain=False, power=moving[0].power if name == "mul" else None)
    if name == "div" and len(moving) == 1:
        return replace(first if alone else moving[0].to(-1.0), plain=False)
    if name == "exp" and first.plain and first.power == 1.0:
        return replace(first, affine=False, plain=False, logged=True)
    if name in _POWERS:
        return first.to(_POWERS[name])
    if name == "integer_pow":
        return first.to(operation.params["y"])
    if name == "pow" and alone and isinstance(operation.invars[1], core.Literal):
        return first.to(float(operation.invars[1].val))
    return Mark(names, affine=False)


def _is_real(variable: Any) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.floating)

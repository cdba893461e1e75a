"""A program as a list of its elementary operations, and how each value depends on the parameters.

Every value gets a mark: independent of the parameters, an affine function of them, a multiple of a power of one of
them, or anything else. Results of unknown operations count as anything else, so marks hold for all parameters and
records.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax.extend import core

CALLS = frozenset({"closed_call", "core_call", "jit", "pjit"})
"""Operations that only call a program."""

_MOVES = {"broadcast_in_dim", "copy", "dynamic_slice", "gather", "reshape", "rev", "slice", "squeeze", "transpose"}
_SUMS = {"add", "add_any", "concatenate", "cumsum", "neg", "pad", "reduce_sum", "stack", "sub"}
_PRODUCTS = {"dot_general", "mul"}
_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "square": 2.0}


@dataclass(frozen=True)
class Step:
    """One operation.

    Attributes:
        operation: an equation of the trace.
        inputs, outputs: numbers of the values that it takes and returns.
    """

    operation: core.JaxprEqn
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def run(self, values: dict[int, Any]) -> None:
        """Compute the results, and add them to the values by their numbers."""
        primitive, arguments = self.operation.primitive, [values[k] for k in self.inputs]
        bound: Any = primitive.get_bind_params(self.operation.params)
        functions, params = bound if isinstance(bound, tuple) else ((), bound)  # JAX before 0.10 separates functions
        with self.operation.ctx.manager:
            result: Any = primitive.bind(*functions, *arguments, **params)
        values.update(zip(self.outputs, result if primitive.multiple_results else [result], strict=True))


@dataclass(frozen=True)
class Operations:
    """A program without calls.

    Attributes:
        steps: in order.
        arguments, results: numbers of values.
        constants: values of constants, by their numbers.
    """

    steps: list[Step]
    arguments: list[int]
    constants: dict[int, Any]
    results: list[int]


def operations_of(closed: core.ClosedJaxpr, inlined: Collection[str] = CALLS) -> Operations:
    """The operations of a trace.

    Args:
        closed: a trace, made by `jax.make_jaxpr`.
        inlined: operations that are replaced by the programs that they call.
    """
    steps: list[Step] = []
    constants: dict[int, Any] = {}
    numbered: dict[Any, Any] = {}  # numbers of constants and results; repeated operations share one number
    count = 0

    def new_number() -> int:
        nonlocal count
        count += 1
        return count

    def constant(value: Any) -> int:
        key = (str(getattr(value, "dtype", type(value))), str(value)) if jnp.ndim(value) == 0 else id(value)
        if key not in numbered:
            numbered[key] = new_number()
            constants[numbered[key]] = value
        return numbered[key]

    def walk(jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[int]) -> list[int]:
        numbers = dict(zip(jaxpr.constvars, map(constant, consts), strict=True))
        numbers |= dict(zip(jaxpr.invars, arguments, strict=True))

        def number_of(atom: core.Literal | core.Var) -> int:
            return constant(atom.val) if isinstance(atom, core.Literal) else numbers[atom]

        for step in jaxpr.eqns:
            inputs = [number_of(a) for a in step.invars]
            inner = step.params.get("jaxpr") or step.params.get("call_jaxpr")
            if step.primitive.name in inlined and isinstance(inner, core.ClosedJaxpr):
                outputs = walk(inner.jaxpr, inner.consts, inputs)
            else:
                key = (step.primitive.name, str(step.params), *inputs)
                if key not in numbered:
                    numbered[key] = [new_number() for _ in step.outvars]
                    steps.append(Step(step, tuple(inputs), tuple(numbered[key])))
                outputs = numbered[key]
            numbers |= dict(zip(step.outvars, outputs, strict=True))
        return [number_of(a) for a in jaxpr.outvars]

    arguments = [new_number() for _ in closed.jaxpr.invars]
    results = walk(closed.jaxpr, closed.consts, arguments)
    return Operations(steps, arguments, constants, results)


@dataclass(frozen=True)
class Mark:
    """How a value depends on the parameters.

    Attributes:
        names: parameters on which it depends.
        affine: whether it is an affine function of them.
        power: exponent k if the value is `c p^k` for one parameter p and a c that depends on none; else None.
        plain: whether c is one.
        logged: whether the value is `c exp(p)^k` instead.
    """

    names: frozenset[str] = frozenset()
    affine: bool = True
    power: float | None = None
    plain: bool = False
    logged: bool = False

    @classmethod
    def of(cls, name: str) -> "Mark":
        """The mark of a parameter itself."""
        return cls(frozenset([name]), power=1.0, plain=True)

    @property
    def linear(self) -> bool:
        """Whether it is an affine function of at least one parameter."""
        return bool(self.names) and self.affine

    def to(self, power: float) -> "Mark":
        """The mark of a power of the value."""
        return replace(self, affine=False, power=None if self.power is None else power * self.power)


FREE = Mark()


def marked(program: Operations, parameters: Mapping[int, Mark]) -> dict[int, Mark]:
    """Marks of all values that depend on parameters, by their numbers.

    Args:
        program: the operations.
        parameters: marks of the arguments that depend on parameters.
    """
    marks = dict(parameters)
    for step in program.steps:
        inputs = [marks.get(k, FREE) for k in step.inputs]
        if any(mark.names for mark in inputs):
            marks |= dict.fromkeys(step.outputs, _result_of(step.operation, inputs))
    return marks


def _result_of(operation: core.JaxprEqn, inputs: Sequence[Mark]) -> Mark:
    """The mark of an operation's result."""
    name, names = operation.primitive.name, frozenset().union(*(mark.names for mark in inputs))
    varying = [mark for mark in inputs if mark.names]
    first, alone = inputs[0], varying == [inputs[0]]
    if alone and (name in _MOVES or name == "convert_element_type") and _is_real(operation.outvars[0]):
        return first  # the positions do not depend on parameters
    if name in _SUMS or (name == "select_n" and not first.names):
        return Mark(names, affine=all(mark.affine for mark in inputs))
    if name in _PRODUCTS and len(varying) == 1:
        return replace(varying[0], plain=False, power=varying[0].power if name == "mul" else None)
    if name == "div" and len(varying) == 1:
        return replace(first if alone else varying[0].to(-1.0), plain=False)
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

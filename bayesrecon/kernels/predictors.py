"""Likelihoods that go through few linear functions of the parameters, found in the operations of the program.

With `l(theta, z) = h(eta, z)` and predictors `eta_j = a_j(z) + <x_j(z), theta>`, whatever h is,

    phi_z            = sum_j h_j Sigma^(1/2)' x_j
    tr(Sigma Hess l) = sum_ij h_ij x_i' Sigma x_j

so that h is differentiated along its few predictors in place of the program along all directions of the metric. A
program's trace is walked once and every value marked: free of the parameters, an affine function of them, or anything
else, which operations make that are not known here. Predictors are the affine values that those take.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

Records = Mapping[str, Any]
Slopes = tuple[tuple[Any, ...], Any]
"""Derivatives `h_j` along the predictors, `(C, M)` each, and `Sigma^(1/2)' x_j`, `(M, J, k)`."""

FREE, AFFINE, OTHER = 0, 1, 2  # marks, in an order that sums go by

_INLINED = {"closed_call", "core_call", "jit", "pjit"}
_MOVES = {"broadcast_in_dim", "copy", "dynamic_slice", "gather", "reshape", "rev", "slice", "squeeze", "transpose"}
_SUMS = {"add", "add_any", "concatenate", "cumsum", "neg", "pad", "reduce_sum", "stack", "sub"}
_PRODUCTS = {"dot_general", "mul"}


@dataclass(frozen=True)
class _Step:
    """One operation: `takes` and `gives` are numbers of values."""

    operation: Any
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    def run(self, values: dict[int, Any]) -> None:
        primitive, given = self.operation.primitive, [values[k] for k in self.takes]
        bound: Any = primitive.get_bind_params(self.operation.params)
        more, params = bound if isinstance(bound, tuple) else ((), bound)  # JAX before 0.10 has functions apart
        with self.operation.ctx.manager:
            found = primitive.bind(*more, *given, **params)
        values.update(zip(self.gives, found if primitive.multiple_results else [found], strict=True))


@dataclass(frozen=True)
class Predictors:
    """A log likelihood of one record in two parts.

    Attributes:
        size: J, the number of predictors.
        at: `(theta (d,), record) -> eta (J,)`.
        rest: `(eta (J,), record) -> h`.
    """

    size: int
    at: Callable[[Any, Records], Any]
    rest: Callable[[Any, Records], Any]


def predictors_of(log_lik: Callable[[Any, Records], Any], theta: Any, record: Records) -> Predictors | None:
    """The predictors of a log likelihood; None where there are so many that the program itself is cheaper.

    Args:
        theta, record: of the right shapes and types.
    """
    names = sorted(record)
    closed: Any = jax.make_jaxpr(lambda t, *z: log_lik(t, dict(zip(names, z, strict=True))))(
        theta, *(record[k] for k in names)
    )
    steps, given, known, result = _flat(closed)
    steps = _needed(steps, {result})
    marks = _marked(steps, given[0])
    cut, made = _cut(steps, marks, given[0], result)
    shapes = {number: shape for step in steps for number, shape in _shapes(step)}
    count = sum(_size(shapes[k]) for k in cut if k in shapes)
    # Sweeps along the predictors and their pairs, beside one along every direction.
    if given[0] in cut or not 0 < count * (count + 1) <= len(theta):
        return None
    linear = _needed([s for s in steps if marks.get(s.gives[0], FREE) != OTHER], set(cut))
    ends = [s for s in steps if marks.get(s.gives[0], FREE) != AFFINE or made & set(s.gives)]

    def at(theta: Any, record: Records) -> Any:
        values = known | dict(zip(given, [theta, *(record[k] for k in names)], strict=True))
        for step in linear:
            step.run(values)
        return jnp.concatenate([jnp.ravel(values[k]) for k in cut])

    def rest(eta: Any, record: Records) -> Any:
        values, start = known | dict(zip(given[1:], (record[k] for k in names), strict=True)), 0
        for k in cut:
            values[k] = jnp.reshape(eta[start : start + _size(shapes[k])], shapes[k])
            start += _size(shapes[k])
        for step in ends:
            step.run(values)
        return values[result]

    return Predictors(count, at, rest)


def swept(found: Predictors, metric: Any, theta: Any, records: Records) -> tuple[Any, Slopes, Any]:
    """Log likelihoods `(C, M)`, slopes and Laplacians `(C, M)` of a block of atoms."""
    eta = jax.vmap(jax.vmap(found.at, in_axes=(None, 0)), in_axes=(0, None))(theta, records)

    def moved(record: Records, v: Any) -> Any:
        return jax.jvp(lambda t: found.at(t, record), (theta[0],), (v,))[1]  # the same at every atom

    x = jax.vmap(jax.vmap(moved, in_axes=(None, 1), out_axes=1), in_axes=(0, None))(records, metric)  # (M, J, k)
    inner = x @ x.swapaxes(1, 2)
    axes = jnp.eye(found.size)

    def over(f: Callable[[Any, Records], Any]) -> Any:
        return jax.vmap(jax.vmap(f), in_axes=(0, None))(eta, records)

    def slope(e: Any, record: Records, i: int) -> Any:
        return jax.jvp(lambda q: found.rest(q, record), (e,), (axes[i],))

    value: Any = None
    firsts, lap = [], 0.0
    for i in range(found.size):
        value, first = over(lambda e, record, i=i: slope(e, record, i))
        firsts.append(first)
        for j in range(i + 1):
            second = over(lambda e, record, i=i, j=j: jax.jvp(lambda q: slope(q, record, i)[1], (e,), (axes[j],))[1])
            lap = lap + (1 if i == j else 2) * second * inner[:, i, j]
    return value, (tuple(firsts), x), lap


def whitened(slopes: Slopes) -> Any:
    """Whitened scores `(C, k, M)`."""
    firsts, x = slopes
    return sum(first[:, None] * x[:, i].T for i, first in enumerate(firsts))


def _flat(closed: Any) -> tuple[list[_Step], list[int], dict[int, Any], int]:
    """Operations without calls, the numbers of the arguments, values that are known already, and the result's."""
    steps: list[_Step] = []
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
            if step.primitive.name in _INLINED and hasattr(inner, "consts"):
                gives = walk(inner.jaxpr, inner.consts, takes)
            else:
                same = (step.primitive.name, str(step.params), *takes)
                if same not in seen:
                    seen[same] = [fresh() for _ in step.outvars]
                    steps.append(_Step(step, tuple(takes), tuple(seen[same])))
                gives = seen[same]
            numbers |= dict(zip(step.outvars, gives, strict=True))
        return [of(a) for a in jaxpr.outvars]

    arguments = [fresh() for _ in closed.jaxpr.invars]
    result = walk(closed.jaxpr, closed.consts, arguments)[0]
    return steps, arguments, known, result


def _needed(steps: Sequence[_Step], wanted: set[int]) -> list[_Step]:
    """Those that the wanted values are made of."""
    wanted, kept = set(wanted), []
    for step in reversed(steps):
        if wanted & set(step.gives):
            wanted |= set(step.takes)
            kept.append(step)
    return kept[::-1]


def _marked(steps: Sequence[_Step], theta: int) -> dict[int, int]:
    marks = {theta: AFFINE}
    for step in steps:
        mark = _mark(step, [marks.get(k, FREE) for k in step.takes])
        marks |= dict.fromkeys(step.gives, mark)
    return marks


def _mark(step: _Step, given: Sequence[int]) -> int:
    name, highest = step.operation.primitive.name, max(given, default=FREE)
    if highest != AFFINE:
        return highest
    first, moving = given[0] == AFFINE, sum(mark == AFFINE for mark in given)
    real = jnp.issubdtype(step.operation.outvars[0].aval.dtype, jnp.floating)
    if real and first and moving == 1 and (name in _MOVES or name in ("convert_element_type", "div")):
        return AFFINE  # where to, and by what, does not depend on them
    if name in _SUMS or (name == "select_n" and not first) or (name in _PRODUCTS and moving == 1):
        return AFFINE
    return OTHER


def _cut(steps: Sequence[_Step], marks: dict[int, int], theta: int, result: int) -> tuple[list[int], set[int]]:
    """Affine values that other operations take, without those that are made of the ones before; and all of these."""
    taken = {k for s in steps if marks.get(s.gives[0]) == OTHER for k in s.takes} | {result}
    cut, made = [theta] if theta in taken else [], set[int]()
    for step in steps:
        if marks.get(step.gives[0]) != AFFINE:
            continue
        if all(k in made for k in step.takes if marks.get(k) == AFFINE):
            made |= set(step.gives)
        elif taken & set(step.gives):
            cut += step.gives
            made |= set(step.gives)
    return cut, made - set(cut)


def _shapes(step: _Step) -> list[tuple[int, tuple[int, ...]]]:
    return [(k, tuple(v.aval.shape)) for k, v in zip(step.gives, step.operation.outvars, strict=True)]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size

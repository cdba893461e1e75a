"""Likelihoods that go through few linear functions of the parameters, found in the operations of the program.

With `l(theta, z) = h(eta, z)` and predictors `eta_j = a_j(z) + <x_j(z), theta>`, whatever h is,

    phi_z            = sum_j h_j Sigma^(1/2)' x_j
    tr(Sigma Hess l) = sum_ij h_ij x_i' Sigma x_j

so that h is differentiated along its few predictors in place of the program along all directions of the metric.
Predictors are the affine values that operations take which are not affine (`bayesrecon.operations`).
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.operations import FREE, Mark, Step, marked, operations_of

Records = Mapping[str, Array]
Tree = TypeVar("Tree")

Slopes = tuple[tuple[Array, ...], Array]
"""Derivatives `h_j` along the predictors, `(C, M)` each, and `Sigma^(1/2)' x_j`, `(M, J, k)`."""


@dataclass(frozen=True)
class Predictors:
    """A log likelihood of one record in two parts.

    Attributes:
        size: J, the number of predictors.
        predict: `(theta (d,), record) -> eta (J,)`.
        log_lik: `(eta (J,), record) -> h`.
    """

    size: int
    predict: Callable[[Array, Records], Array]
    log_lik: Callable[[Array, Records], Array]


def predictors_of(log_lik: Callable[[Array, Records], Array], theta: Array, record: Records) -> Predictors | None:
    """The predictors of a log likelihood; None if there are so many that differentiating the program is faster.

    Args:
        theta, record: theta and record of the right shapes and types.
    """
    names = sorted(record)
    jaxpr: Any = jax.make_jaxpr(lambda t, *z: log_lik(t, dict(zip(names, z, strict=True))))(
        theta, *(record[k] for k in names)
    )
    program = operations_of(jaxpr)
    arguments, known, result = program.arguments, program.constants, program.results[0]
    steps = _needed(program.steps, {result})
    marks = marked(program, {arguments[0]: Mark.of("theta")})
    cut, derived = _cut(steps, marks, arguments[0], result)
    shapes = {number: shape for step in steps for number, shape in _shapes(step)}
    count = sum(_size(shapes[k]) for k in cut if k in shapes)
    # Compare sweeps along the predictors and their pairs with sweeps along all directions.
    if arguments[0] in cut or not 0 < count * (count + 1) <= len(theta):
        return None
    linear = _needed([s for s in steps if marks.get(s.outputs[0], FREE).affine], set(cut))
    nonlinear = [s for s in steps if not marks.get(s.outputs[0], FREE).linear or derived & set(s.outputs)]

    def predict(theta: Array, record: Records) -> jax.Array:
        values = known | dict(zip(arguments, [theta, *(record[k] for k in names)], strict=True))
        for step in linear:
            step.run(values)
        return jnp.concatenate([jnp.ravel(values[k]) for k in cut])

    def log_lik_of(eta: Array, record: Records) -> Array:
        values, start = known | dict(zip(arguments[1:], (record[k] for k in names), strict=True)), 0
        for k in cut:
            values[k] = jnp.reshape(eta[start : start + _size(shapes[k])], shapes[k])
            start += _size(shapes[k])
        for step in nonlinear:
            step.run(values)
        return values[result]

    return Predictors(count, predict, log_lik_of)


def derivatives_along(
    predictors: Predictors, metric: Array, theta: Array, records: Records
) -> tuple[Array, Slopes, Array]:
    """Log likelihoods `(C, M)`, slopes and Laplacians `(C, M)` of a block of atoms."""
    eta = jax.vmap(jax.vmap(predictors.predict, in_axes=(None, 0)), in_axes=(0, None))(theta, records)

    def direction_of(record: Records, v: Array) -> Array:
        return jax.jvp(lambda t: predictors.predict(t, record), (theta[0],), (v,))[1]  # the same at every atom

    x = jax.vmap(jax.vmap(direction_of, in_axes=(None, 1), out_axes=1), in_axes=(0, None))(records, metric)  # (M, J, k)
    inner = x @ x.swapaxes(1, 2)
    axes = jnp.eye(predictors.size)

    def mapped(f: Callable[[Array, Records], Tree]) -> Tree:
        return jax.vmap(jax.vmap(f), in_axes=(0, None))(eta, records)

    def slope(e: Array, record: Records, i: int) -> tuple[Array, Array]:
        return jax.jvp(lambda q: predictors.log_lik(q, record), (e,), (axes[i],))

    value = jnp.zeros(eta.shape[:2], eta.dtype)
    firsts, lap = [], jnp.zeros(eta.shape[:2], eta.dtype)
    for i in range(predictors.size):
        value, first = mapped(lambda e, record, i=i: slope(e, record, i))
        firsts.append(first)
        for j in range(i + 1):
            second = mapped(lambda e, record, i=i, j=j: jax.jvp(lambda q: slope(q, record, i)[1], (e,), (axes[j],))[1])
            lap = lap + (1 if i == j else 2) * second * inner[:, i, j]
    return value, (tuple(firsts), x), lap


def whitened(slopes: Slopes) -> Array:
    """Whitened scores `(C, k, M)`."""
    firsts, x = slopes
    return reduce(operator.add, (first[:, None] * x[:, i].T for i, first in enumerate(firsts)))


def _needed(steps: Sequence[Step], wanted: set[int]) -> list[Step]:
    """The steps that compute the wanted values."""
    wanted, needed = set(wanted), []
    for step in reversed(steps):
        if wanted & set(step.outputs):
            wanted |= set(step.inputs)
            needed.append(step)
    return needed[::-1]


def _cut(steps: Sequence[Step], marks: dict[int, Mark], theta: int, result: int) -> tuple[list[int], set[int]]:
    """Affine values that other operations take, and the affine values that follow from them."""
    needed = {k for s in steps if not marks.get(s.outputs[0], FREE).affine for k in s.inputs} | {result}
    cut, derived = [theta] if theta in needed else [], set[int]()
    for step in steps:
        if not marks.get(step.outputs[0], FREE).linear:
            continue
        if all(k in derived for k in step.inputs if marks.get(k, FREE).linear):
            derived |= set(step.outputs)
        elif needed & set(step.outputs):
            cut += step.outputs
            derived |= set(step.outputs)
    return cut, derived - set(cut)


def _shapes(step: Step) -> list[tuple[int, tuple[int, ...]]]:
    variables: list[Any] = step.operation.outvars
    return [(k, tuple(v.aval.shape)) for k, v in zip(step.outputs, variables, strict=True)]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size

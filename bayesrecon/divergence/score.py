"""Derivatives of log likelihoods in the parameters.

Along a direction v, `l(theta + s v, z)` has the Taylor coefficients `<grad l, v>` and `v' Hess l v`. With the
columns of a metric factor `Sigma^(1/2)` as directions, the first ones are the whitened scores phi, and the second ones
sum to the trace `tr(Sigma Hess l)`. Forward sweeps compute both. All atoms share the directions, so the tangents of a
linear predictor are computed once for all draws. A likelihood that depends on few linear predictors is only
differentiated along these (below). At temperature 0 there is one atom and no trace: one reverse sweep
per record is enough for any number of parameters.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.model import Model, Records
from bayesrecon.operations import FREE, Mark, Step, marked, operations_of

# Likelihoods that go through few linear functions of the parameters, found in the operations of the program.
#
# With `l(theta, z) = h(eta, z)` and predictors `eta_j = a_j(z) + <x_j(z), theta>`, whatever h is,
#
#     phi_z            = sum_j h_j Sigma^(1/2)' x_j
#     tr(Sigma Hess l) = sum_ij h_ij x_i' Sigma x_j
#
# so that h is differentiated along its few predictors in place of the program along all directions of the metric.
# Predictors are the affine values that operations take which are not affine (`bayesrecon.operations`).


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


Pairs = tuple[Records, Records, Records]
"""Known fields, base values and other values of the features `l(., known, other) - l(., known, base)`."""

_UNROLLED = 12  # largest number of sweeps in an unrolled loop


@partial(jax.jit, static_argnames="model")
def log_lik(model: Model, theta: Array, record: Records) -> Array:
    """`l(theta, z)` of one record. The program is traced once for all derivatives and maps."""
    return model.log_lik(theta, record)


@partial(jax.jit, static_argnames="model")
def log_liks(model: Model, theta: Array, records: Records) -> Array:
    """`l(theta_t, z_m)`, `(T, M)`."""
    return jax.vmap(jax.vmap(model.log_lik, in_axes=(None, 0)), in_axes=(0, None))(theta, records)


def along(f: Callable[[Array], Array], theta: Array, v: Array) -> tuple[Array, Array, Array]:
    """Value, first and second derivative of `f` at `theta` along `v`."""

    def first(t: Array) -> tuple[Array, Array]:
        return jax.jvp(f, (t,), (v,))

    (value, slope), (_, curvature) = jax.jvp(first, (theta,), (v,))
    return value, slope, curvature


def taylor(
    model: Model, metric: Array, theta: Array, records: Records, temperature: float = 1.0
) -> tuple[Array, Array, Array]:
    """Log likelihoods, whitened scores and Laplacians of a block of atoms.

    Args:
        metric: `(d, k)` factor whose columns are the directions.
        theta: `(C, d)` atoms.
        records: `{field: (M, *shape)}`.

    Returns:
        `l (C, M)`, `phi (C, k, M)` and `lap (C, M) = tr(Sigma Hess l)`, zeros at temperature 0 where nothing needs it.
    """
    value, slopes, lap = _swept(model, metric, theta, records, temperature)
    return value, _product(slopes) if isinstance(slopes, tuple) else slopes, lap


@partial(jax.jit, static_argnames=("model", "temperature"))
def _swept(
    model: Model, metric: Array, theta: Array, records: Records, temperature: float
) -> tuple[Array, Array | Slopes, Array]:
    """The same as `taylor`, with phi in factors if there are predictors.

    Their product is computed in another program. In the same one, XLA would fuse the factors into its loops and compute
    them again for each direction.
    """
    if not temperature:
        sweep = jax.vmap(jax.vmap(jax.value_and_grad(partial(log_lik, model)), in_axes=(None, 0)), in_axes=(0, None))
        value, gradient = sweep(theta, records)
        return value, (gradient @ metric).swapaxes(1, 2), jnp.zeros_like(value)
    example = {k: v[0] for k, v in records.items()}
    predictors = predictors_of(partial(log_lik, model), theta[0], example)
    if predictors is not None:
        return derivatives_along(predictors, metric, theta, records)
    over_records = jax.vmap(partial(_along, model), in_axes=(None, None, 0))
    over_directions = jax.vmap(over_records, in_axes=(None, 1, None), out_axes=(None, 0, 0))
    value, phi, curvature = jax.vmap(over_directions, in_axes=(0, None, None))(theta, metric, records)
    return value, phi, curvature.sum(axis=1)


@partial(jax.jit, static_argnames=("model", "temperature"))
def _slopes(model: Model, metric: Array, theta: Array, records: Records, temperature: float) -> Array | Slopes:
    return _swept(model, metric, theta, records, temperature)[1]


_product = jax.jit(whitened)


@jax.jit
def _flat(slopes: Array | Slopes) -> Array:
    phi = whitened(slopes) if isinstance(slopes, tuple) else slopes
    return phi.reshape(-1, phi.shape[-1])


@partial(jax.jit, static_argnames="model")  # one trace for every number of atoms, directions and records
def _along(model: Model, theta: Array, v: Array, record: Records) -> tuple[Array, Array, Array]:
    return along(lambda t: log_lik(model, t, record), theta, v)


@partial(jax.jit, static_argnames=("model", "temperature"))
def prior_score(model: Model, metric: Array, theta: Array, temperature: float) -> Array:
    """`Sigma^(1/2)' grad (log_prior + tau * log_det)` of a block of atoms, `(C, k)`."""

    def log_base(t: Array) -> Array:
        return model.log_prior(t) + temperature * model.log_det(t)

    return jax.vmap(jax.grad(log_base))(theta) @ metric


def scores(model: Model, metric: Array, theta: Array, records: Records, temperature: float = 1.0) -> Array:
    """Whitened scores phi of a block of atoms, flattened to `(C * k, M)`."""
    return _flat(_slopes(model, metric, theta, records, temperature))


@partial(jax.jit, static_argnames="model")
def gradients(model: Model, theta: Array, records: Records) -> Array:
    """`grad_theta l(theta, z)` of every record by one reverse sweep each, `(M, d)`."""
    return jax.vmap(jax.grad(partial(log_lik, model)), in_axes=(None, 0))(theta, records)


@partial(jax.jit, static_argnames="model")
def touches(model: Model, theta: Array, records: Records) -> Array:
    """Whether the log likelihood of a record depends on a coordinate of theta, `(d, M)`.

    It does if it is NaN when the coordinate is.
    """

    def without(i: Array) -> Array:
        without_coordinate = jnp.asarray(theta).at[i].set(jnp.nan)
        return jnp.isnan(jax.vmap(partial(log_lik, model), in_axes=(None, 0))(without_coordinate, records))

    return jax.lax.map(without, jnp.arange(len(theta)))


@partial(jax.jit, static_argnames="model")
def along_coordinates(
    model: Model, theta: Array, records: Records, directions: Array, pairs: Array, share: Array
) -> tuple[Array, Array, Array]:
    """Log likelihoods and their derivatives along directions.

    Args:
        directions: `(q, d)`.
        pairs: `(P, 2)` positions of pairs of directions.
        share: `(P, M)` weight of each pair.

    Returns:
        Log likelihoods `(C, M)`, first derivatives `(q, C, M)`, and the weighted sum of the mixed second derivatives
        of the pairs, `(C, M)`.
    """

    def logs(t: Array) -> Array:
        return jax.vmap(partial(log_lik, model), in_axes=(None, 0))(t, records)

    def first(t: Array, v: Array) -> Array:
        return jax.jvp(logs, (t,), (v,))[1]

    def add(total: Array, term: tuple[Array, Array, Array]) -> tuple[Array, None]:
        v, w, s = term
        mixed = jax.vmap(lambda t: jax.jvp(lambda u: first(u, v), (t,), (w,))[1])(theta)
        return total + s * mixed, None

    value = jax.vmap(logs)(theta)
    slopes = jax.lax.map(lambda v: jax.vmap(first, in_axes=(0, None))(theta, v), directions)
    total, _ = jax.lax.scan(add, jnp.zeros_like(value), (directions[pairs[:, 0]], directions[pairs[:, 1]], share))
    return value, slopes, total


@partial(jax.jit, static_argnames="model")
def total_score(model: Model, theta: Array, records: Records, weights: Array) -> Array:
    """`grad_theta [sum_m w_m l(theta, z_m) + log pi0(theta)]`, `(d,)`; zero at a trained parameter."""
    return jax.grad(_objective(model, records, weights))(theta)


def _objective(model: Model, records: Records, weights: Array) -> Callable[[Array], Array]:
    return lambda t: weights @ jax.vmap(partial(log_lik, model), in_axes=(None, 0))(t, records) + model.log_prior(t)


@partial(jax.jit, static_argnames=("model", "temperature"))
def base_scores(model: Model, temperature: float, theta: Array, records: Records) -> Array:
    """Gradient of the log posterior of records with weight one, at a block of atoms, `(C, d)`."""
    count = len(next(iter(records.values())))
    objective = _objective(model, records, jnp.ones(count))
    return jax.vmap(jax.grad(lambda t: objective(t) + temperature * model.log_det(t)))(theta)


@partial(jax.jit, static_argnames="model")
def feature_gradients(model: Model, theta: Array, pairs: Pairs) -> Array:
    """Gradients of the features at one atom by one reverse sweep each, `(M, d)`."""
    return jax.vmap(jax.grad(lambda t, *pair: _feature(model, t, *pair)), in_axes=(None, 0, 0, 0))(theta, *pairs)


@partial(jax.jit, static_argnames="model")
def slopes(model: Model, theta: Array, pairs: Pairs, directions: Array) -> Array:
    """Derivatives of the features along directions `(q, d)` at a block of atoms, `(q, C, M)`."""

    def derivative(t: Array, v: Array) -> Array:
        return jax.jvp(lambda s: _features(model, s, pairs), (t,), (v,))[1]

    return jax.vmap(jax.vmap(derivative, in_axes=(0, None)), in_axes=(None, 0))(theta, directions)


@partial(jax.jit, static_argnames="model")
def curvatures(model: Model, theta: Array, pairs: Pairs, directions: Array) -> tuple[Array, Array]:
    """Derivatives of the features along directions `(q, d)`, `(q, C, M)`, and the sum of the second ones `(C, M)`."""

    def derivatives(t: Array, v: Array) -> tuple[Array, Array]:
        return along(lambda s: _features(model, s, pairs), t, v)[1:]

    sweep = jax.vmap(derivatives, in_axes=(0, None))
    total = jnp.zeros((len(theta), len(next(iter(pairs[0].values())))))
    if len(directions) > _UNROLLED:

        def step(total: Array, v: Array) -> tuple[Array, Array]:
            slope, curvature = sweep(theta, v)
            return total + curvature, slope

        total, slopes_ = jax.lax.scan(step, total, directions)
        return slopes_, total
    slopes_ = []
    for v in directions:  # one fused loop each; mapped over, they are several times slower
        slope, curvature = sweep(theta, v)
        slopes_.append(slope)
        total = total + curvature
    return jnp.stack(slopes_), total


@partial(jax.jit, static_argnames="model")  # so that every sweep uses one trace of the program
def _features(model: Model, theta: Array, pairs: Pairs) -> Array:
    return jax.vmap(lambda *pair: _feature(model, theta, *pair))(*pairs)


def _feature(model: Model, theta: Array, known: Records, base: Records, other: Records) -> Array:
    return log_lik(model, theta, {**known, **other}) - log_lik(model, theta, {**known, **base})

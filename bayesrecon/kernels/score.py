"""Derivatives of log likelihoods in the parameters.

Along a direction v, `l(theta + s v, z)` has the Taylor coefficients `<grad l, v>` and `v' Hess l v`. With the
columns of a metric factor `Sigma^(1/2)` as directions the first are the whitened scores phi and the second sum
to the trace `tr(Sigma Hess l)`. Forward sweeps deliver both at once; directions are shared by all atoms, so for
a linear predictor its tangents are computed once for all draws, and no cancellation is paid twice. Where the likelihood
goes through few linear predictors it is differentiated along these alone (`kernels.predictors`). At temperature 0
there is one atom and no trace: one reverse sweep per record, however many parameters a network has.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.kernels.predictors import derivatives_along, predictors_of, whitened
from bayesrecon.model import Model, Records

Pairs = tuple[Records, Records, Records]
"""Rows of what is known, of base values and of other values: the features `l(., known, other) - l(., known, base)`."""

_UNROLLED = 12  # sweeps up to which a loop is written out


@partial(jax.jit, static_argnames="model")
def log_lik(model: Model, theta: Any, record: Records) -> Any:
    """`l(theta, z)` of one record: the program is traced once, whatever is differentiated or mapped over it."""
    return model.log_lik(theta, record)


@partial(jax.jit, static_argnames="model")
def log_liks(model: Model, theta: Any, records: Records) -> Any:
    """`l(theta_t, z_m)`, `(T, M)`."""
    return jax.vmap(jax.vmap(model.log_lik, in_axes=(None, 0)), in_axes=(0, None))(theta, records)


def along(f: Any, theta: Any, v: Any) -> tuple[Any, Any, Any]:
    """Value, first and second derivative of `f` at `theta` along `v`."""

    def first(t: Any) -> Any:
        return jax.jvp(f, (t,), (v,))

    (value, slope), (_, curvature) = jax.jvp(first, (theta,), (v,))
    return value, slope, curvature


def taylor(model: Model, metric: Any, theta: Any, records: Records, temperature: float = 1.0) -> tuple[Any, Any, Any]:
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
def _swept(model: Model, metric: Any, theta: Any, records: Records, temperature: float) -> tuple[Any, Any, Any]:
    """`taylor` with phi in the factors that it has where there are predictors. In one program with their product they
    would be computed again for every direction: XLA fuses what it takes for cheap into the loops that use it."""
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
def _slopes(model: Model, metric: Any, theta: Any, records: Records, temperature: float) -> Any:
    return _swept(model, metric, theta, records, temperature)[1]


_product = jax.jit(whitened)


@jax.jit
def _flat(slopes: Any) -> Any:
    phi = whitened(slopes) if isinstance(slopes, tuple) else slopes
    return phi.reshape(-1, phi.shape[-1])


@partial(jax.jit, static_argnames="model")  # one trace for every number of atoms, directions and records
def _along(model: Model, theta: Any, v: Any, record: Records) -> tuple[Any, Any, Any]:
    return along(lambda t: log_lik(model, t, record), theta, v)


@partial(jax.jit, static_argnames=("model", "temperature"))
def prior_score(model: Model, metric: Any, theta: Any, temperature: float) -> Any:
    """`Sigma^(1/2)' grad (log_prior + tau * log_det)` of a block of atoms, `(C, k)`."""

    def log_base(t: Any) -> Any:
        return model.log_prior(t) + temperature * model.log_det(t)

    return jax.vmap(jax.grad(log_base))(theta) @ metric


def scores(model: Model, metric: Any, theta: Any, records: Records, temperature: float = 1.0) -> Any:
    """Whitened scores phi of a block of atoms, flattened to `(C * k, M)`."""
    return _flat(_slopes(model, metric, theta, records, temperature))


@partial(jax.jit, static_argnames="model")
def gradients(model: Model, theta: Any, records: Records) -> Any:
    """`grad_theta l(theta, z)` of every record by one reverse sweep each, `(M, d)`."""
    return jax.vmap(jax.grad(partial(log_lik, model)), in_axes=(None, 0))(theta, records)


@partial(jax.jit, static_argnames="model")
def touches(model: Model, theta: Any, records: Records) -> Any:
    """Whether a record's log likelihood depends on a coordinate of theta, `(d, M)`: that is, stops being a number when
    the coordinate does."""

    def without(i: Any) -> Any:
        without_coordinate = theta.at[i].set(jnp.nan)
        return jnp.isnan(jax.vmap(partial(log_lik, model), in_axes=(None, 0))(without_coordinate, records))

    return jax.lax.map(without, jnp.arange(len(theta)))


@partial(jax.jit, static_argnames="model")
def along_coordinates(
    model: Model, theta: Any, records: Records, directions: Any, pairs: Any, share: Any
) -> tuple[Any, Any, Any]:
    """Log likelihoods `(C, M)`, their derivatives along directions `(q, d)`, `(q, C, M)`, and the sum of the mixed
    second ones of `pairs (P, 2)` of directions, each times its `share (P, M)`, `(C, M)`."""

    def logs(t: Any) -> Any:
        return jax.vmap(partial(log_lik, model), in_axes=(None, 0))(t, records)

    def first(t: Any, v: Any) -> Any:
        return jax.jvp(logs, (t,), (v,))[1]

    def add(total: Any, term: Any) -> tuple[Any, None]:
        v, w, s = term
        mixed = jax.vmap(lambda t: jax.jvp(lambda u: first(u, v), (t,), (w,))[1])(theta)
        return total + s * mixed, None

    value = jax.vmap(logs)(theta)
    slopes = jax.lax.map(lambda v: jax.vmap(first, in_axes=(0, None))(theta, v), directions)
    total, _ = jax.lax.scan(add, jnp.zeros_like(value), (directions[pairs[:, 0]], directions[pairs[:, 1]], share))
    return value, slopes, total


@partial(jax.jit, static_argnames="model")
def total_score(model: Model, theta: Any, records: Records, weights: Any) -> Any:
    """`grad_theta [sum_m w_m l(theta, z_m) + log pi0(theta)]`, `(d,)`; zero at a trained parameter."""
    return jax.grad(_objective(model, records, weights))(theta)


def _objective(model: Model, records: Records, weights: Any) -> Any:
    return lambda t: weights @ jax.vmap(partial(log_lik, model), in_axes=(None, 0))(t, records) + model.log_prior(t)


@partial(jax.jit, static_argnames=("model", "temperature"))
def base_scores(model: Model, temperature: float, theta: Any, records: Records) -> Any:
    """Gradient of the log posterior of some records, all of weight one, at a block of atoms, `(C, d)`."""
    count = len(next(iter(records.values())))
    objective = _objective(model, records, jnp.ones(count))
    return jax.vmap(jax.grad(lambda t: objective(t) + temperature * model.log_det(t)))(theta)


@partial(jax.jit, static_argnames="model")
def feature_gradients(model: Model, theta: Any, pairs: Pairs) -> Any:
    """Gradients of the features at one atom by one reverse sweep each, `(M, d)`."""
    return jax.vmap(jax.grad(lambda t, *pair: _feature(model, t, *pair)), in_axes=(None, 0, 0, 0))(theta, *pairs)


@partial(jax.jit, static_argnames="model")
def slopes(model: Model, theta: Any, pairs: Pairs, directions: Any) -> Any:
    """Derivatives of the features along directions `(q, d)` at a block of atoms, `(q, C, M)`."""

    def one(t: Any, v: Any) -> Any:
        return jax.jvp(lambda s: _features(model, s, pairs), (t,), (v,))[1]

    return jax.vmap(jax.vmap(one, in_axes=(0, None)), in_axes=(None, 0))(theta, directions)


@partial(jax.jit, static_argnames="model")
def curvatures(model: Model, theta: Any, pairs: Pairs, directions: Any) -> tuple[Any, Any]:
    """Derivatives of the features along directions `(q, d)`, `(q, C, M)`, and the sum of the second ones `(C, M)`."""

    def one(t: Any, v: Any) -> tuple[Any, Any]:
        return along(lambda s: _features(model, s, pairs), t, v)[1:]

    sweep = jax.vmap(one, in_axes=(0, None))
    total = jnp.zeros((len(theta), len(next(iter(pairs[0].values())))))
    if len(directions) > _UNROLLED:

        def step(total: Any, v: Any) -> tuple[Any, Any]:
            slope, curvature = sweep(theta, v)
            return total + curvature, slope

        total, found = jax.lax.scan(step, total, directions)
        return found, total
    found = []
    for v in directions:  # one fused loop each; mapped over, they are several times slower
        slope, curvature = sweep(theta, v)
        found.append(slope)
        total = total + curvature
    return jnp.stack(found), total


@partial(jax.jit, static_argnames="model")  # so that every sweep uses one trace of the program
def _features(model: Model, theta: Any, pairs: Pairs) -> Any:
    return jax.vmap(lambda *pair: _feature(model, theta, *pair))(*pairs)


def _feature(model: Model, theta: Any, known: Records, base: Records, other: Records) -> Any:
    return log_lik(model, theta, {**known, **other}) - log_lik(model, theta, {**known, **base})

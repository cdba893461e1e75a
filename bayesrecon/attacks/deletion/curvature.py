"""The Hessian of public records at a trained parameter, used in place of the private records' Hessian.

For a loss h of a prediction f, only the Gauss-Newton part `f' h'' f` is used. It is never negative if h is convex. It
does not depend on the public records' residuals, which are larger than those of the training records. Without a
prediction, the Hessian is used with the absolute values of its eigenvalues.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import LinearOperator

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records

# Hessians of models with many parameters: products, and a root of the inverse from a sample of rows.
#
# Products `H v` are Pearlmutter's (1994): two passes over the public records for any number of parameters. The root of
# `H^-1`, with which gradients are compared, uses rows `b^1/2 J` of the Gauss-Newton matrix, where J is the Jacobian of
# a prediction, of as many records as memory allows. Other directions are damped,
#
#     H ~ D + A'A,    H^-1 = R'R,    R = (I + Q (diag((1 + s^2)^-1/2) - I) Q') D^-1/2,    A D^-1/2 = P diag(s) Q',
#
# where D is the regulariser's curvature or a damping, whichever is larger (Woodbury's identity; Martens 2010, section
# 4.1).

LARGEST = 300_000
"""Largest number of parameters. A hundred rows of Jacobians then take 256 MiB, and the descent of a record seconds."""

_NUMBERS = 2**25  # largest number of entries of all rows together, 256 MiB
_ROWS = 2000  # largest number of rows, whose Gram matrix is factorised
_DAMPING = 1e-3  # damping relative to the mean curvature of the records, for directions without curvature


@dataclass(frozen=True, eq=False)
class Sketched:
    """Minus a Hessian H, as products and as a root of its inverse.

    Attributes:
        thetas: `(T, d)`, parameters over which H is averaged.
        scale: weight of each record.
        exact: whether products use the complete Hessian instead of the Gauss-Newton matrix.
        directions: Q, `(d, r)`.
        factors: `(1 + s^2)^-1/2`, `(r,)`.
        diagonal: D, `(d,)`.
        freedom: effective number of directions in which the curvature is that of the records, `sum s^2 / (1 + s^2)`.
    """

    model: Model
    thetas: np.ndarray
    records: Records
    scale: float
    exact: bool
    directions: np.ndarray
    factors: np.ndarray
    diagonal: np.ndarray
    freedom: float

    def times(self, v: np.ndarray) -> np.ndarray:
        """`H v` from all public records and the regulariser, without damping."""
        products = [_product(self.model, self.exact, t, v, self.records, self.scale) for t in self.thetas]
        return np.asarray(sum(map(np.asarray, products)) / len(products))

    def rounding(self, theta: np.ndarray, records: float) -> np.ndarray:
        """What `change.refuse_rounding` needs, `(d,)`, from products alone."""
        return np.abs(self.times(np.abs(theta))) + np.sqrt(records * self.diagonal)

    def root(self) -> LinearOperator:
        """R with `R'R = H^-1`, `(d, d)`."""

        def apply(v: np.ndarray) -> np.ndarray:
            scaled = v.T / np.sqrt(self.diagonal)
            return (scaled + (scaled @ self.directions * (self.factors - 1)) @ self.directions.T).T

        size = len(self.diagonal)
        return LinearOperator((size, size), matvec=apply, matmat=apply, dtype=float)  # type: ignore[call-arg]


def sketched(
    model: Model, thetas: np.ndarray, records: Records, scale: float, outputs: int, *, exact: bool = False
) -> Sketched:
    """The curvature of public records, averaged over some parameters.

    Args:
        thetas: `(T, d)`.
        records: public records, `{field: (m, *shape)}`.
        scale: weight of each record.
        outputs: number of outputs of a prediction.
        exact: whether products use the complete Hessian, as for a released Newton step. Rows always are those of the
            Gauss-Newton matrix.

    Raises:
        BayesreconError: there are more parameters than `LARGEST`, or the public records have no curvature.
    """
    if model.dimension > LARGEST:
        raise BayesreconError(f"{model.name} has {model.dimension:,} parameters; at most {LARGEST:,} are supported")
    count = len(next(iter(records.values())))
    most = max(1, min(_ROWS, _NUMBERS // model.dimension) // outputs)
    chosen = np.sort(np.random.default_rng(0).permutation(count)[:most])
    sample, middle = {k: v[chosen] for k, v in records.items()}, thetas.mean(axis=0)
    of_records = [_rows_of(model, middle, {k: v[i] for k, v in sample.items()}) for i in range(len(chosen))]
    rows = np.concatenate([np.asarray(block) for block in of_records])
    rows *= np.sqrt(scale * count / len(chosen))
    mean = float((rows**2).sum() / model.dimension)
    if not (np.isfinite(mean) and mean > 0):
        raise BayesreconError("the public Hessian is zero or not finite: supply more public records")
    ones = np.ones(model.dimension)
    regulariser = np.asarray(_product_of_prior(model, middle, ones))
    diagonal = np.maximum(regulariser, _DAMPING * mean)
    rows /= np.sqrt(diagonal)
    squares, vectors = np.linalg.eigh(rows @ rows.T)
    positive = squares > 1e-12 * squares[-1]
    squares, vectors = squares[positive], vectors[:, positive]
    directions = rows.T @ vectors / np.sqrt(squares)
    factors, freedom = (1 + squares) ** -0.5, float((squares / (1 + squares)).sum())
    return Sketched(model, thetas, records, scale, exact, directions, factors, diagonal, freedom)


@partial(jax.jit, static_argnames="model")
def _rows_of(model: Model, theta: Array, record: Records) -> jax.Array:
    """`b^1/2 J` `(K, d)` of one record, b minus the Hessian of its likelihood in the prediction."""
    assert model.prediction is not None
    prediction = model.prediction
    value, rebuild = ravel_pytree(prediction.output(model.constrain(theta), record))
    hessian = jax.hessian(lambda v: -prediction.log_lik(rebuild(v), record))(value)
    values, vectors = jnp.linalg.eigh(0.5 * (hessian + hessian.T))
    slopes = jax.jacrev(lambda t: ravel_pytree(prediction.output(model.constrain(t), record))[0])(theta)
    return jnp.sqrt(jnp.maximum(values, 0.0))[:, None] * (vectors.T @ slopes)


@partial(jax.jit, static_argnames=("model", "exact"))
def _product(model: Model, exact: bool, theta: Array, v: Array, records: Records, scale: Array) -> jax.Array:
    """`H v` for the complete Hessian, or for the Gauss-Newton matrix and the regulariser."""
    if exact:

        def objective(t: Array) -> Array:
            return -scale * jax.vmap(partial(model.log_lik, t))(records).sum() - model.log_prior(t)

        return jax.jvp(jax.grad(objective), (theta,), (v,))[1]
    assert model.prediction is not None
    prediction = model.prediction

    def of_record(record: Records) -> Array:
        def predicted(t: Array) -> jax.Array:
            return ravel_pytree(prediction.output(model.constrain(t), record))[0]

        _, rebuild = ravel_pytree(prediction.output(model.constrain(theta), record))
        value, change = jax.jvp(predicted, (theta,), (v,))
        hessian = jax.jvp(jax.grad(lambda u: -prediction.log_lik(rebuild(u), record)), (value,), (change,))[1]
        return jax.vjp(predicted, theta)[1](hessian)[0]

    def add(total: Array, record: Records) -> tuple[Array, None]:
        return total + of_record(record), None

    total = jax.lax.scan(add, jnp.zeros_like(theta), records)[0]
    return scale * total + _product_of_prior(model, theta, v)


@partial(jax.jit, static_argnames="model")
def _product_of_prior(model: Model, theta: Array, v: Array) -> jax.Array:
    return jax.jvp(jax.grad(lambda t: -model.log_prior(t)), (theta,), (v,))[1]


NODES = (0.5 - np.sqrt(3) / 6, 0.5 + np.sqrt(3) / 6)
"""Nodes of Gauss' rule on [0, 1], at which the Hessian between two parameters is computed."""

MOST = 4000
"""Largest number of parameters whose curvature is factorised (128 MiB, 10 s). With more, it is `sketched`."""

_OUTPUTS = 64  # of a prediction whose Jacobian is written out
_CHUNK = 2**24  # numbers of Jacobians at a time: 128 MiB
_COLUMNS = 64  # of a Hessian at a time
_FLOOR = 1e-9  # of the mean curvature, where neither records nor the prior bend a direction


class Curvature(NamedTuple):
    """Minus a Hessian."""

    matrix: np.ndarray
    """H, `(d, d)`, positive definite."""
    freedom: float
    """Effective number of directions that the records determine: the trace of H^-1 times the records' part."""

    def times(self, v: np.ndarray) -> np.ndarray:
        """`H v`."""
        return np.asarray(self.matrix @ v)

    def rounding(self, theta: np.ndarray, records: float) -> np.ndarray:
        """What `change.refuse_rounding` needs, `(d,)`. Slopes are as large as curvatures of n records let expect."""
        return np.abs(self.matrix) @ np.abs(theta) + np.sqrt(records * np.diag(self.matrix))

    def root(self) -> np.ndarray:
        """R with `R'R = H^-1`, `(d, d)`."""
        lower = np.linalg.cholesky(self.matrix)
        return np.asarray(scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True))


def curvature(model: Model, thetas: np.ndarray, records: Records, scale: float, *, exact: bool = False) -> Curvature:
    """Minus the Hessian of the log posterior of records that count `scale` times each.

    Args:
        thetas: `(T, d)` parameters over which the Hessian is averaged.
        records: `{field: (m, *shape)}`.
        exact: whether to use the full Hessian, as for a released Newton step, instead of the Gauss-Newton matrix.

    Raises:
        BayesreconError: there are too many parameters, or the curvature is not finite or zero.

    >>> from bayesrecon.models import load
    >>> model = load("linear_predictor", features=1, penalty=1.0, intercept=False)
    >>> curvature(model, np.array([[0.5]]), {"x": np.array([[1.0], [2.0]]), "y": np.zeros(2)}, 3.0).matrix.tolist()
    [[16.0]]
    """
    if model.dimension > MOST:
        raise BayesreconError(
            f"{model.name} has {model.dimension:,} parameters; without a prediction at most {MOST:,} are supported"
        )
    data, prior = np.zeros((2, model.dimension, model.dimension))
    for theta in np.asarray(thetas):
        prior += np.concatenate(
            [np.asarray(_prior_hessian_products(model, theta, rows)) for rows in _blocks(model)]
        ) / len(thetas)
        data += _of_records(model, theta, records, exact) * (scale / len(thetas))
    if not np.isfinite(data).all() or not np.isfinite(prior).all() or not np.abs(data).sum() > 0:
        raise BayesreconError("the public Hessian is zero or not finite: supply more public records")
    values, vectors = np.linalg.eigh(0.5 * (data + data.T) + 0.5 * (prior + prior.T))
    values = np.maximum(np.abs(values), _FLOOR * np.abs(values).mean())
    held = float(((vectors.T @ prior * vectors.T).sum(axis=1) / values).sum())
    return Curvature((vectors * values) @ vectors.T, len(values) - held)


def curvature_between(
    model: Model, before: np.ndarray, after: np.ndarray, records: Records, scale: float, *, path: bool = True
) -> Curvature | Sketched:
    """Curvature averaged between two trained parameters, or the full one at the first for a released Newton step."""
    thetas = np.stack([after + t * (before - after) for t in NODES] if path else [before])
    if model.dimension > MOST and model.prediction is not None:
        outputs = _outputs(model, before, records)
        if outputs > _OUTPUTS:
            raise BayesreconError(f"{model.name} predicts {outputs:,} numbers; at most {_OUTPUTS} are supported")
        return sketched(model, thetas, records, scale, outputs, exact=not path)
    return curvature(model, thetas, records, scale, exact=not path)


def _of_records(model: Model, theta: np.ndarray, records: Records, exact: bool) -> np.ndarray:
    outputs = 0 if exact or model.prediction is None else _outputs(model, theta, records)
    if not 0 < outputs <= _OUTPUTS:
        return np.concatenate([np.asarray(_hessian_products(model, theta, records, rows)) for rows in _blocks(model)])
    found = np.zeros((model.dimension, model.dimension))
    step = max(1, _CHUNK // (outputs * model.dimension))
    for start in range(0, len(next(iter(records.values()))), step):
        some = {k: v[start : start + step] for k, v in records.items()}
        slopes, bends = (np.asarray(v) for v in _slopes(model, theta, some))
        weighted = np.einsum("mkl,mld->mkd", bends, slopes)
        found += slopes.reshape(-1, model.dimension).T @ weighted.reshape(-1, model.dimension)
    return found


def _blocks(model: Model) -> list[np.ndarray]:
    identity = np.eye(model.dimension)
    return [identity[i : i + _COLUMNS] for i in range(0, len(identity), _COLUMNS)]


def _outputs(model: Model, theta: Array, records: Records) -> int:
    one = {k: jax.ShapeDtypeStruct(np.shape(v)[1:], np.asarray(v).dtype) for k, v in records.items()}
    return int(jax.eval_shape(partial(_predicted, model), theta, one).size)


def _predicted(model: Model, theta: Array, record: Records) -> jax.Array:
    assert model.prediction is not None
    return ravel_pytree(model.prediction.output(model.constrain(theta), record))[0]


@partial(jax.jit, static_argnames="model")
def _slopes(model: Model, theta: Array, records: Records) -> tuple[jax.Array, jax.Array]:
    """Jacobians `(m, K, d)` of the predictions, and minus the Hessians `(m, K, K)` of the likelihood in them."""
    assert model.prediction is not None
    prediction = model.prediction

    def of_record(record: Records) -> tuple[jax.Array, jax.Array]:
        value, rebuild = ravel_pytree(prediction.output(model.constrain(theta), record))
        bends = jax.hessian(lambda v: -prediction.log_lik(rebuild(v), record))(value)
        return jax.jacrev(lambda t: _predicted(model, t, record))(theta), bends

    return jax.vmap(of_record)(records)


@partial(jax.jit, static_argnames="model")
def _hessian_products(model: Model, theta: Array, records: Records, directions: Array) -> jax.Array:
    """Minus the Hessian of all records' log likelihood along directions `(q, d)`."""

    def loss(t: Array) -> jax.Array:
        return -jax.vmap(partial(model.log_lik, t))(records).sum()

    return jax.lax.map(lambda v: jax.jvp(jax.grad(loss), (theta,), (v,))[1], directions)


@partial(jax.jit, static_argnames="model")
def _prior_hessian_products(model: Model, theta: Array, directions: Array) -> jax.Array:
    return jax.lax.map(lambda v: jax.jvp(jax.grad(lambda t: -model.log_prior(t)), (theta,), (v,))[1], directions)

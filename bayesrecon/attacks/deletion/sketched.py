"""The curvature of models with many parameters: products with it, and a root of its inverse from a sample of its rows.

Products `H v` are Pearlmutter's (1994): two passes over the public records, whatever the number of parameters. What
compares gradients in units of `H^-1` takes rows `b^1/2 J` of the Gauss-Newton matrix, J a prediction's Jacobian, of as
many records as memory allows, and damps what is left,

    H ~ D + A'A,    H^-1 = R'R,    R = (I + Q (diag((1 + s^2)^-1/2) - I) Q') D^-1/2,    A D^-1/2 = P diag(s) Q',

with D the regulariser's curvature, or a damping where that is less (Woodbury's identity; Martens 2010, section 4.1).
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import LinearOperator

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records

LARGEST = 300_000
"""Parameters: a hundred rows of Jacobians of as many take 256 MiB, and a descent of a record seconds."""

_NUMBERS = 2**25  # of all rows together: 256 MiB
_ROWS = 2000  # at most: their products are factorised
_DAMPING = 1e-3  # of the records' mean curvature: directions that neither they nor the regulariser bend


@dataclass(frozen=True, eq=False)
class Sketched:
    """Minus a Hessian, as products and as a root of its inverse.

    Attributes:
        freedom: directions that records and not the regulariser or the damping bend, by the sample.
    """

    model: Model
    thetas: np.ndarray
    records: Records
    scale: float
    exact: bool
    directions: np.ndarray
    shrunk: np.ndarray
    held: np.ndarray
    freedom: float

    def times(self, v: np.ndarray) -> np.ndarray:
        """`H v`, of all public records and the regulariser, without a damping."""
        each = [_product(self.model, self.exact, t, v, self.records, self.scale) for t in self.thetas]
        return np.asarray(sum(map(np.asarray, each)) / len(each))

    def root(self) -> LinearOperator:
        """R with `R'R = H^-1`, `(d, d)`."""

        def apply(v: np.ndarray) -> np.ndarray:
            unit = v.T / np.sqrt(self.held)
            return (unit + (unit @ self.directions * (self.shrunk - 1)) @ self.directions.T).T

        size = len(self.held)
        return LinearOperator((size, size), matvec=apply, matmat=apply, dtype=float)  # type: ignore[call-arg]


def sketched(
    model: Model, thetas: np.ndarray, records: Records, scale: float, outputs: int, *, exact: bool = False
) -> Sketched:
    """The curvature of public records at some parameters, over which it is averaged.

    Args:
        thetas: `(T, d)`.
        records: `{field: (m, *shape)}`, each of which counts `scale` times.
        outputs: outputs of a prediction.
        exact: products with the whole Hessian, for a released Newton step; rows are Gauss and Newton's all the same.

    Raises:
        BayesreconError: more parameters than `LARGEST`, or public records that do not see the change.
    """
    if model.dimension > LARGEST:
        raise BayesreconError(f"{model.name} has {model.dimension:,} parameters; at most {LARGEST:,} are taken")
    count = len(next(iter(records.values())))
    most = max(1, min(_ROWS, _NUMBERS // model.dimension) // outputs)
    chosen = np.sort(np.random.default_rng(0).permutation(count)[:most])
    some, middle = {k: v[chosen] for k, v in records.items()}, thetas.mean(axis=0)
    each = (_rows(model, middle, {k: v[i] for k, v in some.items()}) for i in range(len(chosen)))
    rows = np.concatenate([np.asarray(one) for one in each])
    rows *= np.sqrt(scale * count / len(chosen))
    mean = float((rows**2).sum() / model.dimension)
    if not (np.isfinite(mean) and mean > 0):
        raise BayesreconError("the public Hessian does not see the change of the parameters: supply more of them")
    ones = np.ones(model.dimension)
    own = np.asarray(_product_of_prior(model, middle, ones))
    held = np.maximum(own, _DAMPING * mean)
    rows /= np.sqrt(held)
    squares, turned = np.linalg.eigh(rows @ rows.T)
    kept = squares > 1e-12 * squares[-1]
    squares, turned = squares[kept], turned[:, kept]
    directions = rows.T @ turned / np.sqrt(squares)
    shrunk, freedom = (1 + squares) ** -0.5, float((squares / (1 + squares)).sum())
    return Sketched(model, thetas, records, scale, exact, directions, shrunk, held, freedom)


@partial(jax.jit, static_argnames="model")
def _rows(model: Model, theta: Array, record: Records) -> jax.Array:
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
    """`H v`: the whole Hessian, or Gauss and Newton's part of it and the regulariser's."""
    if exact:

        def whole(t: Array) -> Array:
            return -scale * jax.vmap(partial(model.log_lik, t))(records).sum() - model.log_prior(t)

        return jax.jvp(jax.grad(whole), (theta,), (v,))[1]
    assert model.prediction is not None
    prediction = model.prediction

    def of_record(record: Records) -> Array:
        def predicted(t: Array) -> jax.Array:
            return ravel_pytree(prediction.output(model.constrain(t), record))[0]

        _, rebuild = ravel_pytree(prediction.output(model.constrain(theta), record))
        value, moved = jax.jvp(predicted, (theta,), (v,))
        hessian = jax.jvp(jax.grad(lambda u: -prediction.log_lik(rebuild(u), record)), (value,), (moved,))[1]
        return jax.vjp(predicted, theta)[1](hessian)[0]

    def add(total: Array, record: Records) -> tuple[Array, None]:
        return total + of_record(record), None

    total = jax.lax.scan(add, jnp.zeros_like(theta), records)[0]
    return scale * total + _product_of_prior(model, theta, v)


@partial(jax.jit, static_argnames="model")
def _product_of_prior(model: Model, theta: Array, v: Array) -> jax.Array:
    return jax.jvp(jax.grad(lambda t: -model.log_prior(t)), (theta,), (v,))[1]

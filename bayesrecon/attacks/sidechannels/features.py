"""Basis functions of log densities, log likelihoods and gradients of a model, at the draws.

A sum of log likelihoods over whatever records lies in the span of the value functions `theta -> l(theta, z)`, z any
record; its gradient in the span of their scores. Generic records span all of it where the spectrum is finite.
"""

from functools import partial

import jax
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.estimation.anchors import Reference
from bayesrecon.kernels.score import log_lik
from bayesrecon.model import Model, Records

_POOL, _PER_LEVEL, _MOST = 96, 3, 600  # generic records
_BLOCK = 64  # draws at a time: a record may be a whole series
_RANK = 1e-10  # singular values above this share of the largest


def generic_records(model: Model, theta: np.ndarray, reference: Reference, rng: np.random.Generator) -> Records:
    """Independent records whose value functions span those of all: as many as the draws `(T, d)` can tell, or fewer."""
    levels = max((len(f.domain.levels) for f in model.fields.values()), default=0)
    pool = reference.draw(rng, int(np.clip(_PER_LEVEL * levels, _POOL, _MOST)))
    values = value_functions(model, theta, pool)
    usable = np.isfinite(values).all(axis=0)
    values = values[:, usable] - values[:, usable].mean(axis=0)
    size = np.linalg.norm(values, axis=0)
    scaled = values / np.where(size > 0, size, 1.0)
    decomposed: tuple[np.ndarray, np.ndarray] = scipy.linalg.qr(scaled, mode="r", pivoting=True)  # type: ignore[assignment]
    triangle, pivots = decomposed
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > _RANK * diagonal[0])) if len(diagonal) and diagonal[0] > 0 else 0
    kept = np.flatnonzero(usable)[pivots[: min(rank, max(1, len(theta) // 4))]]
    return {k: np.asarray(v)[np.sort(kept)] for k, v in pool.items()}


def value_functions(model: Model, theta: np.ndarray, records: Records) -> np.ndarray:
    """`l(theta_t, z_m)`, `(T, M)`."""
    return np.asarray(_values(model, theta, records))


def score_functions(model: Model, theta: np.ndarray, records: Records) -> np.ndarray:
    """Gradients in theta of the same, `(T, M, d)`."""
    return np.asarray(_scores(model, theta, records))


def base_functions(model: Model, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log prior and log determinant `(T, 2)`, and their gradients `(T, 2, d)`."""
    values, slopes = _base(model, theta)
    return np.asarray(values), np.asarray(slopes)


@partial(jax.jit, static_argnames="model")
def _values(model: Model, theta: Array, records: Records) -> jax.Array:
    value = jax.vmap(partial(log_lik, model), in_axes=(None, 0))
    return jax.lax.map(lambda t: value(t, records), theta, batch_size=_BLOCK)


@partial(jax.jit, static_argnames="model")
def _scores(model: Model, theta: Array, records: Records) -> jax.Array:
    score = jax.vmap(jax.grad(partial(log_lik, model)), in_axes=(None, 0))
    return jax.lax.map(lambda t: score(t, records), theta, batch_size=_BLOCK)


@partial(jax.jit, static_argnames="model")
def _base(model: Model, theta: Array) -> tuple[jax.Array, jax.Array]:
    def both(t: Array) -> jax.Array:
        return jax.numpy.stack([model.log_prior(t), model.log_det(t)])

    return jax.vmap(both)(theta), jax.vmap(jax.jacrev(both))(theta)

"""Basis functions of log densities, log likelihoods and gradients of a model, at the draws.

A sum of log likelihoods over any records is in the span of the value functions `theta -> l(theta, z)` of all records z.
Its gradient is in the span of their scores. If the spectrum is finite, finitely many generic records span both.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.divergence.score import log_lik
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, Records

_POOL, _PER_LEVEL, _MOST = 96, 3, 600  # generic records: smallest number, number per level, largest number
_BLOCK = 64  # draws per block: a record may be a long series
_RANK = 1e-10  # relative pivots below this are rounding


def generic_records(model: Model, theta: np.ndarray, reference: Reference, rng: np.random.Generator) -> Records:
    """Records with linearly independent value functions that span those of all records, as far as there are draws."""
    levels = max((len(f.domain.levels) for f in model.fields.values()), default=0)
    pool = reference.draw(rng, int(np.clip(_PER_LEVEL * levels, _POOL, _MOST)))
    values = value_functions(model, theta, pool)
    usable = np.isfinite(values).all(axis=0)
    values = values[:, usable] - values[:, usable].mean(axis=0)
    norms = np.linalg.norm(values, axis=0)
    scaled = values / np.where(norms > 0, norms, 1.0)
    decomposed: Any = scipy.linalg.qr(scaled, mode="r", pivoting=True)  # its type depends on the options
    triangle, pivots = decomposed
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > _RANK * diagonal[0])) if len(diagonal) and diagonal[0] > 0 else 0
    chosen = np.flatnonzero(usable)[pivots[: min(rank, max(1, len(theta) // 4))]]
    return {k: np.asarray(v)[np.sort(chosen)] for k, v in pool.items()}


def value_functions(model: Model, theta: np.ndarray, records: Records) -> np.ndarray:
    """`l(theta_t, z_m)`, `(T, M)`."""
    return np.asarray(_values(model, theta, records))


def score_functions(model: Model, theta: np.ndarray, records: Records) -> np.ndarray:
    """Gradients of the value functions in theta, `(T, M, d)`."""
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

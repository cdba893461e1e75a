"""`Tilt`: the deleted record, from two sets of posterior draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import chdtri

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.deletion.change import notes_of
from bayesrecon.attacks.deletion.tilt import pooled, profile
from bayesrecon.divergence.score import log_liks
from bayesrecon.domains import Field
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.checks.copies import counted_once
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress, Records
from bayesrecon.pairs import Deletion, DrawsPair
from bayesrecon.results.deletion import DeletedRecord

_UNCHANGED = 1e-3  # probability of a larger gain if nothing was deleted, below which there is no doubt
_POOL = 512  # number of records drawn as starting points, of which the most likely ones are used


@dataclass(frozen=True)
class Tilt(Attack[DeletedRecord]):
    """The deleted record, by maximum a posteriori from two sets of posterior draws. No public records are needed.

    The likelihood is that of the ratio ("tilt") between the two sets of draws; see `infer_deletion`. The prior of the
    record is a normal distribution with the recovered mean and variance of the private records.

    >>> Tilt().starts
    4
    """

    name: ClassVar[str] = "tilt"
    summary: ClassVar[str] = "the record deleted between two sets of posterior draws"
    takes: ClassVar[tuple[type, ...]] = (DrawsPair,)
    uses: ClassVar[tuple[str, ...]] = ("domain",)

    starts: int = option(4, "Number of starting points of the descent.")

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise BayesreconError(f"starts={self.starts}: expected a positive whole number")

    def run(self, release: Deletion, knows: Knows, *, key: Key, progress: Progress) -> DeletedRecord:
        return _reconstruct(release, knows, self.starts, key, progress)


ATTACK = Tilt


def _reconstruct(pair: Deletion, knows: Knows, starts: int, key: Key, progress: Progress) -> DeletedRecord:
    model = pair.before.model
    problem = solve_release(pair.before, key=key, progress=progress, **knows)
    pair = DrawsPair(problem.release, counted_once(pair.after))
    reference, rng = problem.reference, problem.rng
    theta, side, weights = pooled(pair)
    offset = float(np.log((weights * side).sum() / (weights * (1 - side)).sum()))
    data = theta, side, weights, offset
    pool = reference.draw(rng, _POOL)
    continuous = [k for k, f in problem.knowledge.fields.items() if not f.domain.discrete]
    centre = {k: np.asarray(reference.centre[k], float) for k in continuous}
    scale = {k: np.asarray(reference.scale[k], float) for k in continuous}
    log_posterior = np.asarray(_values(model, *data, pool)) - np.asarray(_distance(pool, centre, scale))
    rows = np.argsort(-log_posterior)[:starts]
    fields = problem.knowledge.fields
    maxima = [_ascend(model, data, pool, i, centre, scale, fields) for i in rows]
    record, se, gain = max(maxima, key=lambda maximum: maximum[2])
    gain -= _log_likelihood_without_tilt(side, weights)
    # If nothing was deleted, twice the gain is at most chi squared: one degree of freedom per entry, and the constant.
    least = 0.5 * float(chdtri(1 + sum(np.size(v) for v in record.values()), _UNCHANGED))
    doubts = ()
    if gain < least:
        doubts = (
            f"the two sets of draws differ no more than two of one posterior may (log evidence {gain:.1f}, below "
            f"{least:.1f}): nothing can be said, perhaps nothing was deleted",
        )
    return DeletedRecord(
        record=record,
        se=se,
        method="tilt",
        evidence=gain,
        effective_size=float(weights.sum()),
        before=pair.before.name,
        after=pair.after.name,
        model=model.name,
        warnings=(*notes_of(pair), *doubts),
        doubts=doubts,
    )


def _log_likelihood_without_tilt(side: np.ndarray, weights: np.ndarray) -> float:
    share = (weights * side).sum() / weights.sum()
    return float((weights * side).sum() * np.log(share) + (weights * (1 - side)).sum() * np.log(1 - share))


@partial(jax.jit, static_argnames="model")
def _values(model: Model, theta: Array, side: Array, weights: Array, offset: Array, records: Records) -> jax.Array:
    return profile(log_liks(model, theta, records) + offset, side, weights)[0]


@jax.jit
def _distance(records: Records, centre: Records, scale: Records) -> jax.Array:
    """Minus the log prior of each record, up to a constant."""
    parts = [
        0.5 * (((jnp.asarray(records[k], float) - centre[k]) / scale[k]) ** 2).reshape(len(records[k]), -1).sum(axis=1)
        for k in centre
    ]
    return jnp.asarray(sum(parts))


@partial(jax.jit, static_argnames="model")
def _objective(
    model: Model,
    data: tuple[Array, Array, Array, Array],
    fixed: Records,
    whitened: Records,
    centre: Records,
    scale: Records,
) -> tuple[tuple[jax.Array, jax.Array], dict[str, jax.Array]]:
    """Minus the log posterior of one record, its log likelihood, and the gradient in whitened coordinates."""

    def value(u: Records) -> tuple[jax.Array, jax.Array]:
        record = {k: jnp.asarray(v)[None] for k, v in fixed.items()}
        record |= {k: (centre[k] + scale[k] * u[k])[None] for k in u}
        gain = _values(model, *data, record)[0]
        return _distance({k: record[k] for k in centre}, centre, scale)[0] - gain, gain

    return jax.value_and_grad(value, has_aux=True)(whitened)


def _ascend(
    model: Model,
    data: tuple[Array, Array, Array, float],
    pool: Records,
    i: int,
    centre: Records,
    scale: Records,
    fields: Mapping[str, Field],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], float]:
    """The record of a local maximum, its standard errors, and its log likelihood."""
    import scipy.optimize

    fixed = {k: np.asarray(v[i]) for k, v in pool.items() if k not in centre}
    u = {k: (np.asarray(pool[k][i], float) - centre[k]) / scale[k] for k in centre}
    start, shape = ravel_pytree({k: jnp.asarray(v) for k, v in u.items()})

    def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
        (value, _), slope = _objective(model, data, fixed, shape(jnp.asarray(v)), centre, scale)
        return float(value), np.asarray(ravel_pytree(slope)[0])

    bounds = []
    for side in ("low", "high"):
        bounds.append(
            ravel_pytree(
                {
                    k: jnp.broadcast_to((getattr(fields[k].domain, side) - centre[k]) / scale[k], np.shape(u[k]))
                    for k in centre
                }
            )[0]
        )
    limits = [(a if np.isfinite(a) else None, b if np.isfinite(b) else None) for a, b in np.stack(bounds, 1).tolist()]
    optimum = scipy.optimize.minimize(evaluate, np.asarray(start), jac=True, method="L-BFGS-B", bounds=limits)
    # Hessian by central differences of the gradient, since a record has few fields.
    size = len(optimum.x)
    if size <= 100:
        step = 1e-4
        hessian = np.stack(
            [(evaluate(optimum.x + e)[1] - evaluate(optimum.x - e)[1]) / (2 * step) for e in step * np.eye(size)]
        )
        se = np.sqrt(np.maximum(np.diag(np.linalg.pinv(0.5 * (hessian + hessian.T), hermitian=True)), 0.0))
    else:
        se = np.full(size, np.nan)
    x, sd = shape(jnp.asarray(optimum.x)), shape(jnp.asarray(se))
    record = {k: np.asarray(centre[k] + scale[k] * x[k]) if k in centre else fixed[k] for k in pool}
    gain = float(_objective(model, data, fixed, x, centre, scale)[0][1])
    return record, {k: np.asarray(scale[k] * sd[k]) for k in centre}, gain

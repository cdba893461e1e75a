"""`Tilt`: the deleted record, from two sets of posterior draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.deletion.cautions import notes_of
from bayesrecon.attacks.deletion.tilt import pooled, profile
from bayesrecon.domains import Field
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.checks.copies import counted_once
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.kernels.score import log_liks
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress, Records
from bayesrecon.pairs import Deletion, DrawsPair
from bayesrecon.results.deletion import DeletedRecord

_POOL = 512  # generic records, the most likely of which a descent starts from


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


def _reconstruct(pair: Deletion, knows: Knows, most: int, key: Key, progress: Progress) -> DeletedRecord:
    model = pair.before.model
    problem = solve_release(pair.before, key=key, progress=progress, **knows)
    pair = DrawsPair(problem.release, counted_once(pair.after))
    reference, rng = problem.reference, problem.rng
    theta, side, weights = pooled(pair)
    offset = float(np.log((weights * side).sum() / (weights * (1 - side)).sum()))
    data = theta, side, weights, offset
    pool = reference.draw(rng, _POOL)
    moved = [k for k, f in problem.knowledge.fields.items() if not f.domain.discrete]
    centre = {k: np.asarray(reference.centre[k], float) for k in moved}
    scale = {k: np.asarray(reference.scale[k], float) for k in moved}
    first = np.asarray(_values(model, *data, pool)) - np.asarray(_distance(pool, centre, scale))
    starts = np.argsort(-first)[:most]
    best = max((_ascend(model, data, pool, i, centre, scale, problem.knowledge.fields) for i in starts), key=_gain)
    record, se, gain = best
    none = float(np.asarray(_none(side, weights)))
    return DeletedRecord(
        record=record,
        se=se,
        method="tilt",
        evidence=gain - none,
        effective_size=float(weights.sum()),
        before=pair.before.name,
        after=pair.after.name,
        model=model.name,
        warnings=notes_of(pair),
    )


def _gain(found: tuple[Mapping[str, Array], Mapping[str, Array], float]) -> float:
    return found[2]


def _none(side: np.ndarray, weights: np.ndarray) -> float:
    """The likelihood without a tilt."""
    share = (weights * side).sum() / weights.sum()
    return (weights * side).sum() * np.log(share) + (weights * (1 - side)).sum() * np.log(1 - share)


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
    still: Records,
    moving: Records,
    centre: Records,
    scale: Records,
) -> tuple[tuple[jax.Array, jax.Array], dict[str, jax.Array]]:
    """Minus the log posterior of one record, its slopes in whitened coordinates, and its likelihood."""

    def value(u: Records) -> tuple[jax.Array, jax.Array]:
        record = {k: jnp.asarray(v)[None] for k, v in still.items()}
        record |= {k: (centre[k] + scale[k] * u[k])[None] for k in u}
        gain = _values(model, *data, record)[0]
        return _distance({k: record[k] for k in centre}, centre, scale)[0] - gain, gain

    return jax.value_and_grad(value, has_aux=True)(moving)


def _ascend(
    model: Model,
    data: tuple[Array, Array, Array, float],
    pool: Records,
    i: int,
    centre: Records,
    scale: Records,
    fields: Mapping[str, Field],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], float]:
    """The best record around one start, its standard errors, and its likelihood."""
    import scipy.optimize

    still = {k: np.asarray(v[i]) for k, v in pool.items() if k not in centre}
    u = {k: (np.asarray(pool[k][i], float) - centre[k]) / scale[k] for k in centre}
    start, shape = ravel_pytree({k: jnp.asarray(v) for k, v in u.items()})

    def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
        (value, _), slope = _objective(model, data, still, shape(jnp.asarray(v)), centre, scale)
        return float(value), np.asarray(ravel_pytree(slope)[0])

    ends = []
    for side in ("low", "high"):
        ends.append(
            ravel_pytree(
                {
                    k: jnp.broadcast_to((getattr(fields[k].domain, side) - centre[k]) / scale[k], np.shape(u[k]))
                    for k in centre
                }
            )[0]
        )
    limits = [(a if np.isfinite(a) else None, b if np.isfinite(b) else None) for a, b in np.stack(ends, 1).tolist()]
    found = scipy.optimize.minimize(evaluate, np.asarray(start), jac=True, method="L-BFGS-B", bounds=limits)
    # Curvature by central differences of the slopes: a record has few fields.
    size = len(found.x)
    if size <= 100:
        step = 1e-4
        hessian = np.stack(
            [(evaluate(found.x + e)[1] - evaluate(found.x - e)[1]) / (2 * step) for e in step * np.eye(size)]
        )
        spread = np.sqrt(np.maximum(np.diag(np.linalg.pinv(0.5 * (hessian + hessian.T), hermitian=True)), 0.0))
    else:
        spread = np.full(size, np.nan)
    x, sd = shape(jnp.asarray(found.x)), shape(jnp.asarray(spread))
    record = {k: np.asarray(centre[k] + scale[k] * x[k]) if k in centre else still[k] for k in pool}
    gain = float(_objective(model, data, still, x, centre, scale)[0][1])
    return record, {k: np.asarray(scale[k] * sd[k]) for k in centre}, gain

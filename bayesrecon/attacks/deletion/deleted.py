"""The deleted record itself: from two trained parameters by HRec, from two sets of draws by the tilt between them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bayesrecon.attacks.deletion.hrec import HRec, Improvements
from bayesrecon.attacks.deletion.tilt import log_liks, pooled, profile
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import solve_release
from bayesrecon.precision import in_float64
from bayesrecon.results.deletion import DeletedRecord
from bayesrecon.types import Deletion, Model, Records

_POOL, _STARTS = 512, 4


@in_float64
def reconstruct_deleted(
    pair: Deletion,
    *,
    public: Mapping[str, Any] | None = None,
    total: float | None = None,
    improvements: Improvements | None = None,
    embedding: Callable[[Any], Any] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    domain: Mapping[str, Any] | None = None,
    key: Any = 0,
) -> DeletedRecord:
    """Reconstruct the record that was deleted; `reconstruct(pair)` calls this.

    Two sets of draws: the record of largest likelihood under the tilt between them (see `infer_deletion`) times a
    normal law around the recovered mean and variance of the private records; nothing public is needed. Two trained
    parameters: `HRec` with public records.

    Args:
        public: `{field: (m, *shape)}`, for trained parameters.
        total: number of private records, for trained parameters.
        improvements: over the published HRec; all by default.
        embedding: of records into the model's features, for trained parameters: the record is then found by inverting
            it (`bayesrecon.attacks.deletion.inversion`), and public records are raw ones.
        bounds, domain: of the fields, for draws.
        key: seeds the starts.

    Raises:
        BayesreconError: for input that cannot be used, saying what to change.
    """
    model = pair.before.model
    if not pair.before.temperature:
        if public is None:
            raise BayesreconError("trained parameters need public=: records that stand in for the private Hessian")
        return deleted_by(HRec(model, public, total=total, improvements=improvements, embedding=embedding), pair)
    if public is not None or embedding is not None:
        raise BayesreconError("posterior draws carry their own curvature: leave public and embedding out")
    problem = solve_release(pair.before, bounds=bounds, domain=domain, key=key)
    reference, rng = problem.reference, problem.rng
    theta, side, weights = pooled(pair)
    offset = float(np.log((weights * side).sum() / (weights * (1 - side)).sum()))
    data = theta, side, weights, offset
    pool = reference.draw(rng, _POOL)
    moved = [k for k, f in problem.knowledge.fields.items() if not f.domain.discrete]
    centre = {k: np.asarray(reference.centre[k], float) for k in moved}
    scale = {k: np.asarray(reference.scale[k], float) for k in moved}
    first = np.asarray(_values(model, *data, pool)) - np.asarray(_distance(pool, centre, scale))
    starts = np.argsort(-first)[:_STARTS]
    best = max((_ascend(model, data, pool, i, centre, scale, problem.knowledge.fields) for i in starts), key=_gain)
    record, se, gain = best
    none = float(np.asarray(_none(side, weights)))
    return DeletedRecord(
        record,
        se,
        "tilt",
        gain - none,
        float(weights.sum()),
        pair.before.name,
        pair.after.name,
        model.name,
        _notes(pair),
    )


def deleted_by(attack: HRec, pair: Deletion) -> DeletedRecord:
    """The record that an attack on trained parameters finds; for many deletions from one model."""
    found = attack(pair)
    record: dict[str, Any] = {attack.linear.x: found.x if attack.embedding is None else attack.invert([found]).x[0]}
    if found.label is not None:
        record[attack.linear.y] = np.asarray(found.label)
    names = pair.before.name, pair.after.name, attack.model.name
    warnings = (*_notes(pair), *attack.doubts(found))
    return DeletedRecord(record, None, "HRec", None, found.public_records, *names, warnings)


def _notes(pair: Deletion) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*pair.before.notes, *pair.after.notes)))


def _gain(found: tuple[Any, Any, float]) -> float:
    return found[2]


def _none(side: np.ndarray, weights: np.ndarray) -> Any:
    """The likelihood without a tilt."""
    share = (weights * side).sum() / weights.sum()
    return (weights * side).sum() * np.log(share) + (weights * (1 - side)).sum() * np.log(1 - share)


@partial(jax.jit, static_argnames="model")
def _values(model: Model, theta: Any, side: Any, weights: Any, offset: Any, records: Records) -> Any:
    return profile(log_liks(model, theta, records) + offset, side, weights)[0]


@jax.jit
def _distance(records: Records, centre: Records, scale: Records) -> Any:
    """Minus the log prior of each record, up to a constant."""
    parts = [
        0.5 * (((jnp.asarray(records[k], float) - centre[k]) / scale[k]) ** 2).reshape(len(records[k]), -1).sum(axis=1)
        for k in centre
    ]
    return jnp.asarray(sum(parts))


@partial(jax.jit, static_argnames="model")
def _objective(model: Model, data: Any, still: Records, moving: Records, centre: Records, scale: Records) -> Any:
    """Minus the log posterior of one record, its slopes in whitened coordinates, and its likelihood."""

    def value(u: Records) -> tuple[Any, Any]:
        record = {k: jnp.asarray(v)[None] for k, v in still.items()}
        record |= {k: (centre[k] + scale[k] * u[k])[None] for k in u}
        gain = _values(model, *data, record)[0]
        return _distance({k: record[k] for k in centre}, centre, scale)[0] - gain, gain

    return jax.value_and_grad(value, has_aux=True)(moving)


def _ascend(
    model: Model, data: Any, pool: Records, i: int, centre: Records, scale: Records, fields: Mapping[str, Any]
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

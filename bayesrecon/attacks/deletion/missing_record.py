"""The missing record of a trained parameter, from the gradients of all known records and of the regulariser.

A trained parameter is stationary, so the gradient of the missing record is minus the sum of all other gradients. For
a linear predictor it is an outer product of the loss's slope and the record,

    grad l(theta, x) = -[ sum_known grad l(theta, x_n) + grad log pi0(theta) ] = s (x, 1)',    s = dh/deta

whose intercept column is the slope itself. Let delta be the gradient left by training. It changes the recovered
record by at most `sqrt(1 + |x|^2) |delta| / (|s| - |delta|)`. If the loss implies the slope of a record, the
difference between the recovered and the implied slope is a linear function of delta. It determines the size of delta
if its direction is random.
"""

from collections.abc import Mapping
from functools import partial

import jax
import numpy as np
from scipy.special import chdtri

from bayesrecon.arrays import Array
from bayesrecon.divergence.outer_products import design, label_of, penalty_of, slopes, split_gradient
from bayesrecon.divergence.score import total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import LinearPredictor, Model, Params, Records
from bayesrecon.pairs import Unchanged
from bayesrecon.releases import Release
from bayesrecon.results.deletion import MissingRecord

_ACCUMULATED = 10.0  # rounding errors of a sum, in units of the last place of its largest part
_OFF = 1e-3  # largest relative disagreement at a stationary parameter
_LOST = 0.5  # relative disagreement above which slope and record are unrelated
_UNSEEN = 0.05  # probability that a remaining gradient of random direction is larger than estimated


def missing_record_of(release: Release, others: Mapping[str, Array], tolerance: float | None = None) -> MissingRecord:
    """The missing record of a trained linear predictor, as in the verb `missing_record`.

    Raises:
        BayesreconError: as in `missing_record`.
    """
    model = release.model
    if model.linear is None:
        raise BayesreconError(
            f"model {model.name} has no linear predictor, so no closed form; "
            "use reconstruct(condition(release, others), n=1, total=1)"
        )
    table = all_fields(model, others)
    if model.linear.intercept is None:
        raise BayesreconError(
            "without an intercept the record's direction alone is determined, not its scale and sign; "
            "state more, e.g. reconstruct(condition(release, others), n=1, total=1, domain=...)"
        )
    theta = np.asarray(release.theta)[0]
    count = len(next(iter(table.values())))
    gradient = -np.asarray(total_score(model, theta, table, np.ones(count)))
    rounding = float(np.finfo(float).eps * np.sqrt(count) * (1 + np.abs(gradient).max()))
    rows, y, outer = design(model, table[model.linear.x]), table[model.linear.y], split_gradient(model, theta)
    y = y.reshape(count, -1) if model.linear.loss == "squared" else y
    sums = np.abs(np.asarray(slopes(model.linear, rows @ outer.T, y))).T @ np.abs(rows)
    sums += penalty_of(model) * np.abs(outer)
    if not (np.abs(split_gradient(model, gradient)) > _ACCUMULATED * np.finfo(float).eps * sums).any():
        raise Unchanged(
            "the known records explain the parameter up to rounding: nothing can be said about another one, perhaps "
            "none is missing, or its loss is flat there, as beyond the margin of a hinge loss"
        )
    return _solve(release, model.linear, model.constrain(theta), gradient, tolerance, rounding, count)


def all_fields(model: Model, others: Mapping[str, Array]) -> Records:
    """Check known records, which must have every field of the model."""
    missing = [f for f in model.fields if f not in others]
    if missing:
        raise BayesreconError(f"the known records lack field {missing[0]} (fields: {', '.join(model.fields)})")
    return check_knowledge(model, known=others).known


def _solve(
    release: Release,
    linear: LinearPredictor,
    params: Params,
    gradient: np.ndarray,
    tolerance: float | None,
    rounding: float,
    count: int,
) -> MissingRecord:
    outer = split_gradient(release.model, gradient)
    slope = outer[:, -1]
    if not np.linalg.norm(slope) > 0:
        raise BayesreconError("the intercept's gradient vanishes: the record's scale is not determined")
    x, label = slope @ outer[:, :-1] / (slope @ slope), label_of(linear, slope)
    size, record_size = float(np.linalg.norm(slope)), float(np.linalg.norm(x))
    disagreement, estimated, proven = None, 0.0, 0.0
    if linear.loss == "squared":
        response = np.asarray(params[linear.coef]) @ x + np.asarray(params[str(linear.intercept)]) + slope
        record: Records = {linear.x: x, linear.y: float(response[0]) if response.shape == (1,) else response}
        if len(slope) > 1:
            proven = float(np.linalg.norm(outer[:, :-1] - np.outer(slope, x)))
            disagreement = proven / float(np.linalg.norm(outer))
            estimated = proven * _hidden(outer.size, (len(slope) - 1) * len(x))
    else:
        record = {linear.x: x, linear.y: label}
        off, change = _off(linear, params[linear.coef], params[str(linear.intercept)], outer, label)
        disagreement = float(np.linalg.norm(off)) / size
        checks = max(1, len(slope) - 1)
        proven = float(np.linalg.norm(off) / np.linalg.norm(change))
        estimated = proven * np.sqrt(checks) * _hidden(outer.size, checks)
    left = getattr(release, "tolerance", 0.0) * count if disagreement is None else 0.0
    remaining = max(rounding, estimated, left) if tolerance is None else max(float(tolerance), proven)
    known = remaining < size and (disagreement is None or disagreement < _LOST)
    error = float(np.sqrt(1 + x @ x) * remaining / (size - remaining)) if known else float("inf")
    warnings = []
    if disagreement is not None and disagreement > _OFF:
        warnings.append(
            f"the parameter is not stationary for these records: slope and record disagree by {disagreement:.1g}; "
            "more than one record is missing, the penalty differs, or training stopped early"
        )
    if error > max(1.0, record_size):
        warnings.append(
            "the record's gradient is smaller than the gradient left by training: the record is not determined"
        )
    return MissingRecord(
        record=record,
        slope=slope,
        amplification=float(np.sqrt(1 + x @ x)) / size,
        error=error,
        disagreement=disagreement,
        remaining_gradient=remaining,
        release=release.name,
        model=release.model.name,
        warnings=tuple(warnings),
    )


def _hidden(entries: int, checks: int) -> float:
    """Upper limit of the ratio of a vector's norm to that of its observed part, for a random direction.

    Args:
        entries: number of entries of the vector.
        checks: number of their combinations that are observed.
    """
    return float(np.sqrt(entries / chdtri(checks, 1 - _UNSEEN)))


@partial(jax.jit, static_argnames="linear")
def _off(
    linear: LinearPredictor, coef: Array, intercept: Array, outer: Array, label: Array
) -> tuple[jax.Array, jax.Array]:
    """Implied minus recovered slope, `(K,)`, and its derivative in the gradient, `(K, K, p + 1)`."""

    def difference(outer: Array) -> jax.Array:
        slope = outer[:, -1]
        x = slope @ outer[:, :-1] / (slope @ slope)
        return jax.grad(linear.log_lik)(coef @ x + intercept, label) - slope

    return difference(outer), jax.jacrev(difference)(outer)

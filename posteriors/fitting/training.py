"""Exact training of linear predictors, and exact retraining without single records.

The difference of two trained parameters is the signal of a deletion, and inexact training hides it. So both end at a
gradient norm of 1e-8, relative to the gradient of a record. A retrained parameter is close to the old one, at which the
Hessian is factorised.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.divergence.outer_products import join, split_gradient
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.fitting.newton import FULL, Objective, Preconditioner, newton
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release

_DOUBLES = 2**26  # largest number of predictors in memory, of several deletions together
_ROUNDING = 2e-12  # rounding error of the summed gradient, relative to the largest gradient of a record
_SEPARATED = 1e-3  # largest slope of a record below which the classes are separated
_LBFGS = 400  # largest number of steps
_DETERMINED = 1e-8  # one minus the leverage of a record; below, the other records do not determine some direction


class TrainingResult(NamedTuple):
    """A trained parameter, with the quality of the training.

    Attributes:
        release: the parameter, one atom at temperature 0.
        gradient: norm of the objective's gradient, relative to the largest gradient norm of a record.
        seconds: duration; the mean per deletion if several were computed together.
    """

    release: Release
    gradient: float
    seconds: float


@in_float64
def train(
    model: Model, records: Mapping[str, Array], *, tolerance: float = 1e-8, name: str = "trained"
) -> TrainingResult:
    """Train a linear predictor to its exact optimum, by L-BFGS followed by Newton's method.

    Args:
        model: `models.load("linear_predictor")`, or the model of `from_sklearn`.
        records: `{"x": (N, p), "y": (N,)}`.
        tolerance: norm of the gradient to reach, relative to the largest gradient norm of a record.

    Raises:
        BayesreconError: the optimum does not exist (separable classes without a penalty) or is not reached.

    >>> from bayesrecon.models import load
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 1.0])
    >>> train(load("linear_predictor", penalty=2.0), {"x": x, "y": y}).release.theta.round(3).tolist()
    [[0.25, 0.417]]
    """
    started = time.perf_counter()
    objective = Objective(model, records)
    shape = objective.penalty.shape
    start = np.zeros(shape)
    if objective.linear.loss != "squared":
        import scipy.optimize  # slow, and this module is also imported to read draws

        def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective.value_and_gradient(v.reshape(shape))
            return value, gradient.ravel()

        # Newton's steps are cheaper for large problems, for which only blocks are factorised.
        max_steps = _LBFGS if start.size <= FULL else _LBFGS // 5
        options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "ftol": 1e-13, "gtol": 1e-7, "maxcor": 30}
        optimum = scipy.optimize.minimize(evaluate, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        start = optimum.x.reshape(shape)
    base = Preconditioner(objective, start)
    outer, reached = newton(objective, base, start[None], np.zeros((1, len(objective.x))), np.full(1, tolerance))
    if not reached[0] <= tolerance:
        raise BayesreconError(
            f"training stopped at a relative gradient norm of {reached[0]:.1e}: does an optimum exist? "
            "Separable classes have no optimum without a penalty"
        )
    if objective.linear.labels and np.abs(objective.slopes(objective.predictors(outer))).max() < _SEPARATED:
        raise BayesreconError("the classes are separable: without a penalty there is no optimum; add one")
    largest = (
        np.abs(objective.slopes(objective.predictors(outer))[:, 0]).max(axis=1) * np.linalg.norm(objective.x, axis=1)
    ).max()
    left = float(reached[0] * largest) / len(objective.x)
    return TrainingResult(objective.release(outer[0], name, left), float(reached[0]), time.perf_counter() - started)


@in_float64
def retrain_without(
    release: Release, records: Mapping[str, Array], rows: Sequence[int], *, tolerance: float = 1e-8
) -> list[TrainingResult]:
    """Retrain exactly without one record, for each of several records.

    The penalty does not change. Least squares with one penalty for all outputs uses rank-one updates of the factorised
    Hessian, which need one pass over the records for all rows together. Other models use Newton's method from the old
    parameter.

    Args:
        release: a parameter that was trained on `records`.
        records: `{"x": (N, p), "y": (N,)}`.
        rows: positions of the records to leave out, one retrained parameter each.
        tolerance: norm of the gradient to reach, relative to the gradient of the removed record.

    Raises:
        BayesreconError: the model has no linear predictor, the records lack a field, rows do not exist, or the Hessian
            is singular.

    >>> import numpy as np
    >>> from bayesrecon.models import load
    >>> data = {"x": np.array([[0.0], [1.0], [2.0]]), "y": np.array([0.0, 1.0, 1.0])}
    >>> release = train(load("linear_predictor", penalty=2.0), data).release
    >>> [t.release.theta.round(3).tolist() for t in retrain_without(release, data, [0, 2])]
    [[[0.0, 1.0]], [[0.2, 0.4]]]
    """
    started = time.perf_counter()
    objective = Objective(release.model, records)
    chosen = np.asarray(rows, int)
    if chosen.size == 0 or chosen.min() < 0 or chosen.max() >= len(objective.x):
        raise BayesreconError(f"rows must lie between 0 and {len(objective.x) - 1}")
    outer = split_gradient(release.model, np.asarray(release.theta)[0])
    base = Preconditioner(objective, outer)
    slopes = objective.slopes(objective.predictors(outer[None]))[:, 0]
    lengths = np.linalg.norm(slopes, axis=1) * np.linalg.norm(objective.x, axis=1)
    scale = np.maximum(lengths[chosen] / lengths.max(), _ROUNDING / tolerance)
    solutions, reached = np.repeat(outer[None], len(chosen), axis=0), np.full(len(chosen), np.inf)
    if base.shared:
        solutions, norms = _rank_one(objective, base, outer, slopes, chosen)
        reached = norms / lengths.max()
    unconverged = np.flatnonzero(~(reached <= tolerance * scale))
    solutions[unconverged] = outer
    block = max(1, _DOUBLES // (len(objective.x) * objective.outputs))
    for first in range(0, len(unconverged), block):
        batch = unconverged[first : first + block]
        left_out = np.zeros((len(batch), len(objective.x)))
        left_out[np.arange(len(batch)), chosen[batch]] = 1.0
        solutions[batch], reached[batch] = newton(objective, base, solutions[batch], left_out, tolerance * scale[batch])
    seconds_each = (time.perf_counter() - started) / len(chosen)
    return [
        TrainingResult(
            replace(release, theta=theta[None], name=f"{release.name} without record {row}"), float(r), seconds_each
        )
        for theta, r, row in zip(join(release.model, solutions), reached / scale, rows, strict=True)
    ]


def _rank_one(
    objective: Objective, base: Preconditioner, outer: np.ndarray, slopes: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solutions `(B, K, q)` of least squares without one record each, and the norms of their gradients, `(B,)`.

    The Hessian without x is `A - x x'`, and its inverse `A^-1 + A^-1 x x' A^-1 / (1 - x' A^-1 x)` (Sherman and Morrison
    1950). A step from the old parameter ends at the optimum except for rounding, which a second step corrects. The norm
    is infinite if the other records do not determine some direction.
    """
    x = objective.x[chosen]
    solved = base.solve(x[:, None])[:, 0]  # A^-1 x, (B, q)
    unexplained = 1 - np.einsum("bq,bq->b", solved, x)
    determined = unexplained > _DETERMINED
    unexplained = np.where(determined, unexplained, 1.0)[:, None]
    total_gradient = objective.penalty * outer - slopes.T @ objective.x
    gradient = total_gradient + slopes[chosen][:, :, None] * x[:, None]
    change = np.zeros_like(gradient)
    residual = gradient
    for _ in range(2):
        step = base.solve(residual)
        step = step + (np.einsum("bkq,bq->bk", step, x) / unexplained)[:, :, None] * solved[:, None]
        change = change - step
        residual = gradient + change @ base.hessian - np.einsum("bkq,bq->bk", change, x)[:, :, None] * x[:, None]
    return outer + change, np.where(determined, np.linalg.norm(residual, axis=(1, 2)), np.inf)

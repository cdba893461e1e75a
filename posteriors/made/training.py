"""Exact training of linear predictors, and exact retraining without single records.

Both end at a gradient norm of 1e-8 of what they must resolve: the difference of two trained parameters is the signal
of a deletion, and sloppy training drowns it. A retrained parameter lies close to the old one, so its Newton systems
are solved by conjugate gradients preconditioned with the old one's Hessian, for many deletions in one matrix product.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.outer_products import (
    bends,
    design,
    join,
    log_liks,
    penalty_of,
    predictor_of,
    slopes,
    split_gradient,
)
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release, TrainedParameter

_FULL = 8000  # parameters up to which the whole Hessian is factorised; above, its diagonal blocks
_DOUBLES = 2**26  # of predictors of several deletions at once
_ROUNDING = 2e-12  # of a gradient's sum over records, relative to the largest record's
_SEPARATED = 1e-3  # largest slope of a record from which no class is doubted any more
_LBFGS, _NEWTON, _CG, _LINE = 400, 30, 100, 30  # steps of each at most; what stops short of the optimum says so
_ALONE = 1e-8  # one less the leverage of a record below which it alone shows some direction
_PATIENCE = 5  # of Newton's steps without a smaller gradient


class Trained(NamedTuple):
    """A trained parameter, with the quality of the training.

    Attributes:
        release: the parameter, one atom at temperature 0.
        gradient: norm of the objective's gradient, relative to the largest gradient norm of a record.
        seconds: time spent; per deletion if several were computed together.
    """

    release: Release
    gradient: float
    seconds: float


class Objective:
    """`sum_n loss + penalty` of one data set, for parameters in the form `(..., K, q)`, the intercept last."""

    def __init__(self, model: Model, records: Mapping[str, Array]):
        self.model, self.linear = model, predictor_of(model)
        table = check_knowledge(model, known=records).known
        missing = [f for f in model.fields if f not in table]
        if missing:
            raise BayesreconError(f"the records lack field {missing[0]}")
        self.x = design(model, table[self.linear.x])
        self.y = table[self.linear.y]
        self.penalty = penalty_of(model)
        self.outputs, self.width = self.penalty.shape
        if self.linear.loss == "squared":
            self.y = self.y.reshape(len(self.x), self.outputs)

    def predictors(self, outer: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
        """`(N, B, K)` of parameters `(B, K, q)`; x is the design in another precision."""
        x = self.x if x is None else x
        return (x @ outer.reshape(-1, self.width).T).reshape(len(x), -1, self.outputs)

    def labels(self, count: int) -> np.ndarray:
        """`y` repeated for `count` parameters, `(N count, ...)`."""
        return np.repeat(self.y, count, axis=0)

    def slopes(self, eta: np.ndarray) -> np.ndarray:
        """Slopes of the likelihood, `(N, B, K)`."""
        flat = eta.reshape(-1, self.outputs)
        return np.asarray(slopes(self.linear, flat, self.labels(eta.shape[1]))).reshape(eta.shape)

    def curvature_products(self, eta: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Curvatures of the loss applied to changes of the predictors, `(N, B, K)`."""
        flat = (eta.reshape(-1, self.outputs), self.labels(eta.shape[1]), change.reshape(-1, self.outputs))
        return np.asarray(bends(self.linear, *flat)).reshape(eta.shape)

    def back(self, slopes: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
        """`sum_n slope_n x_n'`, `(B, K, q)` from `(N, B, K)`."""
        x = self.x if x is None else x
        return (slopes.reshape(len(x), -1).T @ x).reshape(-1, self.outputs, self.width)

    def value_and_gradient(self, outer: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient `(K, q)` at one parameter."""
        eta = self.predictors(outer[None])
        loss = -np.asarray(log_liks(self.linear, eta[:, 0], self.y)).sum()
        slope = self.penalty * outer - self.back(self.slopes(eta))[0]
        return float(loss + 0.5 * np.sum(self.penalty * outer**2)), slope

    def release(self, outer: np.ndarray, name: str) -> Release:
        return TrainedParameter(join(self.model, outer)[None], self.model, name=name)


class Preconditioner:
    """The Hessian at one parameter, factorised: whole where it is small, else one block per output.

    Large systems are solved in single precision: Newton's gradients are in double, so that its next step mends what
    the last one lost.
    """

    def __init__(self, objective: Objective, outer: np.ndarray):
        penalty = objective.penalty
        outputs, width = penalty.shape
        self.shape = (outputs, width)
        self.shared = objective.linear.loss == "squared" and bool((penalty == penalty[:1]).all())
        self.whole = not self.shared and outputs * width <= _FULL
        self.dtype = np.dtype(float if self.shared or self.whole else np.float32)
        x = self.x = objective.x.astype(self.dtype, copy=False)
        # Adding one vector to all outputs of a softmax bends the penalty alone: the blocks do not know, so their
        # solution is split into that part and the rest.
        alike = objective.linear.loss == "softmax" and bool((penalty == penalty[:1]).all())
        self.balanced = penalty[0].astype(self.dtype) if alike else None
        eta = objective.predictors(outer[None])
        units = np.broadcast_to(np.eye(outputs), (len(x), outputs, outputs))
        # Curvature of every record, (N, K, K): its products with unit changes.
        curvature = np.stack(
            [objective.curvature_products(eta, units[:, k][:, None])[:, 0] for k in range(outputs)], axis=1
        )
        if self.shared:
            self.hessian = x.T @ x + np.diag(penalty[0])
            self.factors = [_factor(self.hessian.copy())]
        elif self.whole:
            hessian = np.empty((outputs, width, outputs, width))
            for i in range(outputs):
                for j in range(i + 1):
                    block = (x * curvature[:, i, j, None]).T @ x
                    hessian[i, :, j] = hessian[j, :, i] = block
            if objective.linear.loss == "softmax":
                # Adding one number to all outputs changes nothing: without a penalty a flat direction, made stiff.
                for w in np.flatnonzero((penalty == 0).all(axis=0)):
                    hessian[:, w, :, w] += np.trace(hessian[:, w, :, w])
            flat = hessian.reshape(outputs * width, -1)
            flat[np.diag_indices(len(flat))] += penalty.ravel()
            self.factors = [_factor(flat)]
        else:
            self.factors = []
            for k in range(outputs):
                weighted = x * np.sqrt(np.maximum(curvature[:, k, k], 0.0))[:, None].astype(self.dtype)
                block = weighted.T @ weighted
                block[np.diag_indices(width)] += penalty[k].astype(self.dtype)
                self.factors.append(_factor(block))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """`(B, K, q)` to `(B, K, q)`."""
        outputs, width = self.shape
        if self.whole:
            flat = scipy.linalg.cho_solve(self.factors[0], right.reshape(len(right), -1).T)
            return flat.T.reshape(right.shape)
        if self.shared:
            return scipy.linalg.cho_solve(self.factors[0], right.reshape(-1, width).T).T.reshape(right.shape)
        mean = right.mean(axis=1, keepdims=True) if self.balanced is not None else 0.0
        residual = right - mean
        parts = [
            scipy.linalg.cho_solve(self.factors[k], residual[:, k].T, check_finite=False).T for k in range(outputs)
        ]
        result = np.stack(parts, axis=1)
        if self.balanced is None:
            return result
        stiff = np.where(self.balanced > 0, self.balanced, np.inf)
        return result - result.mean(axis=1, keepdims=True) + mean / stiff


def _factor(matrix: np.ndarray) -> tuple[np.ndarray, bool]:
    # A flat direction (no penalty, separable or collinear data) gets a curvature at rounding level.
    level = 1e-13 if matrix.dtype == float else 1e-6
    matrix[np.diag_indices(len(matrix))] += level * np.trace(matrix) / len(matrix)
    try:
        return scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise BayesreconError(
            "the Hessian is singular: add a penalty, or drop features that depend on others"
        ) from None


@in_float64
def train(model: Model, records: Mapping[str, Array], *, tolerance: float = 1e-8, name: str = "trained") -> Trained:
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
    began = time.perf_counter()
    objective = Objective(model, records)
    shape = objective.penalty.shape
    start = np.zeros(shape)
    if objective.linear.loss != "squared":
        import scipy.optimize  # reading draws loads this module, too

        def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = objective.value_and_gradient(v.reshape(shape))
            return value, slope.ravel()

        # Newton's steps are dear in a small problem and cheap in a large one, which has only blocks factorised.
        most = _LBFGS if start.size <= _FULL else _LBFGS // 5
        options = {"maxiter": most, "maxfun": 2 * most, "ftol": 1e-13, "gtol": 1e-7, "maxcor": 30}
        optimum = scipy.optimize.minimize(evaluate, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        start = optimum.x.reshape(shape)
    base = Preconditioner(objective, start)
    outer, reached = _newton(objective, base, start[None], np.zeros((1, len(objective.x))), np.full(1, tolerance))
    if not reached[0] <= tolerance:
        raise BayesreconError(
            f"training stopped at a relative gradient norm of {reached[0]:.1e}: does an optimum exist? "
            "Separable classes have no optimum without a penalty"
        )
    if objective.linear.labels and np.abs(objective.slopes(objective.predictors(outer))).max() < _SEPARATED:
        raise BayesreconError("the classes are separable: without a penalty there is no optimum; add one")
    return Trained(objective.release(outer[0], name), float(reached[0]), time.perf_counter() - began)


@in_float64
def retrain_without(
    release: Release, records: Mapping[str, Array], rows: Sequence[int], *, tolerance: float = 1e-8
) -> list[Trained]:
    """Retrain exactly without one record, for each of several records.

    The penalty does not change. Least squares with one penalty for all outputs uses rank-one updates of the factorised
    Hessian, which need one pass over the records for all rows together. Other models use Newton's method from the old
    parameter.

    Args:
        release: a parameter that was trained on `records`.
        rows: positions of the records to leave out, one retrained parameter each.
        tolerance: norm of the gradient to reach, relative to the gradient of the removed record.

    Raises:
        BayesreconError: the model has no linear predictor, records lack a field, rows do not exist, or the Hessian is
            singular.

    >>> import numpy as np
    >>> from bayesrecon.models import load
    >>> data = {"x": np.array([[0.0], [1.0], [2.0]]), "y": np.array([0.0, 1.0, 1.0])}
    >>> release = train(load("linear_predictor", penalty=2.0), data).release
    >>> [t.release.theta.round(3).tolist() for t in retrain_without(release, data, [0, 2])]
    [[[0.0, 1.0]], [[0.2, 0.4]]]
    """
    began = time.perf_counter()
    objective = Objective(release.model, records)
    chosen = np.asarray(rows, int)
    if chosen.size == 0 or chosen.min() < 0 or chosen.max() >= len(objective.x):
        raise BayesreconError(f"rows must lie between 0 and {len(objective.x) - 1}")
    outer = split_gradient(release.model, np.asarray(release.theta)[0])
    base = Preconditioner(objective, outer)
    own = objective.slopes(objective.predictors(outer[None]))[:, 0]
    lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(objective.x, axis=1)
    scale = np.maximum(lengths[chosen] / lengths.max(), _ROUNDING / tolerance)
    solutions, reached = np.repeat(outer[None], len(chosen), axis=0), np.full(len(chosen), np.inf)
    if base.shared:
        solutions, size = _rank_one(objective, base, outer, own, chosen)
        reached = size / lengths.max()
    unconverged = np.flatnonzero(~(reached <= tolerance * scale))
    solutions[unconverged] = outer
    block = max(1, _DOUBLES // (len(objective.x) * objective.outputs))
    for first in range(0, len(unconverged), block):
        batch = unconverged[first : first + block]
        left_out = np.zeros((len(batch), len(objective.x)))
        left_out[np.arange(len(batch)), chosen[batch]] = 1.0
        solutions[batch], reached[batch] = _newton(
            objective, base, solutions[batch], left_out, tolerance * scale[batch]
        )
    seconds_each = (time.perf_counter() - began) / len(chosen)
    return [
        Trained(
            replace(release, theta=theta[None], name=f"{release.name} without record {row}"), float(r), seconds_each
        )
        for theta, r, row in zip(join(release.model, solutions), reached / scale, rows, strict=True)
    ]


def _rank_one(
    objective: Objective, base: Preconditioner, outer: np.ndarray, own: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Least squares without one record each, `(B, K, q)`, and the norms of their gradients, `(B,)`.

    The Hessian without x is `A - x x'`, its inverse `A^-1 + A^-1 x x' A^-1 / (1 - x' A^-1 x)` (Sherman and Morrison
    1950): a step from the old parameter ends at the optimum except for rounding, and a second one mends that. The
    norm is infinite where a record alone shows some direction.
    """
    x = objective.x[chosen]
    turned = base.solve(x[:, None])[:, 0]  # A^-1 x, (B, q)
    rest = 1 - np.einsum("bq,bq->b", turned, x)
    several = rest > _ALONE
    rest = np.where(several, rest, 1.0)[:, None]
    total_gradient = objective.penalty * outer - own.T @ objective.x
    gradient = total_gradient + own[chosen][:, :, None] * x[:, None]
    moved = np.zeros_like(gradient)
    residual = gradient
    for _ in range(2):
        step = base.solve(residual)
        step = step + (np.einsum("bkq,bq->bk", step, x) / rest)[:, :, None] * turned[:, None]
        moved = moved - step
        residual = gradient + moved @ base.hessian - np.einsum("bkq,bq->bk", moved, x)[:, :, None] * x[:, None]
    return outer + moved, np.where(several, np.linalg.norm(residual, axis=(1, 2)), np.inf)


def _newton(
    objective: Objective, base: Preconditioner, outer: np.ndarray, left_out: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Newton for several data sets at once: parameters `(B, K, q)` and their relative gradient norms `(B,)`.

    Args:
        left_out: `(B, N)`, one where a record is left out.
        tolerance: `(B,)`.
    """
    keep = (1 - left_out.T)[:, :, None]
    outer, reached = np.array(outer), np.full(len(outer), np.inf)
    eta = objective.predictors(outer)
    slopes = objective.slopes(eta)
    scale = float((np.linalg.norm(slopes, axis=2) * np.linalg.norm(objective.x, axis=1)[:, None]).max()) or 1.0
    best, stalled = np.array(outer), np.zeros(len(outer), int)
    going = np.arange(len(outer))  # the systems that are still solved; all arrays but `outer` and `reached` are theirs
    gradient = objective.penalty * outer - objective.back(slopes * keep)
    for _ in range(_NEWTON):
        size = np.linalg.norm(gradient, axis=(1, 2)) / scale
        # Where the loss has kinks the gradient may grow for a while; at rounding level it stays what it is.
        stalled[going] = np.where(size < 0.9 * reached[going], 0, stalled[going] + 1)
        better = size < reached[going]
        best[going[better]], reached[going[better]] = outer[going[better]], size[better]
        worth = (size > tolerance) & (stalled[going] < _PATIENCE)
        if not worth.any():
            break
        going, gradient, size, tolerance = going[worth], gradient[worth], size[worth], tolerance[worth]
        eta, keep = eta[:, worth], keep[:, worth]
        # Newton converges quadratically: early systems need no more digits than the step will keep.
        aim = np.maximum(0.3 * tolerance * scale, size * scale * np.minimum(0.1, np.sqrt(size)))
        step = _conjugate(objective, base, eta, keep, gradient, aim)
        length, trial, slope = np.ones(len(going)), outer[going], gradient
        for _ in range(_LINE):
            trial = outer[going] - length[:, None, None] * step
            eta = objective.predictors(trial)
            slopes = objective.slopes(eta)
            slope = objective.penalty * trial - objective.back(slopes * keep)
            # Convex: the step is too long while the slope along it has turned upwards by more than it was down.
            along = np.einsum("bkq,bkq->b", slope, step)
            before = np.einsum("bkq,bkq->b", gradient, step)
            long = along < -0.9 * before - 1e-300
            if not long.any():
                break
            length = np.where(long, length / 2, length)
        outer[going], gradient = trial, slope
    return best, reached


def _conjugate(
    objective: Objective, base: Preconditioner, eta: np.ndarray, keep: np.ndarray, right: np.ndarray, aim: np.ndarray
) -> np.ndarray:
    """Preconditioned conjugate gradients for `Hess u = right`, several systems at once, `(B, K, q)`."""
    kind: Any = base.dtype
    penalty = objective.penalty.astype(kind)
    aim = np.maximum(aim, 100 * np.finfo(kind).eps * np.linalg.norm(right, axis=(1, 2)))
    eta, keep, residual = eta.astype(kind), keep.astype(kind), right.astype(kind)
    result = np.zeros_like(residual)
    direction = solved = base.solve(residual)
    product = np.einsum("bkq,bkq->b", residual, solved)
    going = np.arange(len(right))
    for _ in range(_CG):
        # What has converged rests: further steps would be made of rounding.
        on = np.linalg.norm(residual, axis=(1, 2)) > aim
        if not on.any():
            break
        if not on.all():
            going, residual, direction, product, aim = going[on], residual[on], direction[on], product[on], aim[on]
            eta, keep = eta[:, on], keep[:, on]
        curved = objective.curvature_products(eta, objective.predictors(direction, base.x)) * keep
        image = penalty * direction + objective.back(curved, base.x)
        curvature = np.einsum("bkq,bkq->b", direction, image)
        alpha = np.divide(product, curvature, out=np.zeros_like(product), where=curvature > 0)[:, None, None]
        result[going] += alpha * direction
        residual = residual - alpha * image
        solved = base.solve(residual)
        new = np.einsum("bkq,bkq->b", residual, solved)
        ratio = np.divide(new, product, out=np.zeros_like(new), where=product > 0)
        direction, product = solved + ratio[:, None, None] * direction, new
    if objective.linear.loss == "softmax":
        flat = (objective.penalty == 0).all(axis=0)
        result[:, :, flat] -= result[:, :, flat].mean(axis=1, keepdims=True)
    return result

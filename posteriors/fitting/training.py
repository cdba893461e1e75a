"""Training to a stationary point: linear predictors exactly, with retraining without single records; small networks."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.divergence.outer_products import (
    bends,
    design,
    join,
    log_liks,
    penalty_of,
    predictor_of,
    slopes,
    split_gradient,
)
from bayesrecon.divergence.score import gradients
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model, Records
from bayesrecon.models.losses import named_leaves
from bayesrecon.posteriors.sources import dirac
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release, TrainedParameter

# The difference of two trained parameters is the signal of a deletion, and inexact training hides it. So both end at
# a gradient norm of 1e-8, relative to the gradient of a record. A retrained parameter is close to the old one, at
# which the Hessian is factorised.

# Newton's method for linear predictors, for several data sets together.
#
# The systems are solved by conjugate gradients, preconditioned with the Hessian at one parameter that is close to all
# of theirs. Matrix products combine the data sets.

FULL = 8000  # largest number of parameters whose whole Hessian is factorised; above, its diagonal blocks are
_LINEAR_NEWTON, _CG, _LINE_SEARCH = 30, 100, 30  # largest numbers of steps
_PATIENCE = 5  # number of Newton steps without a smaller gradient after which a system stops


class Objective:
    """`sum_n loss + penalty` of the records, a function of parameters `(..., K, q)`.

    K is the number of outputs, and q the number of coefficients of each, the intercept last.
    """

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
        """Linear predictors `(N, B, K)` of parameters `(B, K, q)`; `x` is the design in another precision."""
        x = self.x if x is None else x
        return (x @ outer.reshape(-1, self.width).T).reshape(len(x), -1, self.outputs)

    def labels(self, count: int) -> np.ndarray:
        """`y` repeated for `count` parameters, `(N count, ...)`."""
        return np.repeat(self.y, count, axis=0)

    def slopes(self, eta: np.ndarray) -> np.ndarray:
        """Derivatives of the log likelihoods in the predictors, `(N, B, K)`."""
        flat = eta.reshape(-1, self.outputs)
        return np.asarray(slopes(self.linear, flat, self.labels(eta.shape[1]))).reshape(eta.shape)

    def curvature_products(self, eta: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Second derivatives of the losses times changes of the predictors, `(N, B, K)`."""
        flat = (eta.reshape(-1, self.outputs), self.labels(eta.shape[1]), change.reshape(-1, self.outputs))
        return np.asarray(bends(self.linear, *flat)).reshape(eta.shape)

    def gradient_of(self, slopes: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
        """`sum_n slope_n x_n'`, `(B, K, q)` from `(N, B, K)`."""
        x = self.x if x is None else x
        return (slopes.reshape(len(x), -1).T @ x).reshape(-1, self.outputs, self.width)

    def value_and_gradient(self, outer: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient `(K, q)` at one parameter."""
        eta = self.predictors(outer[None])
        loss = -np.asarray(log_liks(self.linear, eta[:, 0], self.y)).sum()
        gradient = self.penalty * outer - self.gradient_of(self.slopes(eta))[0]
        return float(loss + 0.5 * np.sum(self.penalty * outer**2)), gradient

    def release(self, outer: np.ndarray, name: str, tolerance: float) -> Release:
        """The trained parameter `(K, q)` as a release."""
        return TrainedParameter(join(self.model, outer)[None], self.model, name=name, tolerance=tolerance)


class Preconditioner:
    """The factorised Hessian at one parameter: the whole of a small one, else one block per output.

    Large systems are solved in single precision. Newton's gradients are in double precision, so that the next step
    corrects the rounding errors of the last one.
    """

    def __init__(self, objective: Objective, outer: np.ndarray):
        penalty = objective.penalty
        outputs, width = penalty.shape
        self.shape = (outputs, width)
        self.shared = objective.linear.loss == "squared" and bool((penalty == penalty[:1]).all())
        self.whole = not self.shared and outputs * width <= FULL
        self.dtype = np.float64 if self.shared or self.whole else np.float32
        x = self.x = objective.x.astype(self.dtype, copy=False)
        # Along a shift of all outputs of a softmax, only the penalty has curvature. The blocks do not have this
        # property, so `solve` treats the mean over outputs separately.
        equal_penalties = objective.linear.loss == "softmax" and bool((penalty == penalty[:1]).all())
        self.shift_curvature = penalty[0].astype(self.dtype) if equal_penalties else None
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
                # A shift of all outputs changes nothing. Without a penalty it is a flat direction: add curvature.
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
        """The inverse of the Hessian times `(B, K, q)`."""
        outputs, width = self.shape
        if self.whole:
            flat = scipy.linalg.cho_solve(self.factors[0], right.reshape(len(right), -1).T)
            return flat.T.reshape(right.shape)
        if self.shared:
            return scipy.linalg.cho_solve(self.factors[0], right.reshape(-1, width).T).T.reshape(right.shape)
        mean = right.mean(axis=1, keepdims=True) if self.shift_curvature is not None else 0.0
        residual = right - mean
        parts = [
            scipy.linalg.cho_solve(self.factors[k], residual[:, k].T, check_finite=False).T for k in range(outputs)
        ]
        result = np.stack(parts, axis=1)
        if self.shift_curvature is None:
            return result
        curvature = np.where(self.shift_curvature > 0, self.shift_curvature, np.inf)
        return result - result.mean(axis=1, keepdims=True) + mean / curvature


def _factor(matrix: np.ndarray) -> tuple[np.ndarray, bool]:
    """The Cholesky factor, with a ridge at rounding level for flat directions (no penalty, collinear features)."""
    level = 1e-13 if matrix.dtype == float else 1e-6
    matrix[np.diag_indices(len(matrix))] += level * np.trace(matrix) / len(matrix)
    try:
        return scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise BayesreconError(
            "the Hessian is singular: add a penalty, or drop features that depend on others"
        ) from None


def newton(
    objective: Objective, base: Preconditioner, outer: np.ndarray, left_out: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method for B data sets together: parameters `(B, K, q)` and their relative gradient norms `(B,)`.

    Args:
        outer: `(B, K, q)`, starting points.
        left_out: `(B, N)`, one for a record that is left out, else zero.
        tolerance: `(B,)`, relative gradient norms to reach.
    """
    included = (1 - left_out.T)[:, :, None]
    outer, reached = np.array(outer), np.full(len(outer), np.inf)
    eta = objective.predictors(outer)
    slopes = objective.slopes(eta)
    scale = float((np.linalg.norm(slopes, axis=2) * np.linalg.norm(objective.x, axis=1)[:, None]).max()) or 1.0
    best, stalled = np.array(outer), np.zeros(len(outer), int)
    # The systems that are still solved. All arrays except `outer`, `best`, `reached` and `stalled` are of these.
    active = np.arange(len(outer))
    gradient = objective.penalty * outer - objective.gradient_of(slopes * included)
    for _ in range(_LINEAR_NEWTON):
        size = np.linalg.norm(gradient, axis=(1, 2)) / scale
        # If the loss has kinks, the gradient may grow for some steps. At rounding level it does not change.
        stalled[active] = np.where(size < 0.9 * reached[active], 0, stalled[active] + 1)
        better = size < reached[active]
        best[active[better]], reached[active[better]] = outer[active[better]], size[better]
        unfinished = (size > tolerance) & (stalled[active] < _PATIENCE)
        if not unfinished.any():
            break
        active, gradient, size = active[unfinished], gradient[unfinished], size[unfinished]
        tolerance, eta, included = tolerance[unfinished], eta[:, unfinished], included[:, unfinished]
        # Newton converges quadratically, so early systems need less precision.
        target = np.maximum(0.3 * tolerance * scale, size * scale * np.minimum(0.1, np.sqrt(size)))
        step = _conjugate_gradients(objective, base, eta, included, gradient, target)
        length, trial, trial_gradient = np.ones(len(active)), outer[active], gradient
        for _ in range(_LINE_SEARCH):
            trial = outer[active] - length[:, None, None] * step
            eta = objective.predictors(trial)
            slopes = objective.slopes(eta)
            trial_gradient = objective.penalty * trial - objective.gradient_of(slopes * included)
            # The objective is convex: a step is too long if its slope at the end is as steep as at the start, upwards.
            slope_after = np.einsum("bkq,bkq->b", trial_gradient, step)
            slope_before = np.einsum("bkq,bkq->b", gradient, step)
            too_long = slope_after < -0.9 * slope_before - 1e-300
            if not too_long.any():
                break
            length = np.where(too_long, length / 2, length)
        outer[active], gradient = trial, trial_gradient
    return best, reached


def _conjugate_gradients(
    objective: Objective,
    base: Preconditioner,
    eta: np.ndarray,
    included: np.ndarray,
    right: np.ndarray,
    target: np.ndarray,
) -> np.ndarray:
    """Solutions `(B, K, q)` of `Hess u = right` for several systems, by preconditioned conjugate gradients.

    Args:
        eta: `(N, B, K)`, predictors at which the Hessians are taken.
        included: `(N, B, 1)`, zero for a record that is left out, else one.
        right: `(B, K, q)`.
        target: `(B,)`, norms of the residuals to reach.
    """
    dtype = base.dtype
    penalty = objective.penalty.astype(dtype)
    target = np.maximum(target, 100 * np.finfo(dtype).eps * np.linalg.norm(right, axis=(1, 2)))
    eta, included, residual = eta.astype(dtype), included.astype(dtype), right.astype(dtype)
    result = np.zeros_like(residual)
    direction = solved = base.solve(residual)
    product = np.einsum("bkq,bkq->b", residual, solved)
    active = np.arange(len(right))
    for _ in range(_CG):
        # Converged systems stop: further steps would be rounding errors.
        unfinished = np.linalg.norm(residual, axis=(1, 2)) > target
        if not unfinished.any():
            break
        if not unfinished.all():
            active, residual, direction = active[unfinished], residual[unfinished], direction[unfinished]
            product, target = product[unfinished], target[unfinished]
            eta, included = eta[:, unfinished], included[:, unfinished]
        curved = objective.curvature_products(eta, objective.predictors(direction, base.x)) * included
        image = penalty * direction + objective.gradient_of(curved, base.x)
        curvature = np.einsum("bkq,bkq->b", direction, image)
        alpha = np.divide(product, curvature, out=np.zeros_like(product), where=curvature > 0)[:, None, None]
        result[active] += alpha * direction
        residual = residual - alpha * image
        solved = base.solve(residual)
        new = np.einsum("bkq,bkq->b", residual, solved)
        ratio = np.divide(new, product, out=np.zeros_like(new), where=product > 0)
        direction, product = solved + ratio[:, None, None] * direction, new
    if objective.linear.loss == "softmax":
        flat = (objective.penalty == 0).all(axis=0)
        result[:, :, flat] -= result[:, :, flat].mean(axis=1, keepdims=True)
    return result


_DOUBLES = 2**26  # largest number of predictors in memory, of several deletions together
_ROUNDING = 2e-12  # rounding error of the summed gradient, relative to the largest gradient of a record
_SEPARATED = 1e-3  # largest slope of a record below which the classes are separated
_LINEAR_LBFGS = 400  # largest number of steps
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
        max_steps = _LINEAR_LBFGS if start.size <= FULL else _LINEAR_LBFGS // 5
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


_MOST = 3000  # largest number of parameters whose Hessian is factorised
_NEWTON = 50  # largest number of Newton steps
_LBFGS, _TRUST_REGION = 500, 2000  # largest numbers of steps of models with more parameters


@in_float64
def train_network(
    model: Model,
    params: Mapping[str, Array | float],
    records: Mapping[str, object],
    *,
    tolerance: float = 1e-10,
    steps: int = 20_000,
) -> TrainingResult:
    """Train a model on its summed loss until the gradient vanishes: L-BFGS, then Newton's method.

    Above 3,000 parameters, Newton's steps are those of a trust region in Krylov spaces (Gould et al. 1999). They need
    only products with the Hessian.

    Args:
        model: any model of trained parameters, for example from `models.from_loss`.
        params: starting point, nested like the model's parameters.
        records: `{field: (N, *shape)}`.
        tolerance: gradient norm to reach, relative to the largest gradient norm of a record.
        steps: largest number of L-BFGS steps; 500 above 3,000 parameters.

    Returns:
        A `TrainingResult` with `release`, the relative `gradient` norm that was reached, and `seconds`. A local optimum
        is accepted. A gradient above the tolerance is reported, not refused.

    Raises:
        BayesreconError: the records lack a field, or the objective is not finite at `params`.

    >>> import jax.numpy as jnp
    >>> from bayesrecon.models import from_loss
    >>> apply, loss = (lambda p, x: p["v"] * jnp.tanh(p["w"] * x)), (lambda out, y: (out - y) ** 2)
    >>> model = from_loss(apply, loss, params={"v": 1.0, "w": 1.0}, record={"x": (), "y": ()})
    >>> train_network(model, {"v": 1.0, "w": 1.0}, {"x": [0.5, 1.0, 2.0], "y": [0.5, 0.9, 1.0]}).gradient < 1e-8
    True
    """
    import scipy.optimize  # slow, and this module is also imported to read draws

    start = time.perf_counter()
    table = check_knowledge(model, known=records).known
    missing = [f for f in model.fields if f not in table]
    if missing:
        raise BayesreconError(f"the records lack field {missing[0]}")
    theta = np.asarray(model.unconstrain(named_leaves(params)), float)

    def evaluate(t: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _objective(model, t, table)
        return float(value), np.asarray(gradient)

    if not np.isfinite(evaluate(theta)[0]):
        raise BayesreconError("the objective is not finite at these params")
    large = len(theta) > _MOST
    max_steps = min(steps, _LBFGS) if large else steps
    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-12}
    theta = scipy.optimize.minimize(evaluate, theta, jac=True, method="L-BFGS-B", options=options).x
    if large:
        options = {"maxiter": _TRUST_REGION, "gtol": tolerance * _largest_gradient(model, theta, table)}
        with np.errstate(invalid="ignore"):  # rounding can shrink a trust region to nothing
            theta = scipy.optimize.minimize(
                evaluate,
                theta,
                jac=True,
                hessp=lambda t, v: np.asarray(_hessian_product(model, t, v, table)),
                method="trust-krylov",
                options=options,
            ).x
    value, gradient = evaluate(theta)
    for _ in range(_NEWTON):
        if np.linalg.norm(gradient) <= tolerance * _largest_gradient(model, theta, table) or not np.isfinite(value):
            break
        if large:
            step = _conjugate_gradient_step(model, theta, gradient, table)
        else:
            step = _newton_step(np.asarray(_hessian(model, theta, table)), gradient)
        for length in (1.0, 0.3, 0.1, 0.01):
            trial = evaluate(theta - length * step)
            if trial[0] <= value + 1e-13 * abs(value):
                break
        else:
            break
        theta, (value, gradient) = theta - length * step, trial
    relative_norm = float(np.linalg.norm(gradient)) / _largest_gradient(model, theta, table)
    release = dirac(model, {k: np.asarray(v) for k, v in model.constrain(theta).items()}, name=model.name)
    return TrainingResult(release, relative_norm, time.perf_counter() - start)


def _largest_gradient(model: Model, theta: np.ndarray, records: Records) -> float:
    """The largest gradient norm of a record; one if all are zero."""
    return float(np.linalg.norm(np.asarray(gradients(model, theta, records)), axis=1).max()) or 1.0


def _newton_step(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Newton's step, with a ridge if the Hessian is not positive definite."""
    ridge = 0.0
    for _ in range(12):
        try:
            factor = scipy.linalg.cho_factor(hessian + ridge * np.eye(len(gradient)), check_finite=False)
            return np.asarray(scipy.linalg.cho_solve(factor, gradient, check_finite=False))
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-10 * float(np.abs(np.diag(hessian)).max()))
    return gradient


def _conjugate_gradient_step(model: Model, theta: np.ndarray, gradient: np.ndarray, records: Records) -> np.ndarray:
    """Newton's step by conjugate gradients, close to the optimum."""
    from scipy.sparse.linalg import LinearOperator, cg

    size = len(gradient)
    hessian = LinearOperator(
        (size, size), lambda v: np.asarray(_hessian_product(model, theta, np.asarray(v, float).ravel(), records))
    )
    return np.asarray(cg(hessian, gradient, rtol=1e-6, maxiter=size)[0])


def _total(model: Model, theta: Array, records: Records) -> jax.Array:
    """The summed loss and the penalty."""
    return -jax.vmap(model.log_lik, in_axes=(None, 0))(theta, records).sum() - model.log_prior(theta)


@partial(jax.jit, static_argnames="model")
def _objective(model: Model, theta: Array, records: Records) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda t: _total(model, t, records))(theta)


@partial(jax.jit, static_argnames="model")
def _hessian_product(model: Model, theta: Array, direction: Array, records: Records) -> jax.Array:
    """The Hessian times a direction."""
    return jax.jvp(jax.grad(lambda t: _total(model, t, records)), (theta,), (direction,))[1]


@partial(jax.jit, static_argnames="model")
def _hessian(model: Model, theta: Array, records: Records) -> jax.Array:
    return jax.hessian(lambda t: _total(model, t, records))(theta)

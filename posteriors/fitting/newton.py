"""Newton's method for linear predictors, for several data sets together.

The systems are solved by conjugate gradients, preconditioned with the Hessian at one parameter that is close to all of
theirs. Matrix products combine the data sets.
"""

from collections.abc import Mapping

import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.divergence.outer_products import bends, design, join, log_liks, penalty_of, predictor_of, slopes
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Model
from bayesrecon.releases import Release, TrainedParameter

FULL = 8000  # largest number of parameters whose whole Hessian is factorised; above, its diagonal blocks are
_NEWTON, _CG, _LINE_SEARCH = 30, 100, 30  # largest numbers of steps
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
    for _ in range(_NEWTON):
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

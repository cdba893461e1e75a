"""A projected Levenberg-Marquardt method for the equations of a stationary point, with or without a regulariser.

Each step factors the smaller of `J'J` and `J J'`. SciPy's trust-region method finds the same residual, but decomposes
the Jacobian and a square matrix in each step, which takes thirty times as long for 1,500 equations in 1,280 unknowns. A
regulariser adds its own second derivatives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.attacks.matching.equations import Equations, Solution
from bayesrecon.model import Records
from bayesrecon.regularisers import Regulariser

_EXACT = 1e-12  # residuals below this are rounding
_STALLED, _SLOW = 30, 0.999  # a descent stops unless the residual falls by this factor in this many steps


def descend(
    equations: Equations,
    start: tuple[Records, Records],
    steps: int,
    tell: Callable[[float], None],
    regulariser: Regulariser | None = None,
) -> Solution:
    """Minimise half the squared residual plus the regulariser.

    Variables at an end of their box that would leave it are fixed for a step.

    Args:
        start: first values of the variables, and the fixed fields.
        tell: called with the completed fraction.
    """
    like, fixed = start
    low, high, scale = equations.box(like)
    objective = _Objective(equations, like, fixed, scale, regulariser)
    # Damping is relative to the mean squared singular value. With less, the first step from a random start would leave
    # the box.
    variables, damping, history = equations.flatten(like), 1e-2, []
    residual, penalty = objective.at(variables)
    for step_number in range(steps):
        tell(step_number / steps)
        history.append(size := float(np.sqrt(residual @ residual + 2 * max(penalty, 0.0))))
        if size < _EXACT or (len(history) > _STALLED and size > _SLOW * history[-1 - _STALLED]):
            break
        jacobian, gradient, curvature = objective.model(variables, residual)
        free = ~(((variables <= low) & (gradient > 0)) | ((variables >= high) & (gradient < 0)))
        free_columns = jacobian[:, free]
        squares = _squares(free_columns, None if curvature is None else curvature[np.ix_(free, free)])
        mean_square = abs(float(np.trace(squares))) / len(squares) + 1e-300
        while damping < 1e12:  # with more damping, steps are below rounding
            step = np.zeros(len(variables))
            step[free] = _damped(free_columns, squares, residual, gradient[free], damping * mean_square)
            trial = np.clip(variables + scale * step, low, high)
            trial_residual, trial_penalty = objective.at(trial)
            if trial_residual @ trial_residual + 2 * trial_penalty < residual @ residual + 2 * penalty:
                # It falls faster than it rises, for quadratic convergence. With less damping, `squares` is singular.
                variables, residual, penalty, damping = trial, trial_residual, trial_penalty, max(damping / 5, 1e-14)
                break
            damping *= 4
        else:
            break
    return Solution(equations.unflatten(variables, like), fixed, residual, float(np.linalg.norm(residual)), penalty)


@dataclass(frozen=True)
class _Objective:
    """The objective: equations and regulariser as functions of one vector of variables, `(U,)`."""

    equations: Equations
    like: Records
    fixed: Records
    scale: np.ndarray
    regulariser: Regulariser | None

    def at(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Residual of the equations, and the penalty."""
        x = self.equations.unflatten(v, self.like)
        residual = self.equations.residual(x, self.fixed)
        if self.regulariser is None:
            return residual, 0.0
        return residual, float(self.regulariser(self.equations.weights(x), self.equations.records(x, self.fixed)))

    def model(self, v: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Scaled Jacobian of the equations, gradient of the objective, and second derivatives of the penalty."""
        x = self.equations.unflatten(v, self.like)
        jacobian = self.equations.jacobian(x, self.fixed) * self.scale
        gradient = jacobian.T @ residual
        if self.regulariser is None:
            return jacobian, gradient, None
        first, second = _penalty_derivatives(self.regulariser, self.equations, x, self.fixed)
        return jacobian, gradient + self.scale * first, self.scale[:, None] * second * self.scale


def _penalty_derivatives(
    regulariser: Regulariser, equations: Equations, x: Records, fixed: Records
) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives of the penalty in all variables, in the order of `Equations.flatten`."""
    names, total = tuple(equations.names(x)), equations.knowledge.total
    unit_weights = np.ones(len(next(iter(x.values()))))
    gradient, hessian = _derivatives(regulariser, names, total, unit_weights, {k: x[k] for k in names}, fixed)
    size = sum(np.size(x[k]) for k in names)
    rows = [
        np.concatenate([np.asarray(hessian[i][j]).reshape(np.size(x[i]), np.size(x[j])) for j in names], axis=1)
        for i in names
    ]
    first = np.concatenate([np.ravel(gradient[k]) for k in names])
    return first, np.concatenate(rows).reshape(size, size)


@partial(jax.jit, static_argnames=("regulariser", "names", "total"))
def _derivatives(
    regulariser: Regulariser,
    names: tuple[str, ...],
    total: float | None,
    unit_weights: Array,
    x: Records,
    fixed: Records,
) -> tuple[Records, dict[str, Records]]:
    """Gradient and Hessian of the penalty by variable."""

    def value(y: Records) -> jax.Array:
        weights = (
            unit_weights
            if "weights" not in y
            else y["weights"] * (1.0 if total is None else total / y["weights"].sum())
        )
        records = {k: v for k, v in y.items() if k not in ("weights", "strength")}
        return jnp.asarray(regulariser(weights, {**fixed, **records}), float)

    return jax.grad(value)(x), jax.hessian(value)(x)


def _squares(jacobian: np.ndarray, curvature: np.ndarray | None) -> np.ndarray:
    """The smaller of `J'J` and `J J'`; with a regulariser `J'J` and its second derivatives."""
    if curvature is not None:
        return jacobian.T @ jacobian + curvature
    return jacobian @ jacobian.T if jacobian.shape[1] > len(jacobian) else jacobian.T @ jacobian


def _damped(
    jacobian: np.ndarray, squares: np.ndarray, residual: np.ndarray, gradient: np.ndarray, damping: float
) -> np.ndarray:
    """`-(J'J + curvature + damping)^-1 gradient`, computed in the smaller of the two spaces."""
    ridged = squares + damping * np.eye(len(squares))
    try:
        factor = scipy.linalg.cho_factor(ridged, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return np.zeros(jacobian.shape[1])
    if len(squares) != jacobian.shape[1]:
        return -jacobian.T @ scipy.linalg.cho_solve(factor, residual, check_finite=False)
    return -scipy.linalg.cho_solve(factor, gradient, check_finite=False)

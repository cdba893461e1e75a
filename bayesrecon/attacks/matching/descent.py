"""A projected Levenberg-Marquardt method for the equations of a stationary point, with or without a regulariser.

Each step factors the smaller of `J'J` and `J J'`; SciPy's trust-region method ends as low, but decomposes the Jacobian
on top of a square matrix every time (thirty times as long for 1,500 equations in 1,280 unknowns). A regulariser adds
its own second derivatives, so that a total variation is met in as many steps as the equations are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array
from bayesrecon.attacks.matching.equations import Equations, Solution
from bayesrecon.model import Records
from bayesrecon.regularisers import Regulariser

# Residual at which a descent has nothing left to match: what is below is rounding, and more steps only follow it.
_EXACT = 1e-12
# Steps over which a descent must still fall: fewer give up on the flat stretches before it, more wait in local minima.
_STALLED = 30
# What must be left at most after them, a fall by a thousandth: nearer one waits for rounding, less ends slow descents.
_SLOW = 0.999


def descend(
    equations: Equations,
    start: tuple[Records, Records],
    steps: int,
    tell: Callable[[float], None],
    regulariser: Regulariser | None = None,
) -> Solution:
    """Descend on half the squared residual and the regulariser; variables at an end of their box that would leave it
    rest."""
    like, fixed = start
    low, high, scale = equations.box(like)
    task = _Task(equations, like, fixed, scale, regulariser)
    # Of the mean squared singular value: less throws the first step from a random start out of the box, more costs a
    # few steps until it has fallen.
    v, damping, trace = equations.flatten(like), 1e-2, []
    residual, penalty = task.at(v)
    for step_number in range(steps):
        tell(step_number / steps)
        trace.append(size := float(np.sqrt(residual @ residual + 2 * max(penalty, 0.0))))
        if size < _EXACT or (len(trace) > _STALLED and size > _SLOW * trace[-1 - _STALLED]):
            break
        jacobian, slope, bend = task.model(v, residual)
        free = ~(((v <= low) & (slope > 0)) | ((v >= high) & (slope < 0)))
        inner = jacobian[:, free]
        squares = _squares(inner, None if bend is None else bend[np.ix_(free, free)])
        typical = abs(float(np.trace(squares))) / len(squares) + 1e-300
        while damping < 1e12:  # where a step is below rounding, and none is found any more
            step = np.zeros(len(v))
            step[free] = _damped(inner, squares, residual, slope[free], damping * typical)
            trial = np.clip(v + scale * step, low, high)
            after, more = task.at(trial)
            if after @ after + 2 * more < residual @ residual + 2 * penalty:
                # Down faster than up, for the quadratic steps at the end; never to where squares lose their rank.
                v, residual, penalty, damping = trial, after, more, max(damping / 5, 1e-14)
                break
            damping *= 4
        else:
            break
    return Solution(equations.unflatten(v, like), fixed, residual, float(np.linalg.norm(residual)), penalty)


@dataclass(frozen=True)
class _Task:
    """What descends: the equations and the regulariser in one vector of variables, `(U,)`."""

    equations: Equations
    like: Records
    fixed: Records
    scale: np.ndarray
    regulariser: Regulariser | None

    def at(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """The remaining gradient and the penalty."""
        x = self.equations.unflatten(v, self.like)
        residual = self.equations.residual(x, self.fixed)
        if self.regulariser is None:
            return residual, 0.0
        return residual, float(self.regulariser(self.equations.weights(x), self.equations.records(x, self.fixed)))

    def model(self, v: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Scaled Jacobian of the equations, slope of the objective, and the penalty's second derivatives."""
        x = self.equations.unflatten(v, self.like)
        jacobian = self.equations.jacobian(x, self.fixed) * self.scale
        slope = jacobian.T @ left
        if self.regulariser is None:
            return jacobian, slope, None
        first, second = _bends(self.regulariser, self.equations, x, self.fixed)
        return jacobian, slope + self.scale * first, self.scale[:, None] * second * self.scale


def _bends(regulariser: Regulariser, equations: Equations, x: Records, fixed: Records) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives of the penalty in all variables, in the order of `Equations.flatten`."""
    names, total = tuple(equations.names(x)), equations.knowledge.total
    unit_weights = np.ones(len(next(iter(x.values()))))
    slope, bend = _derivatives(regulariser, names, total, unit_weights, {k: x[k] for k in names}, fixed)
    size = sum(np.size(x[k]) for k in names)
    rows = [
        np.concatenate([np.asarray(bend[i][j]).reshape(np.size(x[i]), np.size(x[j])) for j in names], axis=1)
        for i in names
    ]
    first = np.concatenate([np.ravel(slope[k]) for k in names])
    return first, np.concatenate(rows).reshape(size, size)


@partial(jax.jit, static_argnames=("regulariser", "names", "total"))
def _derivatives(
    regulariser: Regulariser,
    names: tuple[str, ...],
    total: float | None,
    unit_weights: Array,
    x: Records,
    fixed: Records,
) -> tuple[Any, Any]:
    def value(y: Records) -> Any:
        weights = (
            unit_weights
            if "weights" not in y
            else y["weights"] * (1.0 if total is None else total / y["weights"].sum())
        )
        records = {k: v for k, v in y.items() if k not in ("weights", "strength")}
        return jnp.asarray(regulariser(weights, {**fixed, **records}), float)

    return jax.grad(value)(x), jax.hessian(value)(x)


def _squares(inner: np.ndarray, bend: np.ndarray | None) -> np.ndarray:
    """The smaller of `J'J` and `J J'`; with a regulariser `J'J` and its second derivatives."""
    if bend is not None:
        return inner.T @ inner + bend
    return inner @ inner.T if inner.shape[1] > len(inner) else inner.T @ inner


def _damped(inner: np.ndarray, squares: np.ndarray, left: np.ndarray, slope: np.ndarray, damping: float) -> np.ndarray:
    """`-(J'J + bend + damping)^-1 slope`, in the smaller of the two spaces."""
    ridged = squares + damping * np.eye(len(squares))
    try:
        factor = scipy.linalg.cho_factor(ridged, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return np.zeros(inner.shape[1])
    if len(squares) != inner.shape[1]:
        return -inner.T @ scipy.linalg.cho_solve(factor, left, check_finite=False)
    return -scipy.linalg.cho_solve(factor, slope, check_finite=False)

"""Linear regression on numbers that were rounded.

Rounding is not normal noise: it is bounded. `|y_t - c - g_t a| <= h` for all t confines the coefficients to a polytope
whose width shrinks as one over the number of equations, where least squares improve as one over its square root. The
analytic centre of the polytope is the estimate, and the spread of points drawn evenly from it (hit-and-run) the error.
Where the noise has no such bound, or the polytope is empty, weighted least squares remain.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

_STEPS, _BURN_IN = 2500, 500
_NEWTON, _SHRINK = 40, 0.3


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients `(r,)` beside a free constant, their covariance `(r, r)`, and how they were found.

    Attributes:
        misfit: root mean squared residual of least squares in units of the noise.
        bounded: whether the coefficients come from the polytope of rounding intervals.
    """

    coefficients: np.ndarray
    covariance: np.ndarray
    misfit: float
    bounded: bool = False


def least_squares(design: np.ndarray, values: np.ndarray, noise: np.ndarray) -> Regression:
    """Weighted least squares.

    Args:
        design: `(T, r)`.
        values: `(T,)`.
        noise: `(T,)` standard deviations; the covariance grows with the residuals where these exceed them.
    """
    columns = np.column_stack([np.ones(len(values)), design]) / noise[:, None]
    right = (values - values.mean()) / noise
    length = np.linalg.norm(columns, axis=0)
    length[length == 0] = 1.0
    q, r = np.linalg.qr(columns / length)
    size = np.abs(np.diag(r))
    r[np.diag_indices_from(r)] += (size < 1e-15) * 1e-15
    coefficients = scipy.linalg.solve_triangular(r, q.T @ right) / length
    inverse = scipy.linalg.solve_triangular(r, np.eye(len(r))) / length[:, None]
    freedom = len(values) - columns.shape[1]
    residual = right - q @ (q.T @ right)
    misfit = float(np.sqrt(residual @ residual / freedom)) if freedom > 0 else 1.0
    covariance = (inverse @ inverse.T) * max(1.0, misfit) ** 2
    return Regression(coefficients[1:], covariance[1:, 1:], misfit)


def rounded(
    design: np.ndarray, values: np.ndarray, step: np.ndarray, rng: np.random.Generator | None = None
) -> Regression:
    """Regression on values rounded to multiples of `step (T,)`.

    Args:
        rng: draws points of the polytope for the covariance; without it the covariance is that of least squares.
    """
    plain = least_squares(design, values, step / np.sqrt(12))
    # Equations in units of half a step: every residual lies in [-1, 1].
    columns = np.column_stack([np.ones(len(values)), design]) * (2 / step)[:, None]
    right = (values - values.mean()) * 2 / step
    q, r = np.linalg.qr(columns / np.linalg.norm(columns, axis=0))
    if len(values) <= columns.shape[1] or np.abs(np.diag(r)).min() < 1e-13:
        return plain
    back = scipy.linalg.solve_triangular(r, np.eye(len(r))) / np.linalg.norm(columns, axis=0)[:, None]
    found = _analytic_centre(q, right, q.T @ right)
    if found is None:
        return plain
    centre, curvature = found
    coefficients = back @ centre
    if rng is None:
        return Regression(coefficients[1:], plain.covariance, plain.misfit, True)
    spread = back @ _polytope_covariance(q, right, centre, curvature, rng) @ back.T
    return Regression(coefficients[1:], spread[1:, 1:], plain.misfit, True)


def _analytic_centre(q: np.ndarray, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Maximise `sum_t log(1 - s_t) + log(1 + s_t)`, `s = y - q a`, from a start that may lie outside; None if empty.

    The bound starts wide enough for the start and shrinks to one, each time from the centre before.
    """
    a, width = start.copy(), max(1.02 * np.abs(y - q @ start).max(), 1.0)
    while True:
        hessian = np.eye(len(a))
        for _ in range(_NEWTON):
            s = y - q @ a
            up, down = 1 / (width - s), 1 / (width + s)
            hessian = (q * (up**2 + down**2)[:, None]).T @ q
            slope = q.T @ (up - down)
            step = np.linalg.solve(hessian, slope)
            decrement = float(slope @ step)
            if decrement < 1e-8:
                break
            move = q @ step
            with np.errstate(divide="ignore", invalid="ignore"):
                far = np.where(move < 0, (width - s) / -move, np.where(move > 0, (width + s) / move, np.inf)).min()
            a = a + min(1.0 if decrement < 0.06 else 1 / (1 + np.sqrt(decrement)), 0.95 * far) * step
        if width <= 1.0:
            return a, hessian
        largest = np.abs(y - q @ a).max()
        smaller = max(1.0, largest + _SHRINK * (width - largest))
        if smaller > 0.999999 * width and smaller > 1.0:
            return None
        width = smaller


def _polytope_covariance(
    q: np.ndarray, y: np.ndarray, centre: np.ndarray, curvature: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Covariance of the uniform law on the polytope `|y - q a| <= 1`, about its centre, by hit-and-run."""
    factor = np.linalg.inv(np.linalg.cholesky(curvature)).T
    moved, s, at = q @ factor, y - q @ centre, np.zeros(len(centre))
    total = np.zeros((len(at), len(at)))
    for i in range(_STEPS):
        direction = rng.normal(size=len(at))
        along = moved @ direction
        one, other = (s - 1) / along, (s + 1) / along
        t = rng.uniform(np.minimum(one, other).max(), np.maximum(one, other).min())
        at, s = at + t * direction, s - t * along
        if i >= _BURN_IN:
            total += np.outer(at, at)
    return factor @ (total / (_STEPS - _BURN_IN)) @ factor.T

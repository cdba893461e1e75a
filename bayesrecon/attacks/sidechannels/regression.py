"""Linear regression on rounded numbers.

Rounding errors are bounded, not normal. The inequalities `|y_t - c - g_t a| <= h` for all t confine the coefficients to
a polytope. Its width is proportional to one over the number of equations, while the error of least squares is
proportional to one over its square root. The estimate is the analytic centre of the polytope. Its error is the spread
of points drawn uniformly from the polytope (hit-and-run).

If the numbers had another error before they were rounded, the polytope can be empty. The bound h is then widened, to
twice the excess at which the polytope becomes non-empty. The wider it is, the closer is the centre to least squares.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

_STEPS, _BURN_IN = 2500, 500  # steps of hit-and-run, for errors to about a tenth
# Largest number of Newton steps to a centre, and the factor by which the excess width shrinks each time. With a smaller
# factor, the old centre would be too close to the new bounds.
_NEWTON, _SHRINK = 40, 0.3
_WIDE = 1.3  # for larger widths, many equations determine the centre, and its error is that of a smooth loss
_ENOUGH = 20  # smallest number of degrees of freedom that determine the size of the noise


@dataclass(frozen=True, eq=False)
class Regression:
    """The result of a regression with a free constant.

    Attributes:
        coefficients: `(r,)` without the constant.
        covariance: `(r, r)`.
        misfit: root mean squared residual of least squares, in units of the noise.
        bounded: whether all residuals are inside the rounding intervals. Otherwise the polytope was widened, or least
            squares were used.
    """

    coefficients: np.ndarray
    covariance: np.ndarray
    misfit: float
    bounded: bool = False


def least_squares(
    design: Float[np.ndarray, "T r"],
    values: Float[np.ndarray, " T"],
    noise: Float[np.ndarray, " T"],
    *,
    relative: bool = False,
) -> Regression:
    """Weighted least squares.

    Args:
        design: `(T, r)`.
        values: `(T,)`.
        noise: `(T,)` standard deviations. The covariance is larger if the residuals exceed them.
        relative: whether the noise is only known up to a factor. The covariance is then also smaller if the residuals
            are, and if there are enough of them.
    """
    columns = np.column_stack([np.ones(len(values)), design]) / noise[:, None]
    scaled_values = (values - values.mean()) / noise
    norms = np.linalg.norm(columns, axis=0)
    norms[norms == 0] = 1.0
    q, r = np.linalg.qr(columns / norms)
    pivots = np.abs(np.diag(r))
    r[np.diag_indices_from(r)] += (pivots < 1e-15) * 1e-15
    coefficients = scipy.linalg.solve_triangular(r, q.T @ scaled_values) / norms
    inverse = scipy.linalg.solve_triangular(r, np.eye(len(r))) / norms[:, None]
    freedom = len(values) - columns.shape[1]
    residual = scaled_values - q @ (q.T @ scaled_values)
    misfit = float(np.sqrt(residual @ residual / freedom)) if freedom > 0 else 1.0
    factor = misfit if relative and freedom >= _ENOUGH else max(1.0, misfit)
    covariance = (inverse @ inverse.T) * factor**2
    return Regression(coefficients[1:], covariance[1:, 1:], misfit)


def rounded(
    design: np.ndarray,
    values: np.ndarray,
    step: Float[np.ndarray, " T"],
    rng: np.random.Generator | None = None,
    start: np.ndarray | None = None,
) -> Regression:
    """Regression on values rounded to multiples of `step (T,)`.

    Args:
        rng: random numbers for points of the polytope. Without them, the covariance is that of least squares.
        start: `(r,)` coefficients near the solution.
    """
    unbounded = least_squares(design, values, step / np.sqrt(12))
    # Equations in units of half a step: every residual lies in [-1, 1].
    columns = np.column_stack([np.ones(len(values)), design]) * (2 / step)[:, None]
    norms = np.linalg.norm(columns, axis=0)
    scaled_values = (values - values.mean()) * 2 / step
    q, r = np.linalg.qr(columns / norms)
    if len(values) <= columns.shape[1] or np.abs(np.diag(r)).min() < 1e-13:
        return unbounded
    back = scipy.linalg.solve_triangular(r, np.eye(len(r))) / norms[:, None]
    first = q.T @ scaled_values
    if start is not None:
        offset = scaled_values - columns[:, 1:] @ start
        projected = q.T @ (scaled_values - offset + 0.5 * (offset.max() + offset.min()))
        first = projected if np.ptp(offset) < 2 * np.abs(scaled_values - q @ first).max() else first
    width, centre, curvature = _analytic_centre(q, scaled_values, first)
    coefficients = (back @ centre)[1:]
    if rng is None:
        return Regression(coefficients, unbounded.covariance, unbounded.misfit, width <= 1)
    spread = np.zeros_like(curvature)
    if width > 1:
        spread += _sandwich(q, scaled_values, centre, curvature, width)
    if width < _WIDE:
        spread += width**2 * _polytope_covariance(q, scaled_values / width, centre / width, curvature * width**2, rng)
    covariance = (back @ spread @ back.T)[1:, 1:]
    return Regression(coefficients, covariance, unbounded.misfit, width <= 1)


def _analytic_centre(q: np.ndarray, y: np.ndarray, start: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Maximise `sum_t log(w - s_t) + log(w + s_t)` with `s = y - q a`, from a start that may be infeasible.

    The bound w is first so wide that the start is feasible, and then shrinks towards one. If it cannot reach one, its
    excess over one is doubled. Returns w, the centre, and the curvature there.
    """
    a, width = start.copy(), max(1.02 * np.abs(y - q @ start).max(), 1.0)
    while True:
        a, hessian = _centre(q, y, a, width)
        if width <= 1.0:
            return 1.0, a, hessian
        largest = np.abs(y - q @ a).max()
        smaller = max(1.0, largest + _SHRINK * (width - largest))
        if smaller > 0.9999 * width and smaller > 1.0:
            width = 2 * width - 1
            return width, *_centre(q, y, a, width)
        width = smaller


def _centre(q: np.ndarray, y: np.ndarray, a: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method for one width, from a feasible point."""
    hessian = np.eye(len(a))
    for _ in range(_NEWTON):
        s = y - q @ a
        up, down = 1 / (width - s), 1 / (width + s)
        hessian = (q * (up**2 + down**2)[:, None]).T @ q
        gradient = q.T @ (up - down)
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-8:
            break
        change = q @ step
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = np.where(
                change < 0, (width - s) / -change, np.where(change > 0, (width + s) / change, np.inf)
            ).min()
        a = a + min(1.0 if decrement < 0.06 else 1 / (1 + np.sqrt(decrement)), 0.95 * limit) * step
    return a, hessian


def _sandwich(q: np.ndarray, y: np.ndarray, centre: np.ndarray, curvature: np.ndarray, width: float) -> np.ndarray:
    """Sandwich covariance of the centre of a widened polytope, the minimiser of a smooth loss."""
    s = y - q @ centre
    slopes = q * (1 / (width - s) - 1 / (width + s))[:, None]
    inverse = np.linalg.inv(curvature)
    return inverse @ (slopes.T @ slopes) @ inverse * len(y) / max(1, len(y) - len(centre))


def _polytope_covariance(
    q: np.ndarray, y: np.ndarray, centre: np.ndarray, curvature: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Covariance of the uniform distribution on the polytope `|y - q a| <= 1` about its centre, by hit-and-run."""
    factor = np.linalg.inv(np.linalg.cholesky(curvature)).T
    rows, s, point = q @ factor, y - q @ centre, np.zeros(len(centre))
    total = np.zeros((len(point), len(point)))
    for i in range(_STEPS):
        direction = rng.normal(size=len(point))
        change = rows @ direction
        first, second = (s - 1) / change, (s + 1) / change
        t = rng.uniform(np.minimum(first, second).max(), np.maximum(first, second).min())
        point, s = point + t * direction, s - t * change
        if i >= _BURN_IN:
            total += np.outer(point, point)
    return factor @ (total / (_STEPS - _BURN_IN)) @ factor.T


def fit_totals(
    design: np.ndarray,
    values: np.ndarray,
    step: np.ndarray,
    bounded: bool,
    rng: np.random.Generator | None = None,
    start: np.ndarray | None = None,
) -> Regression:
    """Regression on rounded values if the noise is `bounded`, or else least squares."""
    if bounded:
        return rounded(design, values, step, rng, start)
    return least_squares(design, values, step / np.sqrt(12), relative=True)

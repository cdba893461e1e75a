"""Linear regression on numbers that were rounded.

Rounding is not normal noise: it is bounded. `|y_t - c - g_t a| <= h` for all t confines the coefficients to a polytope
whose width shrinks as one over the number of equations, where least squares improve as one over its square root. The
analytic centre of the polytope is the estimate, and the spread of points drawn evenly from it (hit-and-run) the error.

Numbers that carried another error before they were rounded can leave the polytope empty. Its walls are then moved
apart, past the point where it opens by as much again: the wider it must be, the nearer its centre is to least squares,
which are what remains where the noise has no bound at all.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

_STEPS, _BURN_IN = 2500, 500  # of hit-and-run, from which an error is known to about a tenth
# Newton's steps to a centre, and what is left of a width's excess each time: from one centre to the next is a few
# damped steps; with a smaller rest the old centre lies against the new walls.
_NEWTON, _SHRINK = 40, 0.3
_WIDE = 1.3  # from here on many walls share in the centre, and its error is that of a smooth loss
_TELLING = 20  # residuals beyond the coefficients from which their size is known


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients `(r,)` beside a free constant, their covariance `(r, r)`, and how they were found.

    Attributes:
        misfit: root mean squared residual of least squares in units of the noise.
        bounded: whether rounding intervals hold all values; otherwise the polytope was widened, or not used.
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
        noise: `(T,)` standard deviations; the covariance grows with the residuals where these exceed them.
        relative: the noise is known up to a factor: where there are residuals enough to tell, the covariance shrinks
            with them as well.
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
    factor = misfit if relative and freedom >= _TELLING else max(1.0, misfit)
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
        rng: draws points of the polytope for the covariance; without it the covariance is that of least squares.
        start: coefficients near the solution, which is then found sooner.
    """
    plain = least_squares(design, values, step / np.sqrt(12))
    # Equations in units of half a step: every residual lies in [-1, 1].
    columns = np.column_stack([np.ones(len(values)), design]) * (2 / step)[:, None]
    length = np.linalg.norm(columns, axis=0)
    right = (values - values.mean()) * 2 / step
    q, r = np.linalg.qr(columns / length)
    if len(values) <= columns.shape[1] or np.abs(np.diag(r)).min() < 1e-13:
        return plain
    back = scipy.linalg.solve_triangular(r, np.eye(len(r))) / length[:, None]
    first = q.T @ right
    if start is not None:
        free = right - columns[:, 1:] @ start
        near = q.T @ (right - free + 0.5 * (free.max() + free.min()))
        first = near if np.ptp(free) < 2 * np.abs(right - q @ first).max() else first
    width, centre, curvature = _analytic_centre(q, right, first)
    coefficients = (back @ centre)[1:]
    if rng is None:
        return Regression(coefficients, plain.covariance, plain.misfit, width <= 1)
    spread = np.zeros_like(curvature)
    if width > 1:
        spread += _sandwich(q, right, centre, curvature, width)
    if width < _WIDE:
        spread += width**2 * _polytope_covariance(q, right / width, centre / width, curvature * width**2, rng)
    covariance = (back @ spread @ back.T)[1:, 1:]
    return Regression(coefficients, covariance, plain.misfit, width <= 1)


def _analytic_centre(q: np.ndarray, y: np.ndarray, start: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Maximise `sum_t log(w - s_t) + log(w + s_t)`, `s = y - q a`, from a start that may lie outside.

    The bound w starts wide enough for the start and shrinks to one, each time from the centre before; where it cannot
    get there it goes back by as much as is missing. Returns w, the centre and the curvature there.
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
    """Newton's method for one width, from a point inside."""
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
    return a, hessian


def _sandwich(q: np.ndarray, y: np.ndarray, centre: np.ndarray, curvature: np.ndarray, width: float) -> np.ndarray:
    """Covariance of the centre of a widened polytope, as of any minimiser of a smooth loss."""
    s = y - q @ centre
    slopes = q * (1 / (width - s) - 1 / (width + s))[:, None]
    inverse = np.linalg.inv(curvature)
    return inverse @ (slopes.T @ slopes) @ inverse * len(y) / max(1, len(y) - len(centre))


def _polytope_covariance(
    q: np.ndarray, y: np.ndarray, centre: np.ndarray, curvature: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Covariance of the uniform distribution on the polytope `|y - q a| <= 1`, about its centre, by hit-and-run."""
    factor = np.linalg.inv(np.linalg.cholesky(curvature)).T
    moved, s, at = q @ factor, y - q @ centre, np.zeros(len(centre))
    total = np.zeros((len(at), len(at)))
    for i in range(_STEPS):
        direction = rng.normal(size=len(at))
        along = moved @ direction
        first, second = (s - 1) / along, (s + 1) / along
        t = rng.uniform(np.minimum(first, second).max(), np.maximum(first, second).min())
        at, s = at + t * direction, s - t * along
        if i >= _BURN_IN:
            total += np.outer(at, at)
    return factor @ (total / (_STEPS - _BURN_IN)) @ factor.T


def fit_totals(
    design: np.ndarray,
    values: np.ndarray,
    step: np.ndarray,
    bounded: bool,
    rng: np.random.Generator | None = None,
    start: np.ndarray | None = None,
) -> Regression:
    """The totals from the values: between the rounding intervals where rounding is all there is."""
    if bounded:
        return rounded(design, values, step, rng, start)
    return least_squares(design, values, step / np.sqrt(12), relative=True)

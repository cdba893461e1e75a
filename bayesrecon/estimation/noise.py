"""Errors of a trained parameter, as errors of the equations that it satisfies.

With phi the released parameter and `F(phi) = sum_n grad l(phi, x_n) + grad log pi0(phi)` in whitened directions, the exact
one `phi + N xi + B delta + C c` (`Noise`) is stationary: to first order

    F(phi) + J N xi + J B delta + J C c = 0,     J = dF/dphi, of the fitted data.

Directions in which these errors are large count little (generalised least squares), those in which nothing was released
not at all, and the interval of a total under rounding is a linear program over delta in [-1, 1].
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import scipy.linalg
from scipy.stats import chi2

from bayesrecon.kernels.score import prior_score, total_score
from bayesrecon.types import Model, PseudoData, Release

_SHIFT = 1e-4  # of a whitened coordinate, over which F is differenced
_FLOOR = 1e-4  # of the largest error, below which one counts as this: weights stay within rounding
_FALSE_ALARMS = 1e-4
_WIDER = (1.0, 1.02, 1.1, 1.3, 2.0)  # half units to which rounding is taken before it is no longer believed
_BELIEVED = 1.3  # of them: what the first order leaves out
_PASSES = 4  # linear programs in a row towards the end of a statistic that is no linear one
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class EquationErrors:
    """Errors of the k equations: `normal (k, g)`, `bounded (k, b)` and `rule (k, q)`, a quadrature's.

    Attributes:
        left, right: `(c, b)` and `(c,)`: what is known of delta, `left @ delta = right`, because data exist.
        believed: half units within which delta can lie, None where no data exist within the widest.
    """

    normal: np.ndarray
    bounded: np.ndarray
    rule: np.ndarray
    left: np.ndarray
    right: np.ndarray
    believed: float | None = 1.0

    def of(self, directions: np.ndarray) -> "EquationErrors":
        """The errors of totals that are estimated along `directions (k, P)`, in the place of those of equations."""
        parts = (directions.T @ x for x in (self.normal, self.bounded, self.rule))
        return EquationErrors(*parts, self.left, self.right, self.believed)

    def sd(self, slope: np.ndarray) -> float:
        """Standard deviation along `slope`, rounding errors taken as uniform."""
        parts = (float(np.sum((slope @ self.normal) ** 2)), float(np.sum((slope @ self.bounded) ** 2)) / 3)
        return float(np.sqrt(sum(parts)))

    def ends(
        self, estimate: float, slope: np.ndarray, moved: Callable[[np.ndarray], tuple[float, np.ndarray]]
    ) -> tuple[float, float]:
        """The least and the largest value of a statistic that rounding allows, and 95 % of the sampling noise.

        Args:
            slope: `(P,)` gradient of the statistic in the totals.
            moved: its value and gradient where the totals are off by so much, `(P,)`.
        """
        normal = NormalDist().inv_cdf(0.975) * float(np.linalg.norm(slope @ self.normal))
        normal += float(np.abs(slope @ self.rule).sum())
        if not self.bounded.size:
            return estimate - normal, estimate + normal
        if self.normal.size or self.believed is None:  # the sum of a bounded error and a normal one, at its worst
            half = normal + float(np.abs(slope @ self.bounded).sum())
            return estimate - half, estimate + half
        found = [estimate]
        for sign in (1.0, -1.0):
            here, last = slope, None
            for _ in range(_PASSES):
                delta = self._farthest(sign * (here @ self.bounded))
                if delta is None or (last is not None and np.abs(delta - last).max() < _SAME):
                    break
                last = delta
                value, here = moved(-self.bounded @ delta)
                if not (np.isfinite(value) and np.isfinite(here).all()):
                    return -np.inf, np.inf
                found.append(value)
        return min(found) - normal, max(found) + normal

    def _farthest(self, cost: np.ndarray) -> np.ndarray | None:
        assert self.believed is not None
        return farthest(cost, self.left, self.right, self.believed)


def farthest(cost: np.ndarray, left: np.ndarray, right: np.ndarray, width: float) -> np.ndarray | None:
    """Minimise `cost @ delta` over `left @ delta = right`, `|delta| <= width`; None where there is none."""
    from scipy.optimize import linprog  # costs a third of a second

    size = float(np.abs(cost).max(initial=0.0)) or 1.0
    equal = {"A_eq": left, "b_eq": right} if len(left) else {}
    found = linprog(cost / size, bounds=(-width, width), method="highs", **equal)
    return np.asarray(found.x) if found.status == 0 else None


def equation_errors(release: Release, metric: np.ndarray, pseudo: PseudoData) -> tuple[np.ndarray, ...]:
    """Columns of the equations' errors in the directions `metric (d, k)`: normal `(k, g)`, bounded `(k, b)`, free `(k, f)`
    and those of the expectations' rule `(k, q)`."""
    noise, model, theta = release.noise, release.model, np.asarray(release.theta)[0]
    found = []
    for columns in (noise.normal, noise.bounded, noise.free) if noise is not None else ():
        columns = np.asarray(columns)
        size = np.abs(np.linalg.lstsq(metric, columns, rcond=None)[0]).max(axis=0, initial=0.0)
        step = _SHIFT / np.maximum(size, 1e-300)
        slopes = [
            (_score(model, theta + h * c, pseudo) - _score(model, theta - h * c, pseudo)) / (2 * h) if c.any() else 0 * c
            for h, c in zip(step, columns.T, strict=True)
        ]
        found.append(metric.T @ np.array(slopes).T if slopes else np.zeros((metric.shape[1], 0)))
    while len(found) < 3:
        found.append(np.zeros((metric.shape[1], 0)))
    rule = np.zeros((metric.shape[1], 0))
    if model.finer is not None:
        rule = (metric.T @ (_score(model.finer, theta, pseudo) - _score(model, theta, pseudo)))[:, None]
    return (*found, rule)


def _score(model: Model, theta: np.ndarray, pseudo: PseudoData) -> np.ndarray:
    return np.asarray(total_score(model, theta, pseudo.records, pseudo.weights))


def weighing(normal: np.ndarray, bounded: np.ndarray, free: np.ndarray) -> np.ndarray:
    """`W (k, k')` such that the errors along `W` are alike and independent, and those of `free` are none."""
    k = len(normal)
    kept = np.eye(k)
    if free.size:
        q, r, _ = scipy.linalg.qr(free, pivoting=True)
        rank = int((np.abs(np.diag(r)) > 1e-9 * np.abs(r[0, 0])).sum())
        kept = q[:, rank:]
    covariance = kept.T @ (normal @ normal.T + bounded @ bounded.T / 3) @ kept
    values, vectors = np.linalg.eigh(covariance)
    largest = float(values[-1]) if len(values) else 0.0
    if largest <= 0:
        return kept
    return kept @ (vectors / np.sqrt(np.maximum(values, _FLOOR**2 * largest)))


def settled(
    release: Release, metric: np.ndarray, features: np.ndarray, normal: np.ndarray, bounded: np.ndarray, rule: np.ndarray
) -> tuple[EquationErrors, str | None]:
    """The errors with what is known of them, and what is wrong where no data have the released numbers.

    Args:
        features: `(k, r)` orthonormal or not, what data can make of the equations.
    """
    base = np.asarray(prior_score(release.model, metric, np.asarray(release.theta), release.temperature))[0]
    q = scipy.linalg.qr(features, mode="full")[0][:, features.shape[1] :]
    left, right = q.T @ bounded, -q.T @ base
    errors = EquationErrors(normal, bounded, rule, left, right)
    if not q.shape[1]:
        return errors, None
    if normal.size:
        covariance = q.T @ (normal @ normal.T + bounded @ bounded.T / 3) @ q
        misfit = float(right @ np.linalg.lstsq(covariance, right, rcond=1e-10)[0])
        limit = float(chi2.isf(_FALSE_ALARMS, q.shape[1]))
        if misfit <= limit:
            return errors, None
        return errors, (
            f"no data have this mean and covariance: they are off by {np.sqrt(misfit / q.shape[1]):.2g} standard errors in "
            f"{q.shape[1]} equations; is the model this one, with this prior, and the number of draws right?"
        )
    if bounded.size:
        size = np.maximum(np.linalg.norm(left, axis=1), 1e-300)
        # What rounding does not move is checked against the arithmetic.
        moved = size > 1e-9 * max(float(size.max()), 1e-300)
        left, right = left[moved] / size[moved, None], right[moved] / size[moved]
        for width in _WIDER:
            if farthest(np.zeros(bounded.shape[1]), left, right, width) is not None:
                errors = EquationErrors(normal, bounded, rule, left, right, width)
                if width <= _BELIEVED:
                    return errors, None
                break
        else:
            errors = EquationErrors(normal, bounded, rule, left, right, None)
        return errors, (
            "no data have these numbers, wherever their rounding lies: is the model this one, with this prior and "
            "jacobian, and are all numbers of one fit?"
        )
    return errors, None

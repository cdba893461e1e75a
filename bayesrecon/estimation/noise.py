"""Errors of a trained parameter, as errors of the equations that it satisfies.

With phi the released parameter and `F(phi) = sum_n grad l(phi, x_n) + grad log pi0(phi)` in whitened directions, the
exact one `phi + N xi + B delta` (`Noise`) is stationary: to first order

    F(phi) + J N xi + J B delta = 0,     J = dF/dphi, of the fitted data.

Directions in which these errors are large count little (generalised least squares), and the interval of a total under
rounding is a linear program over delta in [-1, 1].
"""

from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.linalg

from bayesrecon.estimation.intervals import EquationErrors, farthest
from bayesrecon.kernels.score import prior_score, total_score
from bayesrecon.types import Model, PseudoData, Release

_SHIFT = 1e-4  # of a whitened coordinate, over which F is differenced
_FLOOR = 1e-4  # of the largest error, below which one counts as this: weights stay within rounding
_FALSE_ALARMS = 1e-4  # of good summaries called contradictory: a chi-squared of many equations is not exact in its tail
_WIDER = (1.0, 1.02, 1.1, 1.3, 2.0)  # half units to which rounding is taken before it is no longer believed
_BELIEVED = 1.3  # of them: what the first order leaves out
_AS_MUCH = 3.0  # of what no data make of a log density, what they make is off at most; measured: benchmarks/DENSITY.md
_OFF = 0.5  # root mean squared error of a log density from which it is no posterior of the model
_FREEDOM = 10  # points beyond twice the features, that tell how far a log density is off
_ARITHMETIC = 1e-12  # rounding errors of a sum of log densities, relative to its spread
_COARSE = 0.3  # of a posterior standard deviation or variance, from which rounding is felt beyond the first order


def equation_errors(release: Release, metric: np.ndarray, pseudo: PseudoData) -> tuple[np.ndarray, ...]:
    """Columns of the equations' errors in the directions `metric (d, k)`: normal `(k, g)`, bounded `(k, b)` and
    those of the expectations' rule `(k, q)`."""
    noise, model, theta = release.noise, release.model, np.asarray(release.theta)[0]
    found = []
    for columns in (noise.normal, noise.bounded) if noise is not None else ():
        found.append(shifts(release, metric, np.asarray(columns), pseudo))
    while len(found) < 2:
        found.append(np.zeros((metric.shape[1], 0)))
    if noise is not None and np.size(noise.bounded):
        # What the first order leaves out: with E the whitened error, (1 + E)^-1 = 1 - E + E^2 - ...
        found[1] = np.column_stack([found[1], _coarseness(release, metric) ** 2 * np.eye(metric.shape[1])])
    rule = np.zeros((metric.shape[1], 0))
    if model.finer is not None:
        rule = (metric.T @ (_score(model.finer, theta, pseudo) - _score(model, theta, pseudo)))[:, None]
    return (*found, rule)


def told(release: Release, metric: np.ndarray, features: np.ndarray) -> tuple[EquationErrors, str | None, str | None]:
    """Errors of equations that are off by an unknown `e (k,)`, a note on them, and what is wrong if they are useless.

    What no data can make of the equations, `e` less its projection on the features, is seen. The rest of e moves
    totals, and is taken to be no longer than what is seen times a factor: approximations are off by smooth functions,
    of which more points tell the size and never the mean, so that nothing here shrinks with their number. The interval
    of a total along `d (k,)` is then `+- 3 |e seen| |d|` (Cauchy and Schwarz).
    """
    base = np.asarray(prior_score(release.model, metric, np.asarray(release.theta), release.temperature))[0]
    count, rank = len(base), features.shape[1]
    basis: Any = scipy.linalg.qr(features, mode="economic")[0]
    rounding = _ARITHMETIC * max(1.0, float(np.linalg.norm(base)))
    seen = float(np.linalg.norm(base - basis @ (basis.T @ base)))
    size = _AS_MUCH * max(seen, rounding) / NormalDist().inv_cdf(0.975)
    nothing = np.zeros((count, 0))
    errors = EquationErrors(size * np.eye(count), nothing, nothing, np.zeros((0, 0)), np.zeros(0))
    if count < 2 * rank + _FREEDOM:
        return (
            errors,
            None,
            (
                f"{count + 1} points do not tell {rank} features of the data and how far the log density is off; "
                f"{2 * rank + _FREEDOM + 1} or more are needed"
            ),
        )
    off = seen / np.sqrt(count - rank)
    if seen <= rounding:
        return errors, None, None
    found = f"the log density is off by {off:.2g} (root mean square over the points) from that of any data"
    if off > _OFF:
        return errors, None, f"{found}: is it of this model, with this prior, in unconstrained coordinates?"
    return errors, f"{found}: errors allow for three times as much of what cannot be seen", None


def shifts(release: Release, metric: np.ndarray, columns: np.ndarray, pseudo: PseudoData) -> np.ndarray:
    """How the equations in the directions `metric (d, k)` change along `columns (d, g)` of the parameter, `(k, g)`."""
    model, theta = release.model, np.asarray(release.theta)[0]
    size = np.abs(np.linalg.lstsq(metric, columns, rcond=None)[0]).max(axis=0, initial=0.0)
    step = _SHIFT / np.where(size > 0, size, 1.0)
    slopes = [
        (_score(model, theta + h * c, pseudo) - _score(model, theta - h * c, pseudo)) / (2 * h)
        for h, c in zip(step, columns.T, strict=True)
    ]
    return metric.T @ np.array(slopes).T if slopes else np.zeros((metric.shape[1], 0))


def _score(model: Model, theta: np.ndarray, pseudo: PseudoData) -> np.ndarray:
    return np.asarray(total_score(model, theta, pseudo.records, pseudo.weights))


def too_coarse(release: Release, metric: np.ndarray) -> str | None:
    """What is wrong where numbers were rounded so far that the first order does not tell what that leaves open."""
    if release.noise is None or not np.size(release.noise.bounded):
        return None
    worst = _coarseness(release, metric)
    if worst <= _COARSE:
        return None
    return (
        f"the numbers were rounded too far: what that leaves open is up to {worst:.2g} of a standard deviation or of a "
        "variance of some combination of the parameters; more digits are needed, of correlations near one above all"
    )


def _coarseness(release: Release, metric: np.ndarray) -> float:
    """How far rounding can move the parameter in any direction of the metric, all numbers at their worst."""
    assert release.noise is not None
    return float(np.abs(np.linalg.lstsq(metric, np.asarray(release.noise.bounded), rcond=None)[0]).sum(axis=1).max())


def weighing(normal: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """`W (k, k)` such that the errors along `W` are alike and independent."""
    covariance = normal @ normal.T + bounded @ bounded.T / 3
    values, vectors = np.linalg.eigh(covariance)
    largest = float(values[-1]) if len(values) else 0.0
    if largest <= 0:
        return np.eye(len(normal))
    return vectors / np.sqrt(np.maximum(values, _FLOOR**2 * largest))


def settled(
    release: Release,
    metric: np.ndarray,
    features: np.ndarray,
    normal: np.ndarray,
    bounded: np.ndarray,
    rule: np.ndarray,
) -> tuple[EquationErrors, str | None]:
    """The errors with what is known of them, and what is wrong where no data have the released numbers.

    Args:
        features: `(k, r)` orthonormal or not, what data can make of the equations.
    """
    from scipy.special import chdtri

    base = np.asarray(prior_score(release.model, metric, np.asarray(release.theta), release.temperature))[0]
    whole: Any = scipy.linalg.qr(features, mode="full")[0]
    q = whole[:, features.shape[1] :]
    left, right = q.T @ bounded, -q.T @ base
    errors = EquationErrors(normal, bounded, rule, left, right)
    if not q.shape[1]:
        return errors, None
    if normal.size:
        covariance = q.T @ (normal @ normal.T + bounded @ bounded.T / 3) @ q
        misfit = float(right @ np.linalg.lstsq(covariance, right, rcond=1e-10)[0])
        limit = float(chdtri(q.shape[1], _FALSE_ALARMS))
        if misfit <= limit:
            return errors, None
        return errors, (
            f"no data have this mean and covariance: off by {np.sqrt(misfit / q.shape[1]):.2g} standard errors "
            f"in {q.shape[1]} equations; is the model this one, with this prior, and the number of draws right?"
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

"""Errors of a trained parameter, as errors of the equations that it satisfies.

Let phi be the released parameter, and `F(phi) = sum_n grad l(phi, x_n) + grad log pi0(phi)` in whitened directions. The
exact parameter `phi + N xi + B delta` (`Noise`) is stationary, so to first order

    F(phi) + J N xi + J B delta = 0,     J = dF/dphi for the fitted data.

Equations with large errors get small weights (generalised least squares). The interval of a total under rounding is a
linear program over delta in [-1, 1].
"""

from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.divergence.score import prior_score, total_score
from bayesrecon.estimation.intervals import EquationErrors, farthest
from bayesrecon.inexact import Noise
from bayesrecon.model import Model, PseudoData
from bayesrecon.releases import Release

_SHIFT = 1e-4  # step in a whitened coordinate for finite differences of F
_FLOOR = 1e-4  # lower limit for errors, relative to the largest, so that weights stay well above rounding
_FALSE_ALARMS = 1e-4  # probability that a good summary is called contradictory; the chi-squared tail is not exact
_WIDTHS = (1.0, 1.02, 1.1, 1.3, 2.0)  # half widths of rounding that are tried, in half units of the last digit
_LARGEST_TRUSTED = 1.3  # largest of these for which the result is trusted: the first order is not exact
_COARSE = 0.3  # first-order theory fails if rounding exceeds this share of a standard deviation or variance


def equation_errors(
    release: Release, noise: Noise, refined: Model | None, metric: Float[np.ndarray, "d k"], pseudo: PseudoData
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of the equations in the directions `metric (d, k)`.

    Args:
        refined: the model with another quadrature rule for expectations, which gives the error of the rule.

    Returns:
        Columns of normal errors `(k, g)`, bounded errors `(k, b)`, and errors of the quadrature rule `(k, q)`.
    """
    normal, bounded = (shifts(release, metric, np.asarray(x), pseudo) for x in (noise.normal, noise.bounded))
    if np.size(noise.bounded):
        # Higher orders: with E the whitened error, (1 + E)^-1 = 1 - E + E^2 - ...
        bounded = np.column_stack([bounded, _coarseness(noise, metric) ** 2 * np.eye(metric.shape[1])])
    rule, theta = np.zeros((metric.shape[1], 0)), np.asarray(release.theta)[0]
    if refined is not None:
        rule = (metric.T @ (_score(refined, theta, pseudo) - _score(release.model, theta, pseudo)))[:, None]
    return normal, bounded, rule


def shifts(
    release: Release, metric: Float[np.ndarray, "d k"], columns: Float[np.ndarray, "d g"], pseudo: PseudoData
) -> np.ndarray:
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


def too_coarse(noise: Noise, metric: np.ndarray) -> str | None:
    """A message if numbers were rounded so much that the first-order theory fails."""
    if not np.size(noise.bounded):
        return None
    worst = _coarseness(noise, metric)
    if worst <= _COARSE:
        return None
    return (
        f"the numbers have too few digits: rounding may change some combination of the parameters by {worst:.2g} of "
        "its standard deviation or variance; supply more digits, above all of correlations near one"
    )


def _coarseness(noise: Noise, metric: np.ndarray) -> float:
    """The largest shift of the parameter by rounding, in any direction of the metric."""
    return float(np.abs(np.linalg.lstsq(metric, np.asarray(noise.bounded), rcond=None)[0]).sum(axis=1).max())


def error_whitening(normal: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """`W (k, k)` such that the errors along the columns of W are independent with unit variance."""
    covariance = normal @ normal.T + bounded @ bounded.T / 3
    values, vectors = np.linalg.eigh(covariance)
    largest = float(values[-1]) if len(values) else 0.0
    if largest <= 0:
        return np.eye(len(normal))
    return vectors / np.sqrt(np.maximum(values, _FLOOR**2 * largest))


def consistent_errors(
    release: Release,
    metric: np.ndarray,
    features: Float[np.ndarray, "k r"],
    normal: np.ndarray,
    bounded: np.ndarray,
    rule: np.ndarray,
) -> tuple[EquationErrors, str | None]:
    """The errors with the constraints that some data must satisfy the equations, and a message if none can.

    Args:
        features: `(k, r)`, orthonormal or not. They span the contributions of data to the equations.
        normal, bounded, rule: errors of the equations.
    """
    from scipy.special import chdtri

    base = np.asarray(prior_score(release.model, metric, np.asarray(release.theta), release.temperature))[0]
    full_basis: Any = scipy.linalg.qr(features, mode="full")[0]
    q = full_basis[:, features.shape[1] :]
    constraints, values = q.T @ bounded, -q.T @ base
    errors = EquationErrors(normal, bounded, rule, constraints, values)
    if not q.shape[1]:
        return errors, None
    if normal.size:
        covariance = q.T @ (normal @ normal.T + bounded @ bounded.T / 3) @ q
        misfit = float(values @ np.linalg.lstsq(covariance, values, rcond=1e-10)[0])
        limit = float(chdtri(q.shape[1], _FALSE_ALARMS))
        if misfit <= limit:
            return errors, None
        return errors, (
            f"no data have this mean and covariance: off by {np.sqrt(misfit / q.shape[1]):.2g} standard errors "
            f"in {q.shape[1]} equations; is the model this one, with this prior, and the number of draws right?"
        )
    if bounded.size:
        size = np.maximum(np.linalg.norm(constraints, axis=1), 1e-300)
        # Equations that rounding does not affect must hold up to arithmetic errors.
        affected = size > 1e-9 * max(float(size.max()), 1e-300)
        constraints, values = constraints[affected] / size[affected, None], values[affected] / size[affected]
        for width in _WIDTHS:
            if farthest(np.zeros(bounded.shape[1]), constraints, values, width) is not None:
                errors = EquationErrors(normal, bounded, rule, constraints, values, width)
                if width <= _LARGEST_TRUSTED:
                    return errors, None
                break
        else:
            errors = EquationErrors(normal, bounded, rule, constraints, values, None)
        return errors, (
            "no data have these numbers, wherever their rounding lies: is the model this one, with this prior and "
            "jacobian, and are all numbers of one fit?"
        )
    return errors, None

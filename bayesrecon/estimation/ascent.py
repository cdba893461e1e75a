"""What an optimiser left of a trained parameter's equations, and what they themselves tell of it.

Data enter the k equations by r features. The k - r combinations that no data move hold at the optimum of any data: with
`F` the residual there and `C` its covariance but for a factor s^2, `F' C^-1 F` is `s^2` times a chi-squared with k - r
degrees of freedom. It is an estimate of s where nothing else is known of it, and a check where something is.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.noise import shifts
from bayesrecon.kernels.score import prior_score
from bayesrecon.types import PseudoData, Release

_FALSE_ALARMS = 1e-4
_FAR = 0.5  # posterior standard deviations: what the first order tells ends there
_NEAR = 0.01  # of them, up to which a fit shows by itself that it has settled
_STEPS = 200  # halvings of an interval


def left(release: Release, metric: np.ndarray, pseudo: PseudoData) -> np.ndarray:
    """Errors of the equations in the directions `metric (d, k)`, `(k, g)`, for s = 1."""
    ascent = None if release.noise is None else release.noise.ascent
    if ascent is None:
        return np.zeros((metric.shape[1], 0))
    moved = shifts(release, metric, np.asarray(ascent.parameter), pseudo)
    return np.column_stack([moved, metric.T @ np.asarray(ascent.score)])


def sized(
    release: Release, metric: np.ndarray, weights: np.ndarray, features: np.ndarray, errors: EquationErrors, rest: Any
) -> tuple[EquationErrors, float, str | None]:
    """The errors with those of the optimisation, s, and what is wrong where the parameter is at no optimum.

    Args:
        metric: `(d, k)` directions of the equations before they were weighed.
        weights: `(k, k)` of the equations; `features (k, r)`, `errors` and `rest`, what `left` gives, are weighed.
    """
    assert release.noise is not None and release.noise.ascent is not None
    freedom = release.noise.ascent.freedom
    base = np.asarray(prior_score(release.model, metric @ weights, np.asarray(release.theta), 0.0))[0]
    q = np.asarray(scipy.linalg.qr(features, mode="full")[0])[:, features.shape[1] :]
    over = q.shape[1]
    known, unknown, right = q.T @ np.column_stack([errors.normal, errors.rule]), q.T @ rest, -q.T @ base

    def misfit(square: float) -> float:
        covariance = known @ known.T + square * unknown @ unknown.T
        return float(right @ np.linalg.lstsq(covariance, right, rcond=1e-10)[0])

    s, wrong = 1.0, None
    if not freedom:
        s = float(np.sqrt(_factor(misfit, over, known.any()))) if over else 0.0
        if not over:
            wrong = (
                f"nothing tells how far the fit is from its optimum: its {len(features)} equations have "
                f"{features.shape[1]} features; supply late iterates= of its parameters, or residual=, 0 at the optimum"
            )
    elif over:
        off, limit = misfit(1.0) / over, _limit(over, freedom)
        if off > limit:
            wrong = (
                f"the fit is not stationary: off by {np.sqrt(off):.2g} of its own errors in {over} equations that hold "
                "for all data; was it run to its end, and is the model this one, with this prior?"
            )
        if np.isfinite(freedom):
            s = float(np.sqrt(max(1.0, (freedom + over * off) / (freedom + over))))
    before = np.linalg.solve(weights.T, rest)
    unit = 1.0
    if release.metric is None:  # a mode alone has no standard deviations: in units of its regulariser's gradient
        unit = float(np.linalg.norm(np.linalg.solve(weights.T, base))) or 1.0
    size = s * float(np.sqrt(np.sum(before**2) / len(before))) / unit
    if wrong is None and size > _FAR:
        wrong = (
            f"the fit is not stationary: it is about {size:.2g} "
            f"{'of its regulariser' if release.metric is None else 'posterior standard deviations'} away from its "
            "optimum; run it longer, with a smaller step at the end, or supply late iterates="
        )
    found = replace(
        errors,
        normal=np.column_stack([errors.normal, s * rest]),
        freedom=freedom + over if np.isfinite(freedom) else freedom,
        settled=bool(freedom) or size <= _NEAR,
    )
    return found, s, wrong


def _factor(misfit: Any, over: int, known: bool) -> float:
    """s^2 at which the misfit is what it is expected to be (Paule and Mandel 1982)."""
    if not known:
        return float(misfit(1.0)) / over
    low, high = -60.0, 30.0
    if misfit(np.exp(low)) <= over:
        return float(np.exp(low))
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if misfit(np.exp(middle)) > over else (low, middle)
    return float(np.exp(high))


def _limit(over: int, freedom: float) -> float:
    """What a good fit exceeds once in `_FALSE_ALARMS`: of a chi-squared over its degrees of freedom, or of F."""
    from scipy.special import chdtri, fdtri

    if np.isfinite(freedom):
        return float(fdtri(over, freedom, 1 - _FALSE_ALARMS))
    return float(chdtri(over, _FALSE_ALARMS)) / over

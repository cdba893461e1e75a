"""Errors of a trained parameter whose optimiser stopped before the optimum, estimated from its equations and iterates.

The data enter the k equations through r features. The other k - r combinations of the equations do not depend on the
data, and hold at the optimum for any data. Let F be their residual, with covariance `s^2 C`. Then `F' C^-1 F` is `s^2`
times a chi-squared variable with k - r degrees of freedom. This estimates s if it is unknown, and otherwise is a check.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.divergence.score import prior_score, total_score
from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.noise import shifts
from bayesrecon.model import PseudoData
from bayesrecon.releases import OptimisedFit, OptimisedMode, Release

_FALSE_ALARMS = 1e-4  # probability that a good fit is called contradictory, or a moving one stationary
_FAR = 0.5  # posterior standard deviations: the first-order theory is not valid farther from the optimum
_NEAR = 0.01  # posterior standard deviations: within this distance the equations alone show that a fit has converged
_OVER = 3  # smallest number of equations that do not depend on the data for an estimate of s
_STEPS = 200  # bisection steps
_FLAT = 1e-4  # lower limit for curvatures and steps, relative to the largest
_DISTANT = 1.0  # posterior standard deviations: largest distance from the mean of the iterates to their limit
_FEWEST = 10.0  # smallest number of degrees of freedom of the iterates
_POINTS = 4  # smallest number of iterates
_COARSE = (-9.0, 4.0, 40)  # first grid for the logarithm of rate times spacing
_TRUSTED = 5.0  # the theory of the optimiser's noise counts as this many iterates in every direction


@dataclass(frozen=True)
class FinalErrors:
    """Errors of the equations at the end of an optimisation.

    Attributes:
        theta: `(d,)` point at which the gradient is expected to be zero.
        errors: `(k, g)` errors of the equations there.
        freedom: degrees of freedom of the estimate of their size.
        wrong: the reason why they cannot be estimated, if any.
    """

    theta: Float[np.ndarray, " d"]
    errors: Float[np.ndarray, "k g"]
    freedom: float
    wrong: str | None = None


def final_errors(
    release: OptimisedFit | OptimisedMode, metric: Float[np.ndarray, "d k"], pseudo: PseudoData
) -> FinalErrors:
    """Errors of the equations in the directions `metric (d, k)`, for the fitted data.

    In whitened directions w the gradient is `-H (w - w*)`, and near the posterior its noise is `H e` with e standard
    normal. With steps of R times the gradient, the iterates are a first-order autoregression about w*. Along an
    eigenvector of `R^(1/2) H R^(1/2)` with eigenvalue m, its rate is proportional to m. Its variance is proportional to
    `n / m`, where n is the variance of the noise (Mandt, Hoffman and Blei 2017, equation 11). Late iterates determine
    both factors.
    """
    ascent, theta = release.ascent, np.asarray(release.theta)[0]
    stated = metric.T @ np.asarray(ascent.score)
    steps = np.asarray(ascent.steps)
    if not steps.size:
        return FinalErrors(theta, stated, ascent.freedom)
    hessian = np.eye(metric.shape[1])
    if metric.shape[0] == metric.shape[1]:  # of a restricted one, the diagonal alone is known: ones
        hessian = _positive(-shifts(release, metric, metric, pseudo))
    moves = np.linalg.lstsq(metric, steps, rcond=None)[0]
    size = np.linalg.norm(hessian @ moves, axis=0)
    moves = moves[:, size > 0] / np.sqrt(size[size > 0])
    values, vectors = np.linalg.eigh(moves @ moves.T)
    root = (vectors * np.sqrt(np.maximum(values, _FLAT * values[-1]))) @ vectors.T
    rates, rotation = np.linalg.eigh(root @ hessian @ root)
    rates = np.maximum(rates, _FLAT * rates[-1])
    to_whitened = root @ rotation  # w = back v
    variances = np.sum((rotation.T @ root @ hessian) ** 2, axis=1) / rates
    if ascent.points is None:
        errors = hessian @ to_whitened * np.sqrt(variances)
        unit = np.sqrt(np.sum(errors**2) / len(errors))
        return FinalErrors(theta, np.column_stack([stated, errors / unit]), ascent.freedom)
    whitened = np.linalg.lstsq(metric, (np.asarray(ascent.points) - theta).T, rcond=None)[0]
    stationary = stationary_mean(np.linalg.solve(to_whitened, whitened).T, rates, variances)
    if stationary.freedom < _FEWEST:
        wrong = (
            f"the {len(whitened.T)} iterates have no more than {max(stationary.freedom, 0.0):.1g} degrees of "
            "freedom: the fit has not converged, or they are too close to each other; supply later ones, further apart"
        )
        return FinalErrors(theta, np.column_stack([stated, hessian]), stationary.freedom, wrong)
    gradients = [total_score(release.model, t, pseudo.records, pseudo.weights) for t in (theta, *ascent.points)]
    gradient_at_end = metric.T @ np.asarray(gradients[0])
    rotation = (
        [metric] * len(ascent.points) if ascent.turned is None else [t @ metric for t in np.asarray(ascent.turned)]
    )
    gradients_there = [direction.T @ np.asarray(g) for direction, g in zip(rotation, gradients[1:], strict=True)]
    # The average of the gradient over the iterates is zero, which differs from the gradient at their average.
    curvature = np.mean(gradients_there, axis=0) - gradient_at_end
    shift = to_whitened @ stationary.mean - np.linalg.solve(hessian, curvature)
    errors = hessian @ to_whitened * stationary.error
    if not (np.isfinite(shift).all() and np.isfinite(errors).all() and np.abs(shift).max(initial=0.0) <= _DISTANT):
        wrong = (
            "the fit has not converged: its iterates move towards a point more than "
            f"{_DISTANT:g} posterior standard deviations from their mean; run it longer and supply later ones"
        )
        return FinalErrors(theta, np.column_stack([stated, hessian]), stationary.freedom, wrong)
    return FinalErrors(theta + metric @ shift, np.column_stack([stated, errors]), stationary.freedom)


@dataclass(frozen=True)
class StationaryMean:
    """The stationary mean of the iterates `(k,)`, its standard error `(k,)`, and the latter's degrees of freedom."""

    mean: np.ndarray
    error: np.ndarray
    freedom: float


def stationary_mean(points: np.ndarray, rates: np.ndarray, variances: np.ndarray) -> StationaryMean:
    """The stationary mean of first-order autoregressions, from their points `(K, k)`.

    Their coefficients are `exp(-a rates)` and their variances `c variances`, where a and c maximise the restricted
    likelihood (Patterson and Thompson 1971). It conditions on the first points, which need not be stationary.
    """
    from scipy.optimize import minimize_scalar

    count, k = points.shape
    if count < _POINTS or not np.ptp(points, axis=0).any():
        return StationaryMean(points.mean(axis=0), np.zeros(k), 0.0)

    def profile(log: float) -> tuple[float, np.ndarray, float, np.ndarray]:
        r = np.exp(-np.exp(log) * rates)
        ends, inner = points[0] + points[-1], points[1:-1].sum(axis=0)
        information = ((count - 2) * (1 - r) + 2) / (1 + r)
        centred = points - (ends + (1 - r) * inner) / ((count - 2) * (1 - r) + 2)
        squares = ((centred[1:] - r * centred[:-1]) ** 2).sum(axis=0) / (1 - r**2) + centred[0] ** 2
        ratios = squares / variances / (count - 1)
        c = max(float(ratios.mean()), 1e-300)
        deviance = (count - 1) * (k * np.log(c) + np.log(1 - r**2).sum()) + np.log(information).sum()
        return float(deviance), r, c, ratios / c

    start = -float(np.log(np.median(rates)))
    grid = start + np.linspace(*_COARSE)
    best = grid[int(np.argmin([profile(x)[0] for x in grid]))]
    width = grid[1] - grid[0]
    optimum: Any = minimize_scalar(lambda x: profile(x)[0], bounds=(best - width, best + width), method="bounded")
    _, r, c, ratio = profile(float(optimum.x))
    mean = (points[1:] - r * points[:-1]).sum(axis=0) / ((count - 1) * (1 - r))
    # Some directions may vary more than the common factor c predicts.
    inflation = np.maximum(1.0, (_TRUSTED + (count - 1) * ratio) / (_TRUSTED + count - 1))
    error = np.sqrt(inflation * c * variances * (1 - r**2) / (count - 1)) / (1 - r)
    return StationaryMean(mean, error, float(np.minimum(np.exp(optimum.x) * rates, 1.0).sum() * (count - 1)))


def _positive(hessian: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return (vectors * np.clip(values, _FLAT * max(values[-1], 1.0), None)) @ vectors.T


@dataclass(frozen=True)
class Unit:
    """The unit in which the distance from an optimum is reported.

    Attributes:
        name: in words.
        length: function that maps the regulariser's gradient, in the directions of the equations, to one unit.
    """

    name: str
    length: Callable[[np.ndarray], float]


DEVIATIONS = Unit("posterior standard deviations", lambda base: 1.0)
REGULARISER = Unit("of its regulariser", lambda base: float(np.linalg.norm(base)) or 1.0)
"""Units for distributions with a covariance, and for single modes, which have no standard deviations."""


def with_optimisation_errors(
    release: Release,
    metric: Float[np.ndarray, "d k"],
    weights: Float[np.ndarray, "k k"],
    features: Float[np.ndarray, "k r"],
    errors: EquationErrors,
    optimisation_errors: np.ndarray,
    freedom: float,
    unit: Unit,
) -> tuple[EquationErrors, float, str | None]:
    """Add the errors of the optimisation to those of the equations, with their size s.

    Args:
        release: the fit.
        metric: `(d, k)` directions of the equations before weighting.
        weights: `(k, k)` weights of the equations. The following three arguments are weighted.
        features: `(k, r)` features of the data.
        errors: errors from other sources.
        optimisation_errors: errors of the optimisation, from `final_errors`.
        freedom: degrees of freedom of `optimisation_errors`.
        unit: unit for the distance from the optimum.

    Returns:
        The errors, s, and a message if the parameter is not at an optimum.
    """
    from scipy.special import chdtri

    base = np.asarray(prior_score(release.model, metric @ weights, np.asarray(release.theta), 0.0))[0]
    q = np.asarray(scipy.linalg.qr(features, mode="full")[0])[:, features.shape[1] :]
    overdetermined = q.shape[1]
    known, unknown, right = q.T @ np.column_stack([errors.normal, errors.rule]), q.T @ optimisation_errors, -q.T @ base

    if not all(np.isfinite(x).all() for x in (known, unknown, right)):
        return errors, 1.0, "the equations of the fit cannot be evaluated where it ended: did it diverge?"

    def misfit(square: float) -> float:
        covariance = known @ known.T + square * unknown @ unknown.T
        return float(right @ np.linalg.lstsq(covariance, right, rcond=1e-10)[0])

    s, wrong = 1.0, None
    if not freedom:
        s = float(np.sqrt(_factor(misfit, overdetermined, bool(known.any())))) if overdetermined else 0.0
        if overdetermined < _OVER:
            wrong = (
                f"the distance of the fit from its optimum is not determined: {features.shape[1]} features of data "
                f"enter its {len(features)} equations; supply late iterates= of its parameters, or residual=, 0 at "
                "the optimum"
            )
    elif overdetermined:
        mean_misfit, limit = misfit(1.0) / overdetermined, _limit(overdetermined, freedom)
        if mean_misfit > limit:
            wrong = (
                f"the fit is not stationary: off by {np.sqrt(mean_misfit):.2g} standard errors in "
                f"{overdetermined} equations that hold "
                "for any data; was it run to its end, and is the model this one, with this prior?"
            )
        if np.isfinite(freedom):
            s = float(np.sqrt(max(1.0, (freedom + overdetermined * mean_misfit) / (freedom + overdetermined))))
    unweighted = np.linalg.solve(weights.T, optimisation_errors)
    length = unit.length(np.linalg.solve(weights.T, base))
    size = s * float(np.sqrt(np.sum(unweighted**2) / len(unweighted))) / length
    if not freedom:  # the distance from the optimum cannot be determined more precisely than the known errors
        blur = np.linalg.solve(weights.T, errors.normal)
        # A few equations can hold by chance, so this is the largest size that they allow.
        possible = (
            size * np.sqrt(overdetermined / chdtri(overdetermined, 1 - _FALSE_ALARMS)) if overdetermined else size
        )
        size = float(np.hypot(possible, np.sqrt(np.sum(blur**2) / len(blur)) / length))
    if wrong is None and size > (_FAR if freedom else _NEAR):
        wrong = (
            f"the fit is not stationary: it may be {size:.2g} {unit.name} away from its optimum"
            f"; run it longer, with a smaller step "
            "at the end, or supply late iterates= of its parameters, or residual="
        )
    combined = replace(
        errors,
        normal=np.column_stack([errors.normal, s * optimisation_errors]),
        freedom=freedom + overdetermined if np.isfinite(freedom) else freedom,
    )
    return combined, s, wrong


def _factor(misfit: Any, overdetermined: int, known: bool) -> float:
    """s^2 for which the misfit equals its expectation (Paule and Mandel 1982)."""
    if not known:
        return float(misfit(1.0)) / overdetermined
    low, high = -60.0, 30.0
    if misfit(np.exp(low)) <= overdetermined:
        return float(np.exp(low))
    for _ in range(_STEPS):
        midpoint = 0.5 * (low + high)
        low, high = (midpoint, high) if misfit(np.exp(midpoint)) > overdetermined else (low, midpoint)
    return float(np.exp(high))


def _limit(overdetermined: int, freedom: float) -> float:
    """The quantile that a good fit exceeds with probability `_FALSE_ALARMS`: of chi-squared / freedom, or of F."""
    from scipy.special import chdtri, fdtri

    if np.isfinite(freedom):
        return float(fdtri(overdetermined, freedom, 1 - _FALSE_ALARMS))
    return float(chdtri(overdetermined, _FALSE_ALARMS)) / overdetermined

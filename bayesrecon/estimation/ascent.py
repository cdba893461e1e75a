"""What an optimiser left of a trained parameter's equations, and what they themselves tell of it.

Data enter the k equations by r features. The k - r combinations that no data move hold at the optimum of any data: with
`F` the residual there and `C` its covariance but for a factor s^2, `F' C^-1 F` is `s^2` times a chi-squared with k - r
degrees of freedom. It is an estimate of s where nothing else is known of it, and a check where something is.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.estimation.intervals import EquationErrors
from bayesrecon.estimation.noise import shifts
from bayesrecon.kernels.score import prior_score, total_score
from bayesrecon.model import PseudoData
from bayesrecon.releases import OptimisedFit, OptimisedMode, Release

_FALSE_ALARMS = 1e-4  # of good fits called contradictory, and of wandering ones that seem at rest
_FAR = 0.5  # posterior standard deviations: what the first order tells ends there
_NEAR = 0.01  # of them, up to which a fit shows by itself that it has settled
_OVER = 3  # equations without data, below which they tell nothing of the others
_STEPS = 200  # halvings of an interval
_FLAT = 1e-4  # of the largest curvature or step, below which one counts as this
_DISTANT = 1.0  # of them, from the mean of the iterates, to where they may come to rest: scales stay positive
_FEWEST = 10.0  # degrees of freedom of iterates, below which nothing is told
_POINTS = 4  # iterates
_COARSE = (-9.0, 4.0, 40)  # logarithms of rates times spacing that are looked at first
_TRUSTED = 5.0  # iterates that the optimiser's own noise is worth, in what it says of every direction


@dataclass(frozen=True)
class FinalErrors:
    """What is left of an optimisation.

    Attributes:
        theta: `(d,)` where the gradient is expected to be zero.
        errors: `(k, g)` of the equations there.
        freedom: degrees of freedom with which their size is known.
        wrong: what keeps them from being known.
    """

    theta: Float[np.ndarray, " d"]
    errors: Float[np.ndarray, "k g"]
    freedom: float
    wrong: str | None = None


def final_errors(
    release: OptimisedFit | OptimisedMode, metric: Float[np.ndarray, "d k"], pseudo: PseudoData
) -> FinalErrors:
    """What is left in the directions `metric (d, k)`, of the fitted data.

    In whitened directions w the gradient is `-H (w - w*)` and its noise `H e`, e standard normal, where the law is near
    the posterior. Steps `R` times the gradient wander about w* like an autoregression of first order: along an
    eigenvector of `R^(1/2) H R^(1/2)` of value m its rate is proportional to m, and its variance to `n / m` with n that
    of the noise (Mandt, Hoffman and Blei 2017, equation 11). Late iterates tell both factors.
    """
    ascent, theta = release.ascent, np.asarray(release.theta)[0]
    stated = metric.T @ np.asarray(ascent.score)
    steps = np.asarray(ascent.steps)
    if not steps.size:
        return FinalErrors(theta, stated, ascent.freedom)
    hessian = np.eye(metric.shape[1])
    if metric.shape[0] == metric.shape[1]:  # a restricted law shows of its own Hessian the diagonal alone, which is one
        hessian = _positive(-shifts(release, metric, metric, pseudo))
    moves = np.linalg.lstsq(metric, steps, rcond=None)[0]
    size = np.linalg.norm(hessian @ moves, axis=0)
    moves = moves[:, size > 0] / np.sqrt(size[size > 0])
    values, vectors = np.linalg.eigh(moves @ moves.T)
    root = (vectors * np.sqrt(np.maximum(values, _FLAT * values[-1]))) @ vectors.T
    rates, turned = np.linalg.eigh(root @ hessian @ root)
    rates = np.maximum(rates, _FLAT * rates[-1])
    back = root @ turned  # w = back v
    variances = np.sum((turned.T @ root @ hessian) ** 2, axis=1) / rates
    if ascent.points is None:
        errors = hessian @ back * np.sqrt(variances)
        unit = np.sqrt(np.sum(errors**2) / len(errors))
        return FinalErrors(theta, np.column_stack([stated, errors / unit]), ascent.freedom)
    whitened = np.linalg.lstsq(metric, (np.asarray(ascent.points) - theta).T, rcond=None)[0]
    found = settling(np.linalg.solve(back, whitened).T, rates, variances)
    if found.freedom < _FEWEST:
        wrong = (
            f"the {len(whitened.T)} iterates tell no more than {max(found.freedom, 0.0):.1g} independent numbers: the "
            "fit has not settled, or they are too close to each other; supply later ones, further apart"
        )
        return FinalErrors(theta, np.column_stack([stated, hessian]), found.freedom, wrong)
    gradients = [total_score(release.model, t, pseudo.records, pseudo.weights) for t in (theta, *ascent.points)]
    own = metric.T @ np.asarray(gradients[0])
    turned = [metric] * len(ascent.points) if ascent.turned is None else [t @ metric for t in np.asarray(ascent.turned)]
    others = [moved.T @ np.asarray(g) for moved, g in zip(turned, gradients[1:], strict=True)]
    # The gradient in what was moved is zero on average over the iterates, which is not the one at their average.
    curvature = np.mean(others, axis=0) - own
    at = back @ found.mean - np.linalg.solve(hessian, curvature)
    errors = hessian @ back * found.error
    if not (np.isfinite(at).all() and np.isfinite(errors).all() and np.abs(at).max(initial=0.0) <= _DISTANT):
        wrong = (
            "the fit has not settled: its iterates head for a point more than "
            f"{_DISTANT:g} posterior standard deviations from their mean; run it longer and supply later ones"
        )
        return FinalErrors(theta, np.column_stack([stated, hessian]), found.freedom, wrong)
    return FinalErrors(theta + metric @ at, np.column_stack([stated, errors]), found.freedom)


@dataclass(frozen=True)
class Settled:
    """The mean `(k,)` that iterates relax to, its standard error `(k,)`, and the degrees of freedom of that."""

    mean: np.ndarray
    error: np.ndarray
    freedom: float


def settling(points: np.ndarray, rates: np.ndarray, variances: np.ndarray) -> Settled:
    """Where autoregressions of first order relax to, from their points `(K, k)`.

    Their coefficients are `exp(-a rates)` and their variances `c variances`; a and c maximise the restricted likelihood
    (Patterson and Thompson 1971). The mean is the one given the first points, which need not be at rest.
    """
    from scipy.optimize import minimize_scalar

    count, k = points.shape
    if count < _POINTS or not np.ptp(points, axis=0).any():
        return Settled(points.mean(axis=0), np.zeros(k), 0.0)

    def at(log: float) -> tuple[float, np.ndarray, float, np.ndarray]:
        r = np.exp(-np.exp(log) * rates)
        ends, inner = points[0] + points[-1], points[1:-1].sum(axis=0)
        information = ((count - 2) * (1 - r) + 2) / (1 + r)
        centred = points - (ends + (1 - r) * inner) / ((count - 2) * (1 - r) + 2)
        moved = ((centred[1:] - r * centred[:-1]) ** 2).sum(axis=0) / (1 - r**2) + centred[0] ** 2
        each = moved / variances / (count - 1)
        c = max(float(each.mean()), 1e-300)
        deviance = (count - 1) * (k * np.log(c) + np.log(1 - r**2).sum()) + np.log(information).sum()
        return float(deviance), r, c, each / c

    start = -float(np.log(np.median(rates)))
    grid = start + np.linspace(*_COARSE)
    best = grid[int(np.argmin([at(x)[0] for x in grid]))]
    width = grid[1] - grid[0]
    found: Any = minimize_scalar(lambda x: at(x)[0], bounds=(best - width, best + width), method="bounded")
    _, r, c, ratio = at(float(found.x))
    mean = (points[1:] - r * points[:-1]).sum(axis=0) / ((count - 1) * (1 - r))
    # Directions that wander more than the others would have it.
    more = np.maximum(1.0, (_TRUSTED + (count - 1) * ratio) / (_TRUSTED + count - 1))
    error = np.sqrt(more * c * variances * (1 - r**2) / (count - 1)) / (1 - r)
    return Settled(mean, error, float(np.minimum(np.exp(found.x) * rates, 1.0).sum() * (count - 1)))


def _positive(hessian: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return (vectors * np.clip(values, _FLAT * max(values[-1], 1.0), None)) @ vectors.T


@dataclass(frozen=True)
class Unit:
    """In which distances from an optimum are told.

    Attributes:
        name: in words.
        length: of one, given the gradient of the regulariser in the directions of the equations.
    """

    name: str
    length: Callable[[np.ndarray], float]


DEVIATIONS = Unit("posterior standard deviations", lambda base: 1.0)
REGULARISER = Unit("of its regulariser", lambda base: float(np.linalg.norm(base)) or 1.0)
"""Of laws with a covariance, and of modes alone, which have no standard deviations."""


def sized(
    release: Release,
    metric: Float[np.ndarray, "d k"],
    weights: Float[np.ndarray, "k k"],
    features: Float[np.ndarray, "k r"],
    errors: EquationErrors,
    rest: np.ndarray,
    freedom: float,
    unit: Unit,
) -> tuple[EquationErrors, float, str | None]:
    """The errors with those of the optimisation, s, and what is wrong where the parameter is at no optimum.

    Args:
        metric: `(d, k)` directions of the equations before they were weighed.
        weights: `(k, k)` of the equations; `features (k, r)`, `errors` and `rest`, those of `final_errors`, are
            weighed.
        freedom: of `rest`.
        unit: in which it is said how far it is.
    """
    from scipy.special import chdtri

    base = np.asarray(prior_score(release.model, metric @ weights, np.asarray(release.theta), 0.0))[0]
    q = np.asarray(scipy.linalg.qr(features, mode="full")[0])[:, features.shape[1] :]
    over = q.shape[1]
    known, unknown, right = q.T @ np.column_stack([errors.normal, errors.rule]), q.T @ rest, -q.T @ base

    if not all(np.isfinite(x).all() for x in (known, unknown, right)):
        return errors, 1.0, "the equations of the fit cannot be evaluated where it ended: did it diverge?"

    def misfit(square: float) -> float:
        covariance = known @ known.T + square * unknown @ unknown.T
        return float(right @ np.linalg.lstsq(covariance, right, rcond=1e-10)[0])

    s, wrong = 1.0, None
    if not freedom:
        s = float(np.sqrt(_factor(misfit, over, bool(known.any())))) if over else 0.0
        if over < _OVER:
            wrong = (
                f"too little tells how far the fit is from its optimum: {features.shape[1]} features of data enter its "
                f"{len(features)} equations; supply late iterates= of its parameters, or residual=, 0 at the optimum"
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
    length = unit.length(np.linalg.solve(weights.T, base))
    size = s * float(np.sqrt(np.sum(before**2) / len(before))) / length
    if not freedom:  # what was read with errors cannot show more than them
        blur = np.linalg.solve(weights.T, errors.normal)
        # Few equations can hold by accident: the largest size that they leave possible.
        possible = size * np.sqrt(over / chdtri(over, 1 - _FALSE_ALARMS)) if over else size
        size = float(np.hypot(possible, np.sqrt(np.sum(blur**2) / len(blur)) / length))
    if wrong is None and size > (_FAR if freedom else _NEAR):
        wrong = (
            f"the fit is not stationary: it may be {size:.2g} {unit.name} away from its optimum"
            f"; run it longer, with a smaller step "
            "at the end, or supply late iterates= of its parameters, or residual="
        )
    found = replace(
        errors,
        normal=np.column_stack([errors.normal, s * rest]),
        freedom=freedom + over if np.isfinite(freedom) else freedom,
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

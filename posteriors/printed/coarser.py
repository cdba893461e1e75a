"""Coarser versions of an approximation: fewer digits, or the estimates alone."""

from dataclasses import replace

import numpy as np

from bayesrecon.digits import decimal_step
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.normal import laplace, pack, unpack, whitening
from bayesrecon.precision import in_float64
from bayesrecon.releases import Derived, Release

_STEP = 1e-5  # of a half unit of the last digit, for what it moves
_OPEN = 0.5  # of a direction: more than that outside the equations, and its number was not released


@in_float64
def fewer_digits(release: Derived, digits: int) -> Release:
    """The release with its mean and standard deviations printed with so many significant digits, and correlations with
    as many decimals; errors that it had before stay beside those of rounding.

    >>> from bayesrecon.models.registry import load
    >>> from bayesrecon.posteriors import gaussian
    >>> exact = gaussian(load("kidscore_momiq"), [25.8, 0.61, 2.9], np.diag([36.0, 0.0036, 0.0012]), jacobian=True)
    >>> np.asarray(fewer_digits(exact, 1).theta)[0, :3].round(6).tolist()
    [30.0, 0.6, 3.0]
    """
    model = _base(release)
    phi = np.asarray(release.theta)[0]
    mean, factor = (np.asarray(x) for x in unpack(model, phi))
    d, lower = len(mean), np.tril_indices(len(mean), -1)
    covariance = factor @ factor.T
    sd = np.sqrt(np.diag(covariance))
    numbers = np.concatenate([mean, sd, (covariance / np.outer(sd, sd))[lower]])
    unit = np.concatenate([decimal_step(mean, digits), decimal_step(sd, digits), np.full(len(lower[0]), 10.0**-digits)])

    def phi_of(numbers: np.ndarray) -> np.ndarray:
        at, spread, related = np.split(numbers, [d, 2 * d])
        r = np.eye(d)
        r[lower] = related
        return pack(model, at, (r + np.tril(r, -1).T) * np.outer(spread, spread))

    informative = np.array(
        [_directions_of_mean(release, (phi_of(numbers + s) - phi_of(numbers - s)) / 2) for s in np.diag(unit * _STEP)]
    )
    informative[2 * d :] &= numbers[2 * d :] != 0  # of a mean field there are none
    cut = np.where(informative, np.round(numbers / unit) * unit, numbers)
    try:
        moved = phi_of(cut)
        steps = [s for s in np.diag(np.where(informative, unit / 2, 0.0) * _STEP) if s.any()]
        columns = np.array([(phi_of(cut + s) - phi_of(cut - s)) / (2 * _STEP) for s in steps]).T
    except np.linalg.LinAlgError:
        raise BayesreconError(f"with {digits} digits the covariance is not positive definite") from None
    directions = whitening(model, moved) @ np.linalg.solve(whitening(model, phi), np.asarray(release.directions))
    return release.printed(moved[None], directions, columns)


def estimates_alone(release: Derived) -> Release:
    """A mode without its covariance: the equations of its gradient are left."""
    model = _base(release)
    if release.model not in (laplace(model, True), laplace(model, False)):
        raise BayesreconError("the estimates alone are stationary only for a mode")
    return replace(release, directions=np.asarray(release.directions)[:, : model.dimension])


def _base(release: Derived) -> Model:
    if release.about is release.model or [p.name for p in release.model.parameters] != ["mean", "scale"]:
        raise BayesreconError(f"{release.name} is not a mean with a covariance")
    return release.about


def _directions_of_mean(release: Derived, direction: np.ndarray) -> bool:
    """Whether the equations of the release include this direction of its parameter."""
    metric = np.asarray(release.directions)
    size = np.linalg.norm(direction)
    rest = direction - metric @ np.linalg.lstsq(metric, direction, rcond=None)[0]
    return bool(size > 0 and np.linalg.norm(rest) < _OPEN * size)

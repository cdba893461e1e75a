"""The metric Sigma and the coordinates in which the divergence is taken."""

from dataclasses import dataclass, replace
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Float

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Atoms, Model
from bayesrecon.running.draws_on_disk import as_rows, row_blocks, weighted_sum

R = TypeVar("R", bound=Atoms)

_FOLDS = 5  # parts of the draws, each summed in a metric made without it
_FELT = 0.25  # standard errors of bias from which that is done


@dataclass(frozen=True)
class Metric:
    """The metric Sigma of the divergence, and the coordinates in which gradients are taken.

    Attributes:
        sigma: "covariance" whitens by the covariance of the draws. It is nearly efficient, and the default for draws.
            "identity" gives the unwhitened divergence as published (Wynne 2025), and is the default for a trained
            parameter. An approximation brings its "own" metric.
        coordinates: "unconstrained" is the default. "constrained" requires that the density vanishes at every boundary.

    >>> Metric("identity").coordinates is None
    True
    """

    sigma: str | None = None
    coordinates: str | None = None

    def __post_init__(self) -> None:
        if self.sigma not in (None, "covariance", "identity", "own"):
            raise BayesreconError(f"metric={self.sigma!r}: expected 'covariance' or 'identity'")
        if self.coordinates not in (None, "unconstrained", "constrained"):
            raise BayesreconError(f"coordinates={self.coordinates!r}: expected 'unconstrained' or 'constrained'")

    @classmethod
    def of(cls, metric: "Metric | str | None", release: Atoms) -> "Metric":
        """A metric, or one given by the name of its Sigma, with the defaults for a release filled in."""
        given = metric if isinstance(metric, Metric) else cls(metric)
        return cls(given.sigma or release.default_metric, given.coordinates or "unconstrained")


def constrained_theta(model: Model, theta: Float[np.ndarray, "T d"]) -> Float[np.ndarray, "T free"]:
    """Constrained values of every parameter stacked, `(T, d')`."""
    params = jax.vmap(model.constrain)(theta)
    return np.concatenate([np.asarray(params[p.name]).reshape(len(theta), -1) for p in model.parameters], axis=1)


def in_coordinates(release: R, coordinates: str) -> R:
    """The release in these coordinates.

    Integration by parts drops a boundary term, so constrained coordinates are refused where the draws show
    density at a boundary of the support.
    """
    if coordinates == "unconstrained":
        return release
    if coordinates != "constrained":
        raise BayesreconError(f"coordinates={coordinates!r}: expected 'unconstrained' or 'constrained'")
    model = release.model.in_constrained_coordinates
    theta = constrained_theta(release.model, np.asarray(release.theta))
    low = np.concatenate([np.full(p.size, p.bounds[0]) for p in model.parameters if p.bounds])
    high = np.concatenate([np.full(p.size, p.bounds[1]) for p in model.parameters if p.bounds])
    sd = theta.std(axis=0)
    for side, distance in (("lower", theta - low), ("upper", high - theta)):
        # Density at the boundary in units of one over the standard deviation, from the nearest twentieth of one.
        density = (distance < 0.05 * sd).mean(axis=0) / 0.05
        for j in np.flatnonzero(density > 0.01):
            raise BayesreconError(
                f"coordinates='constrained' is not valid: the density of {model.coordinates[j]} does not vanish "
                f"at its {side} bound (about {density[j]:.2g} of its peak); use coordinates='unconstrained'"
            )
    return replace(release, model=model, theta=theta)  # type: ignore[type-var]


def fold_factors(release: Atoms, metric: str | None) -> Float[np.ndarray, "F d d"] | None:
    """`(F, d, d)` factors of the covariance of all atoms but those of each of F successive parts (cross-fitting).

    Summed in their own covariance, T draws of d parameters give totals too small by a factor `1 + d / T`. No total has
    a relative error below `sqrt(2 / (d T))`; None where the bias is small next to that, where Sigma is not estimated,
    or where too few atoms would be left to estimate it from.
    """
    count, d = np.shape(release.theta)
    if (metric or release.default_metric) != "covariance" or d**1.5 < _FELT * np.sqrt(2 * count):
        return None
    fold = np.arange(count) * _FOLDS // count
    try:
        return np.stack([metric_factor(_without(release, fold == f), metric) for f in range(_FOLDS)])
    except BayesreconError:  # too few, or a chain that stands still
        return None


def _without(release: R, left_out: np.ndarray) -> R:
    weights = np.where(left_out, 0.0, np.asarray(release.weights))
    return replace(release, weights=weights / weights.sum())  # type: ignore[type-var]


def metric_factor(release: Atoms, metric: str | None) -> Float[np.ndarray, "d k"]:
    """`(d, d)` factor whose product with its transpose is Sigma, by default that of the release's kind.

    "covariance" is the weighted one of the atoms, and "own" the release's `directions`, `(d, k)`.
    """
    name = metric or release.default_metric
    theta, weights = as_rows(release.theta), np.asarray(release.weights)
    count, d = int(np.count_nonzero(weights)), theta.shape[1]
    if name == "own":
        return release.own_metric()
    if name == "identity":
        return np.eye(d)
    if name != "covariance":
        raise BayesreconError(f"metric={metric!r}: expected 'covariance' or 'identity'")
    if count <= d:
        raise BayesreconError(
            f"{count} draws are too few for the covariance of {d} parameters; supply more draws or metric='identity'"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        centre = weighted_sum(theta, weights)
        sd = np.sqrt(sum(weights[at] @ (rows - centre) ** 2 for at, rows in row_blocks(theta)))
    if not np.isfinite(sd).all():
        name = release.model.coordinates[int(np.flatnonzero(~np.isfinite(sd))[0])]
        raise BayesreconError(f"the draws of {name} are too large to have a variance; are they of this model?")
    largest = np.max([np.abs(rows).max(axis=0) for _, rows in row_blocks(theta)], axis=0)
    fixed = np.flatnonzero(~(sd > 1e-12 * (1 + largest)))
    if fixed.size:
        raise BayesreconError(
            f"parameter {release.model.coordinates[fixed[0]]} takes one value in all draws; "
            "it cannot have been sampled: drop it from the model or check the file"
        )
    # Equilibrated first: raw scales differ by many orders of magnitude.
    correlation = np.zeros((d, d))
    for at, rows in row_blocks(theta):
        standard = (rows - centre) / sd
        correlation += (standard * weights[at, None]).T @ standard
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < 1e-14 * values[-1]:
        raise BayesreconError(
            "the draws lie in a subspace of the parameters (their covariance is singular): a parameter is a "
            "function of others, or the draws are too few; supply more draws or metric='identity'"
        )
    return sd[:, None] * vectors * np.sqrt(values)

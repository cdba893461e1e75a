"""Quadrature rules for a standard normal distribution: nodes and weights."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import roots_hermitenorm

from bayesrecon.model import GaussianPredictor

if TYPE_CHECKING:
    from scipy.stats import qmc

_TENSOR = 3  # largest dimension with a product of one-dimensional rules
_POINTS = {1: 32, 2: 24, 3: 16}  # points of these rules, by the dimension
_LOGARITHM = 24  # points along the logarithm of a scale
_QUASI_RANDOM = 2**10  # quasi-random nodes, and as many with the opposite sign

Rule = tuple[np.ndarray, np.ndarray]
"""Nodes `(S, d)` and weights `(S,)` that sum to one. The mean and covariance are exact."""


def rule(d: int, gaussian: GaussianPredictor | None = None, *, other: bool = False) -> Rule:
    """A rule in d dimensions.

    For a linear regression with the logarithm of its scale as first coordinate, the rule is exact to rounding. The log
    likelihood is a quadratic in the other coordinates, and Gauss-Hermite points are used for the first. Otherwise, few
    dimensions have products of Gauss-Hermite points. More dimensions have quasi-random points (Sobol) and their
    negatives, scaled to the covariance of the distribution.

    Args:
        d: number of dimensions.
        gaussian: the regression, if the model is one.
        other: whether to return a second rule of the same quality. The difference estimates the error of both.

    >>> nodes, weights = rule(2)
    >>> float(np.round(weights @ nodes[:, 0] ** 4, 9))
    3.0
    """
    if gaussian is not None and gaussian.scale is not None:
        return _along_scale(d, other)
    if d <= _TENSOR:
        return _tensor(d, _POINTS[d] - 2 * other)
    return _quasi_random(d, int(other))


def _hermite(points: int) -> Rule:
    nodes, weights = roots_hermitenorm(points)
    return np.asarray(nodes), np.asarray(weights) / np.sum(weights)


def _along_scale(d: int, other: bool) -> Rule:
    nodes, weights = _hermite(_LOGARITHM + 4 * other)
    count = d - 1
    if not count:
        return nodes[:, None], weights
    rotation = np.eye(count)
    if other:
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(count, count)))[0]
    others = np.sqrt(count) * np.concatenate([rotation, -rotation])
    grid = np.column_stack([np.repeat(nodes, len(others)), np.tile(others, (len(nodes), 1))])
    return grid, np.repeat(weights, len(others)) / len(others)


def _tensor(d: int, points: int) -> Rule:
    nodes, weights = _hermite(points)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    products = np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d).prod(axis=1)
    return grid, products


def _quasi_random(d: int, seed: int) -> Rule:
    from scipy.special import ndtri

    sobol = _sobol(d, seed=seed)
    half = ndtri(np.clip(sobol.random(max(_QUASI_RANDOM, 1 << d.bit_length() + 2)), 1e-12, 1 - 1e-12))
    nodes = np.concatenate([half, -half])
    nodes = nodes @ np.linalg.inv(np.linalg.cholesky(nodes.T @ nodes / len(nodes))).T
    return nodes, np.full(len(nodes), 1 / len(nodes))


def student(d: int, freedom: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Quasi-random nodes `(count, d)` of a multivariate t distribution, and its log density up to a constant."""
    from scipy.special import gammaincinv, ndtri

    sobol = _sobol(d + 1, seed=7)
    points = np.clip(sobol.random(count), 1e-12, 1 - 1e-12)
    stretch = np.sqrt(freedom / (2 * gammaincinv(freedom / 2, points[:, :1])))
    nodes = ndtri(points[:, 1:]) * stretch
    return nodes, -0.5 * (freedom + d) * np.log1p((nodes**2).sum(axis=1) / freedom)


def _sobol(d: int, seed: int) -> "qmc.Sobol":
    from scipy.stats import qmc  # this import takes a third of a second

    make: Any = qmc.Sobol  # whose stubs lack the argument `seed`
    return make(d, seed=seed)

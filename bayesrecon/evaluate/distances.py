"""Distances between weighted sets of records."""

from typing import Any

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.matching import as_table

_MOST_PAIRS = 250_000  # of an exact transport problem


def mmd(x: Any, y: Any, *, x_weights: Any = None, y_weights: Any = None, bandwidth: float | None = None) -> float:
    """Maximum mean discrepancy `|sum a_i k(x_i, .) - sum b_j k(y_j, .)|` (Gretton et al. 2012, biased form).

    Args:
        x: `(N, p)`.
        y: `(M, p)`.
        x_weights, y_weights: weights, rescaled to sum to one; equal by default.
        bandwidth: h in the Gaussian kernel `exp(-|x - y|^2 / (2 h^2))`. Defaults to the median distance in the joint
            set.

    Raises:
        BayesreconError: the sets are not tables of finite numbers or have different columns; or weights are negative,
            all zero, or not as many as the records.

    >>> round(mmd([[0.0]], [[1.0]], bandwidth=1.0), 3)  # sqrt(2 - 2 exp(-1/2))
    0.887
    """
    x, y = as_table(x, "x"), as_table(y, "y")
    if x.shape[1] != y.shape[1]:
        raise BayesreconError(f"x has {x.shape[1]} columns and y {y.shape[1]}: they hold the same fields")
    a, b = _weights(x_weights, len(x)), _weights(y_weights, len(y))
    joined, signed = np.concatenate([x, y]), np.concatenate([a, -b])
    square = np.maximum((joined**2).sum(1)[:, None] + (joined**2).sum(1)[None] - 2 * joined @ joined.T, 0.0)
    if bandwidth is None:
        apart = square[np.triu_indices(len(joined), 1)]
        bandwidth = float(np.sqrt(np.median(apart[apart > 0]))) if (apart > 0).any() else 1.0
    kernel = np.exp(-square / (2 * bandwidth**2))
    return float(np.sqrt(max(signed @ kernel @ signed, 0.0)))


def wasserstein(x: Any, y: Any, *, x_weights: Any = None, y_weights: Any = None) -> float:
    """Exact Wasserstein-1 distance of two weighted sets, in the units of the records.

    Args:
        x: `(N,)` or `(N, p)`.
        y: `(M,)` or `(M, p)`. Several columns need a linear program (HiGHS), or an assignment for equal numbers of
            equal weights. They allow at most 250,000 pairs.

    Raises:
        BayesreconError: sets of several columns are not tables of finite numbers, or have more than 250,000 pairs.

    >>> wasserstein([0.0, 1.0], [2.0, 4.0])
    2.5
    """
    import scipy.stats

    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim == 1 and y.ndim == 1:
        return float(scipy.stats.wasserstein_distance(x, y, x_weights, y_weights))
    x, y = as_table(x, "x"), as_table(y, "y")
    if x.shape[1] == y.shape[1] == 1:
        return float(scipy.stats.wasserstein_distance(x[:, 0], y[:, 0], x_weights, y_weights))
    if len(x) == len(y) and x_weights is None and y_weights is None:
        from bayesrecon.evaluate.matching import match

        return float(match(x, y).cost.mean())
    if len(x) * len(y) > _MOST_PAIRS:
        raise BayesreconError(f"{len(x)} times {len(y)} records are too many for exact transport; thin one of them")
    return float(scipy.stats.wasserstein_distance_nd(x, y, x_weights, y_weights))


CUT = 1e-10
"""Share of the largest eigenvalue of a covariance, below which a direction counts as one without variance."""


def mahalanobis(x: Any, centre: Any, covariance: Any, *, rtol: float = CUT) -> np.ndarray:
    """`sqrt((x - c)' S^+ (x - c))` of every row, `(N,)`. Directions without variance are left out.

    Args:
        rtol: directions are left out if their eigenvalue of S is at most this share of the largest one.

    Raises:
        BayesreconError: x is not a table of finite numbers, or rtol is not a share.

    >>> mahalanobis([[3.0, 4.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 4.0]]).round(3).tolist()
    [3.606]
    """
    if not 0 <= rtol < 1:
        raise BayesreconError(f"rtol={rtol}: expected a share of the largest eigenvalue, from 0 to 1")
    x = as_table(x, "x") - np.asarray(centre, float)
    values, vectors = np.linalg.eigh(np.asarray(covariance, float))
    kept = values > rtol * values[-1]
    return np.linalg.norm(x @ vectors[:, kept] / np.sqrt(values[kept]), axis=1)


def reconstruction_risk(truth: Any, guess: Any, training: Any, *, rtol: float = CUT) -> float:
    """Risk `R = mean_n d(x_n, mean) / d(x_n, x_hat_n)`, d the Mahalanobis distance under the training covariance.

    R = 1 means no better than the mean record (Malekzadeh and Gunduz 2024). R depends strongly on the cut `rtol`,
    because errors count equally in directions in which records hardly vary. State the cut wherever you report the risk.
    A pseudo-inverse in single precision cuts at 1.2e-7 p. `linear_risk` is the risk of any linear model with as many
    outputs.

    Args:
        truth, guess: `(N, p)`, the same records in the same rows.
        training: `(T, p)`, records whose mean and covariance define the distance.
        rtol: directions are left out if their variance is at most this share of the largest one.

    Raises:
        BayesreconError: an argument is not a table of finite numbers, or truth and guess differ in shape.

    >>> training = [[0.0], [1.0], [2.0]]
    >>> reconstruction_risk([[0.0], [2.0]], [[0.5], [1.5]], training)
    2.0
    """
    truth, guess, training = as_table(truth, "truth"), as_table(guess, "guess"), as_table(training, "training")
    if truth.shape != guess.shape:
        raise BayesreconError(f"truth {truth.shape} and guess {guess.shape} differ in shape")
    centre, covariance = training.mean(axis=0), np.atleast_2d(np.cov(training, rowvar=False))
    error = mahalanobis(truth - guess, 0.0, covariance, rtol=rtol)
    if (error == 0).any():
        return float("inf")
    return float(np.mean(mahalanobis(truth, centre, covariance, rtol=rtol) / error))


def linear_risk(directions: int, outputs: int) -> float:
    """The reconstruction risk of the best linear decoder of any k linear outputs of a normal law in p directions.

        R(p, k) = Gamma((p - k - 1) / 2) Gamma(p / 2) / (Gamma((p - k) / 2) Gamma((p - 1) / 2)) ~ 1 + k / (2 (p - k)),

    as in whitened coordinates `|error|^2 / |x - mean|^2` is Beta((p - k) / 2, k / 2), whatever the outputs are.

    Args:
        directions: p, those that the cut of the risk keeps.
        outputs: k, between 0 and p - 2.

    Raises:
        BayesreconError: k is not between 0 and p - 2; beyond, the mean ratio is infinite.

    >>> round(linear_risk(332, 10), 4)
    1.0155
    """
    if not 0 <= outputs <= directions - 2:
        raise BayesreconError(f"{outputs} outputs in {directions} directions: expected 0 to {directions - 2} outputs")
    halves = np.array([directions - outputs - 1, directions, directions - outputs, directions - 1]) / 2
    return float(np.exp(scipy.special.gammaln(halves) @ [1, 1, -1, -1]))


def _weights(weights: Any, size: int) -> np.ndarray:
    values = np.ones(size) if weights is None else np.asarray(weights, float)
    if values.shape != (size,) or not np.isfinite(values).all() or (values < 0).any() or not values.sum() > 0:
        raise BayesreconError(f"weights of shape {values.shape}; expected {size} non-negative numbers")
    return values / values.sum()

"""Estimate how much the distribution of the private records differs from that of the generic ones.

If the spectrum decays, the release does not determine a part of a statistic, and the estimate of this part relies on
the generic records. Let 1 + g be the density of the private records with respect to the generic distribution. The total
of an undetermined function f then has the error `N E[f g]`. Only the size of g can be estimated, from determined
functions. Let g be noise with variance s^2 in every direction, and draw N records. The totals t of determined functions
e, with noise R, then have the distribution

    t ~ Normal(N E[e], R + N^2 (s^2 + 1 / N) Cov(e)).

An undetermined function f has an error of about `N (s^2 + 1 / N)^(1/2) E[f^2]^(1/2)`. This is empirical Bayes with
random effects. s^2 is averaged over its likelihood, so that it is large for a release that determines little.
Directions differ: distributions with long tails differ most in the tails, where least is determined. So three times the
error is allowed for.
"""

import numpy as np
from jaxtyping import Float

_SIZES = np.concatenate([[0.0], np.geomspace(0.02, 2.0, 30)])  # values of s; at 2 the distributions hardly overlap
_ROUNDS = 5  # alternations between the count and its weights
_UNLIKE = 3.0  # factor by which undetermined directions may differ more than determined ones


def deviation(
    features: Float[np.ndarray, "Q r"], target: Float[np.ndarray, " r"], noise: Float[np.ndarray, "r r"], count: float
) -> float:
    """Three times `(s^2 + 1 / N)^(1/2)`, with s^2 averaged over its likelihood for s uniform between 0 and 2.

    Args:
        features: `(Q, r)` determined functions, at generic records.
        target: `(r,)` their totals over the private records.
        noise: `(r, r)` covariance of these totals.
        count: approximate N.

    For 400 records from the generic distribution itself, s is about zero and the result about 3 / 20:

    >>> rng = np.random.default_rng(0)
    >>> generic, private = rng.normal(size=(2000, 20)), rng.normal(size=(400, 20))
    >>> abs(deviation(generic + 1, (private + 1).sum(axis=0), np.eye(20), 400) - 0.15) < 0.08
    True
    """
    root = whitener(noise)
    features, target = features @ root, root.T @ target
    scatter, vectors = np.linalg.eigh(np.atleast_2d(np.cov(features.T)))
    mean, target, scatter = features.mean(axis=0) @ vectors, target @ vectors, np.maximum(scatter, 0.0)
    likelihood = np.array([_log_likelihood(s, mean, target, scatter, count) for s in _SIZES])
    weight = np.exp(likelihood - likelihood.max()) * np.gradient(_SIZES)
    return float(_UNLIKE * np.sqrt(weight @ _SIZES**2 / weight.sum() + 1 / max(count, 1.0)))


def _log_likelihood(size: float, mean: np.ndarray, target: np.ndarray, scatter: np.ndarray, count: float) -> float:
    """Log likelihood of s at the most likely N."""
    variance = np.ones_like(scatter)
    for _ in range(_ROUNDS):
        variance = 1 + (count**2 * size**2 + count) * scatter
        count = max(1.0, float((mean * target / variance).sum() / max((mean**2 / variance).sum(), 1e-300)))
    return float(-0.5 * (((target - count * mean) ** 2 / variance) + np.log(variance)).sum())


def whitener(noise: Float[np.ndarray, "r r"]) -> Float[np.ndarray, "r r"]:
    """`(r, r)` W with `W' R W = 1` for a covariance R."""
    scale = np.sqrt(np.maximum(np.diag(noise), 1e-300))
    values, vectors = np.linalg.eigh(noise / scale / scale[:, None])
    # What lies below the rounding of the eigenvalues is no direction without noise: it must not outweigh all others.
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1])) / scale[:, None])

"""How far the average of an optimiser's iterates is from what they wander about."""

from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError

_FEWEST = 3.0  # independent iterates, below which nothing is told


def spread_of(points: np.ndarray, shape: Any, *, last: bool = False) -> tuple[np.ndarray, float]:
    """Errors of the mean of iterates, `(k, g)`, and the degrees of freedom of their size.

    Iterates in a row are alike, the more so the slower a direction is: as in an autoregression of first order, the mean
    of K has the variance of `K (1 - r) / (1 + r)` independent ones. Their covariance is the sample's, shrunk towards its
    diagonal with the correlations of `shape`, as few of them tell no more.

    Args:
        points: `(K, k)` whitened iterates in their order.
        shape: `(k, k)` covariance of the iterates but for a factor, as the optimiser's steps would make it.
        last: errors of the last iterate, not of the mean.

    Raises:
        BayesreconError: iterates that are all alike, or go one way.
    """
    count, k = points.shape
    if count < _FEWEST:
        raise BayesreconError(f"{count} different iterates tell nothing of their errors; supply more, at late steps")
    centred = points - points.mean(axis=0)
    variance = (centred**2).sum(axis=0) / (count - 1)
    live = variance > 0
    if not live.any():
        raise BayesreconError("the iterates are all alike; state residual=0 where the fit is at its optimum")
    unit = centred[:, live] / np.sqrt(variance[live])
    own = (unit[1:] * unit[:-1]).sum(axis=0) / (count - 1)
    r = 0.5 * (own + own.mean())
    r = np.clip(r + (1 + 3 * np.maximum(r, 0.0)) / count, 0.0, None)  # a short series seems less alike than it is
    independent = float(count * (1 - r.mean()) / (1 + r.mean()))
    if independent < _FEWEST:
        raise BayesreconError(
            f"the {count} iterates move together, like {max(independent, 1.0):.2g} independent ones: the fit has not "
            "settled, or they are too close to each other; supply later ones, further apart"
        )
    inflation = np.ones(k)
    inflation[live] = np.sqrt((1 + r) / np.maximum(1 - r, 1 / count))
    root = np.sqrt(np.diag(shape))
    target = shape / np.outer(root, root) * np.sqrt(np.outer(variance, variance))
    share = (independent - 1) / (independent - 1 + k)
    covariance = share * centred.T @ centred / (count - 1) + (1 - share) * target
    values, vectors = np.linalg.eigh(covariance)
    columns = vectors * np.sqrt(np.maximum(values, 0.0))
    return (columns if last else inflation[:, None] * columns / np.sqrt(count)), independent - 1

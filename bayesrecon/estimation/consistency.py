"""Do draws and model belong together: all checks of draws that there are, whatever was fitted to them."""

from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist

import numpy as np

from bayesrecon.diagnostics import effective_sample_size, evenly
from bayesrecon.estimation.ends import check_ends
from bayesrecon.estimation.rounding import felt_rounding
from bayesrecon.estimation.scored import Draws, Moved
from bayesrecon.estimation.stein import check_draws
from bayesrecon.stored import as_rows, column_blocks, mean_and_covariance
from bayesrecon.types import Release

_FEWEST, _EACH = 100, 20  # draws, in all and for every parameter, from which they show whether they are normal
_LIKELY = 0.05  # chance of as much skewness or kurtosis, above which a normal law is taken for theirs
_READ = (
    "The draws are as normal as those of a variational fit or a Laplace approximation: if they are, read their mean "
    "and covariance as one, with `bayesrecon.posteriors.gaussian`"
)
_MOST = 2**18  # draws that are looked at: what a million show of an approximation, a quarter of them does
_ALONE = 0.01  # chance that uncorrelated parameters are not seen as such


def failures_of(
    release: Release,
    names: tuple[str, ...],
    draws: Draws,
    independent: float,
    moved: Moved,
    halves: Callable[[], Sequence[Draws]] = tuple,
    finite: bool = True,
) -> tuple[str, ...]:
    """One line for each check that failed.

    Args:
        names, draws, moved, halves, finite: as in `check_draws`.
        independent: number of independent draws.
    """
    rounded = felt_rounding(release, independent)
    once = cache(halves)
    found = check_draws(names, draws, moved, once, finite)
    if found and "disagree" in found[-1] and _normal(release):
        found = (*found[:-1], f"{found[-1]} {_READ}")
    return (*([rounded] if rounded else []), *found, *check_ends(names, draws, moved, once, finite))


def _normal(release: Release) -> bool:
    """Whether draws are normal to what they show, by skewness and kurtosis of every principal component.

    D'Agostino and Pearson (1973), as of independent draws, which those of an approximation are.
    """
    some = evenly(release.size, min(release.size, _MOST))
    theta, weights = as_rows(release.theta)[some], np.asarray(release.weights)
    if len(theta) < _FEWEST or theta.shape[1] > len(theta) // _EACH or np.ptp(weights) > 0:
        return False
    from scipy import stats

    t = (theta - theta.mean(axis=0)) / theta.std(axis=0)
    components = t @ np.linalg.eigh(t.T @ t)[1]
    return bool(stats.normaltest(components).pvalue.min() * theta.shape[1] > _LIKELY)


def questions(release: Release) -> tuple[str, ...]:
    """What is right of some posteriors and looks like no posterior: asked beside the result."""
    theta, weights, chain = as_rows(release.theta), np.asarray(release.weights), np.asarray(release.chain)
    d = theta.shape[1]
    if d < 2:
        return ()
    covariance = mean_and_covariance(theta, weights)[1]
    sd = np.sqrt(np.diag(covariance))
    sizes = np.concatenate([effective_sample_size(part, chain) for _, part in column_blocks(theta)])
    size = 1 / np.sum(weights**2) * np.median(sizes) / len(theta)
    correlation = covariance / sd / sd[:, None] - np.eye(d)
    pairs = d * (d - 1) / 2
    if np.abs(correlation).max() * np.sqrt(size) > -NormalDist().inv_cdf(_ALONE / pairs / 2):
        return ()
    return (
        "no two parameters are correlated: is this a variational fit that takes them as independent? Its draws are no "
        "posterior draws, and no check can always tell; `bayesrecon.posteriors.gaussian` reads a mean and a covariance",
    )

"""Do draws and model belong together: all checks of draws that there are, whatever was fitted to them."""

from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.estimation.rounding import felt_rounding
from bayesrecon.estimation.stein import Draws, Moved, check_draws
from bayesrecon.types import Release

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
    return (*([rounded] if rounded else []), *check_draws(names, draws, moved, halves, finite))


def questions(release: Release) -> tuple[str, ...]:
    """What is right of some posteriors and looks like no posterior: asked beside the result."""
    theta, weights, chain = (np.asarray(x) for x in (release.theta, release.weights, release.chain))
    if theta.shape[1] < 2:
        return ()
    centred = theta - weights @ theta
    t = centred / np.sqrt(weights @ centred**2)
    size = 1 / np.sum(weights**2) * np.median(effective_sample_size(t, chain)) / len(t)
    correlation = (t * weights[:, None]).T @ t - np.eye(t.shape[1])
    pairs = t.shape[1] * (t.shape[1] - 1) / 2
    if np.abs(correlation).max() * np.sqrt(size) > -NormalDist().inv_cdf(_ALONE / pairs / 2):
        return ()
    return (
        "no two parameters are correlated: is this a variational fit that takes them as independent? Its draws are no "
        "posterior draws, and no check can always tell",
    )

"""Draws that repeat others: each state counts once.

A sampler that rejects stays where it is, so that equal draws next to each other are one visit. A state that is visited
twice, in another place or another chain, is a copy: of a continuous posterior no two independent draws are equal. A
chain of copies alone, in any order, is left out; elsewhere the first visit has the weight of all, as in draws that were
resampled by their importance.
"""

from dataclasses import replace

import numpy as np

from bayesrecon.types import Release

_FEWEST = 3  # copies, fewer of which are let pass
# Copies per pair of draws that agree by chance, where values lie on a grid: parameters that vary together agree more
# often than independent ones, and copied chains many times as often as that.
_CHANCE = 50
_FINE = 0.05  # least distance of two values, in units of an even grid's, below which they lie on no grid
_SHORT = 0.5  # share of the longest chain, below which what is left of a chain counts with the chain before it


def counted_once(release: Release) -> Release:
    """The release with one visit to every state, and a note where there were more.

    >>> import numpy as np
    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import from_draws
    >>> rng, model = np.random.default_rng(0), load("linear_predictor")
    >>> one = {"coef": rng.normal(size=(1, 50, 1, 1)), "intercept": rng.normal(size=(1, 50, 1))}
    >>> twice = from_draws({k: np.concatenate([v, v[:, ::-1]]) for k, v in one.items()}, model)
    >>> counted_once(twice).size
    50
    """
    theta, chain = np.ascontiguousarray(release.theta), np.asarray(release.chain)
    if not release.temperature or len(theta) < 2:
        return release
    state = _states(theta)
    starts = np.flatnonzero(np.r_[True, (state[1:] != state[:-1]) | (chain[1:] != chain[:-1])])
    visit = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(theta)]))
    _, first, which = np.unique(state[starts], return_index=True, return_inverse=True)
    copies = len(starts) - len(first)
    if copies < _FEWEST or copies < _CHANCE * _by_chance(theta[starts[first]], len(starts)):
        return release
    kept_visit = first[which]  # of every visit, the first one to its state
    kept = np.flatnonzero(kept_visit[visit] == visit)
    lost = np.setdiff1d(chain, chain[kept])
    weights = np.where(np.isin(chain, lost), 0.0, np.asarray(release.weights))
    whole = np.bincount(kept_visit[visit], weights, len(starts))[visit[kept]]
    visited = np.bincount(visit[kept], weights[kept], len(starts))[visit[kept]]
    weights = whole * weights[kept] / np.maximum(visited, 1e-300)
    chains = f" (all of chain {', '.join(map(str, lost))})" if lost.size else ""
    note = f"{len(theta) - len(kept)} of {len(theta)} draws are copies of others{chains}: each counts once"
    return replace(
        release,
        theta=theta[kept],
        weights=weights / weights.sum(),
        chain=_renumbered(chain[kept]),
        log_density=None if release.log_density is None else np.asarray(release.log_density)[kept],
        notes=(*release.notes, note),
    )


def _states(theta: np.ndarray) -> np.ndarray:
    """Numbers `(T,)` that are equal where all coordinates are."""
    rows = (theta + 0.0).view(np.dtype((np.void, theta.dtype.itemsize * theta.shape[1]))).ravel()
    return np.unique(rows, return_inverse=True)[1].ravel()


def _by_chance(states: np.ndarray, visits: int) -> float:
    """Expected pairs of equal ones of so many visits if coordinates were independent and distributed as those of the
    distinct states: many where all values were rounded, none where some were not."""
    shares = []
    for column in states.T:
        values, counts = np.unique(column, return_counts=True)
        if np.diff(values).min(initial=np.inf) < _FINE * np.ptp(values) / len(values):
            return 0.0
        shares.append(np.sum((counts / len(states)) ** 2))
    return float(0.5 * visits**2 * np.prod(shares))


def _renumbered(chain: np.ndarray) -> np.ndarray:
    """Short rests of chains belong to the chain before them: series are cut to the shortest chain."""
    numbers, counts = np.unique(chain, return_counts=True)
    long = numbers[counts >= _SHORT * counts.max()]
    at = np.searchsorted(long, chain, side="right") - 1
    return long[np.maximum(at, 0)]

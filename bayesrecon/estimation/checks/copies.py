"""Draws that repeat others: each state counts once.

A sampler that rejects a proposal repeats its state, so equal consecutive draws are one visit. A state that is visited
twice, later or in another chain, is a copy, because independent draws of a continuous posterior are never equal. A
chain that consists of copies, in any order, is dropped. Otherwise the first visit gets the weight of all, as for draws
from importance resampling.
"""

from dataclasses import replace

import numpy as np

from bayesrecon.arrays import Stored
from bayesrecon.estimation.rounding import rounding_of
from bayesrecon.releases import PosteriorDraws
from bayesrecon.running.draws_on_disk import as_rows, row_blocks

_FEWEST = 3  # copies, fewer of which are let pass
# Allowed copies per pair of draws that agrees by chance, if values lie on a grid. Draws of other distributions agree
# more often than that, and copied chains many times as often.
_CHANCE = 50
_TELLING = 10  # different states of a chain, from which another one has the same by copying
_SHORT = 0.5  # share of the longest chain, below which what is left of a chain counts with the chain before it


def counted_once(release: PosteriorDraws) -> PosteriorDraws:
    """The release with one visit to every state, and a note if there were more.

    >>> import numpy as np
    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import from_draws
    >>> rng, model = np.random.default_rng(0), load("linear_predictor")
    >>> one = {"coef": rng.normal(size=(1, 50, 1, 1)), "intercept": rng.normal(size=(1, 50, 1))}
    >>> twice = from_draws({k: np.concatenate([v, v[:, ::-1]]) for k, v in one.items()}, model)
    >>> counted_once(twice).size
    50
    """
    if release.size < 2 or _all_differ(as_rows(release.theta)):
        return release
    theta, chain = np.ascontiguousarray(release.theta), np.asarray(release.chain)
    state = _states(theta)
    starts = np.flatnonzero(np.r_[True, (state[1:] != state[:-1]) | (chain[1:] != chain[:-1])])
    visit = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(theta)]))
    _, first, which = np.unique(state[starts], return_index=True, return_inverse=True)
    copies = len(starts) - len(first)
    if copies < _FEWEST:
        return release
    if copies < _CHANCE * _by_chance(release.take(starts[first]), len(starts)):
        return _without_copied_chains(release, state, chain)
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


def _all_differ(theta: np.ndarray | Stored) -> bool:
    """Whether fewer than `_FEWEST` draws repeat others, by a hash of each draw."""
    rng = np.random.default_rng(0)
    factors = rng.integers(1, 2**63, theta.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(len(theta), np.uint64)
    for at, rows in row_blocks(theta):
        bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(29))) * factors
        hashes[at] = (bits ^ (bits >> np.uint64(32))).sum(axis=1, dtype=np.uint64)
    return len(theta) - len(np.unique(hashes)) < _FEWEST


def _without_copied_chains(release: PosteriorDraws, state: np.ndarray, chain: np.ndarray) -> PosteriorDraws:
    """The release without chains that have the same states as an earlier chain, equally often and in any order.

    Unlike single states, such chains do not agree by chance.
    """
    earlier: set[bytes] = set()
    lost = []
    for number in np.unique(chain):
        held = np.sort(state[chain == number])
        if len(np.unique(held)) < _TELLING:
            continue
        if held.tobytes() in earlier:
            lost.append(number)
        earlier.add(held.tobytes())
    if not lost:
        return release
    kept = release.take(np.flatnonzero(~np.isin(chain, lost)))
    note = (
        f"{release.size - kept.size} of {release.size} draws are copies of others (all of chain "
        f"{', '.join(map(str, lost))}): each counts once"
    )
    return replace(kept, notes=(*release.notes, note))


def _states(theta: np.ndarray) -> np.ndarray:
    """Numbers `(T,)` that are equal for equal draws."""
    rows = (theta + 0.0).view(np.dtype((np.void, theta.dtype.itemsize * theta.shape[1]))).ravel()
    return np.unique(rows, return_inverse=True)[1].ravel()


def _by_chance(release: PosteriorDraws, visits: int) -> float:
    """Expected number of pairs of visits that are equal by chance; zero unless all coordinates were rounded.

    It is the larger of two numbers: for independent coordinates with the distributions of these states, and for normal
    states with their covariance.
    """
    rounding = rounding_of(release)
    if rounding is None or not (rounding.high > rounding.low).any(axis=0).all():
        return 0.0
    states = (rounding.low + rounding.high) / 2
    shares = [np.sum((np.unique(x, return_counts=True)[1] / len(x)) ** 2) for x in states.T]
    density = 1 / np.sqrt(np.maximum(np.linalg.det(4 * np.pi * np.atleast_2d(np.corrcoef(states.T))), 1e-300))
    steps = ((rounding.high - rounding.low) / states.std(axis=0)).prod(axis=1).mean()
    return float(0.5 * visits**2 * max(np.prod(shares), min(1.0, steps * density)))


def _renumbered(chain: np.ndarray) -> np.ndarray:
    """Chain numbers. Short remainders join the chain before them, because series are cut to the shortest chain."""
    numbers, counts = np.unique(chain, return_counts=True)
    long = numbers[counts >= _SHORT * counts.max()]
    at = np.searchsorted(long, chain, side="right") - 1
    return long[np.maximum(at, 0)]

"""From scores to counts, and from counts to rates. Ties are kept separate from wins and losses."""

import zlib
from typing import Any

import numpy as np

from bayesrecon.evaluate.rate_intervals import Interval, bounded_mean, clopper_pearson
from bayesrecon.results.game import GameRow, Rate


def generator(seed: int, number: int, player: str | None = None) -> np.random.Generator:
    """The random generator of one round, so that rounds are independent and can be played in any order.

    Every player has its own generator, so that the other players do not affect it.
    """
    own = () if player is None else (zlib.crc32(player.encode()),)
    return np.random.default_rng(np.random.SeedSequence((seed, number, *own)))


def compared(deleted: Any, kept: Any, rng: np.random.Generator) -> np.ndarray:
    """Wins, ties, losses, and ties won by the coin, over all pairs of scores (broadcast).

    >>> compared(np.array([2.0, 1.0]), np.array([1.0, 1.0]), np.random.default_rng(0))[:3].tolist()
    [1, 1, 0]
    """
    deleted, kept = np.broadcast_arrays(np.asarray(deleted), np.asarray(kept))
    wins, ties = int((deleted > kept).sum()), int((deleted == kept).sum())
    return np.array([wins, ties, deleted.size - wins - ties, rng.binomial(ties, 0.5)])


def rate_row(name: str, sees: str, counts: np.ndarray, players: int = 1) -> GameRow:
    """One adversary's row from its counts `(N, 4)`, with intervals for the probability of success.

    For several players, each interval has the level `1 - 0.05 / players`, so that all of them hold together
    (Bonferroni). With one pair per round, intervals are exact (Clopper and Pearson). Several pairs of one round depend
    on each other, so the round is the independent unit. The interval is then one for the mean of numbers in [0, 1] that
    holds for any distribution (`bounded_mean`).
    """
    pairs = counts[:, :3].sum(axis=1)
    success, with_ties = (counts[:, 0] + counts[:, 3]) / pairs, (counts[:, 0] + counts[:, 1]) / pairs
    single = bool((pairs == 1).all())
    return GameRow(
        name,
        sees,
        *counts[:, :3].sum(axis=0).tolist(),
        success=_rate(success, single),
        success_with_ties=_rate(with_ties, single),
        simultaneous=_rate(success, single, 1 - 0.05 / players),
    )


def _rate(success: np.ndarray, single: bool, level: float = 0.95) -> Rate:
    found: Interval
    if single:
        found = clopper_pearson(int(success.sum()), len(success), level=level)
    else:
        found = bounded_mean(success, level=level)
    return Rate(*found)

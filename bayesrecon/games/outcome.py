"""From scores to counts, and from counts to rates: ties are kept apart from wins and losses."""

import zlib
from typing import Any

import numpy as np

from bayesrecon.evaluate.rates import Interval, bounded_mean, clopper_pearson
from bayesrecon.results.game import GameRow, Rate


def generator(seed: int, number: int, player: str | None = None) -> np.random.Generator:
    """The random numbers of one round, by its number: rounds are independent and can be played in any order.

    Those of a player are its own, so that who else plays changes nothing.
    """
    own = () if player is None else (zlib.crc32(player.encode()),)
    return np.random.default_rng(np.random.SeedSequence((seed, number, *own)))


def compared(deleted: Any, kept: Any, rng: np.random.Generator) -> np.ndarray:
    """Wins, ties, losses, and coins that won among the ties, over all pairs of scores that broadcast.

    >>> compared(np.array([2.0, 1.0]), np.array([1.0, 1.0]), np.random.default_rng(0))[:3].tolist()
    [1, 1, 0]
    """
    deleted, kept = np.broadcast_arrays(np.asarray(deleted), np.asarray(kept))
    wins, ties = int((deleted > kept).sum()), int((deleted == kept).sum())
    return np.array([wins, ties, deleted.size - wins - ties, rng.binomial(ties, 0.5)])


def rate_row(name: str, sees: str, counts: np.ndarray, players: int = 1) -> GameRow:
    """One adversary's row from its counts `(N, 4)`, with intervals for the probability of success; those of so many
    players hold for all of them at once where each has the level `1 - 0.05 / players` (Bonferroni).

    One pair a round: exact (Clopper and Pearson). Several pairs of one round depend on each other: rounds are what is
    independent, and the interval is one for means of numbers in [0, 1] that holds for any law (`bounded_mean`).
    """
    pairs = counts[:, :3].sum(axis=1)
    stated, counted = (counts[:, 0] + counts[:, 3]) / pairs, (counts[:, 0] + counts[:, 1]) / pairs
    single = bool((pairs == 1).all())
    return GameRow(
        name,
        sees,
        *counts[:, :3].sum(axis=0).tolist(),
        stated=_rate(stated, single),
        counted=_rate(counted, single),
        simultaneous=_rate(stated, single, 1 - 0.05 / players),
    )


def _rate(success: np.ndarray, single: bool, level: float = 0.95) -> Rate:
    found: Interval
    if single:
        found = clopper_pearson(int(success.sum()), len(success), level=level)
    else:
        found = bounded_mean(success, level=level)
    return Rate(*found)

"""From scores to counts, and from counts to rates. Ties are kept separate from wins and losses."""

import zlib
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from bayesrecon.evaluate.rate_intervals import ConfidenceInterval, bounded_mean, clopper_pearson
from bayesrecon.results.game import GameRow, Rate


class Played(TypedDict):
    """How rounds were played: fields of a game's result.

    Attributes:
        numbers: `(N,)`, numbers of the rounds.
        seed: seed of the rounds.
        seconds: time spent, without rounds that were read from a folder.
        warnings: each warning once, with the number of rounds that raised it.
    """

    numbers: np.ndarray
    seed: int
    seconds: NotRequired[float]
    warnings: NotRequired[tuple[str, ...]]


def generator(seed: int, number: int, player: str | None = None) -> np.random.Generator:
    """The random generator of one round, so that rounds are independent and can be played in any order.

    Every player has its own generator, so that the other players do not affect it.
    """
    by_player = () if player is None else (zlib.crc32(player.encode()),)
    return np.random.default_rng(np.random.SeedSequence((seed, number, *by_player)))


def compared(deleted: npt.ArrayLike, remaining: npt.ArrayLike, rng: np.random.Generator) -> np.ndarray:
    """Wins, ties, losses, and ties won by the coin, over all pairs of scores (broadcast), `(4,)`.

    It is a win if the deleted record has the larger score.

    >>> compared(np.array([2.0, 1.0]), np.array([1.0, 1.0]), np.random.default_rng(0))[:3].tolist()
    [1, 1, 0]
    """
    a, b = np.broadcast_arrays(np.asarray(deleted), np.asarray(remaining))
    wins, ties = int((a > b).sum()), int((a == b).sum())
    return np.array([wins, ties, a.size - wins - ties, rng.binomial(ties, 0.5)])


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
    interval: ConfidenceInterval
    if single:
        interval = clopper_pearson(int(success.sum()), len(success), level=level)
    else:
        interval = bounded_mean(success, level=level)
    return Rate(*interval)

"""Errors that hold: what an attack misses on public records that it has not seen.

Split conformal intervals (Vovk et al. 2005): with scores `|x - x_hat| / scale` of n held-out records, the quantile of
rank `ceil((n + 1) 0.95)` covers a further record of the same distribution with probability 95 % or a little more,
whatever the distribution is. With many records every field has a quantile of its own, with few all fields that vary
share one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.output_embedding import Outputs

LEVEL = 0.95  # of the intervals
_OWN = 200  # held-out records from which a field has a quantile of its own
_LEAST = 20  # below, the rank of the quantile is beyond the last score
_VARIES = 1e-3  # of the largest spread, from which a field counts as one that varies


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of public records: to fit, to calibrate, to check."""

    fit: np.ndarray
    calibrate: np.ndarray
    check: np.ndarray


def split(size: int, rng: np.random.Generator) -> Split:
    """Half of the records to fit, a quarter to calibrate and a quarter to check."""
    order = rng.permutation(size)
    half, rest = size // 2, size - size // 2
    return Split(order[:half], order[half : half + rest // 2], order[half + rest // 2 :])


@dataclass(frozen=True, eq=False)
class Calibration:
    """Held-out errors of an attack.

    Attributes:
        mse: `(p,)` mean squared error.
        variance: `(p,)` of these records.
        factor: `(p,)` half-width of an interval, in units of the scale.
        coverage: coverage of intervals on the records to check, None where there were none.
        checked: how many.
    """

    mse: Float[np.ndarray, " p"]
    variance: np.ndarray
    factor: Float[np.ndarray, " p"]
    coverage: float | None
    checked: int

    def visibility(self, spread: np.ndarray) -> np.ndarray:
        """`1 - mse / variance`, zero where a field does not vary."""
        seen = np.clip(1 - self.mse / np.where(self.variance > 0, self.variance, np.inf), 0.0, 1.0)
        return np.where(varies(spread) & (self.variance > 0), seen, 0.0)


def varies(spread: np.ndarray) -> Bool[np.ndarray, " p"]:
    """Which fields vary, `(p,)`."""
    return spread > _VARIES * spread.max()


def calibrated(
    truth: Float[np.ndarray, "n p"],
    guess: Float[np.ndarray, "n p"],
    scale: Any,
    spread: Float[np.ndarray, " p"],
    checked: int,
    values: tuple[float, float],
) -> Calibration:
    """Factors from held-out records, the last `checked` of which tell whether the intervals hold.

    Args:
        truth, guess: `(n, p)`.
        scale: `(n, p)` or `(p,)`, what errors are measured in.
        spread: `(p,)` of fields among public records.
        values: where they lie.

    Raises:
        BayesreconError: fewer than 20 records to calibrate with.
    """
    used = len(truth) - checked
    if used < _LEAST:
        raise BayesreconError(f"{used} public records to calibrate with: 95 % intervals need {_LEAST} or more")
    scale = np.broadcast_to(np.asarray(scale, float), truth.shape)
    error = abs(truth - guess)
    scores = error / np.where(scale > 0, scale, 1.0)
    moving = varies(spread)
    if used >= _OWN:
        factor = _quantile(scores[:used], axis=0)
    else:
        # Scores of all fields together: the intervals hold for 95 % of them, not for each alone.
        factor = np.full(truth.shape[1], float(_quantile(scores[:used][:, moving].ravel(), axis=0)))
    coverage = None
    if checked:
        low, high = interval(guess[used:], scale[used:], factor, values)
        inside = (truth[used:] >= low - 1e-12) & (truth[used:] <= high + 1e-12)
        coverage = float(inside[:, moving].mean())
    return Calibration((error**2).mean(axis=0), truth.var(axis=0), factor, coverage, checked)


def interval(
    guess: np.ndarray, scale: np.ndarray, factor: np.ndarray, values: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends within the values that a field can have."""
    half = np.where(scale > 0, scale, 1.0) * factor
    return np.clip(guess - half, *values), np.clip(guess + half, *values)


def spread_of(release: Outputs) -> Float[np.ndarray, " p"]:
    """Standard deviation of every field among public records, `(p,)`."""
    return np.asarray(release.public.std(axis=0))


def _quantile(scores: np.ndarray, axis: int) -> np.ndarray:
    n = scores.shape[axis]
    rank = min(int(np.ceil((n + 1) * LEVEL)), n)
    return np.asarray(np.partition(scores, rank - 1, axis=axis).take(rank - 1, axis=axis))

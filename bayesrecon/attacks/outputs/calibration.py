"""Calibrated errors of an attack, from public records that were not used for fitting.

Split conformal intervals (Vovk et al. 2005): with scores `|x - x_hat| / scale` of n held-out records, the quantile of
rank `ceil((n + 1) 0.95)` covers a further record of the same distribution with probability 95 % or a little more, for
any distribution. With many records, each field has its own quantile. With few, all fields that vary share one.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.errors import BayesreconError

LEVEL = 0.95
"""Coverage of the intervals."""

_OWN = 200  # with this many held-out records, each field has its own quantile
_LEAST = 20  # with fewer, the rank of the quantile is beyond the largest score
_VARIES = 1e-3  # fields with a larger spread, relative to the largest one, vary


@dataclass(frozen=True, eq=False)
class CalibrationSplit:
    """Positions of the public records for the fit, for the calibration and for the check."""

    fit: np.ndarray
    calibrate: np.ndarray
    check: np.ndarray


def split(size: int, rng: np.random.Generator) -> CalibrationSplit:
    """Half of the records for the fit, a quarter for the calibration and a quarter for the check."""
    order = rng.permutation(size)
    half, rest = size // 2, size - size // 2
    return CalibrationSplit(order[:half], order[half : half + rest // 2], order[half + rest // 2 :])


@dataclass(frozen=True, eq=False)
class Calibration:
    """Held-out errors of an attack.

    Attributes:
        mse: `(p,)` mean squared error.
        variance: `(p,)` variance of these records.
        factor: `(p,)` half width of an interval, in units of the scale.
        coverage: coverage of the intervals on the records for the check; None without such records.
        checked: number of records for the check.
    """

    mse: Float[np.ndarray, " p"]
    variance: np.ndarray
    factor: Float[np.ndarray, " p"]
    coverage: float | None
    checked: int

    def visibility(self, spread: np.ndarray) -> np.ndarray:
        """`1 - mse / variance`; zero for fields that do not vary."""
        visible = np.clip(1 - self.mse / np.where(self.variance > 0, self.variance, np.inf), 0.0, 1.0)
        return np.where(varies(spread) & (self.variance > 0), visible, 0.0)


def varies(spread: np.ndarray) -> Bool[np.ndarray, " p"]:
    """Which fields vary, `(p,)`."""
    return spread > _VARIES * spread.max()


def calibrated(
    truth: Float[np.ndarray, "n p"],
    guess: Float[np.ndarray, "n p"],
    scale: np.ndarray,
    spread: Float[np.ndarray, " p"],
    checked: int,
    values: tuple[float, float],
) -> Calibration:
    """Calibrate intervals on held-out records.

    Args:
        truth, guess: `(n, p)` the records and their reconstructions.
        scale: `(n, p)` or `(p,)` units of the errors.
        spread: `(p,)` standard deviations of the fields among public records.
        checked: number of records, the last ones, on which the coverage is checked.
        values: smallest and largest possible value of a field.
    """
    used = len(truth) - checked
    if used < _LEAST:
        raise BayesreconError(f"{used} public records to calibrate with: 95 % intervals need {_LEAST} or more")
    scale = np.broadcast_to(np.asarray(scale, float), truth.shape)
    error = abs(truth - guess)
    scores = error / np.where(scale > 0, scale, 1.0)
    varying = varies(spread)
    if used >= _OWN:
        factor = _quantile(scores[:used], axis=0)
    else:
        # With common scores, the intervals hold for 95 % of the fields, not for each of them.
        factor = np.full(truth.shape[1], float(_quantile(scores[:used][:, varying].ravel(), axis=0)))
    coverage = None
    if checked:
        low, high = interval(guess[used:], scale[used:], factor, values)
        inside = (truth[used:] >= low - 1e-12) & (truth[used:] <= high + 1e-12)
        coverage = float(inside[:, varying].mean())
    return Calibration((error**2).mean(axis=0), truth.var(axis=0), factor, coverage, checked)


def interval(
    guess: np.ndarray, scale: np.ndarray, factor: np.ndarray, values: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, clipped to the possible values of a field."""
    half = np.where(scale > 0, scale, 1.0) * factor
    return np.clip(guess - half, *values), np.clip(guess + half, *values)


def spread_of(release: Outputs) -> Float[np.ndarray, " p"]:
    """Standard deviation of each field among public records, `(p,)`."""
    return np.asarray(release.public.std(axis=0))


def _quantile(scores: np.ndarray, axis: int) -> np.ndarray:
    n = scores.shape[axis]
    rank = min(int(np.ceil((n + 1) * LEVEL)), n)
    return np.asarray(np.partition(scores, rank - 1, axis=axis).take(rank - 1, axis=axis))

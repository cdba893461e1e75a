"""Rates and averages with their intervals."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError

_HALVINGS = 30  # bisection steps for an end of an interval
_LARGEST = 0.75  # largest share of a gambler's capital at stake; below one, so that the capital stays positive


class ConfidenceInterval(NamedTuple):
    """An estimate and its confidence interval."""

    estimate: float
    lower: float
    upper: float


def clopper_pearson(successes: int, trials: int, *, level: float = 0.95) -> ConfidenceInterval:
    """A success rate with its exact binomial interval (Clopper and Pearson 1934).

    Raises:
        BayesreconError: there are no trials, or the number of successes is negative or above that of the trials.

    >>> clopper_pearson(0, 10).upper.__round__(4)
    0.3085
    """
    if not 0 <= successes <= trials or trials < 1:
        raise BayesreconError(f"{successes} successes in {trials} trials: expected 0 <= successes <= trials")
    import scipy.stats  # which takes long to load

    interval = scipy.stats.binomtest(int(successes), int(trials)).proportion_ci(level, method="exact")
    return ConfidenceInterval(successes / trials, float(interval.low), float(interval.high))


def bounded_mean(values: ArrayLike, *, level: float = 0.95) -> ConfidenceInterval:
    """The mean of independent numbers in [0, 1] with an interval that is valid for any distribution of them.

    A gambler bets on "the mean is above m" with stakes `l_t` that depend only on earlier numbers, and then owns
    `prod_t (1 + l_t (x_t - m))`. If the mean is m, this exceeds 1 / a with probability at most a (Ville). The interval
    has every m at which neither this gambler nor one who bets on "below" reaches the threshold, with half of the error
    rate each (Waudby-Smith and Ramdas 2024, theorem 3; stakes for a fixed number of values). It is short if the numbers
    differ little.

    Args:
        values: `(N,)`, in the order in which they were drawn.
    """
    x = np.asarray(values, float)
    if x.ndim != 1 or not len(x) or not (x.min() >= 0 and x.max() <= 1):
        raise BayesreconError("the mean of a bounded variable needs values in [0, 1]")
    count = np.arange(1, len(x) + 1)
    centre = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - centre) ** 2)) / (count + 1)
    earlier = np.concatenate([[0.25], variance[:-1]])  # variance of the numbers before each one
    threshold, mean = np.log(2 / (1 - level)), float(x.mean())
    stake = np.sqrt(2 * threshold / (len(x) * earlier))
    return ConfidenceInterval(mean, _lower_end(x, stake, threshold), 1 - _lower_end(1 - x, stake, threshold))


def _lower_end(values: np.ndarray, stake: np.ndarray, threshold: float) -> float:
    """The largest m, up to the mean, at which the capital of a bet on "above m" reaches the threshold.

    The capital decreases with m.
    """
    low, high = 0.0, float(values.mean())
    for _ in range(_HALVINGS):
        m = (low + high) / 2
        if m > 0 and np.cumsum(np.log1p(np.minimum(stake, _LARGEST / m) * (values - m))).max() >= threshold:
            low = m
        else:
            high = m
    return low


def bootstrap(
    values: ArrayLike,
    statistic: Callable[..., float | np.floating] = np.median,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    key: int = 0,
) -> ConfidenceInterval:
    """A statistic of a sample with its percentile bootstrap interval.

    Args:
        values: `(N, ...)`, resampled by row.
        statistic: takes the sample and `axis=0`, returns one number, e.g. `numpy.median`.

    Raises:
        BayesreconError: there are fewer than two values.

    >>> import numpy as np
    >>> found = bootstrap(np.arange(100.0), np.mean)
    >>> found.estimate, bool(found.lower < 49.5 < found.upper)
    (49.5, True)
    """
    sample = np.asarray(values, float)
    if sample.ndim == 0 or len(sample) < 2:
        raise BayesreconError("a bootstrap needs at least two values")
    rng = np.random.default_rng(key)
    resampled = [statistic(sample[rng.integers(len(sample), size=len(sample))], axis=0) for _ in range(resamples)]
    lower, upper = np.quantile(np.asarray(resampled, float), [(1 - level) / 2, (1 + level) / 2])
    return ConfidenceInterval(float(statistic(sample, axis=0)), float(lower), float(upper))

"""Rates and averages with their intervals."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesrecon.errors import BayesreconError


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    estimate: float
    lower: float
    upper: float


def clopper_pearson(successes: int, trials: int, *, level: float = 0.95) -> Interval:
    """A success rate with its exact binomial interval (Clopper and Pearson 1934).

    Raises:
        BayesreconError: no trials, or successes below zero or above the trials.

    >>> clopper_pearson(0, 10).upper.__round__(4)
    0.3085
    """
    if not 0 <= successes <= trials or trials < 1:
        raise BayesreconError(f"{successes} successes in {trials} trials: expected 0 <= successes <= trials")
    import scipy.stats  # which takes long to load

    found = scipy.stats.binomtest(int(successes), int(trials)).proportion_ci(level, method="exact")
    return Interval(successes / trials, float(found.low), float(found.high))


def bounded_mean(values: Any, *, level: float = 0.95) -> Interval:
    """The mean of independent numbers in [0, 1] with an interval that holds for any law of them, and that is short
    where they differ little.

    A gambler who bets on "the mean is above m" with stakes `l_t` that depend on earlier numbers alone owns
    `prod_t (1 + l_t (x_t - m))`, which exceeds 1 / a with probability a at most where the mean is m (Ville). The
    interval holds every m from which neither this gambler nor the one who bets on "below" grew rich, half of the level
    each (Waudby-Smith and Ramdas 2024, theorem 3; stakes for a fixed number of values).

    Args:
        values: `(N,)`, in the order in which they were drawn.

    Raises:
        BayesreconError: no values, or one outside [0, 1].

    >>> found = bounded_mean([0.6, 0.7, 0.65] * 20)
    >>> round(found.lower, 2), round(found.upper, 2)
    (0.6, 0.68)
    """
    values = np.asarray(values, float)
    if values.ndim != 1 or not len(values) or not (values.min() >= 0 and values.max() <= 1):
        raise BayesreconError("the mean of a bounded variable needs values in [0, 1]")
    count = np.arange(1, len(values) + 1)
    centre = (0.5 + np.cumsum(values)) / (count + 1)
    spread = (0.25 + np.cumsum((values - centre) ** 2)) / (count + 1)
    known = np.concatenate([[0.25], spread[:-1]])  # before the number itself
    stake = np.sqrt(2 * np.log(2 / (1 - level)) / (len(values) * known))
    enough, mean = np.log(2 / (1 - level)), float(values.mean())
    return Interval(mean, _least(values, stake, enough), 1 - _least(1 - values, stake, enough))


def _least(values: np.ndarray, stake: np.ndarray, enough: float) -> float:
    """The largest m, up to the mean, from which who bets on more grew rich: that falls with m."""
    low, high = 0.0, float(values.mean())
    for _ in range(_HALVINGS):
        m = (low + high) / 2
        if m > 0 and np.cumsum(np.log1p(np.minimum(stake, _LARGEST / m) * (values - m))).max() >= enough:
            low = m
        else:
            high = m
    return low


_HALVINGS = 30
"""Of the way to the mean, whose rest the interval is wider by."""

_LARGEST = 0.75
"""Of what a gambler owns that is at stake at most: below one, so that nobody is ruined."""


def bootstrap(
    values: Any,
    statistic: Callable[..., Any] = np.median,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    key: int = 0,
) -> Interval:
    """A statistic of a sample with its percentile bootstrap interval.

    Args:
        values: `(N, ...)`, resampled by row.
        statistic: takes the sample and `axis=0`, returns one number, e.g. `numpy.median`.

    Raises:
        BayesreconError: fewer than two values.

    >>> import numpy as np
    >>> found = bootstrap(np.arange(100.0), np.mean)
    >>> found.estimate, bool(found.lower < 49.5 < found.upper)
    (49.5, True)
    """
    values = np.asarray(values, float)
    if values.ndim == 0 or len(values) < 2:
        raise BayesreconError("a bootstrap needs at least two values")
    rng = np.random.default_rng(key)
    drawn = [statistic(values[rng.integers(len(values), size=len(values))], axis=0) for _ in range(resamples)]
    lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(values, axis=0)), float(lower), float(upper))


def true_positive_rate(scores: Any, null: Any, *, false_positive_rate: float = 0.01, level: float = 0.95) -> Interval:
    """Share of the scores above the threshold that a null set exceeds at no more than the given rate.

    Args:
        scores: `(N,)`, higher means "was in the data".
        null: `(M,)` scores of records that were not.
        false_positive_rate: at least `1 / (M + 1)`. With the threshold at the k-th largest null score,
            `k = floor(rate (M + 1))`, the rate holds on average over null sets.

    Raises:
        BayesreconError: no scores, scores that are NaN, or too few null scores for the rate.

    >>> import numpy as np
    >>> true_positive_rate([0.5, 2.0, 3.0, 4.0], np.linspace(0, 1, 99)).estimate
    0.75
    """
    scores, null = np.asarray(scores, float).ravel(), np.asarray(null, float).ravel()
    if not len(scores) or not len(null) or np.isnan(scores).any() or np.isnan(null).any():
        raise BayesreconError("true_positive_rate needs scores and null scores that are numbers")
    k = int(np.floor(false_positive_rate * (len(null) + 1) + 1e-12))
    if not 1 <= k <= len(null):
        raise BayesreconError(
            f"a false-positive rate of {false_positive_rate:g} cannot be estimated from {len(null)} null scores; "
            f"take at least {int(np.ceil(1 / max(false_positive_rate, 1e-12))) - 1}"
        )
    threshold = np.sort(null)[-k]
    return clopper_pearson(int((scores > threshold).sum()), len(scores), level=level)

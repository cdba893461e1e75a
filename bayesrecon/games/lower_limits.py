"""Epsilon from below: what a mechanism reveals of one record at least, measured over many rounds.

A round runs the mechanism on a data set, or on its neighbour, and a test guesses which of the two it was. With type I
error a and type II error b the mechanism cannot be mu-GDP (Dong, Roth and Su 2022) for any mu below

    Phi^-1(1 - a) - Phi^-1(b),

and a Gaussian trade-off of this mu has a known epsilon at every delta. The test is chosen on the first quarter of
the rounds, and upper Clopper-Pearson limits of its two errors are taken on the others, so that the result is a lower
limit with the stated confidence. It presumes that the mechanism's trade-off is Gaussian, as that of Gaussian noise is;
`epsilon_of_any` presumes nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from bayesrecon.disclosure.sanitising.discrete_noise import epsilon_of
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import clopper_pearson
from bayesrecon.results.mechanism import epsilon_of_shift

_FEWEST = 20  # rounds of each kind that choose a test
_THRESHOLDS = 50  # that are tried
_RIDGE = 1e-9  # relative, in the covariance of outputs


@dataclass(frozen=True)
class FromBelow:
    """Lower limits of what a mechanism reveals of a record.

    Attributes:
        rounds: number of rounds with each data set.
        mu: of a Gaussian trade-off.
        epsilon: at this delta, of a Gaussian trade-off.
        epsilon_of_any: at this delta, whatever the trade-off: `log((1 - delta - b) / a)`.
        delta: delta.
        rates: `{false positive rate: true positive rate}` of the test on rounds that did not choose it.
        level: confidence of the limits.
    """

    rounds: int
    mu: float
    epsilon: float
    epsilon_of_any: float
    delta: float
    rates: dict[float, float]
    level: float

    def refutes(self, epsilon: float) -> bool:
        """Whether a claimed epsilon cannot be true."""
        return max(self.epsilon, self.epsilon_of_any) > epsilon


def from_below(
    without: ArrayLike,
    given: ArrayLike,
    delta: float = 1e-6,
    *,
    level: float = 0.95,
    rates: tuple[float, ...] = (0.001, 0.01, 0.1),
) -> FromBelow:
    """What outputs of a mechanism tell about one record at least.

    The test is linear in the outputs: the best one between two normal distributions with one covariance, fitted to the
    first quarter of the rounds. Outputs may be many, but the rounds of this quarter must be more.

    Args:
        without: `(R, k)` or `(R,)`, outputs of R independent rounds without the record.
        given: the same with the record, or with another one in its place.
        delta: delta at which epsilon is stated.
        level: confidence.
        rates: false positive rates at which the true positive rate is stated.

    Raises:
        BayesreconError: there are too few rounds.

    >>> rng = np.random.default_rng(0)
    >>> found = from_below(rng.normal(0, 1, 20_000), rng.normal(1, 1, 20_000))
    >>> 0.9 < found.mu < 1.0, found.refutes(epsilon_of_shift(1.0, 1e-6))
    (True, False)
    """
    parts = []
    for outputs in (without, given):
        array = np.asarray(outputs, float)
        array = array[:, None] if array.ndim == 1 else array
        parts.append((array[: len(array) // 4], array[len(array) // 4 :]))
    (first, held), (second, other) = parts
    if min(map(len, (first, second))) < max(_FEWEST, 2 * first.shape[1]):
        raise BayesreconError(
            f"{4 * len(first)} rounds are too few for {first.shape[1]} outputs; play at least "
            f"{4 * max(_FEWEST, 2 * first.shape[1])} of each kind"
        )
    covariance = (np.cov(first.T) + np.cov(second.T)).reshape(first.shape[1], -1) / 2
    covariance = covariance + np.eye(len(covariance)) * max(_RIDGE * np.trace(covariance), 1e-300)
    direction = np.linalg.solve(covariance, second.mean(axis=0) - first.mean(axis=0))
    scores = [part @ direction for part in (first, second, held, other)]
    pooled = np.concatenate(scores[:2])
    thresholds = np.quantile(pooled, np.linspace(0, 1, _THRESHOLDS + 2)[1:-1])
    pairs = np.array([(np.mean(scores[0] > t), np.mean(scores[1] <= t)) for t in thresholds])
    ends = 1 / (len(first) + 1.0)
    a, b = np.clip(pairs, ends, 1 - ends).T

    def errors(at: int) -> tuple[float, float]:
        # Each limit is one end of a two-sided interval, so both together hold with this level.
        false = clopper_pearson(int(np.sum(scores[2] > thresholds[at])), len(held), level=level).upper
        missed = clopper_pearson(int(np.sum(scores[3] <= thresholds[at])), len(other), level=level).upper
        return false, missed

    # The limits cost least where both errors are common, so the best point is looked for with their errors.
    spread = np.sqrt(a * (1 - a) / len(first)) / norm.pdf(norm.ppf(a))
    spread = spread + np.sqrt(b * (1 - b) / len(second)) / norm.pdf(norm.ppf(b))
    false, missed = errors(int(np.argmax(norm.ppf(1 - a) - norm.ppf(b) - 2 * spread)))
    mu = max(0.0, float(norm.ppf(1 - false) - norm.ppf(missed)))
    false, missed = errors(int(np.argmax((1 - b) / (a + 2 * np.sqrt(a / len(first))))))
    plain = max(0.0, float(np.log(max(1 - delta - missed, 1e-300) / false)))
    found = {rate: float(np.mean(scores[3] > np.quantile(scores[2], 1 - rate))) for rate in rates}
    epsilon = epsilon_of_shift(mu, delta) if mu else 0.0
    return FromBelow(min(len(np.asarray(x)) for x in (without, given)), mu, epsilon, plain, delta, found, level)


def one_run(guessed: int, right: int, *, level: float = 0.95) -> float:
    """Pure epsilon from below in a single run (Steinke, Nasr and Jagielski 2023, theorem 2.1 with delta 0).

    Each of many records was included by a fair coin. Of an epsilon-private mechanism, a guesser is right as often as a
    coin that falls right with probability `e^epsilon / (1 + e^epsilon)` at most.

    Args:
        guessed: number of records about which a guess was made.
        right: how many of these guesses were right.

    >>> round(one_run(1000, 731), 2)
    0.88
    """
    share = clopper_pearson(right, guessed, level=1 - 2 * (1 - level)).lower
    return max(0.0, float(np.log(share / (1 - share)))) if 0 < share < 1 else 0.0


def composed(epsilon: float, runs: int, delta: float) -> float:
    """Epsilon at this delta of several runs of a purely epsilon-private mechanism together.

    A purely epsilon-private mechanism is epsilon^2 / 2 zCDP (Bun and Steinke 2016), and rho adds up. The pure sum
    `runs * epsilon` holds as well; the smaller one is returned.

    >>> composed(1.0, 1, 1e-6), round(composed(0.1, 100, 1e-6), 2)
    (1.0, 5.22)
    """
    return min(runs * epsilon, epsilon_of(runs * epsilon**2 / 2, delta))

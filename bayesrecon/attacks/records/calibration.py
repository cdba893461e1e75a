"""Calibration of the probabilities of values on simulated tables.

Decoding finds one table and not its rivals, and it knows the noise only by normal theory. So tables are drawn from the
model's predictions. Their noise is the disagreement of the two halves of the draws, with either sign. They are decoded
like the real table. The probabilities of the real table are then lowered to the share of correct values in the
simulated ones, by isotonic regression (Zadrozny and Elkan 2002).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

from bayesrecon.attacks.records.rows import KnownRows

_ROWS = 4000  # number of simulated rows: enough to see an error rate of one in a thousand
_FEWEST, _MOST = 2, 8  # numbers of simulated tables
_LARGE, _HUGE = 5000, 20_000  # with more rows there is one simulated table, and with more than the second number none
_ABOVE = 1e-9  # smallest difference between the probabilities of the most probable value and the next one


def repeats_affordable(rows: KnownRows) -> bool:
    """Whether a table with this many rows is decoded more than once."""
    return rows.count <= _HUGE


def simulated_tables(
    rows: KnownRows, amplitudes: np.ndarray, prior: np.ndarray, noise: Float[np.ndarray, " M"], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Tables of candidates drawn from the model's probabilities, `(S, N)`, and their noisy solutions, `(S, M)`.

    Args:
        amplitudes: `(N, C, p)` amplitudes of the candidates.
        prior: `(N, C)` probabilities of the candidates.
        noise: `(M,)` a vector whose covariance is that of the solution's noise.
    """
    count = 1 if rows.count > _LARGE else int(np.clip(-(-_ROWS // rows.count), _FEWEST, _MOST))
    thresholds = np.cumsum(prior / prior.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    chosen = (rng.random((count, rows.count, 1)) > thresholds).sum(axis=2)
    true = amplitudes[np.arange(rows.count), chosen][:, rows.distinct]
    sign = np.where(np.arange(count) % 2, -1.0, 1.0)
    return chosen, true + sign[:, None] * noise


def calibrated(
    probability: np.ndarray, simulated: Sequence[np.ndarray], chosen: np.ndarray, prior: Float[np.ndarray, "N C"]
) -> Float[np.ndarray, "N C"]:
    """Calibrated probabilities `(N, C)`.

    The largest probability of a row is at most the share of correct values among simulated rows with this probability.

    Args:
        probability: `(N, C)` probabilities of the real table.
        simulated: `(S, N, C)` probabilities of the simulated tables.
        chosen: `(S, N)` true candidates of the simulated tables.
        prior: `(N, C)` probabilities by which the remainder is divided among the other candidates if these have none.

    >>> stated = np.array([[0.9, 0.1]] * 100)
    >>> calibrated(stated[:1], [stated], np.array([[0] * 70 + [1] * 30]), stated[:1]).round(2).tolist()
    [[0.7, 0.3]]
    """
    stated = np.concatenate([p.max(axis=1) for p in simulated])
    correct = np.concatenate([p.argmax(axis=1) == c for p, c in zip(simulated, chosen, strict=True)])
    stated, group = np.unique(stated, return_inverse=True)
    size = np.bincount(group)
    share = isotonic_regression(np.bincount(group, correct) / size, weights=size).x
    # Half a correct and half a wrong value are added to each level: a few correct values are no certainty.
    level, group = np.unique(share, return_inverse=True)
    count = np.bincount(group, size)
    level = np.maximum.accumulate((level * count + 0.5) / (count + 1))[group]
    rows, best = np.arange(len(probability)), probability.argmax(axis=1)
    largest = probability[rows, best]
    others, prior_of_others = probability.copy(), prior + 0.0
    others[rows, best] = prior_of_others[rows, best] = 0.0
    others = np.where(others.sum(axis=1, keepdims=True) > 0, others, prior_of_others)
    total = others.sum(axis=1)
    others /= np.maximum(total, 1e-300)[:, None]
    second = others.max(axis=1)
    limit = level[np.minimum(np.searchsorted(stated, largest), len(level) - 1)]
    # The value stays the most probable one. It is certain if there is no other.
    new = np.where(total > 0, np.minimum(np.maximum(limit, second / (1 + second) + _ABOVE), largest), largest)
    result = others * (1 - new)[:, None]
    result[rows, best] = new
    return np.where((new < largest)[:, None], result, probability)

"""Calibration of the probabilities of values on simulated tables.

Decoding passes over tables that are as likely as its own, and knows the noise by normal theory alone. So tables are
drawn from what the model says of every row, what the halves of the draws disagree on is added as their noise, with
either sign, and they are decoded like the real one. What is stated of the real one is lowered to how often it was right
there, by isotonic regression (Zadrozny and Elkan 2002).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

from bayesrecon.attacks.records.rows import Rows

_ROWS = 4000  # to rehearse: a wrong one in a thousand shows
_FEWEST, _MOST = 2, 8  # tables, of either sign,
_LARGE, _HUGE = 5000, 20_000  # from so many rows on one alone, and none
_ABOVE = 1e-9  # what a value is more probable than the next one at least


def repeats_affordable(rows: Rows) -> bool:
    """Whether a table of so many rows is decoded more than once."""
    return rows.count <= _HUGE


def simulated_tables(
    rows: Rows, amplitudes: np.ndarray, prior: np.ndarray, noise: Float[np.ndarray, " M"], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Tables `(S, N)` of candidates, drawn by the model's probabilities, and the solutions `(S, M)` of their draws.

    Args:
        amplitudes, prior: of the candidates, `(N, C, p)` and `(N, C)`.
        noise: `(M,)` with the covariance of the solution's.
    """
    count = 1 if rows.count > _LARGE else int(np.clip(-(-_ROWS // rows.count), _FEWEST, _MOST))
    below = np.cumsum(prior / prior.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    chosen = (rng.random((count, rows.count, 1)) > below).sum(axis=2)
    true = amplitudes[np.arange(rows.count), chosen][:, rows.distinct]
    sign = np.where(np.arange(count) % 2, -1.0, 1.0)
    return chosen, true + sign[:, None] * noise


def calibrated(
    probability: np.ndarray, simulated: Sequence[np.ndarray], chosen: np.ndarray, prior: Float[np.ndarray, "N C"]
) -> Float[np.ndarray, "N C"]:
    """Probabilities `(N, C)`, of which the largest of a row is no more than what was right of those that large.

    Args:
        simulated: of rehearsals, `(S, N, C)`.
        chosen: their true candidates, `(S, N)`.
        prior: `(N, C)`, by which what a value loses is shared where nothing else is stated.

    >>> stated = np.array([[0.9, 0.1]] * 100)
    >>> calibrated(stated[:1], [stated], np.array([[0] * 70 + [1] * 30]), stated[:1]).round(2).tolist()
    [[0.7, 0.3]]
    """
    stated = np.concatenate([p.max(axis=1) for p in simulated])
    right = np.concatenate([p.argmax(axis=1) == c for p, c in zip(simulated, chosen, strict=True)])
    stated, place = np.unique(stated, return_inverse=True)
    size = np.bincount(place)
    share = isotonic_regression(np.bincount(place, right) / size, weights=size).x
    # One alike is half right and half wrong beforehand: a few that were right are no certainty.
    level, place = np.unique(share, return_inverse=True)
    together = np.bincount(place, size)
    level = np.maximum.accumulate((level * together + 0.5) / (together + 1))[place]
    index, at = np.arange(len(probability)), probability.argmax(axis=1)
    top = probability[index, at]
    others, expected = probability.copy(), prior + 0.0
    others[index, at] = expected[index, at] = 0.0
    others = np.where(others.sum(axis=1, keepdims=True) > 0, others, expected)
    total = others.sum(axis=1)
    others /= np.maximum(total, 1e-300)[:, None]
    second = others.max(axis=1)
    limit = level[np.minimum(np.searchsorted(stated, top), len(level) - 1)]
    # The value stays the most probable one; where there is no other it is certain.
    new = np.where(total > 0, np.minimum(np.maximum(limit, second / (1 + second) + _ABOVE), top), top)
    result = others * (1 - new)[:, None]
    result[index, at] = new
    return np.where((new < top)[:, None], result, probability)

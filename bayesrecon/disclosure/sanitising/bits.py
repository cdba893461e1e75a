"""How many bits of a record's response are given away to somebody who knows everything else.

Whoever knows all other records, and of this one all but its response y, sees in the whitened directions the sum of
`a_i(y) = Cov(l(., (x, y)), f_i)` and of noise: of the tilt, of variance c_i, and of T independent draws, 1 / T. What no
tilt hides, the rest of `l(., (x, y))`, stands in noise of the draws alone. With y as the posterior predicts it, no
attack gets more bits of it than a normal signal of the same covariance S carries,

    log2 det(1 + S^(1/2) C^-1 S^(1/2)) / 2,    C the covariance of the noise,

which is an upper limit, to the order at which the noise is normal.
"""

from collections.abc import Callable

import numpy as np

from bayesrecon.disclosure.sanitising.law import TiltLaw
from bayesrecon.kernels.score import log_liks
from bayesrecon.model import Records

RECORDS = 128
"""Records that are looked at, at even distances: some seconds."""

_RESPONSES = 32  # of each record, as the posterior predicts them: a covariance to a quarter, bits to a tenth
_SMALLEST = 1e-9  # eigenvalue of the law, relative to the largest, that is not rounding

Predict = Callable[[np.random.Generator, Records], Records]


def bits_of(
    law: TiltLaw, records: Records, predict: Predict, draws: float, given: float
) -> tuple[np.ndarray, np.ndarray]:
    """Upper limits of the bits of each record's response, `(R,)`: in sanitised draws, and in the draws themselves.

    Args:
        draws: T of the sanitised draws.
        given: independent draws of the posterior that there were.
    """
    rng = np.random.default_rng(0)
    alive = law.own > _SMALLEST * law.own[-1]
    features = law.multiple * (law.values @ law.vectors[:, alive]) / np.sqrt(law.own[alive])
    tilted, plain = law.variances[alive] + 1 / draws, np.full(int(alive.sum()), 1 / given)
    found = []
    for i in range(len(next(iter(records.values())))):
        same = {k: np.repeat(np.asarray(v)[i : i + 1], _RESPONSES, axis=0) for k, v in records.items()}
        l = np.asarray(log_liks(law.model, law.theta, predict(rng, same)))
        l = l - l.mean(axis=0)
        l = l - l.mean(axis=1, keepdims=True)  # what is expected of the response tells nothing of it
        along = features.T @ l / len(l)
        rest = l.T @ l / len(l) - along.T @ along
        found.append([_carried(along, rest, noise, size) for noise, size in ((tilted, draws), (plain, given))])
    bits = np.array(found).reshape(-1, 2)
    return bits[:, 0], bits[:, 1]


def _carried(along: np.ndarray, rest: np.ndarray, noise: np.ndarray, draws: float) -> float:
    """Bits of responses `(J,)`, of which each has a signal along the directions `(p, J)` and a rest."""
    gram = along.T @ (along / noise[:, None]) + draws * rest
    return float(0.5 * np.log2(1 + np.maximum(np.linalg.eigvalsh(gram), 0.0) / along.shape[1]).sum())

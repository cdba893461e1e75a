"""Upper limit on the bits of a record's response that sanitised draws reveal to somebody who knows everything else.

The attacker knows all other records, and all fields of this record except its response y. In the i-th whitened
direction f_i of the value kernel, the attacker sees `a_i(y) = Cov(l(., (x, y)), f_i)` plus noise. The tilt contributes
noise of variance c_i, and T independent draws contribute variance 1 / T. The part of `l(., (x, y))` outside these
directions has only the noise of the draws. Let y have the posterior predictive distribution, and let S be the
covariance of the signal and C that of the noise. No signal of covariance S carries more bits than a normal one:

    log2 det(1 + S^(1/2) C^-1 S^(1/2)) / 2.

So this is an upper limit, as far as the noise is normal.
"""

from collections.abc import Callable

import numpy as np

from bayesrecon.disclosure.sanitising.tilts import TiltDistribution
from bayesrecon.divergence.score import log_liks
from bayesrecon.model import Records

RECORDS = 128
"""Number of evenly spaced records that are computed, which takes some seconds."""

_RESPONSES = 32  # predicted responses per record: enough for the covariance to 25 % and the bits to 10 %
_SMALLEST = 1e-9  # eigenvalues below this share of the largest are rounding

Predict = Callable[[np.random.Generator, Records], Records]


def bits_of(
    tilts: TiltDistribution, records: Records, predict: Predict, draws: float, original_draws: float
) -> tuple[np.ndarray, np.ndarray]:
    """Upper limits on the bits of each record's response in the sanitised draws and in the original ones, each `(R,)`.

    Args:
        draws: T, the number of sanitised draws.
        original_draws: effective number of original draws.
    """
    rng = np.random.default_rng(0)
    nonzero = tilts.scatters > _SMALLEST * tilts.scatters[-1]
    features = tilts.multiple * (tilts.values @ tilts.vectors[:, nonzero]) / np.sqrt(tilts.scatters[nonzero])
    tilted, original = tilts.variances[nonzero] + 1 / draws, np.full(int(nonzero.sum()), 1 / original_draws)
    rows = []
    for i in range(len(next(iter(records.values())))):
        copies = {k: np.repeat(np.asarray(v)[i : i + 1], _RESPONSES, axis=0) for k, v in records.items()}
        values = np.asarray(log_liks(tilts.model, tilts.theta, predict(rng, copies)))
        values = values - values.mean(axis=0)
        # The expected value carries no information about the response.
        values = values - values.mean(axis=1, keepdims=True)
        signals = features.T @ values / len(values)
        outside = values.T @ values / len(values) - signals.T @ signals
        rows.append(
            [_carried(signals, outside, noise, size) for noise, size in ((tilted, draws), (original, original_draws))]
        )
    bits = np.array(rows).reshape(-1, 2)
    return bits[:, 0], bits[:, 1]


def _carried(signals: np.ndarray, outside: np.ndarray, noise: np.ndarray, draws: float) -> float:
    """Bits about one record's response, from the signals of its J possible values.

    Args:
        signals: `(p, J)` signals in the whitened directions.
        outside: `(J, J)` covariance of the signals outside them.
        noise: variances in the directions.
        draws: T.
    """
    gram = signals.T @ (signals / noise[:, None]) + draws * outside
    return float(0.5 * np.log2(1 + np.maximum(np.linalg.eigvalsh(gram), 0.0) / signals.shape[1]).sum())

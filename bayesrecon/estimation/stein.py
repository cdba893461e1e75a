"""Do the draws and the model belong together?

For draws of the posterior with score s and mean m, Stein's identity gives `E[s] = 0`,
`E[(theta - m)_i s_j] = -[i = j]` and `E[(theta - m)_i^2 s_i] = 0`. With the score of the solved measure
these are tested over the draws; convergence is looked at directly. A trained parameter is
stationary only if its regulariser's gradient lies in the span of the records' gradients.
"""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.linalg

from bayesrecon.diagnostics import effective_sample_size, split_r_hat

_FALSE_ALARMS = 1e-4  # per release and identity, before a warning is given
_SMALLEST_SIZE = 0.05  # violations below this are not worth a warning however significant
_PAIRED = 40  # coordinates up to which all pairs are tested
_LOOKED_AT = 64  # violations of an identity that are looked at again, the largest first
_R_HAT = 1.01  # Vehtari et al. (2021); where chains are short its own scatter is allowed for
# Share of the regulariser's gradient that no data cancel, from which a parameter is not stationary: above what training
# to the usual tolerances leaves; and the pivot below which a record's gradient is a sum of others.
_STATIONARY, _RANK = 1e-6, 1e-10


def check_draws(
    names: tuple[str, ...],
    theta: np.ndarray,
    weights: np.ndarray,
    chain: np.ndarray,
    scores: np.ndarray,
    moved: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[str, ...]:
    """Test the Stein identities; one line for each that fails.

    Args:
        names: `(d,)` coordinate names.
        theta: `(T, d)` atoms.
        scores: `(T, s)` score of the fitted posterior at the atoms, in the first of the same coordinates.
        moved: for functions of the atoms `h (T, P)` and coordinates `j (P,)`, the series `(T, P)` by which the errors
            of the fitted data move `E[h_p score_j]`. With many features they show in the identities, and pass for
            their failure; asked only where an identity seems to fail.
    """
    failures = _chains(names, theta, chain)
    mean = weights @ theta
    sd = np.sqrt(weights @ (theta - mean) ** 2)
    scored = scores.shape[1]
    t, s = (theta - mean) / sd, scores * sd[:scored]  # unit free
    every = np.arange(scored)
    rows, columns = (every, every) if t.shape[1] > _PAIRED else map(np.ravel, np.indices((t.shape[1], scored)))
    # E[h_i score_j + rest]; the mean is estimated too: its sampling error enters linearly and is carried by -t.
    identities: dict[str, tuple[np.ndarray, Any, np.ndarray, np.ndarray]] = {
        "E[score]": (np.ones_like(t), 0.0, every, every),
        "E[(theta - mean) score] + 1": (t, rows == columns, rows, columns),
        "E[(theta - mean)^2 score]": (t**2, 2 * t[:, :scored], every, every),
    }
    for label, (h, rest, i, j) in identities.items():
        values = h[:, i] * s[:, j] + rest
        size, z = weights @ values, _significance(values, weights @ values, weights, chain)
        threshold = -NormalDist().inv_cdf(_FALSE_ALARMS / len(z) / 2)
        broken = np.flatnonzero((z > threshold) & (np.abs(size) > _SMALLEST_SIZE))
        if broken.size:
            broken = broken[np.argsort(-z[broken])][:_LOOKED_AT]
            series = values[:, broken] + moved(h[:, i[broken]] * sd[j[broken]], j[broken])
            z[broken] = _significance(series, size[broken], weights, chain)
            broken = broken[z[broken] > threshold]
        if broken.size:
            order = broken[np.argsort(-z[broken])][:3]
            which = ", ".join(
                f"{names[j[k]]}{'' if i[k] == j[k] else ' with ' + names[i[k]]} by {size[k]:+.2g} (z {z[k]:.0f})"
                for k in order
            )
            failures.append(
                f"draws and model disagree: {label} should be 0 and is off for {which}"
                + (f" and {broken.size - len(order)} more" if broken.size > len(order) else "")
                + "; is the prior right, and are these converged draws of this very model?"
            )
    return tuple(failures)


def _significance(series: np.ndarray, size: np.ndarray, weights: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """`size (P,)` in standard errors of the mean of `series (T, P)`."""
    ess = effective_sample_size(series, chain) / (len(weights) * np.sum(weights**2))
    error = np.sqrt(weights @ (series - weights @ series) ** 2 / ess)
    return np.divide(np.abs(size), error, out=np.zeros_like(size), where=error > 0)


def check_trained(scores: np.ndarray, base: np.ndarray) -> tuple[str, ...]:
    """Whether any data, with weights of either sign, could make a parameter stationary; see `beyond`."""
    left = float(np.linalg.norm(beyond(scores, base))) / (float(np.linalg.norm(base)) or 1.0)
    if left < _STATIONARY:
        return ()
    return (
        f"the parameter is not stationary: no data cancel {left:.1g} of its regulariser's gradient; was the loss "
        "summed and trained to its optimum, and is the regulariser this one?",
    )


def beyond(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """What no combination of gradients cancels, `(d,)`.

    Args:
        scores: `(d, M)` gradients of generic records, more than there are features.
        base: `(d,)` gradient of the regulariser.
    """
    length = np.linalg.norm(scores, axis=0)
    unit = scores[:, length > 0] / length[length > 0]
    if not unit.size:
        return base
    pivoted: Any = scipy.linalg.qr(unit, mode="economic", pivoting=True, check_finite=False)
    q, r, _ = pivoted
    q = q[:, np.abs(np.diag(r)) > _RANK * abs(r[0, 0])]
    return np.asarray(base - q @ (q.T @ base))


def _chains(names: tuple[str, ...], theta: np.ndarray, chain: np.ndarray) -> list[str]:
    found = []
    r_hat = split_r_hat(theta, chain)
    worst = int(r_hat.argmax())
    # Over independent draws the excess of R-hat is a chi-squared over the draws of half a chain.
    shortest = np.unique(chain, return_counts=True)[1].min()
    limit = max(_R_HAT, float(np.sqrt(1 + 40 / shortest)))
    if r_hat[worst] > limit:
        found.append(
            f"the chains have not converged: split R-hat of {names[worst]} is {r_hat[worst]:.3f} "
            f"(at most {limit:.2f} expected); is warm-up left in?"
        )
    return found

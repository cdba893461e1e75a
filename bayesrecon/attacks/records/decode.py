"""Values from noisy amplitudes by expectation propagation over the possible values of each row.

The solution is normal around the truth with precision `Lambda`, and each row holds one of finitely many values, whose
prior is what the model itself says of them at the draws. Rows interact through Lambda, so that a legal value of one
sharpens the others; expectation propagation (Minka 2001; for linear systems with discrete unknowns, Cespedes et al.
2014) replaces the discrete distribution of every row but one by normal ones, in turn for each.
"""

from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

lapack: Any = scipy.linalg.lapack

# Of a full step: larger ones oscillate between coupled rows, and with fifteen steps 96 % of the way is gone.
STEPS, DAMPING = 15, 0.2
_FLOOR = 1e-3  # smallest variance of a row, in squared distances between its values: certainty would never be revised
_SAME = 1e-6  # of the range of a row's values: closer ones are the same except for rounding
_CERTAIN = 1e-7  # rows closer to certainty than this are settled
_SETTLING = 4  # steps between looks for such rows; with more than _LARGE unknowns also after the first
_LARGE = 3000  # from here on a factorisation costs more than looking


def decode(
    precision: np.ndarray,
    solution: np.ndarray,
    candidates: Float[np.ndarray, "N C p"],
    log_prior: Float[np.ndarray, "N C"],
) -> Float[np.ndarray, "N C"]:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision: `(N * p, N * p)` of the solution's noise.
        solution: `(N * p,)`.
        candidates: `(N, C, p)` amplitudes of the legal values.
        log_prior: `(N, C)`; minus infinity for padding.
    """
    n, _, p = candidates.shape
    floor = floor_of(candidates, log_prior)
    probability = normalised(log_prior)
    mean, covariance = moments_of(probability, candidates, floor)
    site = np.linalg.inv(covariance)  # (N, p, p)
    shift = np.einsum("npq,nq->np", site, mean)
    field = (precision @ solution).reshape(n, p)
    active = np.arange(n)
    for step in range(STEPS):
        rows = candidates[active], log_prior[active], floor[active]
        new_site, new_shift, new_probability = _step(precision, field, site[active], shift[active], *rows)
        probability[active] = new_probability
        site[active] += DAMPING * (new_site - site[active])
        shift[active] += DAMPING * (new_shift - shift[active])
        if step % _SETTLING == _SETTLING - 1 or (step == 0 and n * p > _LARGE):
            open_ = new_probability.max(axis=1) < 1 - _CERTAIN
            if not open_.any():
                break
            values = candidates[active, new_probability.argmax(axis=1)]
            precision, field = _settle(precision, field, open_, values)
            active = active[open_]
    return probability


def _step(
    precision: np.ndarray,
    field: np.ndarray,
    site: np.ndarray,
    shift: np.ndarray,
    candidates: np.ndarray,
    log_prior: np.ndarray,
    floor: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New sites, `(N, p, p)` and `(N, p)`, and the candidates' probabilities given the other rows' sites."""
    n, p = field.shape
    joint = np.array(precision)
    own = np.arange(n)[:, None] * p + np.arange(p)
    joint[own[:, :, None], own[:, None, :]] += site
    root = inverse_root(joint)
    mean = (root @ (root.T @ (field + shift).ravel())).reshape(n, p)
    root = root.reshape(n, p, n * p)
    marginal = np.linalg.inv(np.einsum("npm,nqm->npq", root, root))
    cavity = marginal - site
    cavity_shift = np.einsum("npq,nq->np", marginal, mean) - shift
    energy = (
        np.einsum("ncp,np->nc", candidates, cavity_shift)
        - 0.5 * np.einsum("ncp,npq,ncq->nc", candidates, cavity, candidates)
        + log_prior
    )
    result = normalised(energy)
    tilted_mean, tilted_covariance = moments_of(result, candidates, floor)
    tilted = np.linalg.inv(tilted_covariance)
    new_site, new_shift = tilted - cavity, np.einsum("npq,nq->np", tilted, tilted_mean) - cavity_shift
    # A site that is no normal distribution keeps what it had.
    bad = np.linalg.eigvalsh(new_site)[:, 0] <= 0
    new_site[bad], new_shift[bad] = site[bad], shift[bad]
    return new_site, new_shift, result


def inverse_root(precision: Float[np.ndarray, "M M"]) -> np.ndarray:
    """R, upper triangular, with `precision^-1 = R R'`; the memory of `precision (M, M)` is used up."""
    # LAPACK works by columns: the transpose of a symmetric array in rows is the array itself, without a copy.
    factor, info = lapack.dpotrf(precision.T, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("the information of the draws is not positive definite")
    return lapack.dtrtri(factor, lower=1, overwrite_c=1)[0].T


def _settle(
    precision: np.ndarray, field: np.ndarray, open_: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The system of the open rows, given the values `(N, p)` of the others."""
    p = field.shape[1]
    keep = np.repeat(open_, p)
    moved = field.ravel()[keep] - precision[np.ix_(keep, ~keep)] @ values.ravel()[~keep]
    return precision[np.ix_(keep, keep)], moved.reshape(-1, p)


def normalised(energy: np.ndarray) -> np.ndarray:
    prob = np.exp(energy - energy.max(axis=1, keepdims=True))
    return prob / prob.sum(axis=1, keepdims=True)


def moments_of(prob: np.ndarray, candidates: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.einsum("nc,ncp->np", prob, candidates)
    centred = candidates - mean[:, None, :]
    cov = np.einsum("nc,ncp,ncq->npq", prob, centred, centred)
    return mean, cov + floor


def floor_of(candidates: np.ndarray, log_prior: np.ndarray) -> Float[np.ndarray, "N p p"]:
    """`(N, p, p)` a small multiple of the squared spacing of the candidates in every direction."""
    n, _, p = candidates.shape
    result = np.zeros((n, p, p))
    for j in range(p):
        values = np.where(np.isfinite(log_prior), candidates[:, :, j], np.nan)
        ordered = np.sort(values, axis=1)
        gaps = np.diff(ordered, axis=1)
        range_ = np.nanmax(ordered, axis=1, keepdims=True) - ordered[:, :1]
        gaps = np.where(gaps > np.maximum(_SAME * range_, 1e-9), gaps, np.inf)
        least = gaps.min(axis=1)
        result[:, j, j] = _FLOOR * np.where(np.isfinite(least), least, 1.0) ** 2
    return result

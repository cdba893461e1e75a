"""From noisy coordinates to values: expectation propagation over the legal values of each row.

The solution is normal around the truth with precision `Lambda`, and each row holds one of finitely many values, whose
prior is what the model itself says of them at the draws. Rows interact through Lambda, so that a legal value of one
sharpens the others; expectation propagation (Minka 2001; for linear systems with discrete unknowns, Cespedes et al.
2014) replaces the discrete law of every row but one by normal ones, in turn for each.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

_STEPS, _DAMPING = 15, 0.2
_FLOOR = 1e-3  # smallest variance of a row, in squared distances between its values: certainty would never be revised
_CERTAIN = 1e-7
_LARGE = 3000  # unknowns above which rows that are certain are settled after the first step


@dataclass(frozen=True)
class Decoded:
    """Probabilities of every row's candidates, `(N, C)`; padding has probability zero."""

    probability: np.ndarray


def decode(
    precision: np.ndarray, solution: np.ndarray, candidates: np.ndarray, log_prior: np.ndarray, prior_weight: float = 1.0
) -> np.ndarray:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision: `(N * p, N * p)` of the solution's noise.
        solution: `(N * p,)`.
        candidates: `(N, C, p)` coordinates of the legal values.
        log_prior: `(N, C)`; minus infinity for padding.
    """
    n, c, p = candidates.shape
    log_prior = prior_weight * np.where(np.isfinite(log_prior), log_prior, 0.0) + np.where(
        np.isfinite(log_prior), 0.0, -np.inf
    )
    prob = _normalised(log_prior)
    floor = _floor(candidates, log_prior)
    mean, cov = _moments(prob, candidates, floor)
    site = np.linalg.inv(cov)  # (N, p, p)
    shift = np.einsum("npq,nq->np", site, mean)
    precision = np.array(precision)
    field = (precision @ solution).reshape(n, p)
    active = np.arange(n)
    for step in range(_STEPS):
        tilted, prob_active = _step(precision, field, site[active], shift[active], candidates[active],
                                    log_prior[active], floor[active])
        prob[active] = prob_active
        new_site, new_shift = tilted
        site[active] += _DAMPING * (new_site - site[active])
        shift[active] += _DAMPING * (new_shift - shift[active])
        if step == 0 and n * p > _LARGE:
            # Settled rows become data for the rest.
            open_ = prob_active.max(axis=1) < 1 - _CERTAIN
            precision, field, active = _settle(precision, field, active, open_, prob_active, candidates)
            if not len(active):
                break
    return prob


def _step(precision, field, site, shift, candidates, log_prior, floor):
    n, p = field.shape
    joint = precision.copy()
    blocks = np.arange(n)[:, None] * p + np.arange(p)
    joint[blocks[:, :, None], blocks[:, None, :]] += site
    covariance = _inverse(joint)
    mean = (covariance @ (field + shift).ravel()).reshape(n, p)
    block = covariance[blocks[:, :, None], blocks[:, None, :]]
    marginal = np.linalg.inv(block)
    cavity = marginal - site
    cavity_shift = np.einsum("npq,nq->np", marginal, mean) - shift
    energy = (
        np.einsum("ncp,np->nc", candidates, cavity_shift)
        - 0.5 * np.einsum("ncp,npq,ncq->nc", candidates, cavity, candidates)
        + log_prior
    )
    prob = _normalised(energy)
    tilted_mean, tilted_cov = _moments(prob, candidates, floor)
    new = np.linalg.inv(tilted_cov)
    new_site = new - cavity
    new_shift = np.einsum("npq,nq->np", new, tilted_mean) - cavity_shift
    # A site that is no normal law keeps what it had.
    bad = np.linalg.eigvalsh(new_site)[:, 0] <= 0
    new_site[bad], new_shift[bad] = site[bad], shift[bad]
    return (new_site, new_shift), prob


def _settle(precision, field, active, open_, prob, candidates):
    p = field.shape[1]
    fixed = np.flatnonzero(~open_)
    values = candidates[active[fixed], prob[fixed].argmax(axis=1)]
    inside = (np.flatnonzero(open_)[:, None] * p + np.arange(p)).ravel()
    outside = (fixed[:, None] * p + np.arange(p)).ravel()
    moved = field.reshape(-1)[inside] - precision[np.ix_(inside, outside)] @ values.ravel()
    return precision[np.ix_(inside, inside)], moved.reshape(-1, p), active[open_]


def _normalised(energy: np.ndarray) -> np.ndarray:
    prob = np.exp(energy - energy.max(axis=1, keepdims=True))
    return prob / prob.sum(axis=1, keepdims=True)


def _moments(prob: np.ndarray, candidates: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.einsum("nc,ncp->np", prob, candidates)
    centred = candidates - mean[:, None, :]
    cov = np.einsum("nc,ncp,ncq->npq", prob, centred, centred)
    return mean, cov + floor


def _floor(candidates: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
    """`(N, p, p)` a small multiple of the squared spacing of the candidates in every direction."""
    n, c, p = candidates.shape
    found = np.zeros((n, p, p))
    for j in range(p):
        values = np.where(np.isfinite(log_prior), candidates[:, :, j], np.nan)
        ordered = np.sort(values, axis=1)
        gaps = np.diff(ordered, axis=1)
        gaps = np.where(gaps > 1e-9, gaps, np.inf)
        least = gaps.min(axis=1)
        found[:, j, j] = _FLOOR * np.where(np.isfinite(least), least, 1.0) ** 2
    return found


def _inverse(matrix: np.ndarray) -> np.ndarray:
    factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    lower = np.tril(inverse)
    return lower + np.tril(lower, -1).T

"""Values from noisy amplitudes by expectation propagation over the possible values of each row.

The solution is normal around the truth with precision Lambda. Each row holds one of finitely many values, with the
model's probabilities as their prior. Rows interact through Lambda: a legal value of one row sharpens the others.
Expectation propagation (Minka 2001; for linear systems with discrete unknowns, Cespedes et al. 2014) approximates the
discrete distributions of all rows but one by normal ones, for each row in turn.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, NotSolved, Solver
from bayesrecon.diagnostics import evenly

if TYPE_CHECKING:
    from scipy.sparse import csr_array

lapack: Any = scipy.linalg.lapack

STEPS, DAMPING = 15, 0.2  # larger steps oscillate between coupled rows; together these cover 96 % of the distance
_FLOOR = 1e-3  # smallest variance of a row, in squared distances between its values: certainty would never be revised
_SAME = 1e-6  # values closer than this share of the row's range differ by rounding only
_CERTAIN = 1e-7  # rows closer to certainty than this are fixed
_SETTLING = 4  # steps between searches for such rows
_LARGE = 3000  # with more unknowns there is also a search after the first step, since a factorisation costs more


def decode(
    precision: np.ndarray,
    solution: np.ndarray,
    candidates: Float[np.ndarray, "N C p"],
    log_prior: Float[np.ndarray, "N C"],
) -> Float[np.ndarray, "N C"]:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision: `(N * p, N * p)`, of the solution's noise.
        solution: `(N * p,)` noisy amplitudes.
        candidates: `(N, C, p)` amplitudes of the legal values.
        log_prior: `(N, C)`, minus infinity for padding.
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
    positions = np.arange(n)[:, None] * p + np.arange(p)
    joint[positions[:, :, None], positions[:, None, :]] += site
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
    # An improper site does not change.
    improper = np.linalg.eigvalsh(new_site)[:, 0] <= 0
    new_site[improper], new_shift[improper] = site[improper], shift[improper]
    return new_site, new_shift, result


def inverse_root(precision: Float[np.ndarray, "M M"]) -> np.ndarray:
    """The upper triangular R with `precision^-1 = R R'`. The array `precision (M, M)` is overwritten."""
    # LAPACK works by columns: the transpose of a symmetric array in rows is the array itself, without a copy.
    factor, info = lapack.dpotrf(precision.T, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("the information of the draws is not positive definite")
    return lapack.dtrtri(factor, lower=1, overwrite_c=1)[0].T


def _settle(
    precision: np.ndarray, field: np.ndarray, open_: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Precision and field of the open rows, given the values `(N, p)` of the others."""
    p = field.shape[1]
    is_open = np.repeat(open_, p)
    shifted = field.ravel()[is_open] - precision[np.ix_(is_open, ~is_open)] @ values.ravel()[~is_open]
    return precision[np.ix_(is_open, is_open)], shifted.reshape(-1, p)


def normalised(energy: np.ndarray) -> np.ndarray:
    """Probabilities `(N, C)` proportional to `exp(energy)` in each row."""
    prob = np.exp(energy - energy.max(axis=1, keepdims=True))
    return prob / prob.sum(axis=1, keepdims=True)


def moments_of(prob: np.ndarray, candidates: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means `(N, p)` and covariances `(N, p, p)` of the candidates, plus `floor`."""
    mean = np.einsum("nc,ncp->np", prob, candidates)
    centred = candidates - mean[:, None, :]
    cov = np.einsum("nc,ncp,ncq->npq", prob, centred, centred)
    return mean, cov + floor


def floor_of(candidates: np.ndarray, log_prior: np.ndarray) -> Float[np.ndarray, "N p p"]:
    """Diagonal matrices `(N, p, p)`: a small multiple of the squared spacing of the candidates in each direction."""
    n, _, p = candidates.shape
    result = np.zeros((n, p, p))
    for j in range(p):
        values = np.where(np.isfinite(log_prior), candidates[:, :, j], np.nan)
        ordered = np.sort(values, axis=1)
        gaps = np.diff(ordered, axis=1)
        range_ = np.nanmax(ordered, axis=1, keepdims=True) - ordered[:, :1]
        gaps = np.where(gaps > np.maximum(_SAME * range_, 1e-9), gaps, np.inf)
        smallest = gaps.min(axis=1)
        result[:, j, j] = _FLOOR * np.where(np.isfinite(smallest), smallest, 1.0) ** 2
    return result


# Expectation propagation over the legal values of rows, with a precision that is a sum of layers.
#
# This is `decode` for rows with one feature. The variances of the rows given the sites are approximate
# (`blocks.Blocks.inverse`), and the means are exact. At the end, the probabilities of some rows are compared with those
# from exact variances.

_SETTLED = 1e-3  # largest last change of a probability
_RESIDUAL = 1e-7  # relative residual of the means
_CHECKED = 32  # number of rows with exact variances
_OFF = 0.02  # largest difference of a probability with the exact variance


def decode_layers(
    precision: Blocks,
    scale: float,
    common: "csr_array",
    solution: Float[np.ndarray, " N"],
    candidates: Float[np.ndarray, "N C"],
    log_prior: Float[np.ndarray, "N C"],
) -> Float[np.ndarray, "N C"]:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision, scale: `scale * precision` is the precision of the solution's noise.
        common: as in `Solver`.
        solution: `(N,)` noisy amplitudes.
        candidates: `(N, C)` amplitudes of the legal values.
        log_prior: `(N, C)`, minus infinity for padding.

    Raises:
        NotSolved: the probabilities differ from those with exact variances.
    """
    amplitudes = candidates[:, :, None]
    floor = floor_of(amplitudes, log_prior)

    def moments(probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = moments_of(probability, amplitudes, floor)
        return mean[:, 0], covariance[:, 0, 0]

    # Sites and precisions are divided by the scale, so that the layers do not change.
    result = normalised(log_prior)
    mean, variance = moments(result)
    site, field = 1 / (variance * scale), precision @ solution
    shift, centre, start = site * mean, solution, None
    step = 0
    while True:
        inverse = precision.inverse(site, start)
        start = inverse.sites
        solver = Solver(precision, inverse, common, site)
        centre = solver(field + shift, centre, _RESIDUAL)
        cavity = np.maximum(1 / inverse.variance - site, 0.0)
        cavity_shift = centre / inverse.variance - shift
        previous, result = result, _tilted(cavity, cavity_shift, scale, candidates, log_prior)
        if step == STEPS - 1 or np.abs(result - previous).max() < _SETTLED:
            break
        mean, variance = moments(result)
        new = 1 / (variance * scale) - cavity
        proper = new > 0  # an improper site does not change
        step_size = DAMPING * proper
        shift = shift + step_size * (mean / (variance * scale) - cavity_shift - shift)
        site = site + step_size * (new - site)
        step += 1
    sample = evenly(len(candidates), _CHECKED)
    ones = np.zeros((len(candidates), len(sample)))
    ones[sample, np.arange(len(sample))] = 1.0
    exact = solver(ones, residual=_RESIDUAL)[sample, np.arange(len(sample))]
    cavity, cavity_shift = np.maximum(1 / exact - site[sample], 0.0), centre[sample] / exact - shift[sample]
    checked = _tilted(cavity, cavity_shift, scale, candidates[sample], log_prior[sample])
    if not np.abs(checked - result[sample]).max() <= _OFF:
        raise NotSolved
    return result


def _tilted(
    cavity: np.ndarray, shift: np.ndarray, scale: float, candidates: np.ndarray, log_prior: np.ndarray
) -> np.ndarray:
    """Probabilities of the candidates of each row given the sites of all other rows."""
    gain = candidates * shift[:, None] - 0.5 * candidates**2 * cavity[:, None]
    return normalised(scale * gain + log_prior)

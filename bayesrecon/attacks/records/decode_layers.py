"""Expectation propagation over the legal values of rows, with a precision that is a sum of layers.

As `decode`, for rows of one feature: the variances of rows given the sites are the layers' agreement
(`blocks.Blocks.inverse`), the means are solved for exactly, and at the end the probabilities of some rows are computed
once more with their exact variances.
"""

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, NotSolved
from bayesrecon.attacks.records.conjugate import Solver
from bayesrecon.attacks.records.decode import DAMPING, STEPS, floor_of, moments_of, normalised
from bayesrecon.diagnostics import evenly

_STILL = 1e-3  # change of probabilities from which more steps change nothing
_RESIDUAL = 1e-7  # of the means
_CHECKED = 32  # rows whose probabilities are computed with exact variances,
_OFF = 0.02  # and how far they may be from the others


def decode_layers(
    precision: Blocks,
    scale: float,
    common: object,
    solution: Float[np.ndarray, " N"],
    candidates: Float[np.ndarray, "N C"],
    log_prior: Float[np.ndarray, "N C"],
) -> Float[np.ndarray, "N C"]:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision, scale: of the solution's noise, their product.
        common: as `Solver.common`.
        solution: `(N,)`.
        candidates, log_prior: `(N, C)`; minus infinity for padding.

    Raises:
        NotSolved: probabilities with exact variances are others.
    """
    wide = candidates[:, :, None]
    floor = floor_of(wide, log_prior)

    def moments(probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = moments_of(probability, wide, floor)
        return mean[:, 0], covariance[:, 0, 0]

    # Sites and precisions in units of the scale, so that the layers stay as they are.
    result = normalised(log_prior)
    mean, variance = moments(result)
    site, field = 1 / (variance * scale), precision @ solution
    shift, middle, start = site * mean, solution, None
    for step in range(STEPS):
        inverse = precision.inverse(site, start)
        start = inverse.sites
        solver = Solver(precision, inverse, common, site)
        middle = solver(field + shift, middle, _RESIDUAL)
        cavity = np.maximum(1 / inverse.variance - site, 0.0)
        cavity_shift = middle / inverse.variance - shift
        before, result = result, _tilted(cavity, cavity_shift, scale, candidates, log_prior)
        if step == STEPS - 1 or np.abs(result - before).max() < _STILL:
            break
        mean, variance = moments(result)
        new = 1 / (variance * scale) - cavity
        better = new > 0  # a site that is no normal distribution keeps what it had
        move = DAMPING * better
        shift = shift + move * (mean / (variance * scale) - cavity_shift - shift)
        site = site + move * (new - site)
    sample = evenly(len(candidates), _CHECKED)
    ones = np.zeros((len(candidates), len(sample)))
    ones[sample, np.arange(len(sample))] = 1.0
    exact = solver(ones, residual=_RESIDUAL)[sample, np.arange(len(sample))]
    cavity, cavity_shift = np.maximum(1 / exact - site[sample], 0.0), middle[sample] / exact - shift[sample]
    if (
        not np.abs(_tilted(cavity, cavity_shift, scale, candidates[sample], log_prior[sample]) - result[sample]).max()
        <= _OFF
    ):
        raise NotSolved
    return result


def _tilted(
    cavity: np.ndarray, shift: np.ndarray, scale: float, candidates: np.ndarray, log_prior: np.ndarray
) -> np.ndarray:
    """Probabilities of candidates given all other rows."""
    gain = candidates * shift[:, None] - 0.5 * candidates**2 * cavity[:, None]
    return normalised(scale * gain + log_prior)

"""Expectation propagation over the legal values of rows, with a precision that is a sum of layers.

This is `decode` for rows with one feature. The variances of the rows given the sites are approximate
(`blocks.Blocks.inverse`), and the means are exact. At the end, the probabilities of some rows are compared with those
from exact variances.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, NotSolved
from bayesrecon.attacks.records.conjugate import Solver
from bayesrecon.attacks.records.decode import DAMPING, STEPS, floor_of, moments_of, normalised
from bayesrecon.diagnostics import evenly

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CONVERGED = 1e-3  # largest last change of a probability
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
        if step == STEPS - 1 or np.abs(result - previous).max() < _CONVERGED:
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

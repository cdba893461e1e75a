"""The mode of a tilted posterior with its covariance: a Laplace approximation, for those who publish no draws.

It is a function of the tilted log density alone, so it reveals no more than infinitely many draws with the same tilt.
"""

from typing import cast

import numpy as np

from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.posteriors.approximated.approximations import gaussian
from bayesrecon.posteriors.approximated.normal import fitted_normal, laplace, pack, unpack
from bayesrecon.releases import Approximation, PosteriorDraws

_DRAWS = 4096  # of the published normal distribution: their error is a tenth of that of the simulated tilts
_CONVERGED = 1e-6  # largest last step, in posterior standard deviations


def tilted_mode(model: Model, data: Records, tilt: PseudoData, starts: np.ndarray, name: str) -> Approximation:
    """The mode of the tilted posterior, and the inverse of minus its Hessian there.

    The density is in unconstrained coordinates and includes the Jacobian.

    Args:
        starts: `(T, d)` posterior draws, from whose mean Newton's method starts.

    Raises:
        BayesreconError: no mode was found.
    """
    records = {k: np.concatenate([np.asarray(v), np.asarray(tilt.records[k])]) for k, v in data.items()}
    weights = np.concatenate([np.ones(len(records[next(iter(data))]) - len(tilt.weights)), np.asarray(tilt.weights)])
    laplace_model, altered_data = laplace(model, True), PseudoData(weights, records)
    covariance = np.atleast_2d(np.cov(starts.T))
    phi = fitted_normal(model, laplace_model, pack(model, starts.mean(axis=0), covariance), altered_data)
    next_phi = fitted_normal(model, laplace_model, phi, altered_data)
    sd = np.sqrt(np.diag(covariance))
    if not np.isfinite(phi).all() or (np.abs(next_phi - phi)[: len(sd)] > _CONVERGED * sd).any():
        raise BayesreconError(f"{name}: no mode of the tilted posterior was found; sanitise draws instead")
    mean, factor = (np.asarray(x) for x in unpack(model, phi))
    return cast(Approximation, gaussian(model, mean, factor @ factor.T, jacobian=True, name=name))


def numbers_of(mode: Approximation) -> tuple[np.ndarray, np.ndarray]:
    """The mode `(d,)` and its covariance `(d, d)`."""
    mean, factor = (np.asarray(x) for x in unpack(mode.of, np.asarray(mode.theta)[0]))
    return mean, factor @ factor.T


def as_draws(mode: Approximation) -> PosteriorDraws:
    """Draws from the published normal distribution, to compute its public numbers."""
    mean, factor = (np.asarray(x) for x in unpack(mode.of, np.asarray(mode.theta)[0]))
    theta = mean + public_stream("draws of a mode").normal(size=(_DRAWS, len(mean))) @ factor.T
    weights, chain = np.full(_DRAWS, 1 / _DRAWS), np.ones(_DRAWS, int)
    return PosteriorDraws(theta, mode.of, weights, chain, name=mode.name)

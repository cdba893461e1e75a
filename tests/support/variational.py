"""Optima of the ELBO to all digits, and guides that hold them."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.posteriors.approximated.normal import pack, unpack, variational, whitening
from bayesrecon.precision import x64
from tests.support.conjugate import PRIOR_SCALE, RATE, SHAPE


def program(x, y=None):
    """The conjugate regression of `summaries.MODEL`."""
    variance = numpyro.sample("variance", dist.InverseGamma(SHAPE, RATE))
    size = PRIOR_SCALE * jnp.sqrt(variance)
    beta = numpyro.sample("beta", dist.Normal(jnp.zeros(2), size).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(beta[0] + x @ beta[1:], jnp.sqrt(variance)), obs=y)


def optimum(model, records, mean, covariance, full=True):
    """Mean and covariance of the normal law, of independent coordinates where not `full`, that maximises the ELBO."""
    with x64():
        derived, d = variational(model), model.dimension
        rows, columns = np.tril_indices(d)
        kept = np.concatenate([np.ones(d, bool), (rows == columns) | full])
        phi = pack(model, mean, covariance)
        phi[~kept] = 0.0

        def elbo(phi):
            return jax.vmap(derived.log_lik, in_axes=(None, 0))(phi, records).sum() + derived.log_prior(phi)

        derivatives = jax.jit(lambda phi: (jax.grad(elbo)(phi), jax.hessian(elbo)(phi)))
        for _ in range(50):
            slope, hessian = (np.asarray(x) for x in derivatives(phi))
            step = -np.linalg.solve(hessian[np.ix_(kept, kept)], slope[kept])
            white = np.abs(np.linalg.solve(whitening(model, phi), np.eye(len(phi))[:, kept] @ step)).max()
            phi[kept] += step * min(1.0, 0.5 / white)
            if white < 1e-12:
                break
        found, factor = unpack(model, phi)
        return np.asarray(found), np.asarray(factor @ factor.T)


def ready(guide, *records):
    """The guide with its sites known."""
    with numpyro.handlers.seed(rng_seed=0):
        guide(*records)
    return guide

"""A run of NumPyro and ArviZ's copy of it."""

import numpy as np
import pytest
from written import refused

from bayesrecon.posteriors.formats import read_draws


@pytest.mark.slow
def test_numpyro_mcmc_and_its_arviz_copy_agree():
    import arviz as az
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def program():
        numpyro.sample("beta", dist.Normal(1.0, 2.0).expand([3]).to_event(1))
        numpyro.sample("sigma", dist.LogNormal())

    kernel = NUTS(program)
    mcmc = MCMC(kernel, num_warmup=5, num_samples=4, num_chains=2, chain_method="sequential", progress_bar=False)
    refused("has it run", read_draws, mcmc)
    mcmc.run(jax.random.key(0), extra_fields=("potential_energy",))
    ours, theirs = read_draws(mcmc), read_draws(az.from_numpyro(mcmc, log_likelihood=False))
    assert ours.values["beta"].shape == (2, 4, 3)
    for key, value in theirs.values.items():
        np.testing.assert_array_equal(ours.values[key], value)
    np.testing.assert_array_equal(ours.log_density, theirs.log_density)
    beta, sigma = ours.values["beta"], ours.values["sigma"]
    exact = (
        dist.Normal(1.0, 2.0).log_prob(beta).sum(-1)
        + dist.LogNormal().log_prob(sigma)
        + np.log(sigma)  # the sampler's coordinate is log sigma
    )
    np.testing.assert_allclose(ours.log_density, exact, rtol=1e-5)

"""Laws with a log probability that is smooth, against SciPy and sums that are exact."""

import jax
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from scipy import special, stats

from bayesrecon.models import from_numpyro
from bayesrecon.models._smooth_distributions import log_beta, smooth
from bayesrecon.models.inspection import log_prob
from bayesrecon.precision import x64

pytestmark = pytest.mark.usefixtures("hardly_optimised")

ACROSS = np.linspace(7.9, 8.1, 21)  # where `betaln` changes its formula


def test_a_log_beta_function_is_right_where_jax_has_a_step():
    with x64():
        slope = jax.jit(jax.vmap(jax.grad(log_beta), (0, None)))
        for b in (1.0, 5.0, 8.0, 12.0):
            found = np.asarray(log_beta(ACROSS, b))
            slopes = np.asarray(slope(ACROSS, b))
            np.testing.assert_allclose(found, special.betaln(ACROSS, b), atol=1e-12)
            np.testing.assert_allclose(slopes, special.digamma(ACROSS) - special.digamma(ACROSS + b), atol=1e-13)


@pytest.mark.parametrize("value", [0, 4, 7, 12])
def test_slopes_of_a_negative_binomial_are_sums_of_fractions(value):
    mean = 3.0
    with x64():

        def density(size):
            return smooth(dist.NegativeBinomial2(mean, size)).log_prob(value)

        found = np.asarray(jax.jit(jax.vmap(density))(ACROSS))
        slopes = np.asarray(jax.jit(jax.vmap(jax.grad(density)))(ACROSS))
    rising = sum((1 / (ACROSS + i) for i in range(value)), np.zeros_like(ACROSS))
    exact = rising + np.log(ACROSS / (ACROSS + mean)) + (mean - value) / (ACROSS + mean)
    np.testing.assert_allclose(slopes, exact, atol=1e-13)
    np.testing.assert_allclose(found, stats.nbinom.logpmf(value, ACROSS, ACROSS / (ACROSS + mean)), atol=1e-12)


@pytest.mark.parametrize("law, density", [
    (dist.NegativeBinomialProbs(8.0, 0.3), lambda k: stats.nbinom.logpmf(k, 8.0, 0.7)),
    (dist.NegativeBinomialLogits(8.0, 0.5), lambda k: stats.nbinom.logpmf(k, 8.0, 1 - special.expit(0.5))),
    (dist.GammaPoisson(8.0, 2.0), lambda k: stats.nbinom.logpmf(k, 8.0, 2 / 3)),
    (dist.BetaBinomial(8.0, 2.5, 20), lambda k: stats.betabinom.logpmf(k, 20, 8.0, 2.5)),
    (dist.BetaNegativeBinomial(8.0, 2.5, 3), lambda k: stats.betanbinom.logpmf(k, 3, 2.5, 8.0)),
])  # fmt: skip
def test_the_laws_are_those_of_scipy(law, density):
    counts = np.arange(13)
    with x64():
        law = jax.tree.map(lambda v: np.asarray(v, np.float64), law)
        np.testing.assert_allclose(np.asarray(smooth(law).log_prob(counts)), density(counts), atol=1e-12)


def test_laws_inside_others_are_smooth_as_well_and_the_rest_stay():
    with x64():
        size, mean = np.full(3, 8.0), np.full(3, 2.0)
        plain = dist.NegativeBinomial2(mean, size)
        alone = np.asarray(smooth(plain).log_prob(np.arange(3)))
        together = smooth(plain.to_event(1)).log_prob(np.arange(3))
        inflated = smooth(dist.ZeroInflatedDistribution(plain, gate=0.25)).log_prob(np.arange(3))
        np.testing.assert_allclose(together, alone.sum(), atol=1e-13)
        expected = np.log(0.75 * np.exp(alone) + 0.25 * (np.arange(3) == 0))
        np.testing.assert_allclose(inflated, expected, atol=1e-13)
    for law in (dist.Normal(0.0, 1.0), dist.Normal(0.0, 1.0).expand((3,)).to_event(1)):
        assert smooth(law) is law


def test_programs_are_read_with_the_smooth_law():
    with x64():
        site = {"fn": dist.NegativeBinomial2(3.0, ACROSS), "value": np.asarray(4), "scale": None}
        found = np.asarray(log_prob(site))
    np.testing.assert_allclose(found, stats.nbinom.logpmf(4, ACROSS, ACROSS / (ACROSS + 3.0)), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("value", [4, 12])
def test_steins_identity_holds_for_a_negative_binomial_record(value):
    """`E[l' (log p)' + l''] = 0` over a posterior p that crosses the step: on even points, exact for smooth p."""

    def program(y=None):
        size = numpyro.sample("size", dist.LogNormal(2.0, 0.4))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.NegativeBinomial2(3.0, size), obs=y)

    model = from_numpyro(program, record={"y": ()})
    theta = np.linspace(-2.0, 6.0, 4001)[:, None]  # ten standard deviations of the prior on either side of log size
    with x64():
        record = {"y": np.asarray(value)}

        def likelihood(t):
            return model.log_lik(t, record)

        def prior(t):
            return model.log_prior(t) + model.log_det(t)

        @jax.jit
        @jax.vmap
        def parts(t):
            slope = jax.grad(likelihood)(t)[0]
            total = slope + jax.grad(prior)(t)[0]
            return likelihood(t) + prior(t), slope * total + jax.hessian(likelihood)(t)[0, 0]

        terms, values = (np.asarray(part) for part in parts(theta))
        found = np.average(values, weights=np.exp(terms - terms.max()))
    assert abs(found) < 1e-11

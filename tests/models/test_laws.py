"""Laws with a log probability that is smooth, against SciPy and sums that are exact."""

import jax
import numpy as np
import pytest
from numpyro import distributions as dist
from scipy import special, stats

from bayesrecon.models.laws import log_beta, smooth
from bayesrecon.precision import x64

ACROSS = np.linspace(7.9, 8.1, 21)  # where `betaln` changes its formula


def test_a_log_beta_function_is_right_where_jax_has_a_step():
    with x64():
        for b in (1.0, 5.0, 8.0, 12.0):
            found = np.asarray(log_beta(ACROSS, b))
            slopes = np.asarray(jax.vmap(jax.grad(log_beta), (0, None))(ACROSS, b))
            np.testing.assert_allclose(found, special.betaln(ACROSS, b), atol=1e-12)
            np.testing.assert_allclose(slopes, special.digamma(ACROSS) - special.digamma(ACROSS + b), atol=1e-13)


@pytest.mark.parametrize("value", [0, 4, 7, 12])
def test_slopes_of_a_negative_binomial_are_sums_of_fractions(value):
    mean = 3.0
    with x64():

        def density(size):
            return smooth(dist.NegativeBinomial2(mean, size)).log_prob(value)

        found = np.asarray(jax.vmap(density)(ACROSS))
        slopes = np.asarray(jax.vmap(jax.grad(density))(ACROSS))
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

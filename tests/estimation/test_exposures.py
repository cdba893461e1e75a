"""Regressions with an exposure that nobody knows: records lie over hundreds of orders of magnitude."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from parts import slow_then_large

import bayesrecon
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import nuts

pytestmark = pytest.mark.usefixtures("hardly_optimised")
N = 80
RNG = np.random.default_rng(1)
X, EXPOSURE = RNG.normal(size=N), RNG.normal(0, 0.5, N)
ETA = 0.5 + 0.3 * X + EXPOSURE
FAMILIES = {
    "Poisson": (lambda mean, eta: dist.Poisson(jnp.exp(eta)), RNG.poisson(np.exp(ETA))),
    "geometric": (lambda mean, eta: dist.GeometricLogits(eta), RNG.geometric(1 / (1 + np.exp(-ETA))) - 1),
    "inverse gamma": (lambda mean, eta: dist.InverseGamma(3.0, jnp.exp(eta)), np.exp(ETA) / RNG.gamma(3, 1, N)),
    "log scale": (
        lambda mean, eta: dist.Normal(mean, jnp.exp(eta - mean)),
        0.5 + 0.3 * X + np.exp(EXPOSURE) * RNG.normal(size=N),
    ),
}


# NUTS and a recovery each
@pytest.mark.parametrize("family", slow_then_large("inverse gamma", "log scale", "Poisson", "geometric"))
def test_nothing_overflows(family):
    """Squares of scores, responses and scales do, of records that no data have; a warning is an error here."""
    distribution, y = FAMILIES[family]

    def program(x, exposure, y=None):
        a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in "ab")
        mean = a + b * x
        with numpyro.plate("records", len(x)):
            numpyro.sample("y", distribution(mean, mean + exposure), obs=y)

    model = from_numpyro(program, {"x": (), "exposure": (), "y": ()}, name=family.replace(" ", "_"))
    release = nuts(model, {"x": X, "exposure": EXPOSURE, "y": y}, key=1, chains=2, draws=500)
    count = bayesrecon.recover(release)["n"]
    assert count.lower is None or abs(count.estimate - N) <= count.upper - count.lower

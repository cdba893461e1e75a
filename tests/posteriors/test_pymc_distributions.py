import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_guide

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=100)
Y = (0.5 * X + RNG.normal(size=100)) / 1.1


def program(x, y=None):
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([2]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(beta[0] + beta[1] * x, sigma), obs=y)


@pytest.fixture(scope="module")
def pymc():
    return pytest.importorskip("pymc", reason="PyMC is not installed")


def fitted(pymc, method, sigma=None, steps=20_000):
    with pymc.Model():
        beta = pymc.Normal("beta", 0, 10, shape=2)
        scale = pymc.HalfNormal("sigma", 5) if sigma is None else sigma("sigma")
        pymc.Normal("y", beta[0] + beta[1] * X, scale, observed=Y)
        inference = method(random_seed=1)
        key = "cov" if "FullRank" in type(inference).__name__ else "std"
        mean, spread, late = inference.approx.mean.eval, getattr(inference.approx, key).eval, []

        def keep(_approximation, _losses, i):
            if i > steps // 2 and not i % max(steps // 40, 1):
                late.append({"mean": mean(), key: spread()})

        options = {"callbacks": [keep], "obj_optimizer": pymc.adam(learning_rate=0.01)}
        return inference.fit(steps, progressbar=False, **options), late


@pytest.mark.parametrize("method", ["ADVI", "FullRankADVI"])
def test_a_fit_with_its_iterates(pymc, method):
    model = from_numpyro(program, {"x": (), "y": ()})
    fit, late = fitted(pymc, getattr(pymc, method))
    assert bayesrecon.recover(from_guide(model, fit)).failures
    found = bayesrecon.recover(from_guide(model, fit, iterates=late))
    assert not found.failures
    n = found["n"]
    assert n.verdict == "determined"
    assert abs(n.estimate - 100) < 4 * n.se < 60


def test_other_transforms_and_models(pymc):
    fit, _ = fitted(pymc, pymc.ADVI, lambda name: pymc.Uniform(name, 0.01, 9), steps=10)
    with pytest.raises(BayesreconError, match="transforms sigma differently"):
        from_guide(from_numpyro(program, {"x": (), "y": ()}), fit)

    def other(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean, jnp.ones(())), obs=y)

    with pytest.raises(BayesreconError, match="no site mean"):
        from_guide(from_numpyro(other, {"y": ()}), fit)

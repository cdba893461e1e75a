"""A Stan program as its owner wrote it, evaluated by PyStan, against posteriordb's draws and the shipped model."""

import shutil

import numpy as np
import pytest

stan = pytest.importorskip("stan", reason="PyStan is not installed: pip install pystan")

import httpstan.models  # noqa: E402
import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402

import bayesrecon  # noqa: E402
from bayesrecon.models import from_density, from_numpyro  # noqa: E402
from bayesrecon.posteriors import from_draws  # noqa: E402

PROGRAM = """
data { int<lower=0> N; vector<lower=0>[N] kid_score; vector<lower=0>[N] mom_iq; }
parameters { vector[2] beta; real<lower=0> sigma; }
model {
  sigma ~ cauchy(0, 2.5);
  kid_score ~ normal(beta[1] + beta[2] * mom_iq, sigma);
}
"""
RECORD = {"mom_iq": (), "kid_score": ()}
DOMAIN = {"mom_iq": (0.0, np.inf), "kid_score": (0.0, np.inf)}


def twin(mom_iq, kid_score=None):
    beta = numpyro.sample("beta", dist.ImproperUniform(dist.constraints.real, (), (2,)))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("kid_score", dist.Normal(beta[0] + beta[1] * mom_iq, sigma), obs=kid_score)


def dataset(records):
    return {"N": len(records["mom_iq"]), **{name: values.tolist() for name, values in records.items()}}


@pytest.fixture(scope="module")
def model():
    built = stan.build(PROGRAM, data=dataset({"mom_iq": np.zeros(0), "kid_score": np.zeros(0)}))
    program = httpstan.models.import_services_extension_module(built.model_name)

    def log_density(theta, data):
        at = theta.tolist()
        return program.log_prob(data, at, True), program.log_prob_grad(data, at, True)

    return from_density(
        log_density,
        parameters={"beta": (2,), "sigma": ()},
        record=RECORD,
        dataset=dataset,
        support={"sigma": "positive"},
        domain=DOMAIN,
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="PyStan compiles with g++, which is not installed")
@pytest.mark.filterwarnings("ignore")  # what runs PyStan warns of its own
def test_recovered_to_the_digits_of_its_numpyro_twin(model, kidiq):
    at = np.asarray(kidiq.theta)[::40]
    draws = {"beta": at[None, :, :2], "sigma": np.exp(at[None, :, 2])}
    both = (model, from_numpyro(twin, RECORD, domain=DOMAIN))
    mine, other = (bayesrecon.recover(from_draws(draws, m)) for m in both)
    assert [w for w in mine.warnings if "not tried" in w]  # another tail of the errors is tried on the twin alone
    mine, other = mine.to_dataframe(), other.to_dataframe()
    columns = ["estimate", "floor", "visibility"]
    np.testing.assert_allclose(mine[columns].astype(float), other[columns].astype(float), rtol=1e-6)
    assert (other["lower"] <= mine["lower"] + 1e-6).all()
    assert (other["upper"] >= mine["upper"] - 1e-6).all()
    assert list(mine["verdict"]) == ["determined"] * 6
    assert abs(mine.loc["n", "estimate"] - 434) < 4 * mine.loc["n", "se"]

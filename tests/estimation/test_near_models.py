"""Statistics say what they rest on that no draws can show."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesrecon

RECORDS, DRAWS = 300, 2000


def counts(y=None):
    rate = numpyro.sample("rate", dist.Gamma(1.0, 1.0))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def times(y=None):
    rate = numpyro.sample("rate", dist.Gamma(1.0, 1.0))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Exponential(rate), obs=y)


def normal(y=None):
    flat = dist.ImproperUniform(dist.constraints.real, (), ())
    mean = numpyro.sample("mean", flat)
    sigma = numpyro.sample("sigma", dist.TransformedDistribution(flat, dist.transforms.ExpTransform()))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def recovered(program, shape, rate, domain):
    """From exact draws of a rate that has a gamma distribution."""
    model = bayesrecon.models.from_numpyro(program, record={"y": ()}, domain={"y": domain})
    values = {"rate": np.random.default_rng(0).gamma(shape, 1 / rate, (2, DRAWS // 2))}
    return bayesrecon.recover(values, model=model)


@pytest.mark.slow
def test_ratios_do_not_rest_on_the_dispersion_of_counts():
    y = np.random.default_rng(1).poisson(3.0, RECORDS)
    found = recovered(counts, 1 + y.sum(), 1 + RECORDS, "count")
    n, mean = found["n"], found["mean(y)"]
    assert (n.verdict, mean.verdict) == ("partly", "determined")
    assert n.condition.startswith("if y is exactly as dispersed as the model says; n over the dispersion of y is")
    assert n.lower < RECORDS < n.upper
    assert (mean.condition, abs(mean.estimate - y.mean()) < 4 * mean.se) == ("", True)
    assert "(n)" in found.condition


@pytest.mark.slow
def test_counts_and_means_rest_on_the_shape_of_positive_responses():
    y = np.random.default_rng(1).exponential(2.0, RECORDS)
    found = recovered(times, 1 + RECORDS, 1 + y.sum(), (0, np.inf))
    for row in (found["n"], found["mean(y)"]):
        assert (row.verdict, "shape" in row.condition) == ("partly", True)
        assert row.se > 0


@pytest.mark.slow
def test_the_interval_of_n_includes_heavier_tails_of_a_normal_regression():
    rng = np.random.default_rng(3)
    y = rng.normal(size=RECORDS)
    sigma = np.sqrt(np.sum((y - y.mean()) ** 2) / rng.chisquare(RECORDS - 1, (2, DRAWS // 2)))
    mean = y.mean() + sigma / np.sqrt(RECORDS) * rng.normal(size=sigma.shape)
    n = bayesrecon.recover(
        {"mean": mean, "sigma": sigma}, model=bayesrecon.models.from_numpyro(normal, record={"y": ()})
    )["n"]
    assert n.verdict == "determined"
    assert n.lower < RECORDS < n.upper
    assert n.upper - n.estimate > 1.5 * (n.estimate - n.lower)

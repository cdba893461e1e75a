"""Programs that are no sum over records are refused, with a remedy."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from numpyro import handlers
from programs import XY, observe, plain, slope

from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro


def latent_per_record(x, y):
    observe(numpyro.sample("z", dist.Normal(0, 1).expand([x.shape[0]]).to_event(1)), y)


def latent_in_the_plate(x, y):
    with numpyro.plate("records", x.shape[0]):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)


def size_from_the_data(x, y):
    observe(slope(dist.Normal(0, 1).expand([int(x.max()) + 1]).to_event(1))[0], y)


def plate_from_the_data(x, y):
    with numpyro.plate("groups", len(jnp.unique(x))):
        b = slope()
    observe(b[0], y)


def branch_on_the_data(x, y):
    observe(slope() * (x if x.sum() > 0 else -x), y)


def rows_by_a_condition(x, y):
    observe(slope(), y[x > 0])


def numpy_call(x, y):
    observe(slope() * np.exp(x), y)


def discrete_latent(x, y):
    observe(numpyro.sample("k", dist.Bernoulli(0.5)) * x, y)


def param_site(x, y):
    observe(numpyro.param("w", 0.3) * x, y, numpyro.sample("s", dist.HalfNormal(1)))


def factor_of_all_records(x, y):
    numpyro.factor("fit", -jnp.sum((y - slope() * x) ** 2))


def subsample(x, y):
    with numpyro.plate("records", x.shape[0], subsample_size=1) as i:
        numpyro.sample("y", dist.Normal(slope(), 1), obs=y[i])


def centred_by_the_batch(x, y):
    observe(slope() * (x - x.mean()), y)


def indexed_by_position(x, y):
    observe(slope(dist.Normal(0, 1).expand([5]).to_event(1))[jnp.arange(x.shape[0])], y)


def mean_log_likelihood(x, y):
    b = slope()
    with handlers.scale(scale=1 / x.shape[0]):
        observe(b * x, y)


def outside_the_support_and_scaled_by_the_batch(x, y):
    b = slope(dist.HalfNormal(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Uniform(0, 0.1 * b * x.std()), obs=y)


def prior_from_the_data(x, y):
    observe(slope(dist.Normal(0, 1 + x.std())) * x, y)


def observed_mean(x, y):
    b = slope()
    observe(b * x, y)
    numpyro.sample("average", dist.Normal(b, 1), obs=y.mean())


def nothing_observed(x, y):
    slope()


def one_joint_observation(x, y):
    numpyro.sample("y", dist.Normal(slope() * x, 1).to_event(1), obs=y)


def nothing_latent(x, y):
    observe(x, y)


def site_per_record(x, y):
    b = slope()
    for n in range(x.shape[0]):
        numpyro.sample(f"y{n}", dist.Normal(b * x[n], 1), obs=y[n])


def bound_from_a_latent(x, y):
    observe(numpyro.sample("c", dist.Uniform(0, slope(dist.HalfNormal(1)))) * x, y)


def raises(x, y):
    raise RuntimeError("first line\nsecond line")


@pytest.mark.parametrize(
    "program, options, problem, remedy",
    [
        (latent_per_record, {}, "'z' has one value per record", "index them by a known field"),
        (latent_in_the_plate, {}, "'z' has one value per record", "fixed number of units as a constant"),
        (size_from_the_data, {}, "depends on the data's values", "fix the number of units as a constant"),
        (plate_from_the_data, {}, "depends on the data's values", "fix the number of units as a constant"),
        (branch_on_the_data, {}, "a branch", "use jax.numpy on the fields"),
        (rows_by_a_condition, {}, "a size", "use jax.numpy on the fields"),
        (numpy_call, {}, "plain NumPy call", "use jax.numpy on the fields"),
        (discrete_latent, {}, "'k' is discrete", "sum it out of the likelihood"),
        (param_site, {}, "'w' is a numpyro.param", "make it a numpyro.sample site"),
        (factor_of_all_records, {}, "'fit' is one number for all records", "one term per record inside the plate"),
        (subsample, {}, "'records' subsamples", "no subsample_size"),
        (centred_by_the_batch, {}, "not a product over records", "belongs in the record itself"),
        (indexed_by_position, {}, "not a product over records", "belongs in the record itself"),
        (mean_log_likelihood, {}, "not a product over records", "belongs in the record itself"),
        (outside_the_support_and_scaled_by_the_batch, {}, "not finite at any point that was tried", "domain="),
        (prior_from_the_data, {}, "prior of 'b' depends on the records", "pass what it needs as a constant"),
        (observed_mean, {}, "'average' depends on the records", "pass what it needs as a constant"),
        (nothing_observed, {}, "no observed site depends on the records", r"numpyro\.sample\(.*obs=y\) inside a plate"),
        (one_joint_observation, {}, "no observed site depends on the records", "inside a plate over the records"),
        (nothing_latent, {}, "no latent site", "no posterior"),
        (site_per_record, {}, "y2 appear", "only for some numbers of records"),
        (bound_from_a_latent, {}, "bounds of 'c'", "must be plain numbers"),
        (raises, {}, "raises fails on a few records of the declared shapes and domains", "RuntimeError: first line$"),
        (plain, {"record": {"x": (), "z": ()}}, "cannot be called with the fields x, z", "'y'"),
        (plain, {"record": {"x": ()}}, "cannot be called with the fields x", "'y'"),
        (plain, {"constants": {"units": 3}}, "fields x, y and constants units", "'units'"),
        (plain, {"domain": {"xx": "real"}}, "'xx' is not a field of the record", "did you mean x"),
        (plain, {"domain": {"x": "reel"}}, "'reel' is not one of", r"real, positive.*\(low, high\) or \[values\]"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_unsuitable_programs_are_refused_with_a_remedy(program, options, problem, remedy):
    with pytest.raises(BayesreconError, match=problem) as caught:
        from_numpyro(program, **{"record": XY, **options})
    assert re.search(remedy, str(caught.value))
    assert "\n" not in str(caught.value)


def test_threads_trace_one_after_another():
    """NumPyro has one stack of handlers for all threads."""

    def slow(y):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        time.sleep(0.01)
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    model, record = from_numpyro(slow, record={"y": ()}), {"y": np.array(1.0)}
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda mean: float(model.log_lik(jnp.array([mean]), record)), np.arange(8.0)))
    np.testing.assert_allclose(values, dist.Normal(np.arange(8.0), 1).log_prob(1.0), rtol=1e-6)

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import summaries
import variational
from numpyro.infer import autoguide
from summaries import DATA, TRUTH

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find, from_numpyro
from bayesrecon.posteriors import from_guide, from_posteriordb
from bayesrecon.posteriors.fitting.database import read_data

pytestmark = pytest.mark.usefixtures("hardly_optimised")

MODEL = from_numpyro(variational.program, {"x": (1,), "y": ()})


@cache
def guide_of(kind, program=variational.program):
    return variational.ready(getattr(autoguide, kind)(program), jnp.ones((3, 1)), jnp.ones(3))


@pytest.fixture(scope="module")
def start():
    return summaries.mode(MODEL, DATA, summaries.start()[[2, 0, 1]])


@pytest.fixture(scope="module")
def full(start):
    mean, covariance = variational.optimum(MODEL, DATA, *start)
    return {"auto_loc": mean, "auto_scale_tril": np.linalg.cholesky(covariance)}


def moved(params, size, seed=0):
    """Somewhere else, by so many posterior standard deviations."""
    rng, root = np.random.default_rng(seed), params["auto_scale_tril"]
    step = np.tril(rng.normal(size=root.shape)) * size
    return {
        "auto_loc": params["auto_loc"] + root @ rng.normal(size=3) * size,
        "auto_scale_tril": root @ (np.eye(3) + step),
    }


@pytest.mark.slow
@pytest.mark.parametrize("residual", [None, 0.0])
def test_an_optimum_of_full_rank_gives_the_statistics(full, residual):
    found = bayesrecon.recover(from_guide(MODEL, guide_of("AutoMultivariateNormal"), full, residual=residual))
    assert not found.failures
    for name, true in TRUTH.items():
        assert found[name].estimate == pytest.approx(true, rel=1e-5)
        assert found[name].verdict == "determined"


@pytest.mark.slow
def test_a_fit_that_has_not_settled_is_said_so():
    params = {"auto_loc": np.array([0.6, 0.9, 0.5]), "auto_scale_tril": np.diag([0.15, 0.2, 0.1])}
    release = from_guide(MODEL, guide_of("AutoMultivariateNormal"), params)
    found = bayesrecon.recover(release)
    assert "not stationary" in found.failures[0]
    assert found["n"].estimate is None


@pytest.mark.slow
def test_one_that_is_too_wide_everywhere_is_not_believed(full):
    # the equations of n / 4 records hold nearly
    wide = {**full, "auto_scale_tril": 2 * full["auto_scale_tril"]}
    assert bayesrecon.recover(from_guide(MODEL, guide_of("AutoMultivariateNormal"), wide)).failures


@pytest.mark.slow
def test_a_stated_residual_is_in_the_errors(full):
    guide = guide_of("AutoMultivariateNormal")
    z = []
    for seed in range(4):
        found = bayesrecon.recover(from_guide(MODEL, guide, moved(full, 0.01, seed), residual=0.012))
        assert not found.failures
        z += [(found[k].estimate - v) / found[k].se for k, v in TRUTH.items()]
    assert 0.2 < np.sqrt(np.mean(np.square(z))) < 2


@pytest.mark.slow
def test_iterates_are_averaged_with_their_errors(full):
    fits = [moved(full, 0.05, seed) for seed in range(16)]
    found = bayesrecon.recover(from_guide(MODEL, guide_of("AutoMultivariateNormal"), fits[-1], iterates=fits[:-1]))
    assert not found.failures
    for name, true in TRUTH.items():
        row = found[name]
        assert abs(row.estimate - true) < 5 * row.se
        assert row.verdict == "determined"
    assert 0.2 < found["n"].se < 5


@pytest.mark.slow
def test_iterates_that_go_one_way_tell_nothing(full):
    fits = [{k: v * (1 + 0.002 * i) for k, v in full.items()} for i in range(12)]
    found = bayesrecon.recover(from_guide(MODEL, guide_of("AutoMultivariateNormal"), fits[-1], iterates=fits[:-1]))
    assert found.failures
    assert found["n"].estimate is None


@pytest.mark.slow
def test_iterates_far_from_where_they_head_say_so(full):
    """As after too few steps of PyMC's default optimiser: wide laws that shrink, whose limit is extrapolated."""
    rng = np.random.default_rng(0)
    fits = [{k: v * (30 - i) + 0.02 * rng.normal(size=v.shape) * (v != 0) for k, v in full.items()} for i in range(20)]
    found = bayesrecon.recover(from_guide(MODEL, guide_of("AutoMultivariateNormal"), fits[-1], iterates=fits[:-1]))
    assert found.failures
    assert found["n"].estimate is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["AutoNormal", "AutoDiagonalNormal"])
def test_a_mean_field_needs_to_be_told_that_it_is_an_optimum(start, kind):
    mean, covariance = variational.optimum(MODEL, DATA, *start, full=False)
    sd = np.sqrt(np.diag(covariance))
    params = {"auto_loc": mean, "auto_scale": sd}
    if kind == "AutoNormal":
        params = {"beta_auto_loc": mean[1:], "beta_auto_scale": sd[1:]}
        params |= {"variance_auto_loc": mean[0], "variance_auto_scale": sd[0]}
    guide = guide_of(kind)
    assert "is not determined" in bayesrecon.recover(from_guide(MODEL, guide, params)).failures[0]
    found = bayesrecon.recover(from_guide(MODEL, guide, params, residual=0.0))
    assert not found.failures
    for name, true in TRUTH.items():
        assert found[name].verdict == "undetermined" or found[name].estimate == pytest.approx(true, rel=1e-5)
    assert found["n"].verdict == "determined"


@pytest.mark.slow
def test_a_mean_field_of_data_far_from_zero_tells_no_mean(database):
    """Its equations hold the sum of squares and not the sum, which is nearly a multiple of it on records that are as
    near to each other as these."""
    release = from_posteriordb("earnings-logearn_height")
    entry, theta = find(release.model.name), np.asarray(release.theta)
    records = entry.records(read_data(database, "earnings"))
    mean, covariance = variational.optimum(release.model, records, theta.mean(axis=0), np.cov(theta.T), full=False)
    guide = autoguide.AutoDiagonalNormal(lambda batch: release.model.program(**batch))
    variational.ready(guide, {k: np.asarray(v)[:3] for k, v in records.items()})
    params = {"auto_loc": mean, "auto_scale": np.sqrt(np.diag(covariance))}
    found = bayesrecon.recover(from_guide(release.model, guide, params, residual=0.0))
    truth = true_statistics(release.model, records)
    for row in found:
        assert row.verdict == "undetermined" or row.estimate == pytest.approx(truth[row.name], rel=1e-6), row
    assert found["mean(height)"].verdict == "undetermined"
    assert found["n"].verdict == "determined"


@pytest.fixture(scope="module")
def mean_field(start):
    mean, covariance = variational.optimum(MODEL, DATA, *start, full=False)
    return {"auto_loc": mean, "auto_scale": np.sqrt(np.diag(covariance))}


@pytest.mark.slow
def test_a_mean_field_is_that_of_data_with_another_mean(mean_field, start):
    """Its 2d equations hold n twice, the sum of squares, the residuals' sum, product with x and squares: five totals of
    six. A reflection of x that leaves the residuals alone leaves all five alone."""
    x, y = np.asarray(DATA["x"], float)[:, 0], np.asarray(DATA["y"], float)
    _, intercept, slope = mean_field["auto_loc"]
    left = y - intercept - slope * x
    across = np.ones(len(x)) - left * left.sum() / (left @ left)
    other = x - 2 * across * (across @ x) / (across @ across)
    assert abs(other.mean() - x.mean()) > abs(x.mean())
    records = {"x": other[:, None], "y": intercept + slope * other + left}
    mean, covariance = variational.optimum(MODEL, records, *start, full=False)
    np.testing.assert_allclose(mean, mean_field["auto_loc"], rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), mean_field["auto_scale"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["x", "y"])
def test_a_mean_field_tells_the_rest_where_one_field_is_known(mean_field, field):
    release = from_guide(MODEL, guide_of("AutoDiagonalNormal"), mean_field, residual=0.0)
    alone = bayesrecon.recover(release)
    assert alone["mean(y)"].verdict == "undetermined"
    found = bayesrecon.recover(release, known={field: DATA[field]})
    assert not found.failures
    assert len(found) == 3
    for row in found:
        assert row.verdict == "determined", row
        assert row.estimate == pytest.approx(TRUTH[row.name], rel=1e-7)


@pytest.mark.slow
def test_low_rank_has_its_own_equations(start):
    shape = jnp.ones((3, 1)), jnp.ones(3)
    guide = variational.ready(autoguide.AutoLowRankMultivariateNormal(variational.program, rank=1), *shape)
    mean, covariance = variational.optimum(MODEL, DATA, *start)
    sd = np.sqrt(np.diag(covariance))
    r = covariance / np.outer(sd, sd)
    # one factor takes up the correlation of the coefficients, which is all there is
    factor = np.array([0.0, 1.0, r[1, 2]]) * 0.99
    scale = sd * np.sqrt(1 - factor**2)
    params = {"auto_loc": mean, "auto_scale": scale, "auto_cov_factor": (factor * sd / scale)[:, None]}
    with pytest.raises(BayesreconError, match="supply residual="):
        from_guide(MODEL, guide, params)
    release = from_guide(MODEL, guide, params, residual=0.5)
    assert 6 < release.directions.shape[1] <= 9


@pytest.mark.slow
def test_an_autodelta_guide_is_a_trained_parameter():
    guide = guide_of("AutoDelta")
    release = from_guide(MODEL, guide, {"beta_auto_loc": [1.0, 0.5], "variance_auto_loc": 2.0}, residual=0.0)
    assert release.model is MODEL
    assert release.theta[0] == pytest.approx([np.log(2.0), 1.0, 0.5])


@pytest.mark.slow
def test_the_laplace_guide(start):
    guide = variational.ready(autoguide.AutoLaplaceApproximation(variational.program), DATA["x"], DATA["y"])
    release = from_guide(MODEL, guide, {"auto_loc": start[0]}, residual=0.001)
    found = bayesrecon.recover(release)
    assert not found.failures
    assert found["n"].estimate == pytest.approx(80, rel=1e-3)  # the Hessian is taken in single precision


@pytest.mark.slow
def test_the_other_verbs_take_it(full):
    release = from_guide(MODEL, guide_of("AutoMultivariateNormal"), full, residual=0.0)
    assert bayesrecon.diagnose(release)["x[1]^2"].verdict == "determined"
    assert bayesrecon.reconstruct(release, n=20).pseudo.weights.sum() == pytest.approx(80, rel=1e-3)


def other(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 10))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x[:, 0], 1.0), obs=y)


def elsewhere(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    variance = numpyro.sample("variance", dist.Uniform(0.0, 5.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(beta[0], jnp.sqrt(variance)), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guide", "change", "message"),
    [
        (lambda: guide_of("AutoMultivariateNormal", other), {}, "has no site variance"),
        (lambda: guide_of("AutoMultivariateNormal", elsewhere), {}, "transforms variance differently"),
        (lambda: guide_of("AutoIAFNormal"), {}, "AutoIAFNormal is not supported; expected AutoDelta"),
        (lambda: autoguide.AutoNormal(variational.program), {}, "has not run"),
        (lambda: 3, {}, "a int is not supported"),
        (None, {"params": None}, "expected a dict"),
        (None, {"params": {"auto_loc": np.zeros(3)}}, "lack auto_scale_tril"),
        (None, {"params": {"auto_loc": np.zeros(2), "auto_scale_tril": np.eye(3)}}, "auto_loc has shape"),
        (None, {"params": {"auto_loc": [0, np.nan, 0], "auto_scale_tril": np.eye(3)}}, "auto_loc holds missing"),
        (None, {"params": {"auto_loc": np.zeros(3), "auto_scale_tril": -np.eye(3)}}, "outside their support"),
        (None, {"residual": -1.0}, "non-negative"),
        (None, {"residual": "small"}, "must be numeric"),
        (None, {"iterates": [{"auto_loc": np.zeros(3), "auto_scale_tril": np.eye(3)}]}, "all iterates are equal"),
    ],
)
def test_bad_input_is_one_line(guide, change, message):
    given = {"params": {"auto_loc": np.zeros(3), "auto_scale_tril": np.eye(3)}, **change}
    params = given.pop("params")
    with pytest.raises(BayesreconError, match=message) as caught:
        from_guide(MODEL, guide_of("AutoMultivariateNormal") if guide is None else guide(), params, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_another_prior_is_another_model():
    def narrow(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Normal(slope * x[:, 0], 1.0), obs=y)

    model = from_numpyro(other, {"x": (1,), "y": ()})
    with pytest.raises(BayesreconError, match="differs from that of model"):
        from_guide(model, guide_of("AutoNormal", narrow), {"slope_auto_loc": 0.0, "slope_auto_scale": 1.0})


@pytest.mark.slow
def test_a_density_without_derivatives():
    from dataclasses import replace

    rough = replace(MODEL, program=None, log_prior_at=lambda p: jnp.sqrt(jnp.abs(p["beta"][0])))
    with pytest.raises(BayesreconError, match="no derivatives"):
        from_guide(rough, guide_of("AutoDelta"), {"beta_auto_loc": [0.0, 0.5], "variance_auto_loc": 2.0}, residual=0)

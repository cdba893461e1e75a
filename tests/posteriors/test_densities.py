import conjugate
import jax
import numpy as np
import pytest
import scipy.stats
import summaries
from parts import slow_then_large
from summaries import DATA, MODEL, TRUTH

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import from_log_density

RNG = np.random.default_rng(2)


def log_posterior(model, data, power=1.0):
    """Of one point, up to a constant."""
    records = {k: np.asarray(v) for k, v in data.items()}

    def at(theta):
        terms = jax.vmap(model.log_lik, (None, 0))(theta, records)
        return power * terms.sum() + model.log_prior(theta) + model.log_det(theta) + 4.0

    return at


def draws(data, count, rng=RNG):
    found = conjugate.sample_regression(data["x"], data["y"], count, rng)
    return np.column_stack([found["beta"][0], np.log(found["variance"][0])])


@pytest.fixture(scope="module")
def points():
    return draws(DATA, 120)


@pytest.mark.slow
def test_the_posterior_itself_gives_the_statistics_exactly(points):
    found = bayesrecon.recover(from_log_density(MODEL, log_posterior(MODEL, DATA), points))
    assert not found.failures
    assert not found.warnings
    for name, true in TRUTH.items():
        assert found[name].estimate == pytest.approx(true, rel=1e-8)
        assert found[name].verdict == "determined"
        assert found[name].upper - found[name].lower < 1e-8 * abs(true)


@pytest.mark.slow
def test_a_power_is_taken_out(points):
    release = from_log_density(MODEL, jax.vmap(log_posterior(MODEL, DATA, 0.3)), points, power=0.3)
    assert bayesrecon.recover(release)["n"].estimate == pytest.approx(80, rel=1e-8)


def normal(data, count, rng):
    """The normal law with the posterior's mean and covariance, and draws of it."""
    theta = draws(data, 20_000, rng)
    law = scipy.stats.multivariate_normal(theta.mean(axis=0), np.cov(theta.T))
    return law.logpdf, law.rvs(count, random_state=rng)


@pytest.mark.parametrize("count, runs", slow_then_large((80, 1), (8, 12), (300, 12)))
def test_what_an_approximation_is_off_is_in_the_errors(count, runs):
    rng, held = np.random.default_rng(7), []
    for _ in range(runs):
        x = rng.normal(3, 2, (count, 1))
        y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, count)
        found = bayesrecon.recover(from_log_density(MODEL, *normal({"x": x, "y": y}, 300, rng)), force=True)
        assert "off by" in (*found.warnings, *found.failures)[0]
        truth = {"n": count, "mean(x[1])": x.mean(), "mean(y)": y.mean(), "var(y)": y.var()}
        held += [found[k].lower <= v <= found[k].upper for k, v in truth.items()]
        assert found["n"].upper - found["n"].lower > 0.05 * count
    assert np.mean(held) > 0.95


@pytest.mark.slow
def test_the_density_of_another_law_determines_nothing():
    law = scipy.stats.multivariate_t([1, 0.5, 1], df=3)
    found = bayesrecon.recover(from_log_density(MODEL, law.logpdf, law.rvs(120, random_state=np.random.default_rng(0))))
    assert "is it of this model" in found.failures[0]
    assert found["n"].estimate is None


@pytest.mark.slow
def test_too_few_points_to_tell(points):
    found = bayesrecon.recover(from_log_density(MODEL, log_posterior(MODEL, DATA), points[:12]))
    assert "23 or more are needed" in found.failures[0]


@pytest.mark.slow
def test_single_precision_is_felt(points):
    def rounded(theta):
        return np.float32(log_posterior(MODEL, DATA)(theta))

    found = bayesrecon.recover(from_log_density(MODEL, rounded, points))["n"]
    assert found.lower < 80 < found.upper
    assert 1e-6 < found.upper - found.lower < 0.1


@pytest.mark.slow
def test_a_decaying_spectrum():
    model, (a, b) = load("logit", covariates=["a", "b"]), RNG.normal(1, 1, (2, 300))
    y = RNG.random(300) < 1 / (1 + np.exp(0.5 - 0.8 * a + 0.5 * b))
    data = {"a": a, "b": b, "y": y.astype(int)}
    mode, covariance = summaries.mode(model, data, np.zeros(3), jacobian=False)
    at = RNG.multivariate_normal(mode, covariance, 300)
    found = bayesrecon.recover(from_log_density(model, log_posterior(model, data), at))
    for name, true in {"n": 300, "mean(a)": a.mean(), "mean(b)": b.mean(), "mean(y)": y.mean()}.items():
        assert found[name].lower <= true <= found[name].upper
    assert found["n"].estimate == pytest.approx(300, abs=5)
    law = scipy.stats.multivariate_normal(mode, covariance)
    rows = [bayesrecon.recover(from_log_density(model, law.logpdf, at))[k] for k in ("n", "mean(y)")]
    for row, true in zip(rows, (300, y.mean()), strict=True):
        assert row.estimate is None or row.lower <= true <= row.upper


@pytest.mark.slow
def test_other_verbs_take_it(points):
    release = from_log_density(MODEL, log_posterior(MODEL, DATA), points)
    found = bayesrecon.reconstruct(release, n=12)
    assert found.pseudo.weights.sum() == pytest.approx(80, rel=1e-3)


def flat(theta):
    return np.zeros(len(theta))


@pytest.mark.parametrize(
    "log_q, at, message",
    [
        (flat, None, "supply a few hundred draws of q"),
        (flat, np.zeros((50, 2)), r"points of shape \(50, 2\)"),
        (flat, np.full((50, 3), np.nan), "missing or infinite"),
        (flat, [["a"]], "must be numeric"),
        (flat, np.zeros((50, 3)), "1 different points"),
        (flat, RNG.normal(size=(50, 3)) * [1, 0, 1], r"the same beta\[2\]"),
        (flat, RNG.normal(size=(50, 3)), "the same at all points"),
        (1.0, RNG.normal(size=(50, 3)), "expected a function"),
        (lambda t: np.log(t[..., 0]), RNG.normal(size=(50, 3)), "is not finite at"),
        (lambda t: t[..., :2], RNG.normal(size=(50, 3)), "expected one number per point"),
        (lambda t: t @ np.zeros(7), RNG.normal(size=(50, 3)), "log_q failed at a point"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_bad_input(log_q, at, message):
    with pytest.raises(BayesreconError, match=message):
        from_log_density(MODEL, log_q, at)

import conjugate
import numpy as np
import pytest
import summaries
import variational
from parts import slow_then_large
from summaries import DATA, MODEL, TRUTH

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import gaussian

pytestmark = pytest.mark.usefixtures("slow_ones_optimised")


@pytest.fixture(scope="module")
def laplace():
    return summaries.mode(MODEL, DATA, summaries.start())


@pytest.mark.slow
def test_mode_and_covariance_give_the_statistics_to_all_digits(laplace):
    found = bayesrecon.recover(gaussian(MODEL, *laplace, jacobian=True))
    assert not found.failures
    for name, true in TRUTH.items():
        assert found[name].estimate == pytest.approx(true, rel=1e-9)
        assert found[name].verdict == "determined"


@pytest.mark.slow
def test_the_wrong_jacobian_moves_the_count(laplace):
    n = bayesrecon.recover(gaussian(MODEL, *laplace, jacobian=False), force=True)["n"].estimate
    assert n is None or 0.05 < abs(n - 80) < 5


@pytest.mark.slow
@pytest.mark.parametrize("digits", [3, 5])
def test_rounded_numbers_bound_the_statistics(laplace, digits):
    mean, covariance = summaries.cut(*laplace, digits)
    found = bayesrecon.recover(gaussian(MODEL, mean, covariance, jacobian=True, digits=digits))
    assert not found.failures
    for name, true in TRUTH.items():
        row = found[name]
        assert row.lower <= true <= row.upper
        assert row.lower < row.estimate < row.upper
        assert row.upper - row.lower < 100 * 10.0**-digits * abs(true)


@pytest.mark.slow
def test_a_mode_in_the_printed_parameters():
    boxes = MODEL.in_constrained_coordinates
    mean, covariance = summaries.mode(boxes, DATA, [1.0, 0.5, 2.0])
    found = bayesrecon.recover(gaussian(MODEL, mean, covariance, coordinates="constrained"))
    assert found["n"].estimate == pytest.approx(80, rel=1e-9)


@pytest.mark.parametrize("coordinates", slow_then_large("constrained", "unconstrained"))
def test_mean_and_covariance_of_draws(coordinates):
    draws = conjugate.sample_regression(DATA["x"], DATA["y"], 20_000, np.random.default_rng(3))
    variance = draws["variance"][0]
    theta = np.column_stack([draws["beta"][0], variance if coordinates == "constrained" else np.log(variance)])
    release = gaussian(MODEL, theta.mean(axis=0), np.cov(theta.T), draws=20_000, coordinates=coordinates)
    found = bayesrecon.recover(release)
    assert not found.failures
    z = [(found[k].estimate - v) / found[k].se for k, v in TRUTH.items()]
    assert np.abs(z).max() < 4  # one of six in 15,000
    assert found["n"].se < 2


@pytest.mark.slow
@pytest.mark.large
def test_a_few_records_are_not_biased_by_the_normal_law():
    few = {k: v[:8] for k, v in DATA.items()}
    draws = conjugate.sample_regression(few["x"], few["y"], 400_000, np.random.default_rng(4))
    theta = np.column_stack([draws["beta"][0], np.log(draws["variance"][0])])
    n = bayesrecon.recover(gaussian(MODEL, theta.mean(axis=0), np.cov(theta.T), draws=400_000))["n"]
    assert abs(n.estimate - 8) < 4 * n.se < 0.4


@pytest.mark.parametrize("fit", slow_then_large("mean field", "full rank"))
def test_a_printed_variational_fit_bounds_the_statistics(laplace, fit):
    optimum = variational.optimum(MODEL, DATA, *laplace, full=fit == "full rank")
    mean, covariance = summaries.cut(*optimum, 4)
    found = bayesrecon.recover(gaussian(MODEL, mean, covariance, fit=fit, digits=4))
    assert not found.failures
    assert found["n"].verdict == "determined"
    for row in found:
        assert row.lower is None or row.name not in TRUTH or row.lower < TRUTH[row.name] < row.upper
    exact = bayesrecon.recover(gaussian(MODEL, *optimum, fit=fit))["n"]
    assert exact.estimate == pytest.approx(80, rel=1e-9)


@pytest.mark.slow
def test_numbers_of_no_data(laplace):
    mean, covariance = laplace
    found = bayesrecon.recover(gaussian(MODEL, mean + 0.3, covariance, jacobian=True, digits=5))
    assert "no data have these numbers" in found.failures[0]
    assert found["n"].estimate is None


@pytest.mark.slow
def test_numbers_rounded_too_far(laplace):
    mean, covariance = summaries.cut(*laplace, 1)
    found = bayesrecon.recover(gaussian(MODEL, mean, covariance, jacobian=True, digits=1))
    assert "too few digits" in found.failures[0]


@pytest.mark.slow
def test_moments_of_no_data(laplace):
    mean, covariance = laplace
    sd = np.sqrt(np.diag(covariance))
    wrong = covariance + 0.2 * np.outer(sd, sd) * (1 - np.eye(3))
    assert "no data have this mean" in bayesrecon.recover(gaussian(MODEL, mean, wrong, draws=100_000)).failures[0]


@pytest.mark.slow
def test_the_other_verbs_take_it(laplace):
    release = gaussian(MODEL, *laplace, jacobian=True)
    assert bayesrecon.diagnose(release)["x[1]^2"].verdict == "determined"
    pseudo = bayesrecon.reconstruct(release, n=20).pseudo
    assert pseudo.weights.sum() == pytest.approx(80, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": [1.0, 2.0]}, "a mean of shape"),
        ({"mean": {"beta": [1.0, 2.0]}}, "parameter sigma of model kidscore_momiq is missing"),
        ({"mean": {"beta": [1.0, 2.0], "sigma": 1.0, "tau": 1.0}}, "no parameter tau"),
        ({"mean": [1.0, 2.0, np.nan]}, "missing or infinite"),
        ({"mean": "abc"}, "must be numeric"),
        ({"covariance": np.eye(2)}, "a covariance of shape"),
        ({"covariance": -np.eye(3)}, "is not positive"),
        ({"covariance": np.eye(3) + np.eye(3, k=1) * 0.5}, "not symmetric"),
        ({"covariance": np.eye(3) + 2 * (np.eye(3, k=1) + np.eye(3, k=-1))}, "greater than one"),
        ({"covariance": np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])}, "not positive definite"),
        ({"jacobian": None}, "state jacobian="),
        ({"draws": 10}, "too few"),
        ({"draws": -1}, "expected the number of"),
        ({"digits": 0}, "expected a positive whole number"),
        ({"fit": "low rank"}, "expected 'full rank' or 'mean field'"),
        ({"fit": "full rank", "draws": 1000}, "omit draws=, jacobian= and coordinates="),
        ({"fit": "mean field", "jacobian": None, "covariance": np.eye(3) + 0.1}, "must be diagonal"),
        ({"coordinates": "natural"}, "expected 'unconstrained' or 'constrained'"),
        ({"mean": [1.0, 2.0, -1.0], "coordinates": "constrained", "draws": 100}, "outside the support"),
    ],
)
def test_bad_input_is_one_line(change, message):
    given = {"mean": [1.0, 2.0, 3.0], "covariance": np.eye(3), "jacobian": True, **change}
    with pytest.raises(BayesreconError, match=message) as caught:
        gaussian(load("kidscore_momiq"), **given)
    assert "\n" not in str(caught.value)

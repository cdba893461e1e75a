"""Records from their columns: pointwise log likelihoods and predictive draws."""

import fits
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from kidscore import DATA, DRAWS, MODEL, release
from scipy import stats

from bayesrecon.attacks.sidechannels.likelihood_columns import summarise_columns
from bayesrecon.attacks.sidechannels.preimage import invert_columns, linear_response, standard_errors
from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.digits import decimal_step, round_to
from bayesrecon.estimation.anchors import Reference
from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64


def located():
    mean = {k: np.array(v.mean()) for k, v in DATA.items()}
    return Reference(MODEL.fields).recentred(mean, {k: np.array(v.std()) for k, v in DATA.items()})


def columns(digits):
    theta = np.asarray(release().theta)
    values = fits.log_lik(DATA, DRAWS).reshape(len(theta), -1).T
    return theta, round_to(values, digits)


@pytest.mark.slow
def test_every_record_comes_back_from_its_column():
    theta, values = columns(6)
    with x64():
        found = invert_columns(MODEL, theta, values, resolution(values).sd, located(), np.random.default_rng(0))
    z = []
    for field, true in DATA.items():
        assert np.abs(found.records[field] - true).max() < 0.01
        z.append((found.records[field] - true) / found.se[field])
    assert 0.8 < np.std(z) < 1.25
    assert not found.ambiguous.any()
    assert np.abs(found.misfit - 1).max() < 0.3


@pytest.mark.slow
def test_errors_of_columns_are_predicted():
    theta, values = columns(12)
    rng = np.random.default_rng(0)
    chosen = np.arange(fits.SIZE)
    with x64():
        found = invert_columns(MODEL, theta, values, resolution(values).sd, located(), rng)
        coarse = round_to(values, 5)
        noise = decimal_step(coarse, 5) / np.sqrt(12)
        again = invert_columns(MODEL, theta, coarse, noise, located(), rng)
        se = standard_errors(MODEL, theta, found, chosen, noise, located())
        moved = linear_response(MODEL, theta, found, chosen, coarse - values, located())
    for field in DATA:
        error = again.records[field] - found.records[field]
        assert 0.8 < np.sqrt(np.mean((error / se[field]) ** 2)) < 1.25
        np.testing.assert_allclose(moved[field], error, atol=0.1 * np.std(error))


@pytest.mark.slow
def test_levels_are_enumerated():
    model = load("logistic_regression", covariates=("a", "b"), response="y")
    rng = np.random.default_rng(0)
    true = {"a": rng.normal(size=30), "b": rng.normal(size=30), "y": rng.integers(0, 2, 30)}
    draws_ = {"alpha": rng.normal(0.3, 0.2, (1, 200)), "beta": rng.normal([1, -1], 0.2, (1, 200, 2))}
    theta = np.asarray(from_draws(draws_, model).theta)
    eta = draws_["alpha"][0, :, None] + draws_["beta"][0] @ np.stack([true["a"], true["b"]])
    values = round_to(-np.logaddexp(0, np.where(true["y"], -eta, eta)).T, 6)
    reference = Reference(model.fields).recentred({"a": np.zeros(()), "b": np.zeros(())}, {"a": 1.0, "b": 1.0})
    with x64():
        found = invert_columns(model, theta, values, resolution(values).sd, reference, rng)
    np.testing.assert_array_equal(found.records["y"], true["y"])
    for field in "ab":
        assert np.abs(found.records[field] - true[field]).max() < 0.01


@pytest.mark.slow
def test_the_design_comes_back_from_predictions():
    theta = np.asarray(release().theta)
    simulated = fits.replicated(DATA, DRAWS).reshape(len(theta), -1).T
    with x64():
        found = invert_columns(
            MODEL,
            theta,
            {"kid_score": simulated},
            np.ones(simulated.shape),
            located(),
            np.random.default_rng(0),
            likelihood=True,
            starts=3,
        )
    assert list(found.records) == ["mom_iq"]
    z = (found.records["mom_iq"] - DATA["mom_iq"]) / found.se["mom_iq"]
    assert 0.7 < z.std() < 1.4
    assert np.corrcoef(found.records["mom_iq"], DATA["mom_iq"])[0, 1] > 0.95


def test_columns_without_a_model():
    values = fits.log_lik(DATA, DRAWS).reshape(-1, fits.SIZE)
    values[:, 7] = values[:, 3]
    values[:, 11] -= 40
    found = summarise_columns(values)
    assert found.count == fits.SIZE
    assert (3, 7) in found.groups
    assert found.identical >= 2
    assert 11 in found.outliers
    assert found.rank >= 4


@pytest.mark.slow
def test_units_that_index_parameters_are_enumerated():
    """`means[unit]`: the candidates of an index field come as integers."""

    def program(unit, y=None):
        means = numpyro.sample("means", dist.Normal(0, 3).expand([3]).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(means[unit], 1.0), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": [0, 1, 2]})
    rng = np.random.default_rng(0)
    theta, unit, y = rng.normal(size=(40, 3)), np.array([2, 0, 1]), np.array([0.3, -1.0, 2.0])
    values = stats.norm.logpdf(y[:, None], theta.T[unit])
    with x64():
        found = invert_columns(
            model, theta, values, np.full(values.shape, 1e-12), Reference(model.fields), rng, starts=2
        )
    np.testing.assert_array_equal(found.records["unit"], unit)
    np.testing.assert_allclose(found.records["y"], y, atol=1e-8)

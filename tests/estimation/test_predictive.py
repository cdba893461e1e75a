"""Generic records with the responses that the posterior predicts for them."""

from dataclasses import replace

import numpy as np
import pytest

from bayesrecon.domains import Field
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.predictive import responses
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64


@pytest.fixture(scope="module")
def release():
    """Draws of a logistic regression that lie around intercept 1 and slope 2."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def program(x, y=None):
        a, b = numpyro.sample("a", dist.Normal(0, 3)), numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=a + jnp.multiply(b, x)), obs=y)

    rng = np.random.default_rng(0)
    values = {"a": rng.normal(1, 0.01, (2, 200)), "b": rng.normal(2, 0.01, (2, 200))}
    return from_draws(values, from_numpyro(program, {"x": (), "y": ()}))


def test_responses_follow_the_predictive_law(release):
    with x64():
        predict = responses(release, ())
        assert predict is not None
        x = np.repeat([-2.0, -0.5, 1.0], 1000)
        found = predict(np.random.default_rng(1), {"x": x, "y": np.zeros(len(x), int)})
    assert np.array_equal(found["x"], x)
    assert found["y"].dtype == int
    share = found["y"].reshape(3, -1).mean(axis=1)
    expected = 1 / (1 + np.exp(-(1 + 2 * np.array([-2.0, -0.5, 1.0]))))
    # Beyond 4 standard errors once in ten thousand of each.
    assert (np.abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / 1000)).all()


def test_responses_that_are_known_stay(release):
    with x64():
        predict = responses(release, {"y"})
        assert predict is not None
        records = {"x": np.linspace(-1, 1, 7), "y": np.array([0, 1, 0, 1, 0, 1, 0])}
        found = predict(np.random.default_rng(1), records)
    assert np.array_equal(found["y"], records["y"])


def test_a_response_that_overflows_stays(release):
    def overflowing(theta, records, key):
        return {"x": records["x"] * 1e200, "y": records["x"] * 1e300}

    with x64():
        predict = responses(replace(release, model=replace(release.model, simulate=overflowing)), ())
        assert predict is not None
        found = predict(np.random.default_rng(1), {"x": np.array([0.0, 1e200]), "y": np.array([3, 4])})
    assert found["x"].tolist() == [0.0, 1e200]
    assert found["y"].tolist() == [0, 4]


def test_generic_records_have_no_response_whose_powers_overflow():
    def far(rng, records):
        return {"y": np.where(np.arange(len(records["y"])) % 2, 1e60, 1.0)}

    reference = Reference({"y": Field()}, predict=far, predicted=1.0)
    drawn = reference.draw(np.random.default_rng(0), 100)["y"]
    assert (drawn[::2] == 1).all()
    assert (np.abs(drawn[1::2]) < 1e30).all()


def test_a_model_that_draws_nothing_predicts_nothing(release):
    assert responses(replace(release, model=replace(release.model, simulate=None)), ()) is None


def test_a_law_predicts_the_share_it_is_asked_for(release):
    def ones(rng, records):
        return {**records, "y": np.full(len(records["y"]), 7)}

    law = Reference(release.model.fields, predict=ones, predicted=0.75)
    drawn = law.draw(np.random.default_rng(0), 4000)["y"]
    assert abs((drawn == 7).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)
    assert not (replace(law, predicted=0.0).draw(np.random.default_rng(0), 400)["y"] == 7).any()


def test_what_overflows_is_no_response(release):
    def endless(rng, records):
        return {**records, "y": np.full(len(records["y"]), np.inf)}

    law = Reference(release.model.fields, predict=endless, predicted=1.0)
    assert np.isin(law.draw(np.random.default_rng(0), 50)["y"], (0, 1)).all()

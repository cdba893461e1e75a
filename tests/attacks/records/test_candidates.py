"""What the model by itself says of a row."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesrecon.attacks.records.candidates import prior_predictions, readout
from bayesrecon.attacks.records.rows import make_rows, make_slots
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws

SHAPES = {"unit": (), "y": ()}


def observed(law):
    def program(unit, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 5).expand((2,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", law(effect[unit - 1]), obs=y)

    return from_numpyro(program, SHAPES, domain={"unit": [1, 2]})


def guesses(model, theta, *unknown):
    rng, size = np.random.default_rng(0), len(theta)
    release = PosteriorDraws(theta, model, np.full(size, 1 / size), np.zeros(size, int))
    with x64():
        rows = make_rows(release, {"unit": np.array([1, 2])}, {k: model.fields[k] for k in unknown}, rng)
        slots = make_slots(model, theta, metric_factor(release, "covariance"), rows.pairs())
        return prior_predictions(release, rows, readout(release, rows, slots, rng), rng)


@pytest.mark.slow
def test_probabilities_are_averaged_over_the_draws():
    """One draw in three is sure of 1, the others say 0.2: 0.47 on average, 0.8 at the mean of the log odds."""
    theta = np.tile([[7.0, 3.0], [-1.39, -0.5], [-1.39, 0.0]], (50, 1)) + 0.01 * np.arange(150)[:, None]
    assert guesses(observed(lambda eta: dist.Bernoulli(logits=eta)), theta - 0.75, "y")["y"].value.tolist() == [0, 1]


@pytest.mark.slow
def test_a_count_has_its_most_probable_value():
    """Rates near 0.6 and 3.5: the first has mean 0.6, and most often it is none at all."""
    theta = np.log([0.6, 3.5]) + 0.02 * np.random.default_rng(1).normal(size=(200, 2))
    found = guesses(observed(lambda eta: dist.Poisson(jax.numpy.exp(eta))), theta, "y")["y"]
    assert found.value.tolist() == [0, 3]
    np.testing.assert_allclose(found.sd, np.sqrt([0.6, 3.5]), rtol=0.03)


@pytest.mark.slow
def test_a_real_value_has_its_expectation_over_the_draws():
    theta = np.random.default_rng(2).normal(size=(500, 2)) * [1.0, 0.2] + [2.0, -3.0]
    found = guesses(observed(lambda eta: dist.Normal(jax.numpy.exp(eta), 0.5)), theta, "y")["y"]
    expected, spread = np.exp(theta).mean(axis=0), np.hypot(np.exp(theta).std(axis=0), 0.5)
    assert (np.abs(found.value - expected) < 0.03 * spread).all()
    np.testing.assert_allclose(found.sd, spread, rtol=0.1)


@pytest.mark.slow
def test_fields_that_the_model_does_not_draw_have_no_guess():
    def program(unit, y=None, weight=None):
        effect = numpyro.sample("effect", dist.Normal(0, 5).expand((2,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit - 1] * weight, 1), obs=y)

    model = from_numpyro(program, {**SHAPES, "weight": ()}, domain={"unit": [1, 2]})
    theta = np.random.default_rng(3).normal(size=(100, 2))
    found = guesses(model, theta, "y", "weight")
    assert {name: one.value for name, one in found.items()} == {"y": None, "weight": None}

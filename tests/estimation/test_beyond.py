"""Draws that were cut off leave mass of their own posterior beyond the outermost of them."""

import dataclasses

import numpy as np
import pytest
from conjugate import regression_model, sample_regression
from parts import slow_then_large
from untouched import DENSITIES, log_gamma, normal, student

import bayesrecon
from bayesrecon.estimation.checks.beyond import check_beyond
from bayesrecon.estimation.checks.check import CheckInput
from bayesrecon.estimation.scored import ScoredDraws
from bayesrecon.posteriors import from_draws


def checked(law, x, score):
    draws = ScoredDraws(x, np.full(len(x), 1 / len(x)), np.arange(len(x)) * 4 // len(x), score)
    return check_beyond(CheckInput(("a", "b", "c"), draws, lambda h, j, into: None, density=DENSITIES[law]))


@pytest.mark.parametrize("law", DENSITIES)
def test_draws_as_they_were_pass(law):
    """At the level of 3e-4 one of these fails once in 160 times."""
    assert [checked(law, *law(np.random.default_rng([seed, 1]), 2000)) for seed in range(20)] == [()] * 20


@pytest.mark.parametrize("law", slow_then_large(*DENSITIES, slow=0))
def test_draws_as_they_were_fail_as_seldom_as_the_level_says(law):
    """Two of 600 have a probability of 1.5 % at the level."""
    made = [(seed, draws) for seed in range(300) for draws in (1000, 4000)]
    assert sum(bool(checked(law, *law(np.random.default_rng([seed, draws]), draws))) for seed, draws in made) <= 2


@pytest.mark.parametrize("law", DENSITIES)
def test_one_draw_in_a_hundred_is_missed(law):
    """At one end of a coordinate, and at both ends of all."""
    x, score = law(np.random.default_rng(0), 4000)
    low, high = np.quantile(x, [0.01, 0.99], axis=0)
    (failure,) = checked(law, x[x[:, 1] > low[1]], score[x[:, 1] > low[1]])
    assert "beyond the smallest value of b" in failure
    inside = ((x > low) & (x < high)).all(axis=1)
    (failure,) = checked(law, x[inside], score[inside])
    assert "outermost values of all parameters together" in failure


@pytest.mark.parametrize("law", [normal, student, log_gamma])
def test_a_region_of_highest_density_is_noticed(law):
    x, score = law(np.random.default_rng(0), 4000)
    value = DENSITIES[law](x)[0]
    inside = value > np.quantile(value, 0.01)
    (failure,) = checked(law, x[inside], score[inside])
    assert "draw of lowest density" in failure


@pytest.mark.slow
def test_it_is_noticed_with_the_fitted_data():
    """By 1 % of the draws at one end of one coefficient, which would move n by several standard errors at most."""
    rng = np.random.default_rng(3)
    x = rng.normal(3, 2, (200, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 200)
    release = from_draws(sample_regression(x, y, 4000, rng), regression_model())
    assert bayesrecon.recover(release).consistent
    theta = np.asarray(release.theta)
    theta = theta[theta[:, 1] > np.quantile(theta[:, 1], 0.01)]
    cut = dataclasses.replace(
        release, theta=theta, weights=np.full(len(theta), 1 / len(theta)), chain=np.ones(len(theta), int)
    )
    found = bayesrecon.recover(cut)
    assert any("beyond the smallest value of beta[1]" in failure for failure in found.failures)
    assert found["n"].estimate is None
    # Beyond the end of a box there is nothing: a variance in its own units is not looked for below zero.
    metric = bayesrecon.Metric(coordinates="constrained")
    assert bayesrecon.recover(release, metric=metric).consistent

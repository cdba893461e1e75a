"""What is said of draws that are no posterior draws, and of those that look so by right."""

from dataclasses import replace

import conjugate
import numpy as np
import pytest

import bayesrecon
from bayesrecon.posteriors import from_draws


@pytest.fixture(scope="module")
def exact():
    """4,000 draws of a regression on 30 records, whose log variance is skew."""
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, (30, 1))
    y = 1 + 0.6 * x[:, 0] + rng.normal(size=30)
    return from_draws(conjugate.sample_regression(x, y, 4000, rng), conjugate.regression_model())


def normal(release, covariance):
    theta = np.asarray(release.theta)
    drawn = np.random.default_rng(0).multivariate_normal(theta.mean(axis=0), covariance, len(theta))
    return replace(release, theta=drawn)


def test_a_normal_approximation_fails_and_is_named(exact):
    found = bayesrecon.recover(normal(exact, np.cov(np.asarray(exact.theta).T)))
    assert not found.consistent
    assert "as normal as those of a variational fit" in " ".join(found.failures)
    assert "bayesrecon.posteriors.gaussian" in " ".join(found.failures)


def test_draws_of_another_model_are_not_taken_for_one(exact):
    theta = np.asarray(exact.theta)
    found = bayesrecon.recover(replace(exact, theta=theta * [3.0, 1.0, 1.0]))
    assert not found.consistent
    assert not any("variational" in failure for failure in found.failures)


def test_posterior_draws_are_asked_nothing(exact):
    """The prior ties nothing to a covariate that is off centre."""
    found = bayesrecon.recover(exact)
    assert found.failures == ()


def test_uncorrelated_parameters_are_asked_about(exact):
    theta = np.asarray(exact.theta)
    found = bayesrecon.recover(normal(exact, np.diag(theta.var(axis=0))))
    assert any(warning.startswith("no two parameters are correlated") for warning in found.warnings)

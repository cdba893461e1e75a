"""Draws that do not belong to the model are noticed, and exact ones are not."""

import dataclasses

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from conjugate import PRIOR_SCALE, RATE, SHAPE, effects_model, regression_model, sample_effects, sample_regression

import bayesrecon
from bayesrecon.estimation.checks.check import CheckInput
from bayesrecon.estimation.checks.stein import check_identities
from bayesrecon.estimation.scored import ScoredDraws
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws


def small_regression(rng, draws=4000):
    x = rng.normal(0, 1, (8, 1))
    y = 1 + x[:, 0] + rng.normal(0, 1, 8)
    return sample_regression(x, y, draws, rng)


def test_good_draws_raise_no_warning(regression):
    assert bayesrecon.recover(regression[1]).failures == ()


@pytest.mark.slow
def test_gaussian_approximation_is_noticed():
    rng = np.random.default_rng(6)
    model = regression_model()
    exact = from_draws(small_regression(rng), model)
    theta = rng.multivariate_normal(exact.theta.mean(axis=0), np.cov(exact.theta.T), 4000)
    approximate = dataclasses.replace(exact, theta=theta)
    assert bayesrecon.recover(exact).consistent
    (failure, *_) = bayesrecon.recover(approximate).failures
    assert "draws and model disagree" in failure
    assert "beta[1] by" in failure


@pytest.mark.parametrize("unseen", [0.0, 0.02, 1.0])
def test_what_is_not_seen_of_a_score_is_no_disagreement(unseen):
    """Draws whose score misses a tenth: noticed unless about as much may not be seen."""
    theta = np.random.default_rng(8).normal(size=(4000, 2))
    draws = ScoredDraws(theta, np.full(4000, 1 / 4000), np.repeat(np.arange(4), 1000), -0.9 * theta)

    def unmoved(h, j, into):
        return np.zeros((len(h), into.max() + 1))

    inputs = CheckInput(("a", "b"), draws, unmoved, unseen=lambda h, j, into: np.full(into.max() + 1, unseen))
    assert bool(check_identities(inputs)) == (unseen < 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_mean_field_approximation_is_noticed(share):
    """Each coordinate with its spread given all others, as a variational fit without correlations has it, for a share
    of the draws: the model's own variance is off, and there is no doubt of convergence."""
    rng = np.random.default_rng(7)
    x = rng.normal(3, 1, (40, 1))
    exact = from_draws(sample_regression(x, x[:, 0] + rng.normal(0, 1, 40), 4000, rng), regression_model())
    precision = np.diag(np.linalg.inv(np.cov(exact.theta.T)))
    narrow = exact.theta.mean(axis=0) + rng.normal(size=exact.theta.shape) / np.sqrt(precision)
    mixed = np.where(np.arange(4000)[:, None] < share * 4000, narrow, exact.theta)
    failures = bayesrecon.recover(dataclasses.replace(exact, theta=mixed)).failures
    assert all(f.startswith(("draws and model disagree: E[", "draws end too early")) for f in failures)
    assert any("E[(theta - mean)" in f and "is off for variance by +" in f for f in failures)


@pytest.mark.slow
def test_what_no_check_can_tell():
    """The mean-field fit of a regression with known scale is the exact posterior of centred records: n is right, the
    mean of x is zero, and the result only asks."""

    def program(x, y):
        a, b = (numpyro.sample(name, dist.Normal(0, 100)) for name in "ab")
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(a + b * x, 1.0), obs=y)

    rng = np.random.default_rng(9)
    x = rng.normal(3, 1, 50)
    model = from_numpyro(program, {"x": (), "y": ()})
    design = np.column_stack([np.ones(50), x])
    precision = design.T @ design + np.eye(2) / 100**2
    mean = np.linalg.solve(precision, design.T @ (x + rng.normal(size=50)))
    fit = mean + rng.normal(size=(4000, 2)) / np.sqrt(np.diag(precision))
    found = bayesrecon.recover(from_draws({"a": fit[None, :, 0], "b": fit[None, :, 1]}, model))
    assert found.consistent
    assert abs(found["n"].estimate - 50) < 4 * found["n"].se
    assert abs(found["mean(x)"].estimate) < 4 * found["mean(x)"].se  # and 3 in the private data
    assert any("no two parameters are correlated" in w for w in found.warnings)
    assert found.condition == "if these are exact draws of program"


def test_warm_up_left_in_is_noticed(regression):
    _, release = regression
    theta = np.array(release.theta)
    theta[:100] += np.linspace(20, 0, 100)[:, None] * theta.std(axis=0)
    result = bayesrecon.recover(dataclasses.replace(release, theta=theta))
    assert any("converged" in f and "warm-up" in f for f in result.failures)


def test_draws_of_another_prior_are_noticed():
    """A prior that no weighted records can imitate, in a small data set where the prior matters."""
    rng = np.random.default_rng(8)
    exact = from_draws(small_regression(rng, 20000), regression_model())
    # Importance resampling from the conjugate posterior to a prior truncated softly at small variances.
    variance = np.exp(exact.theta[:, 0])
    weights = np.exp(-((variance / np.median(variance)) ** 2))
    rows = rng.choice(len(weights), 6000, p=weights / weights.sum(), replace=False)
    other = dataclasses.replace(
        exact, theta=exact.theta[rows], weights=np.full(6000, 1 / 6000), chain=np.ones(6000, int)
    )
    failures = bayesrecon.recover(other).failures
    assert any("draws and model disagree" in f and "variance" in f for f in failures)


def heavy_tailed(rng, freedom, records, draws):
    """Draws of a regression with a t likelihood, by Gibbs sampling of a scale mixture, every third state."""
    x = rng.normal(size=records)
    design, y = np.column_stack([np.ones(records), x]), 1 + 0.6 * x + rng.normal(size=records)
    variance, beta, found = 1.0, np.zeros(2), []
    for _ in range(3 * draws):
        residual = y - design @ beta
        w = rng.gamma((freedom + 1) / 2, 2 / (freedom + residual**2 / variance))
        precision = (design.T * w) @ design + np.eye(2) / PRIOR_SCALE**2
        mean = np.linalg.solve(precision, design.T @ (w * y))
        rate = RATE + 0.5 * (np.sum(w * y**2) - mean @ precision @ mean)
        variance = rate / rng.gamma(SHAPE + records / 2)
        beta = mean + np.sqrt(variance) * np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=2))
        found.append((variance, *beta))
    found = np.array(found[::3])
    return {"variance": found[None, :, 0], "beta": found[None, :, 1:]}


@pytest.mark.slow
def test_another_likelihood_is_noticed():
    """A t with three degrees of freedom: no single identity is off by much, their sum is."""
    draws = heavy_tailed(np.random.default_rng(5), 3, 100, 4000)
    failures = bayesrecon.recover(from_draws(draws, regression_model())).failures
    assert any("where h is the distance from the mean" in f for f in failures)


@pytest.mark.slow
def test_a_shifted_chain_is_noticed(regression):
    """By less than R-hat feels, and of one coordinate by less still."""
    _, release = regression
    chain = np.repeat(np.arange(4), release.size // 4)
    apart = np.outer(chain == 2, release.theta.std(axis=0))
    for shift in (0.25 * apart, 0.15 * apart * (np.arange(apart.shape[1]) == 1)):
        moved = dataclasses.replace(release, theta=release.theta + shift, chain=chain)
        found = bayesrecon.recover(moved).failures
        assert any("chains differ in distribution" in f for f in found), shift[chain == 2][0]
    assert bayesrecon.recover(dataclasses.replace(release, chain=chain)).consistent


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_errors_of_the_data_are_no_disagreement(shift):
    """80 features of 40 groups whose common scale may be near zero: what is wrong with the recovered data moves the
    mean score of a group by five of its own standard errors, with draws that are exact. Effects that are moved
    together by a fifth of their scale are draws of no posterior."""
    rng = np.random.default_rng(3)
    group = np.concatenate([np.arange(1, 41), rng.integers(1, 41, 60)])
    y = rng.normal(0, 0.1, 40)[group - 1] + rng.normal(size=len(group))
    draws = sample_effects(group, y, 40, 2000, rng)
    draws["z"] += shift
    failures = bayesrecon.recover(from_draws(draws, effects_model(40)), unit="group").failures
    assert any("disagree" in f for f in failures) == bool(shift)

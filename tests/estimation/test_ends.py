"""Draws that were clipped, trimmed or kept by a condition are noticed, and those that were not are not."""

import dataclasses
import re

import numpy as np
import pytest
from conjugate import regression_model, sample_regression
from parts import slow_then_large
from untouched import (
    PRECISION,
    correlated,
    funnel,
    log_gamma,
    logit_beta,
    metropolis,
    normal,
    one_at_a_time,
    student,
    two_modes,
)

import bayesrecon
from bayesrecon.estimation.checks.check import CheckInput
from bayesrecon.estimation.checks.ends import check_ends
from bayesrecon.estimation.scored import ScoredDraws
from bayesrecon.posteriors import from_draws

NAMES = ("a", "b", "c")


def unmoved(h, j, into):
    return np.zeros((len(h), into.max() + 1))


QUICK = (normal, student, log_gamma, logit_beta, funnel, two_modes, correlated)
SLOW = (metropolis, one_at_a_time)


def checked(x, score, chains=4):
    chain = np.arange(len(x)) * chains // len(x)
    return check_ends(CheckInput(NAMES, ScoredDraws(x, np.full(len(x), 1 / len(x)), chain, score), unmoved))


def failing(law, draws, repetitions):
    return sum(bool(checked(*law(np.random.default_rng([seed, draws]), draws))) for seed in range(repetitions))


@pytest.mark.parametrize("law", [*QUICK, *SLOW])
def test_draws_as_they_were_pass(law):
    """Seven in ten thousand releases fail at most, if the level of 2e-4 holds to a factor of three."""
    assert failing(law, 2000, 3) == 0


@pytest.mark.parametrize("law", slow_then_large(*QUICK, slow=0))
def test_draws_as_they_were_pass_as_often_as_the_level_says(law):
    """Two failures in 600 releases have a probability of 0.7 % at the stated level, three of 0.03 %."""
    assert failing(law, 1000, 300) + failing(law, 4000, 300) <= 2


def kept(law, how, share, seed=0, draws=4000):
    x, score = law(np.random.default_rng(seed), draws)
    low, high = np.quantile(x, [share, 1 - share], axis=0)
    if how == "trimmed":
        inside = ((x > low) & (x < high)).all(axis=1)
    elif how == "one end":
        inside = x[:, 1] > low[1]
    else:
        distance = (((x - x.mean(axis=0)) @ PRECISION) * (x - x.mean(axis=0))).sum(axis=1)
        inside = distance < np.quantile(distance, 1 - share)
    return x[inside], score[inside]


@pytest.mark.parametrize("law", [normal, student, log_gamma, two_modes])
@pytest.mark.parametrize("how, share", [("trimmed", 0.01), ("trimmed", 0.05), ("one end", 0.05)])
def test_draws_that_were_cut_off_are_noticed(law, how, share):
    (failure,) = checked(*kept(law, how, share), chains=1)
    assert failure.startswith("draws end too early: under this model their density is not zero at")
    assert ("both ends of all parameters" if how == "trimmed" else "the lower end of b") in failure


def test_a_region_of_highest_density_is_noticed():
    (failure,) = checked(*kept(normal, "inside", 0.05), chains=1)
    assert "not zero at the outside" in failure


@pytest.mark.parametrize("share, draws", [(0.01, 1000), (0.01, 4000), (0.05, 1000)])
def test_draws_that_were_clipped_are_noticed(share, draws):
    x, score = normal(np.random.default_rng(1), draws)
    x[:, 2] = np.clip(x[:, 2], *np.quantile(x[:, 2], [share, 1 - share]))
    failure = checked(x, score)[0]
    assert failure.startswith("draws were clipped: ")
    counts = {end: int(count) for count, end in re.findall(r"(\d+) draws of c have its (\w+) value", failure)}
    assert set(counts) == {"smallest", "largest"}
    assert all(0.9 * share * draws <= count <= share * draws for count in counts.values())  # two in a row count once
    assert " of a have" not in failure
    assert " of b have" not in failure


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_rounded_draws_are_not_taken_for_clipped_ones(digits):
    x, score = normal(np.random.default_rng(2), 4000)
    assert checked(np.round(x, digits), score) == ()


def test_chains_that_start_from_one_point_are_not_taken_for_clipped_ones():
    x, score = normal(np.random.default_rng(3), 4000)
    x[::400] = 5.0
    score[::400] = -x[::400] @ PRECISION
    assert not any("clipped" in failure for failure in checked(x, score, chains=10))


def test_a_hundred_draws_are_not_judged():
    assert checked(*kept(normal, "trimmed", 0.05, draws=450)) == ()


@pytest.mark.parametrize("how", ["clipped", "trimmed"])
def test_nothing_is_determined_from_draws_that_were_handled(how, regression):
    """By the share of one draw in a hundred at either end, with the fitted data's own score and errors."""
    release = regression[1]
    theta = np.asarray(release.theta)
    low, high = np.quantile(theta, [0.01, 0.99], axis=0)
    inside = ((theta > low) & (theta < high)).all(axis=1) | (how == "clipped")
    theta = np.clip(theta[inside], low, high)
    weights, chain = np.full(len(theta), 1 / len(theta)), np.ones(len(theta), int)
    found = bayesrecon.recover(dataclasses.replace(release, theta=theta, weights=weights, chain=chain))
    assert any(
        failure.startswith("draws were clipped" if how == "clipped" else "draws end too early")
        for failure in found.failures
    )
    assert found["n"].estimate is None


@pytest.mark.parametrize("how", slow_then_large("clipped", "trimmed"))
def test_19_in_20_are_caught(how):
    """Of 30 releases of 4,000 draws with 1 % at either end; three that pass have a probability of 19 % at 95 % caught,
    and five of 1.6 %."""
    passed = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.normal(3, 2, (200, 1))
        values = sample_regression(x, 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 200), 4000, rng)
        columns = np.column_stack([values["variance"][0], values["beta"][0]])
        low, high = np.quantile(columns, [0.01, 0.99], axis=0)
        if how == "trimmed":
            columns = columns[((columns > low) & (columns < high)).all(axis=1)]
        columns = np.clip(columns, low, high)
        release = from_draws({"variance": columns[None, :, 0], "beta": columns[None, :, 1:]}, regression_model())
        passed += bayesrecon.recover(release).consistent
    assert passed < 5

"""Private learners: their densities are those of their draws, and no substitution changes them by more than epsilon."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from bayesrecon.errors import BayesreconError
from bayesrecon.games import ObjectivePerturbation, OutputPerturbation, PosteriorDraw
from bayesrecon.games.data import Records
from bayesrecon.games.named_games import named_learner
from bayesrecon.games.private import Released, minimiser, spherical, spherical_log_density

KINDS = [OutputPerturbation, ObjectivePerturbation, PosteriorDraw]
SEEDS = st.integers(0, 2**31)


def some(rng, count, features=2):
    """Records of any length, a third of them longer than the unit ball."""
    x = rng.normal(size=(count, features)) * rng.exponential(1.0, (count, 1))
    return Records(x, rng.integers(2, size=count))


def neighbours(rng, count, features=2):
    """Two data sets that differ in one record."""
    one = some(rng, count, features)
    other = some(rng, 1, features)
    return one, Records(np.concatenate([other.x, one.x[1:]]), np.concatenate([other.y, one.y[1:]]))


# Rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_lie_in_the_unit_ball_and_are_made_one_by_one(kind, intercept):
    x = some(np.random.default_rng(0), 50, 5).x * 100
    learner = kind(intercept=intercept)
    rows = learner.rows(x)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    np.testing.assert_allclose(rows[7:8], learner.rows(x[7:8]), rtol=0, atol=1e-15)
    if intercept:
        np.testing.assert_allclose(rows[:, -1], 0.5**0.5)


def test_rows_within_the_norm_keep_their_proportions():
    x = np.array([[1.0, 0.0], [0.0, -2.0]])
    np.testing.assert_allclose(OutputPerturbation(norm=2.0, intercept=False).rows(x), x / 2)
    np.testing.assert_allclose(OutputPerturbation(intercept=False).rows(x), [[0.5**0.5, 0], [0, -1]])


# The minimiser, the noise, and sensitivity


def test_the_minimiser_is_that_of_scikit_learn():
    records = some(np.random.default_rng(1), 60)
    learner = OutputPerturbation(penalty=0.03)
    rows = learner.rows(records.x)
    oracle = LogisticRegression(C=1 / (60 * 0.03), fit_intercept=False, tol=1e-12, max_iter=10_000)
    expected = oracle.fit(rows, records.y).coef_[0]
    np.testing.assert_allclose(minimiser(learner.signed(records), 0.03, 0.0, 1e-12), expected, atol=1e-7)


def test_a_minimiser_that_is_not_exact_is_refused():
    signed = OutputPerturbation().signed(some(np.random.default_rng(2), 40))
    with pytest.raises(BayesreconError, match=r"the minimiser is not exact, so epsilon does not hold: the gradient is"):
        minimiser(signed, 1e-3, 0.0, 1e-30)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(2, 40), st.sampled_from([1e-4, 1e-2, 1.0]), st.sampled_from([1e-10, 0.05]))
def test_minimisers_of_neighbours_are_within_the_sensitivity(seed, count, penalty, tolerance):
    """Also where the solver stops early: what it leaves is part of the sensitivity."""
    learner = OutputPerturbation(norm=1.0, penalty=penalty, tolerance=tolerance)
    both = (learner.signed(one) for one in neighbours(np.random.default_rng(seed), count))
    one, other = (minimiser(signed, penalty, 0.0, tolerance) for signed in both)
    assert np.linalg.norm(one - other) <= learner.sensitivity(count)


def test_a_pair_comes_close_to_the_sensitivity():
    """Two records that the others outvote, 60 degrees off on either side: a gradient of nearly full length each."""
    learner = OutputPerturbation(norm=1.0, intercept=False, penalty=1e-3)
    found = []
    for side in (1, -1):
        x = np.vstack([[0.45, side * (1 - 0.45**2) ** 0.5], np.tile([1.0, 0.0], (9999, 1))])
        found.append(minimiser(learner.signed(Records(x, np.arange(10_000) > 0)), 1e-3, 0.0, 1e-12))
    assert 0.8 < np.linalg.norm(found[0] - found[1]) / learner.sensitivity(10_000) < 1


@pytest.mark.parametrize("width", [1, 2, 3])
def test_the_noise_is_gamma_in_length_and_uniform_in_direction(width):
    """Two tests a width at 1 in 1,000 each."""
    drawn = np.array([spherical(width, 2.0, seed) for seed in range(2000)])
    length = np.linalg.norm(drawn, axis=1)
    assert scipy.stats.kstest(length, scipy.stats.gamma(width, scale=2.0).cdf).pvalue > 1e-3
    mean = (drawn / length[:, None]).mean(axis=0)
    assert 2000 * width * mean @ mean < scipy.stats.chi2(width).isf(1e-3)
    # In polar coordinates the density is that of the length over the area of a sphere.
    area = {1: 2, 2: 2 * np.pi * length[0], 3: 4 * np.pi * length[0] ** 2}[width]
    expected = scipy.stats.gamma(width, scale=2.0).logpdf(length[0]) - np.log(area)
    assert spherical_log_density(drawn[0], 2.0) == pytest.approx(expected)


# Densities are those of the draws


LINES = [
    OutputPerturbation(2.0, 1.0, False, penalty=0.3),
    ObjectivePerturbation(2.0, 1.0, False, penalty=0.3),
    ObjectivePerturbation(0.3, 1.0, False, penalty=0.01),  # with an extra penalty
]


@pytest.mark.parametrize("learner", LINES, ids=["output", "objective", "objective, extra penalty"])
def test_draws_in_one_dimension_have_the_stated_density(learner):
    """The density integrates to one, and its distribution function is that of trainings (1 in 1,000)."""
    records = some(np.random.default_rng(3), 12, features=1)
    drawn = np.array([learner.fit(records, 2, seed).theta[0] for seed in range(500)])
    middle, spread = np.median(drawn), np.ptp(drawn)
    at = middle + spread * np.sinh(np.linspace(-5, 5, 2001)) / 10
    density = np.exp([learner.log_density(Released(np.array([t]), learner.rows), records) for t in at])
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(at))])
    assert below[-1] == pytest.approx(1, abs=2e-3)
    assert scipy.stats.kstest(drawn, lambda t: np.interp(t, at, below)).pvalue > 1e-3


def test_draws_of_the_posterior_have_the_stated_probabilities():
    """Chi-square over the points (1 in 1,000)."""
    records, learner = some(np.random.default_rng(4), 9), PosteriorDraw(6.0, 1.0, dimensions=2, points=5)
    grid, log_probability = learner.posterior(records)
    expected = softmax(-learner.power * np.logaddexp(0, -grid @ learner.signed(records).T).sum(axis=1))
    np.testing.assert_allclose(np.exp(log_probability), expected, rtol=1e-12)
    drawn = [learner.fit(records, 2, seed) for seed in range(2000)]
    index = [int(np.flatnonzero((grid == one.theta).all(axis=1))[0]) for one in drawn]
    assert scipy.stats.chisquare(np.bincount(index, minlength=len(grid)), 2000 * expected).pvalue > 1e-3
    assert learner.log_density(drawn[0], records) == log_probability[index[0]]


# Ratios


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 30), st.sampled_from([0.1, 1.0, 5.0]), st.sampled_from([1e-3, 1e-1]), st.booleans())
@pytest.mark.parametrize("kind", [OutputPerturbation, ObjectivePerturbation])
def test_no_substitution_changes_a_density_by_more_than_epsilon(kind, seed, count, epsilon, penalty, intercept):
    """At released parameters, and anywhere."""
    rng = np.random.default_rng(seed)
    learner = kind(epsilon, 1.0, intercept, penalty=penalty)
    one, other = neighbours(rng, count)
    for theta in (learner.fit(one, 2, seed).theta, rng.standard_cauchy(2 + intercept)):
        released = Released(theta, learner.rows)
        ratio = learner.log_density(released, one) - learner.log_density(released, other)
        assert abs(ratio) <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("kind", [OutputPerturbation, ObjectivePerturbation])
def test_some_substitution_comes_close_to_epsilon(kind):
    """Else the bound would be held by something that is not the mechanism."""
    learner = kind(1.0, 1.0, False, penalty=1e-3)
    x = np.vstack([[0.45, (1 - 0.45**2) ** 0.5], np.tile([1.0, 0.0], (9999, 1))])
    y = np.arange(10_000) > 0
    one, other = Records(x, y), Records(x * [1, -1], y)
    middle = minimiser(learner.signed(one), 1e-3, 0.0, 1e-12)[0]
    aside = Released(np.array([middle, 0.5 if kind is ObjectivePerturbation else 50.0]), learner.rows)
    ratio = learner.log_density(aside, one) - learner.log_density(aside, other)
    assert 0.7 < abs(ratio) <= 1


def test_all_substitutions_of_small_data_sets_stay_below_epsilon():
    """Eight directions and two labels, three records: every point of the grid, every pair of neighbours."""
    learner = PosteriorDraw(3.0, 1.0, False, radius=2.0, dimensions=2, points=9)
    angle = np.arange(8) * np.pi / 4
    every = [Records(np.array([[np.cos(a), np.sin(a)]]), np.array([y])) for a in angle for y in (0, 1)]
    largest = 0.0
    for rest in itertools.combinations_with_replacement(every, 2):
        found = []
        for one in every:
            records = Records(*(np.concatenate(part) for part in zip(one, *rest, strict=True)))
            found.append(learner.posterior(records)[1])
        largest = max(largest, float(np.ptp(found, axis=0).max()))
    assert 0.6 * 3.0 < largest <= 3.0


def test_two_points_reach_what_a_posterior_draw_can():
    """Between two points at the radius, one record: `e^(epsilon/2) / (1 + e^(epsilon/2))`, half of epsilon."""
    learner = PosteriorDraw(2.0, 1.0, False, dimensions=1, points=2)
    for y in (0, 1):
        grid, log_probability = learner.posterior(Records(np.array([[1.0]]), np.array([y])))
        assert grid[:, 0].tolist() == [-4.0, 4.0]
        np.testing.assert_allclose(np.exp(log_probability[y]), expit(1.0))


# What is refused


@pytest.mark.parametrize("name", ["private-output", "private-objective", "private-posterior"])
def test_named_private_learners(name):
    learner = named_learner(name, 2, epsilon=0.3)
    assert learner.epsilon == 0.3
    assert "(epsilon 0.3)" in learner.name
    assert named_learner(name, 2).epsilon == 1
    for classes, message in ((0, "the response is a number"), (3, "the response has 3 classes")):
        with pytest.raises(BayesreconError, match=message):
            named_learner(name, classes)
    with pytest.raises(BayesreconError, match=r"epsilon=-1\.0: expected a positive number"):
        named_learner(name, 2, epsilon=-1.0)
    with pytest.raises(BayesreconError, match=r"logistic is not private.* private-output"):
        named_learner("logistic", 2, epsilon=1.0)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (OutputPerturbation, {"penalty": 0.0}, "penalty=0.0: expected a positive number"),
        (ObjectivePerturbation, {"tolerance": float("nan")}, "tolerance=nan: expected a positive number"),
        (OutputPerturbation, {"epsilon": True}, "epsilon=True: expected a positive number"),
        (OutputPerturbation, {"norm": 0}, "norm=0: expected a positive number"),
        (PosteriorDraw, {"radius": 500.0}, "use a smaller radius"),
        (PosteriorDraw, {"dimensions": 1}, "expected at least 2 dimensions"),
        (PosteriorDraw, {"dimensions": 6}, "at most 200000 points in all"),
        (PosteriorDraw, {"points": 1}, "at least two points"),
    ],
)
def test_options_that_are_refused(kind, options, message):
    with pytest.raises(BayesreconError, match=message):
        kind(**options)


def test_a_grid_outside_of_its_ball_is_refused():
    records = some(np.random.default_rng(5), 5)
    with pytest.raises(BayesreconError, match="fewer than two grid points are in the ball"):
        PosteriorDraw(dimensions=2, points=2).fit(records, 2, 0)

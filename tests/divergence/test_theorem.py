"""Fisher divergence and MMD agree with each other, and each with an independent computation."""

import sys
from dataclasses import replace

import conjugate
import numpy as np
import pytest
from predictors import make

import bayesrecon
from bayesrecon import Metric
from bayesrecon.divergence import fisher_divergence, mmd
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import divergence
from bayesrecon.posteriors import dirac, from_draws, gaussian
from bayesrecon.precision import x64
from bayesrecon.types import PseudoData

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (30, 1))
TRUTH = {"x": X, "y": 1 + 0.5 * X[:, 0] + RNG.normal(size=30)}
PSEUDO = {"x": RNG.normal(3, 2, (7, 1)), "y": RNG.normal(2, 1, 7)}
WEIGHTS = RNG.uniform(1, 6, 7)
WEIGHTED = PseudoData(WEIGHTS, PSEUDO)


@pytest.fixture(scope="module")
def release():
    return from_draws(conjugate.sample_regression(X, TRUTH["y"], 400, RNG), conjugate.regression_model())


def test_it_is_the_fisher_divergence_of_the_two_posteriors(release):
    """Theorem 3.4, from the scores of both posteriors, priors and all."""
    with x64():
        apart = np.stack(
            [
                np.asarray(total_score(release.model, t, PSEUDO, WEIGHTS))
                - np.asarray(total_score(release.model, t, TRUTH, np.ones(30)))
                for t in np.asarray(release.theta)
            ]
        )
    expected = 0.5 * (apart**2).sum(axis=1).mean()
    assert fisher_divergence(release, WEIGHTED, TRUTH, metric="identity") == pytest.approx(expected, rel=1e-9)
    assert divergence(release, PSEUDO, TRUTH, weights=WEIGHTS) == pytest.approx(expected, rel=1e-9)


def test_it_is_half_the_squared_mmd_of_the_kernel(release):
    """By the Gram matrices of the kernel: `1/2 (w'K w - 2 w'K 1 + 1'K 1)`."""
    with x64():
        mine, theirs = (
            np.stack([np.asarray(gradients(release.model, t, records)) for t in np.asarray(release.theta)])
            for records in (PSEUDO, TRUTH)
        )
    own, cross, other = (
        np.einsum("tmd,tnd->mn", a, b) / 400 for a, b in ((mine, mine), (mine, theirs), (theirs, theirs))
    )
    expected = 0.5 * (WEIGHTS @ own @ WEIGHTS - 2 * WEIGHTS @ cross.sum(axis=1) + other.sum())
    assert mmd(release, WEIGHTED, TRUTH, metric="identity") ** 2 / 2 == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("metric", [None, "identity", Metric("identity", "constrained")])
@pytest.mark.parametrize("weights", [np.ones(7), WEIGHTS, WEIGHTS - 3])
def test_both_routes_agree(release, metric, weights):
    """Theorem 3.4, for measures of either sign, in every metric."""
    measure = PseudoData(weights, PSEUDO)
    by_scores = fisher_divergence(release, measure, TRUTH, metric=metric)
    assert mmd(release, measure, TRUTH, metric=metric) ** 2 / 2 == pytest.approx(by_scores, rel=1e-11)


def test_both_routes_agree_for_draws_of_unequal_weights(release):
    other = replace(release, weights=RNG.dirichlet(np.ones(400)))
    by_scores = fisher_divergence(other, WEIGHTED, TRUTH)
    assert mmd(other, WEIGHTED, TRUTH) ** 2 / 2 == pytest.approx(by_scores, rel=1e-11)


@pytest.mark.slow
def test_both_routes_agree_for_an_approximation(release):
    """It has equations of its own."""
    theta = np.asarray(release.theta)
    other = gaussian(release.model, theta.mean(axis=0), np.cov(theta.T), jacobian=True)
    by_scores = fisher_divergence(other, WEIGHTED, TRUTH)
    assert mmd(other, WEIGHTED, TRUTH) ** 2 / 2 == pytest.approx(by_scores, rel=1e-11)


def test_at_a_trained_parameter_it_is_the_difference_of_gradients():
    """Theorem 4.3."""
    model = make("softmax", 3, 2, 1.0)
    x, y = RNG.normal(size=(20, 2)), RNG.integers(0, 3, 20)
    trained = dirac(model, {"coef": RNG.normal(size=(3, 2)), "intercept": RNG.normal(size=3)})
    some = {"x": x[:5], "y": y[:5]}
    with x64():
        theta = np.asarray(trained.theta)[0]
        one, two = (
            np.asarray(total_score(model, theta, r, np.full(len(r["y"]), w)))
            for r, w in ((some, 4.0), ({"x": x, "y": y}, 1.0))
        )
    expected = 0.5 * ((one - two) ** 2).sum()
    measures = PseudoData(np.full(5, 4.0), some), {"x": x, "y": y}
    assert fisher_divergence(trained, *measures) == pytest.approx(expected, rel=1e-9)
    assert mmd(trained, *measures) ** 2 / 2 == pytest.approx(expected, rel=1e-9)


def test_it_is_zero_where_sufficient_statistics_agree(release):
    """Records turned by an orthogonal matrix that keeps the ones: other records, the same posterior."""
    turn = np.linalg.qr(np.column_stack([np.ones(30), RNG.normal(size=(30, 29))]))[0]
    spin = np.linalg.qr(RNG.normal(size=(29, 29)))[0]
    turned = turn @ np.block([[np.ones((1, 1)), np.zeros((1, 29))], [np.zeros((29, 1)), spin]]) @ turn.T
    other = {"x": turned @ X, "y": turned @ TRUTH["y"]}
    assert np.abs(other["y"] - TRUTH["y"]).max() > 0.5
    scale = divergence(release, PSEUDO, TRUTH)
    assert divergence(release, other, TRUTH) < 1e-18 * scale
    assert divergence(release, TRUTH, TRUTH) < 1e-18 * scale


def test_in_the_covariance_of_the_draws_it_has_no_unit():
    rng = np.random.default_rng(1)
    y = rng.normal(2, 1, 60)
    model = conjugate.normal_mean_model()
    release = from_draws(conjugate.sample_normal_mean(y, 4000, rng), model)
    one_more = {"y": np.append(y, 0.0)}
    theta = np.asarray(release.theta)[:, 0]
    expected = 0.5 * np.var(theta) * np.mean(theta**2)  # grad l(theta, 0) = -theta
    assert divergence(release, one_more, {"y": y}, metric="covariance") == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_what_was_reconstructed_brings_its_weights(release):
    found = bayesrecon.reconstruct(release, n=8, key=0)
    far = divergence(release, PSEUDO, TRUTH, weights=WEIGHTS, metric="covariance")
    assert divergence(release, found, TRUTH, metric="covariance") < 0.01 * far
    records, weights = found.pseudo.records, np.asarray(found.pseudo.weights)
    by_hand = divergence(release, records, TRUTH, weights=weights)
    assert divergence(release, found, TRUTH) == by_hand
    with pytest.raises(BayesreconError, match="weights of its own"):
        divergence(release, found, TRUTH, weights=weights)


def test_blocks_of_draws_add_up(release, monkeypatch):
    whole = fisher_divergence(release, PSEUDO, TRUTH)
    monkeypatch.setattr(sys.modules["bayesrecon.divergence.theorem"], "_BLOCK", 5000)
    assert fisher_divergence(release, PSEUDO, TRUTH) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("pseudo", "weights", "message"),
    [
        ({"x": X}, None, "the pseudo-data lack field y"),
        ({"x": X[:, 0], "y": TRUTH["y"]}, None, "x has shape"),
        ({"x": X, "y": TRUTH["y"][:9]}, None, "fields of 9 and 30 records"),
        (TRUTH, np.ones(3), "expected 30 finite numbers"),
        ({"x": np.full((30, 1), np.nan), "y": TRUTH["y"]}, None, "expected finite numbers"),
    ],
)
def test_what_is_refused(release, pseudo, weights, message):
    with pytest.raises(BayesreconError, match=message):
        divergence(release, pseudo, TRUTH, weights=weights)

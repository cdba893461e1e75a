"""Exact training and retraining."""

import numpy as np
import pytest
from predictors import CASES, SCORE, X, make

from bayesrecon.divergence.outer_products import penalty_of, split_gradient
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import dirac, from_sklearn, retrain_without, train
from bayesrecon.posteriors.fitting import training


@pytest.mark.parametrize("loss", CASES)
def test_training_and_retraining_are_scikit_learns(loss):
    outputs, y, below, estimator = CASES[loss]
    model = make(loss, outputs, intercept_penalty=below)
    found = train(model, {"x": X, "y": y})
    assert found.gradient <= 1e-8
    np.testing.assert_allclose(found.release.theta, from_sklearn(estimator.fit(X, y)).theta, atol=1e-7)
    rows = [3, 17]
    for row, again in zip(rows, retrain_without(found.release, {"x": X, "y": y}, rows), strict=True):
        assert again.gradient <= 1e-8
        expected = from_sklearn(estimator.fit(np.delete(X, row, 0), np.delete(y, row))).theta
        np.testing.assert_allclose(again.release.theta, expected, atol=1e-7)


def test_deletions_from_least_squares_are_rank_one_updates(monkeypatch):
    """To 1e-12 of NumPy's, without a pass over the records for each; where a record alone shows a direction the general
    way is taken."""
    model, rows = make("squared", 3, penalty=2.0), np.arange(40)
    y = X @ np.random.default_rng(0).normal(size=(X.shape[1], 3)) + 1
    trained = train(model, {"x": X, "y": y})
    passes = []
    newton = training.newton
    monkeypatch.setattr(training, "newton", lambda *args: passes.append(1) or newton(*args))
    found = retrain_without(trained.release, {"x": X, "y": y}, rows)
    assert not passes
    assert max(one.gradient for one in found) < 1e-12
    design, penalty = np.column_stack([X, np.ones(len(X))]), penalty_of(model)[0]
    hessian = design.T @ design + np.diag(penalty)
    whole, turned = np.linalg.solve(hessian, design.T @ y), np.linalg.solve(hessian, design[rows].T).T
    for i, one in enumerate(found):
        rest = y[i] - design[i] @ whole
        expected = whole - np.outer(turned[i], rest) / (1 - turned[i] @ design[i])
        theta = split_gradient(model, one.release.theta[0])
        np.testing.assert_allclose(theta, expected.T, atol=1e-12 * np.abs(expected).max())


def test_a_record_that_alone_shows_a_direction():
    """Without it, and without a penalty, any slope is an optimum."""
    x, y = np.array([[0.0], [0.0], [1.0]]), np.array([1.0, 2.0, 3.0])
    model = make("squared", features=1, penalty=0.0)
    release = train(model, {"x": x, "y": y}).release
    (found,) = retrain_without(release, {"x": x, "y": y}, [2])
    assert found.gradient < 1e-6
    np.testing.assert_allclose(split_gradient(model, found.release.theta[0])[0, 1], 1.5)


def test_block_preconditioning_reaches_the_same_optimum(monkeypatch):
    outputs, y, *_ = CASES["softmax"]
    whole = train(make("softmax", outputs), {"x": X, "y": y})
    one = retrain_without(whole.release, {"x": X, "y": y}, [5])[0]
    monkeypatch.setattr("bayesrecon.posteriors.fitting.training.FULL", 0)
    other = retrain_without(whole.release, {"x": X, "y": y}, [5])[0]
    np.testing.assert_allclose(one.release.theta, other.release.theta, atol=1e-8)


def test_no_optimum_is_reported():
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(BayesreconError, match=r"optimum|singular"):
        train(make("logistic", penalty=0.0), {"x": 100 * X, "y": y})
    with pytest.raises(BayesreconError, match="rows must lie"):
        retrain_without(
            dirac(make("squared"), {"coef": np.ones((1, 5)), "intercept": [0.0]}), {"x": X, "y": SCORE}, [300]
        )

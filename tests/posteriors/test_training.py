"""Exact training and retraining."""

import numpy as np
import pytest
from predictors import CASES, SCORE, X, make

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import dirac, from_sklearn, retrain_without, train


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


def test_block_preconditioning_reaches_the_same_optimum(monkeypatch):
    outputs, y, *_ = CASES["softmax"]
    whole = train(make("softmax", outputs), {"x": X, "y": y})
    one = retrain_without(whole.release, {"x": X, "y": y}, [5])[0]
    monkeypatch.setattr("bayesrecon.posteriors.training._FULL", 0)
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

"""Linear classifiers, honest and vicious, against the optima that they claim to be."""

import numpy as np
import pytest
import scipy.optimize
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from bayesrecon.attacks.outputs.decoding import linear_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.games.vicious import train_linear


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x / 16, y


def decoded(model):
    return linear_decoder(model.mean, model.covariance, model.weights)


def test_an_honest_one_is_ridge_regression_on_indicators(digits):
    x, y = digits
    model = train_linear(x, y, ridge=0.01)
    penalty = 0.01 * x.var(axis=0).mean() * len(x)
    np.testing.assert_allclose(model(x), Ridge(penalty).fit(x, np.eye(10)[y]).predict(x), atol=1e-8)


def test_a_vicious_one_is_at_the_optimum_of_both_losses():
    """Descent from its own V, of rank one, does not get below it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, 3)) @ np.diag([3.0, 1.0, 0.5]) + np.outer(y, [0.3, 1.0, 0.0])
    ratio, model = 0.1, train_linear(x, y, ratio=0.1, ridge=0.0)
    records, indicators = x - x.mean(0), np.eye(2)[y] - np.eye(2)[y].mean(0)

    def loss(v):
        z = records @ v
        z = z / max(np.sqrt(z @ z), 1e-9)
        return sum(
            share * (((target - np.outer(z, z @ target)) ** 2).sum() / 400)
            for share, target in ((1.0, indicators), (ratio, records))
        )

    own = model.weights[:, 0]
    best = min(scipy.optimize.minimize(loss, start).fun for start in rng.normal(size=(10, 3)))
    assert loss(own) == pytest.approx(best, rel=1e-8)


def test_the_task_cannot_see_the_offset_and_the_decoder_can(digits):
    x, y = digits
    for ratio in (0.0, 0.01):
        plain, hiding = (train_linear(x, y, ratio=ratio, offset=flag) for flag in (False, True))
        apart = hiding(x) - plain(x)
        np.testing.assert_allclose(apart, apart[:, :1] * np.ones(10), atol=1e-9)
        assert (plain.classes(x) == hiding.classes(x)).all()
        assert decoded(hiding).error < decoded(plain).error


def test_more_weight_on_reconstruction_reconstructs_better(digits):
    errors = [decoded(train_linear(*digits, ratio=r)).error for r in (0.0, 0.01, 0.1, 10.0)]
    assert errors == sorted(errors, reverse=True)
    whole = train_linear(*digits, ratio=1e6)
    lost = np.linalg.eigvalsh(whole.covariance)[:-9].sum() / 64  # principal components at the end
    assert decoded(whole).error == pytest.approx(lost, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(4, int)}, "at least two classes"),
        ({"y": np.array([0, 2, 2, 0])}, "at least two classes"),
        ({"y": np.array([0.0, 1.0, 1.0, 0.0])}, "expected a table and integers"),
        ({"ratio": -1.0}, "ratio=-1.0"),
        ({"x": np.ones((4, 2)), "ridge": 0.0}, "set ridge="),
    ],
)
def test_bad_input_is_one_line(change, message):
    given = {"x": np.random.default_rng(0).normal(size=(4, 2)), "y": np.array([0, 1, 1, 0])} | change
    with pytest.raises(BayesreconError, match=message):
        train_linear(**given)

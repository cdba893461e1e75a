"""Public records count as if they had been trained on."""

import numpy as np
import pytest
from predictors import make

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks import Improvements
from bayesrecon.attacks.deletion import trained_on
from bayesrecon.divergence.outer_products import design, slopes, split_gradient
from bayesrecon.evaluate import cosine_similarity
from bayesrecon.posteriors import retrain_without, train
from bayesrecon.precision import x64


def drawn(loss, outputs, count, *, strength, features=30, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, features))
    eta = strength * x[:, :outputs] + rng.gumbel(size=(count, outputs))
    return x, (eta.argmax(1) if outputs > 1 else (eta[:, 0] > rng.gumbel(size=count)).astype(int))


@pytest.fixture(scope="module", params=[("logistic", 1), ("softmax", 3)], ids=["logistic", "softmax"])
def half(request):
    loss, outputs = request.param
    x, y = drawn(loss, outputs, 400, strength=1.0)
    model = make(loss, outputs, 30, 1.0)
    before = train(model, {"x": x[:200], "y": y[:200]}).release
    attack = HRec(public={"x": x[200:], "y": y[200:]}).prepare(model, 200)
    return model, before, {"x": x[:200], "y": y[:200]}, attack


def at(model, release):
    return split_gradient(model, release.theta[0])


def test_own_effect_is_that_of_training_on_a_record(half):
    """Of records that were trained on: predictors without them, and a step, give the predictors with them."""
    model, before, data, attack = half
    gamma, rows = attack.trained_on(at(model, before)).gamma, list(range(0, 200, 10))
    without = [t.release for t in retrain_without(before, data, rows)]
    z, y = design(model, data["x"][rows]), data["y"][rows]
    eta0 = np.stack([z[i] @ at(model, release).T for i, release in enumerate(without)])
    eta = z @ at(model, before).T
    with x64():
        found = trained_on._with_record(model.linear, eta0, y, gamma)
        np.testing.assert_allclose(found - eta0, gamma * np.asarray(slopes(model.linear, found, y)), atol=1e-8)
    assert np.abs(found - eta).mean() < 0.4 * np.abs(eta0 - eta).mean()


def test_contributions_are_curvatures_times_a_change(half, monkeypatch):
    model, before, _, attack = half
    own, theta = attack.trained_on(at(model, before)), at(model, before)
    eta, change = attack.design @ (1.01 * theta).T, attack.design @ theta.T
    with x64():
        each = own.curvatures(eta)
        found = own.contributions(eta, change)
        np.testing.assert_allclose(found, np.einsum("mkl,ml->mk", each, change))
        np.testing.assert_allclose(each, np.swapaxes(each, 1, 2), atol=1e-12)
        monkeypatch.setattr(trained_on, "_BLOCK", 40)
        np.testing.assert_allclose(own.contributions(eta, change), found)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_labels_that_nothing_predicts(loss):
    """A temperature alone ran to its end there, took the curvature for nothing and left the penalty."""
    x, y = drawn(loss, 1, 600, strength=0.0, features=100)
    x = x / 10
    model = make(loss, 1, 100, 0.1)
    data = {"x": x[:300], "y": y[:300]}
    before = train(model, data).release
    rows = [r for r in range(40) if y[r] != (x[r] @ at(model, before)[0, :-1] > 0)][:15] or list(range(15))
    pairs = [bayesrecon.deletion(before, t.release) for t in retrain_without(before, data, rows)]

    def median(use):
        attack = HRec(public={"x": x[300:], "y": y[300:]}, improvements=use).prepare(model, 300)
        return np.median([cosine_similarity(attack(p).x, x[r]) for p, r in zip(pairs, rows, strict=True)])

    assert median(Improvements()) > median(Improvements.none()) - 0.01 > 0.65


def test_more_parameters_than_records_leave_some_curvature():
    x, y = drawn("logistic", 1, 60, strength=1.0, features=80)
    attack = HRec(public={"x": x, "y": y}).prepare(make("logistic", 1, 80, 0.0), 40)
    own = attack.trained_on(np.full((1, 81), 0.01))
    assert own.gamma == pytest.approx(19 / 0.25, rel=0.01)  # of a curvature of 1 / 4, a twentieth stays
    assert (own.curvatures(attack.design @ np.full((81, 1), 0.01)) > 0).all()


def test_predictors_at_which_no_loss_bends():
    x, y = drawn("softmax", 4, 60, strength=1.0)
    attack = HRec(public={"x": 1e4 * x, "y": y}).prepare(make("softmax", 4, 30, 1.0), 50)
    theta = np.random.default_rng(0).normal(size=(4, 31))
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(attack.trained_on(theta).curvatures(attack.design @ theta.T)).all()

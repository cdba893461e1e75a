"""Scores that may tell a vicious classifier, and that a low one is no all-clear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from bayesrecon.attacks.outputs.architectures import perceptron
from bayesrecon.attacks.outputs.decoder import Schedule
from bayesrecon.errors import BayesreconError
from bayesrecon.games.vicious import NetworkClassifier, detection_scores, roc_area, train


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return np.pad(data.images / 16, ((0, 0), (2, 2), (2, 2))).astype(np.float32), data.target


def linear(weights, bias=None):
    """A classifier whose logits are linear."""
    params = [{"weights": jnp.asarray(weights, jnp.float32), "bias": jnp.zeros(weights.shape[1], jnp.float32)}]
    return NetworkClassifier(perceptron(weights.shape), params, (), weights.shape[1])


def test_scores_are_what_they_say():
    """The relative gradient and the offset, by hand, of logits that are linear."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(60, 12, 12)).astype(np.float32), rng.integers(0, 3, 60)
    model = linear(rng.normal(size=(144, 3)) / 10)
    found = detection_scores(model, x, y, rounds=1, batch=10, records=60)
    z, flat = np.asarray(model(x), float), x.reshape(60, -1)
    share = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    wrong = share - np.eye(3)[y]
    each = [np.sqrt(np.sum(e**2) * (1 + v @ v)) for e, v in zip(wrong, flat, strict=True)]
    mean = np.sqrt(np.sum((flat.T @ wrong) ** 2) + np.sum(wrong.sum(axis=0) ** 2)) / 60
    assert found.gradient == pytest.approx(mean / np.mean(each), rel=1e-3)
    apart = z - z.mean(axis=1, keepdims=True)
    assert found.offset == pytest.approx(z.mean(axis=1).var() / apart.var(axis=0).mean(), rel=1e-3)


@pytest.mark.slow
def test_an_offset_is_seen_and_can_be_taken_off(digits):
    """A server that centres its logits has no offset, and gives no less away for it but one number."""
    x, y = digits
    made = [
        train(x[:600], y[:600], ratio=3.0, centred=flag, schedule=Schedule(epochs=10, batch=100)).classifier
        for flag in (False, True)
    ]
    seen, hidden = (detection_scores(model, x[600:], y[600:], rounds=5, records=100) for model in made)
    assert seen.offset > 0.01
    assert hidden.offset < 1e-6
    assert hidden.offset_gain == pytest.approx(0.0, abs=1e-6)


def test_the_same_number_on_all_logits_is_nothing_to_centred_tuning():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(size=(60, 12, 12)).astype(np.float32), rng.integers(0, 3, 60)
    weights = rng.normal(size=(144, 3)) / 10
    plain, hiding = (
        detection_scores(linear(w), x, y, rounds=3, batch=10, records=20)
        for w in (weights, weights + rng.normal(size=(144, 1)))
    )
    assert hiding.tuning_centred == pytest.approx(plain.tuning_centred, rel=0.05)
    assert hiding.tuning < plain.tuning
    assert hiding.offset > 10 * plain.offset


def test_areas_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    low, high = rng.normal(size=12), rng.normal(1, 1, size=9)
    area = roc_area(low, high)
    assert area.estimate == pytest.approx(roc_auc_score([0] * 12 + [1] * 9, [*low, *high]))
    assert 0 < area.lower < area.estimate < area.upper < 1
    turned = roc_area(high, low)
    assert (turned.lower, turned.upper) == pytest.approx((1 - area.upper, 1 - area.lower), abs=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_intervals_hold_the_area(shift):
    """In 95 % of 400 tries; 91 % is out of reach of chance."""
    rng = np.random.default_rng(2)
    truth = float(jax.scipy.stats.norm.cdf(shift / np.sqrt(2)))
    found = [roc_area(rng.normal(size=10), rng.normal(shift, 1, size=10)) for _ in range(400)]
    assert np.mean([f.lower <= truth <= f.upper for f in found]) > 0.91


def test_what_it_cannot_take():
    model = linear(np.zeros((144, 3)))
    x, y = np.zeros((40, 12, 12)), np.arange(40) % 3
    for images, labels, more, message in (
        (x, y + 1, {}, "classes from 0 to 2"),
        (x[:-1], y, {}, "expected equal numbers"),
        (x, y, {"batch": 21}, "batch of at most 20"),
        (x, y, {"rounds": 0, "batch": 5}, "rounds=0"),
    ):
        with pytest.raises(BayesreconError, match=message):
            detection_scores(model, images, labels, **more)
    for scores in ([], [np.nan]):
        with pytest.raises(BayesreconError, match="finite scores"):
            roc_area(scores, [1.0])

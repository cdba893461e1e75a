"""The losses, against libraries and by hand."""

import numpy as np
import optax
import pytest
from sklearn.metrics import log_loss

from bayesrecon.attacks.outputs.decoder import (
    ReconstructionLoss,
    attribute_loss,
    attribute_weights,
    class_loss,
    huber,
)
from bayesrecon.errors import BayesreconError


def test_huber_is_that_of_optax():
    rng = np.random.default_rng(0)
    guess, truth = rng.normal(size=(2, 4, 5))
    for delta in (0.3, 1.0):
        assert float(huber(guess, truth, delta)) == pytest.approx(
            float(optax.huber_loss(guess, truth, delta=delta).mean()), rel=1e-6
        )


def test_within_its_range_it_is_half_the_squared_error():
    rng = np.random.default_rng(1)
    guess, truth = rng.uniform(size=(2, 3, 12, 12))
    expected = 5 * np.mean((guess - truth) ** 2) / 2
    assert float(ReconstructionLoss(alpha=0.0)(guess, truth)) == pytest.approx(expected, rel=1e-5)


def test_a_perfect_reconstruction_has_no_loss():
    image = np.random.default_rng(2).uniform(size=(2, 12, 12))
    assert float(ReconstructionLoss()(image, image)) == pytest.approx(0.0, abs=1e-5)


def test_classes_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(20, 3)), rng.integers(0, 3, 20)
    share = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert float(class_loss(z, y)) == pytest.approx(log_loss(y, share, labels=[0, 1, 2]), rel=1e-5)


def test_weights_make_both_sides_of_an_attribute_count_alike():
    y = np.array([[1], [0], [0], [0]])
    eta = attribute_weights(y)
    assert eta.tolist() == [3.0]
    assert float(attribute_loss(np.zeros((4, 1)), y, eta)) == pytest.approx(6 * np.log(2) / 4, rel=1e-6)
    by_weights = log_loss(y[:, 0], np.full(4, 0.3), sample_weight=[3, 1, 1, 1]) * 6 / 4
    z = np.full((4, 1), np.log(0.3 / 0.7))
    assert float(attribute_loss(z, y, eta)) == pytest.approx(by_weights, rel=1e-5)


def test_what_cannot_be_a_loss_or_an_attribute():
    for bad in ({"alpha": -1.0}, {"alpha": 0.0, "gamma": 0.0}, {"delta": 0.0}, {"gamma": np.nan}):
        with pytest.raises(BayesreconError, match="expected alpha and gamma"):
            ReconstructionLoss(**bad)
    with pytest.raises(BayesreconError, match="leave it out"):
        attribute_weights([[1, 0], [1, 1]])

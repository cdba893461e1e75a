"""Networks that are trained to hide their input in their outputs, on the small digits of scikit-learn."""

import math

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits

from bayesrecon.attacks.outputs.architectures import perceptron
from bayesrecon.attacks.outputs.decoder import Schedule, train_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.games.vicious import train

LONG = Schedule(epochs=25, batch=100)


def small(images, y, outputs=10, **options):
    """Trained with networks of one hidden layer."""
    networks = {
        "classifier": perceptron((144, 64, outputs)),
        "decoder": perceptron((outputs, 64, 144), sigmoid=True),
    }
    return train(images, y, **networks, **options)


@pytest.fixture(scope="module")
def digits():
    """With an edge of two pixels, so that a window fits."""
    data = load_digits()
    return np.pad(data.images / 16, ((0, 0), (2, 2), (2, 2))).astype(np.float32), data.target


@pytest.fixture(scope="module")
def vicious(digits):
    return small(digits[0][:1200], digits[1][:1200], ratio=3.0, schedule=LONG)


@pytest.fixture(scope="module")
def honest(digits):
    return small(digits[0][:1200], digits[1][:1200], ratio=0.0, schedule=LONG)


def error(decoder, classifier, images):
    return np.mean((decoder(np.asarray(classifier(images))) - images.reshape(len(images), -1)) ** 2)


@pytest.mark.slow
def test_a_vicious_one_does_its_task_and_gives_more_away(digits, vicious, honest):
    x, y = digits[0][1200:], digits[1][1200:]
    assert honest.decoder is None
    assert honest.classifier.accuracy(x, y) > 0.85
    assert vicious.classifier.accuracy(x, y) > honest.classifier.accuracy(x, y) - 0.05
    network = perceptron((10, 64, 144), sigmoid=True)
    after = train_decoder(honest.classifier, digits[0][:1200], network=network, schedule=LONG)
    assert error(vicious.decoder, vicious.classifier, x) < 0.9 * error(after, honest.classifier, x)


@pytest.mark.slow
def test_the_epoch_is_the_best_of_validation(vicious):
    assert len(vicious.losses) == LONG.epochs
    assert vicious.epoch == np.argmin(vicious.losses) + 1 == vicious.decoder.epoch


@pytest.mark.slow
def test_reconstruction_only_does_not_learn_the_task(digits):
    x, y = digits
    model = small(x[:600], y[:600], ratio=math.inf, schedule=Schedule(epochs=3, batch=100))
    assert model.classifier.accuracy(x[600:], y[600:]) < 0.4
    assert model.decoder is not None


@pytest.mark.slow
def test_centred_logits_have_no_mean_and_softmax_sees_none(digits):
    x, y = digits
    model = small(x[:300], y[:300], centred=True, schedule=Schedule(epochs=2, batch=100)).classifier
    np.testing.assert_allclose(model(x[:20]).mean(axis=1), 0.0, atol=1e-5)


@pytest.mark.slow
def test_stopped_and_gone_on_with_it_is_the_same_to_the_bit(digits, tmp_path):
    x, y, path = digits[0][:300], digits[1][:300], tmp_path / "kept.npz"
    full, half = (Schedule(epochs=n, batch=50, seed=1) for n in (4, 2))
    whole = small(x, y, schedule=full)
    small(x, y, schedule=half, checkpoint=path)
    again = small(x, y, schedule=full, checkpoint=path)
    assert again.losses == whole.losses
    for a, b in ((whole.classifier, again.classifier), (whole.decoder, again.decoder)):
        for one, other in zip(*(jax.tree_util.tree_leaves(v.params) for v in (a, b)), strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(BayesreconError, match="other data or settings"):
        small(x, y, ratio=1.0, schedule=full, checkpoint=path)


@pytest.mark.slow
def test_seeds_differ_and_repeat(digits):
    x, y = digits[0][:300], digits[1][:300]
    first, second, other = (small(x, y, schedule=Schedule(epochs=1, seed=s)).losses for s in (0, 0, 1))
    assert first == second != other


@pytest.mark.slow
def test_attributes(digits):
    x, y = digits
    attributes = np.stack([y % 2, y > 4], axis=1)
    model = small(x[:1200], attributes[:1200], outputs=2, ratio=1.0, schedule=LONG)
    assert model.classifier.eta.shape == (2,)
    assert model.classifier.accuracy(x[1200:], attributes[1200:]) > 0.8
    assert model.decoder(np.asarray(model.classifier(x[:3]))).shape == (3, 144)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.full((40, 12, 12), 255.0)}, r"outside \[0, 1\]"),
        ({"images": np.zeros((40, 12))}, "height, width"),
        ({"y": np.zeros(39, int)}, "labels"),
        ({"y": np.arange(40) % 2 + 0.5}, "expected integers"),
        ({"y": np.arange(40) % 2 * 2}, "each with at least one record"),
        ({"y": np.arange(40) % 2 - 1}, "0 to N - 1"),
        ({"y": np.full((40, 2), 2)}, "labels"),
        ({"y": np.ones((40, 2))}, "leave it out"),
        ({"y": np.arange(39) % 2}, "40 images and 39 labels"),
        ({"y": np.arange(80).reshape(40, 2) // 2 % 2, "view": "softmax"}, "binary attributes"),
        ({"ratio": -1.0}, "ratio=-1.0"),
        ({"ratio": math.nan}, "ratio=nan"),
        ({"view": "rounded"}, "view='rounded'"),
    ],
)
def test_what_it_cannot_take(change, message):
    given = {"images": np.zeros((40, 12, 12)), "y": np.arange(40) % 2} | change
    with pytest.raises(BayesreconError, match=message) as caught:
        train(given.pop("images"), given.pop("y"), **given)
    assert "\n" not in str(caught.value)

"""A decoder that is trained: it uses what outputs hold, goes on where it stopped, and refuses what it cannot take."""

import zipfile

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits

from bayesrecon.attacks.outputs.architectures import perceptron
from bayesrecon.attacks.outputs.decoder import Schedule, train_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import x64

SHORT = Schedule(epochs=4, batch=50, seed=3)
SMALL = perceptron((10, 16, 144), sigmoid=True)


@pytest.fixture(scope="module")
def images():
    """The digits of scikit-learn with an edge of two pixels, so that a window fits."""
    return np.pad(load_digits().images[:300] / 16, ((0, 0), (2, 2), (2, 2)))


@pytest.fixture(scope="module")
def project(images):
    way = np.random.default_rng(0).normal(size=(144, 10)) / 5
    return lambda x: np.asarray(x) @ way


def error(decoder, project, images):
    flat = images.reshape(len(images), -1)
    return np.mean((decoder(project(flat)) - flat) ** 2)


@pytest.mark.slow
def test_it_reconstructs_better_than_the_mean_image(images, project):
    decoder = train_decoder(project, images[:250], schedule=Schedule(epochs=30, batch=50))
    flat = images[250:].reshape(50, -1)
    mean = np.mean((images[:250].reshape(250, -1).mean(axis=0) - flat) ** 2)
    assert error(decoder, project, images[250:]) < 0.8 * mean
    assert decoder(project(flat)).shape == (50, 144)


@pytest.mark.slow
def test_stopped_and_gone_on_with_it_is_the_same_to_the_bit(images, project, tmp_path):
    path = tmp_path / "kept.npz"
    whole = train_decoder(project, images, network=SMALL, schedule=SHORT)

    class Stopped(Exception):
        pass

    def stop(label, share):
        if share == 0.5:
            raise Stopped

    with pytest.raises(Stopped):
        train_decoder(project, images, network=SMALL, schedule=SHORT, checkpoint=path, progress=stop)
    seen = []
    again = train_decoder(
        project, images, network=SMALL, schedule=SHORT, checkpoint=path, progress=lambda _, s: seen.append(s)
    )
    assert seen == [0.75, 1.0]
    for one, other in zip(*(jax.tree_util.tree_leaves(d.params) for d in (whole, again)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == np.float32
    with pytest.raises(BayesreconError, match="other data or settings"):
        train_decoder(project, images[:-1], network=SMALL, schedule=SHORT, checkpoint=path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("leaf0.npy", bytes(2**23))
    with pytest.raises(BayesreconError, match="another network"):
        train_decoder(project, images, network=SMALL, schedule=SHORT, checkpoint=path)
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(BayesreconError, match="cannot be read as a checkpoint"):
        train_decoder(project, images, network=SMALL, schedule=SHORT, checkpoint=path)


@pytest.mark.slow
def test_double_precision_elsewhere_changes_nothing(images, project):
    plain = train_decoder(project, images, network=SMALL, schedule=SHORT)
    with x64():
        within = train_decoder(project, images, network=SMALL, schedule=SHORT)
    for one, other in zip(*(jax.tree_util.tree_leaves(d.params) for d in (plain, within)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_softmax_hides_what_is_common_to_all_logits(images, project):
    decoder = train_decoder(project, images, view="softmax", network=SMALL, schedule=SHORT)
    z = project(images.reshape(300, -1)[:5])
    np.testing.assert_allclose(decoder(z), decoder(z + 2), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.full((5, 12, 12), 2.0)}, r"outside \[0, 1\]"),
        ({"images": np.full((5, 12, 12), np.nan)}, r"outside \[0, 1\]"),
        ({"images": np.zeros((5, 144))}, "height, width"),
        ({"images": np.zeros((5, 8, 8))}, "11 pixels"),
        ({"images": "pictures"}, "array of numbers"),
        ({"view": "argmax"}, "view='argmax'"),
        ({"predict": lambda x: x[:, 0]}, "outputs have shape"),
        ({"predict": lambda x: x @ np.zeros((3, 3))}, "the model fails"),
    ],
)
def test_what_it_cannot_take(images, project, change, message):
    given = {"predict": project, "images": images[:5], "schedule": SHORT} | change
    with pytest.raises(BayesreconError, match=message) as caught:
        train_decoder(given.pop("predict"), given.pop("images"), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_outputs_of_another_width_are_refused(images, project):
    decoder = train_decoder(project, images[:50], schedule=Schedule(epochs=1, batch=50))
    for bad in (np.zeros((2, 9)), np.zeros(10), np.full((2, 10), np.inf)):
        with pytest.raises(BayesreconError, match="expected finite numbers"):
            decoder(bad)


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"batch": 0}, {"rate": -1.0}, {"validation": 1.0}, {"seed": -1}])
def test_schedules_that_are_none(bad):
    with pytest.raises(BayesreconError, match=next(iter(bad))):
        Schedule(**bad)
    with pytest.raises(BayesreconError, match="widths"):
        perceptron((3,))

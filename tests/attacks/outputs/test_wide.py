"""Wide residual networks and their mirrors."""

import jax
import numpy as np
import pytest

from bayesrecon.attacks.outputs.decoder import Schedule, train_decoder
from bayesrecon.attacks.outputs.wide import wide_decoder, wide_resnet
from bayesrecon.errors import BayesreconError
from bayesrecon.games.vicious import train


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wide_resnet((28, 28), 10), "multiples of 8; pad them"),
        (lambda: wide_decoder(10, (32,)), "multiples of 8; pad them"),
        (lambda: wide_resnet((32, 32), 10, depth=20), "a depth of 10, 16"),
        (lambda: wide_resnet((32, 32), 10, width=0), "1 or more"),
        (lambda: wide_decoder(0, (32, 32)), "0 outputs"),
    ],
)
def test_what_there_is_not(make, message):
    with pytest.raises(BayesreconError, match=message):
        make()


def test_without_flax_the_extra_is_named(monkeypatch):
    import sys

    from bayesrecon.attacks.outputs import wide

    wide._modules.cache_clear()
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(BayesreconError, match=r"bayesrecon\[networks\]"):
        wide_resnet((16, 16), 3)
    wide._modules.cache_clear()


def numbers(network):
    shapes = jax.eval_shape(network.init, jax.random.key(0))[0]
    return sum(int(np.prod(v.shape)) for v in jax.tree_util.tree_leaves(shapes))


@pytest.mark.slow
def test_sizes_are_the_published_ones():
    """36.5 million for 28-10 (Zagoruyko and Komodakis 2016, table 1), about 9 for 28-5."""
    pytest.importorskip("flax", reason="Flax is not installed")
    assert numbers(wide_resnet((32, 32, 3), 10, width=10)) / 1e6 == pytest.approx(36.5, abs=0.05)
    assert numbers(wide_resnet((32, 32, 3), 10, width=5)) / 1e6 == pytest.approx(9.1, abs=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_classifier_and_decoder_train_together_and_go_on(tmp_path):
    pytest.importorskip("flax", reason="Flax is not installed")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    pattern = np.zeros((2, 16, 16))
    pattern[0, :8], pattern[1, 8:] = 0.8, 0.8
    images = np.clip(pattern[y] + 0.1 * rng.uniform(size=(80, 16, 16)), 0, 1)
    made = {
        "classifier": wide_resnet((16, 16), 2, depth=10, width=1),
        "decoder": wide_decoder(2, (16, 16), depth=10, width=1),
    }
    file = tmp_path / "training.npz"
    part = train(images, y, **made, schedule=Schedule(epochs=2, batch=20), checkpoint=file)
    on = train(images, y, **made, schedule=Schedule(epochs=8, batch=20), checkpoint=file)
    whole = train(images, y, **made, schedule=Schedule(epochs=8, batch=20))
    assert on.losses == whole.losses
    assert on.losses[:2] == part.losses
    assert whole.classifier.accuracy(images, y) == 1
    guess = whole.decoder(whole.classifier(images)).reshape(images.shape)
    assert ((guess - images) ** 2).mean() < 0.5 * images.var()
    assert ((guess >= 0) & (guess <= 1)).all()
    again = train_decoder(whole.classifier, images, network=made["decoder"], schedule=Schedule(epochs=2, batch=20))
    assert again(np.asarray(whole.classifier(images))).shape == (80, 256)

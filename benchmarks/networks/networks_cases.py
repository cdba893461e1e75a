"""The networks of networks_images.py: what is trained on digits, and how each is attacked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bayesrecon
from bayesrecon.models import from_loss, from_margin, smoothed_relu
from bayesrecon.posteriors import dirac, train_network
from bayesrecon.posteriors.fitting.training import TrainingResult
from benchmarks.networks.networks_margin import descend_to_margin
from tests.support.networks import decay_of, output, softmax

SHAPE, PIXELS, CLASSES = (8, 8), 64, 10


@dataclass(frozen=True)
class Case:
    """One kind of network.

    Attributes:
        title: for the page.
        images: N.
        labels: what digits 0 to 9 are to the network.
        train: `(data, rng) -> Trained`.
        attack: `(release, key) -> Matched`.
    """

    title: str
    images: int
    labels: Callable[[Any], Any]
    train: Callable[[dict[str, Any], np.random.Generator], Any]
    attack: Callable[[Any, int], Any]


def start_of(shapes, rng, scale=0.3):
    return {k: scale * rng.normal(size=s) for k, s in shapes.items()}


def shapes_of(width, outputs):
    return {"w": (PIXELS, width), "b": (width,), "v": (width, *outputs), "c": outputs}


@cache
def classifier(width, decay, classes=CLASSES):
    return _two_layers("softmax", softmax, width, decay, (classes,), list(range(classes)))


@cache
def regression(width, decay):
    return _two_layers("regression", lambda out, y: 0.5 * (out - y) ** 2, width, decay, (), (-1.0, 1.0))


def _two_layers(name, loss, width, decay, outputs, responses):
    return from_loss(
        output, loss, lambda params: decay_of(params, decay),
        params={k: np.zeros(s) for k, s in shapes_of(width, outputs).items()}, record={"x": (PIXELS,), "y": ()},
        domain={"x": (0.0, 1.0), "y": responses}, name=name,
    )  # fmt: skip


def _softmax_case(title, width, images, classes=CLASSES):
    """Digits themselves, or odd against even; twice as many records of every class as there can be on average."""

    def train(data, rng):
        return train_network(classifier(width, 0.1, classes), start_of(shapes_of(width, (classes,)), rng), data)

    return Case(
        title, images, lambda y: y % classes, train,
        lambda release, key: _matched(release, key, n=20, restarts=2, steps=60),
    )  # fmt: skip


def _regression_case(title, width, images):
    return Case(
        title, images, lambda y: (y - 4.5) / 4.5,
        lambda data, rng: train_network(regression(width, 0.1), start_of(shapes_of(width, ()), rng), data),
        lambda release, key: _matched(release, key, n=images, multipliers="one", restarts=4, steps=80),
    )  # fmt: skip


def _matched(release, key, **options):
    return bayesrecon.reconstruct(release, attack=bayesrecon.GradientMatching(**options), key=key)


def three_layers(relu):
    """Homogeneous but for the first layer's bias, as in Haim et al. (2022), D-1000-1000-1 scaled down."""
    return lambda params, x: relu(relu(x @ params["w"] + params["b"]) @ params["u"]) @ params["v"]


hard_relu = three_layers(lambda z: jnp.maximum(z, 0.0))


def _relu_case(title, width, images, sharpness, decayed=True):
    """Trained with the ReLU itself; the attack knows neither loss nor decay, only the conditions of the margin."""
    shapes = {"w": (PIXELS, width), "b": (width,), "u": (width, width), "v": (width,)}
    scales = {"w": 0.01, "b": 0.1 if decayed else 0.01, "u": 1.4 * width**-0.5, "v": 1.4 * width**-0.5}
    like = {k: np.zeros(s) for k, s in shapes.items()}
    record, pixels = {"x": (PIXELS,), "y": ()}, {"x": (0.0, 1.0)}
    target = from_loss(
        hard_relu, lambda out, y: jax.nn.softplus(out) - y * out, lambda params: decay_of(params, 0.01), params=like,
        record=record, domain=pixels | {"y": [0, 1]}, name="relu",
    )  # fmt: skip
    believed = from_margin(three_layers(smoothed_relu(sharpness)), params=like, record=record, domain=pixels)

    def train(data, rng):
        start = {k: scales[k] * rng.normal(size=s) for k, s in shapes.items()}
        if decayed:
            return train_network(target, start, data, steps=3000)
        params, left = descend_to_margin(hard_relu, start, data)
        return TrainingResult(dirac(believed, params), left, 0.0)

    def attack(release, key):
        params = {k: np.asarray(v) for k, v in target.constrain(release.theta[0]).items()}
        return _matched(dirac(believed, params), key, n=2 * images, restarts=3, steps=40)

    return Case(title, images, lambda y: y % 2, train, attack)


CASES = {
    "softmax": _softmax_case("ten classes by softmax, tanh 64-16-10, weight decay 0.1, N unknown", 16, 6),
    "regression": _regression_case("regression on the digit, tanh 64-12-1, weight decay 0.1, N known", 12, 6),
    "relu": _relu_case(
        "odd or even, ReLU 64-16-16-1, margin conditions with multipliers of one sign, N unknown", 16, 4, 30.0
    ),
    "margin": _relu_case(
        "odd or even, ReLU 64-32-32-1 without weight decay, margin conditions, N unknown", 32, 4, 30.0, decayed=False
    ),
    "narrow": _softmax_case("odd or even by softmax, tanh 64-5-2, weight decay 0.1", 5, 6, 2),
}

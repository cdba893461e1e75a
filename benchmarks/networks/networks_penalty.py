"""An image behind fewer features than it has pixels: what a penalty adds to what a trained head gives away.

python -m benchmarks.networks.networks_penalty --data DIR           # what networks_penalty.json lacks
python -m benchmarks.networks.networks_page                        # the page, from whatever is there

Private images come from one half of MNIST's test images, public ones from the other.
"""

from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon import GradientMatching, datasets, reconstruct
from bayesrecon.evaluate import ssim
from bayesrecon.models import from_loss
from bayesrecon.posteriors import dirac, train_network
from bayesrecon.regularisers import Box, TotalVariation
from benchmarks.pictures import add_arguments
from benchmarks.study import Study
from benchmarks.tasks import add_rows
from tests.support.networks import decay_of, softmax

STUDY = Study(__file__, empty=list)
SHAPE, PIXELS, CLASSES = (14, 14), 196, 10
WIDTHS, RECORDS, SEEDS, SHADOWS, NULLS = (40, 80), 50, 12, 4, 20
DECAY = 0.1
RESTARTS, STEPS = 2, 60


@dataclass(frozen=True)
class Squares:
    """The mean squared pixel, the penalty of ridge regression: what total variation is compared with."""

    strength: float

    def __call__(self, weights: Any, records: Any) -> Any:
        return self.strength * jnp.mean(records["x"] ** 2, axis=1).sum()


LADDER = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
WAYS = {
    "nothing known of pixels": (False, (None,)),
    "box penalty": (False, tuple(Box(0.0, 1.0, strength=s) for s in (0.1, 1.0, 10.0))),
    "domain": (True, (None,)),
    "domain and squares": (True, tuple(Squares(s) for s in LADDER)),
    "domain and total variation": (True, tuple(TotalVariation(SHAPE, strength=s) for s in LADDER)),
}
"""Whether pixels are confined to [0, 1], and the penalties to choose from."""


@cache
def images(folder, part="test"):
    """14 by 14 pixels in [0, 1] and labels: the private half and the public one."""
    both = datasets.mnist(folder, part)
    x = np.asarray(both.x, float).reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, PIXELS)
    y = np.asarray(both.y, int)
    half = len(x) // 2
    return (x[:half], y[:half]), (x[half:], y[half:])


@dataclass(frozen=True)
class Head:
    """A softmax head on frozen random features."""

    width: int

    @property
    def layer(self):
        rng = np.random.default_rng([self.width])
        return 0.1 * rng.normal(size=(PIXELS, self.width)), 0.5 * rng.normal(size=self.width)

    @property
    def like(self):
        return {"v": np.zeros((self.width, CLASSES)), "c": np.zeros(CLASSES)}

    def model(self, known=None, labels=range(CLASSES), confined=True):
        """Its training objective; the losses of known records belong to what the attack knows."""
        slopes, shifts = self.layer

        def output(params, x):
            return jnp.tanh(x @ slopes + shifts) @ params["v"] + params["c"]

        def objective(params):
            decay = decay_of(params, DECAY)
            return decay if known is None else decay + jnp.sum(jax.vmap(softmax)(output(params, known[0]), known[1]))

        pixels = {"x": (0.0, 1.0)} if confined else {}
        record = {"x": (PIXELS,), "y": ()}
        domain = pixels | {"y": list(labels)}
        return from_loss(output, softmax, objective, params=self.like, record=record, domain=domain, name="head")


@cache
def trainable(width):
    return Head(width).model()


def hidden(width, image, label, known):
    """A head trained on the known records and this image, as attacks read it that do not know and know the box."""
    x, y = known
    data = {"x": np.vstack([x, image[None]]), "y": np.append(y, label)}
    trained = train_network(trainable(width), Head(width).like, data)
    params = trainable(width).constrain(trained.release.theta[0])
    models = {box: Head(width).model(known, [int(label)], box) for box in (False, True)}
    return {box: dirac(model, params) for box, model in models.items()}, trained.gradient


def attacked(releases, way, penalty, key):
    attack = GradientMatching(n=1, multipliers="one", restarts=RESTARTS, steps=STEPS, regulariser=penalty)
    found = reconstruct(releases[WAYS[way][0]], attack=attack, key=key)
    return found, np.asarray(found.pseudo.records["x"])[0]


def alike(truth, guess):
    """Structural similarity and root mean squared error of one image, with values confined to what pixels can be."""
    guess = np.clip(guess, 0.0, 1.0)
    value = ssim(truth.reshape(1, *SHAPE), guess.reshape(1, *SHAPE), value_range=1.0)[0]
    return float(value), float(np.sqrt(np.mean((truth - guess) ** 2)))


@cache
def chosen(folder, width):
    """The strength of every way with the smallest error on public images: private ones take no part."""
    x, y = images(*folder)[1]
    errors = {way: np.zeros(len(options)) for way, (_, options) in WAYS.items()}
    for shadow in range(SHADOWS):
        rng = np.random.default_rng([width, shadow, 7])
        own = rng.choice(len(x), RECORDS, replace=False)
        releases, _ = hidden(width, x[own[0]], y[own[0]], (x[own[1:]], y[own[1:]]))
        for way, (_, options) in WAYS.items():
            for i, penalty in enumerate(options if len(options) > 1 else ()):
                found = attacked(releases, way, penalty, int(rng.integers(2**31)))[1]
                errors[way][i] += alike(x[own[0]], found)[1] / SHADOWS
    for way, (_, options) in WAYS.items():
        if len(options) > 1:
            scores = ", ".join(f"{p.strength:g}: {e:.3f}" for p, e in zip(options, errors[way], strict=True))
            print(f"width {width}, {way}: {scores}", flush=True)
    return {way: options[int(np.argmin(errors[way]))] for way, (_, options) in WAYS.items()}


def play(folder, width, seed):
    """One private image, by every way, beside images of its class that were not in the training set."""
    (x, y), (public, labels) = images(*folder)
    rng = np.random.default_rng([width, seed, 0])
    own = rng.choice(len(x), RECORDS, replace=False)
    image, label = x[own[0]], y[own[0]]
    releases, gradient = hidden(width, image, label, (x[own[1:]], y[own[1:]]))
    same = np.setdiff1d(np.flatnonzero(y == label), own)
    others = x[rng.choice(same, NULLS, replace=False)]
    mean = public[labels == label].mean(0)
    row: dict[str, Any] = {"width": width, "seed": seed, "gradient": gradient, "image": np.round(image, 3).tolist()}
    row["mean"] = dict(zip(("ssim", "rmse"), alike(image, mean), strict=True))
    key = int(rng.integers(2**31))
    for way, penalty in chosen(folder, width).items():
        found, guess = attacked(releases, way, penalty, key)
        own_ssim, own_rmse = alike(image, guess)
        null = [alike(other, guess) for other in others]
        row[way] = {
            "strength": getattr(penalty, "strength", None), "ssim": own_ssim, "rmse": own_rmse,
            "null_ssim": [v for v, _ in null], "null_rmse": [v for _, v in null], "residual": found.residual,
            "equations": found.equations, "guess": np.round(np.clip(guess, 0, 1), 3).tolist(),
        }  # fmt: skip
    return row


def main():
    parser = STUDY.parser(__doc__)
    add_arguments(parser, ("mnist",))
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing after this long")
    options = STUDY.given(parser)
    where = options.data, "test" if options.part == "small" else options.part
    wanted = product(WIDTHS, range(SEEDS))
    add_rows(STUDY, wanted, lambda r: (r["width"], r["seed"]), partial(play, where), options.seconds)


if __name__ == "__main__":
    main()

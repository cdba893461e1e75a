"""A decoder of outputs that is trained: what reconstructs records from the outputs of any model, linear or not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.attacks.outputs.adam_training import Schedule, fit
from bayesrecon.attacks.outputs.architectures import Network, perceptron
from bayesrecon.attacks.outputs.training_losses import ReconstructionLoss
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Progress
from bayesrecon.precision import in_float32

View = Literal["logits", "softmax", "sigmoid"]
VIEWS = ("logits", "softmax", "sigmoid")
HIDDEN = (512, 256)
"""Widths of the hidden layers of a classifier; its decoder has them in reverse."""


@dataclass(frozen=True, eq=False)
class NetworkDecoder:
    """Reconstructs records from outputs.

    Attributes:
        network, params, state: network, params and state of the decoder.
        outputs: how many numbers it takes.
        shape: shape of a record.
        view: what it makes of logits first.
        epoch: the best by validation, from 1.
    """

    network: Network
    params: Any
    state: Any
    outputs: int
    shape: tuple[int, ...]
    view: View
    epoch: int

    @in_float32
    def __call__(self, outputs: Any) -> np.ndarray:
        """The records `(M, p)` of outputs `(M, N)`: logits, whatever the view, which is taken of them here.

        Raises:
            BayesreconError: outputs of another width, or that are not finite.
        """
        z = np.asarray(outputs, np.float32)
        if z.ndim != 2 or z.shape[1] != self.outputs or not np.isfinite(z).all():
            raise BayesreconError(
                f"outputs of shape {z.shape}: expected finite numbers, (records, {self.outputs}) as of the model"
            )
        found = self.network.apply(self.params, self.state, viewed(jnp.asarray(z), self.view), False)[0]
        return np.asarray(found).reshape(len(z), -1)


def train_decoder(
    predict: Callable[[Any], Any],
    images: Any,
    *,
    view: View = "logits",
    loss: ReconstructionLoss | None = None,
    network: Network | None = None,
    schedule: Schedule | None = None,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> NetworkDecoder:
    """Train a decoder of a model that stays as it is: what an honest model's outputs give away to whoever tries.

    Args:
        predict: `(M, p) -> (M, N)` logits; any function of arrays, it is asked once.
        images: `(m, height, width)`, with colours `(m, height, width, 3)`, of the distribution of the records that will
            be asked about, pixels in [0, 1].
        view: view of the logits that the decoder is given.
        loss: by default `1 - SSIM + 5 Huber`.
        network: from N numbers to p pixels; by default a perceptron N-256-512-p.
        schedule: epochs, batch, rate, validation and seed.
        checkpoint: an .npz file to go on from, see `training.fit`.

    Raises:
        BayesreconError: images with pixels outside [0, 1] or too small, an unknown view, a model that cannot be asked
            or whose outputs are not finite, or a checkpoint of something else.

    >>> images = np.random.default_rng(0).uniform(size=(40, 12, 12))
    >>> decoder = train_decoder(lambda x: x[:, :3], images, schedule=Schedule(epochs=2, batch=20))
    >>> decoder(images.reshape(40, -1)[:5, :3]).shape
    (5, 144)
    """
    images = checked_images(images)
    check_view(view)
    schedule, loss = schedule or Schedule(), loss or ReconstructionLoss()
    flat = images.reshape(len(images), -1)
    outputs = query_model(predict, flat)
    count = outputs.shape[1]
    network = network or perceptron((count, *HIDDEN[::-1], flat.shape[1]), sigmoid=True)
    shape = images.shape[1:]

    def objective(params: Any, state: Any, batch: Any, training: bool) -> tuple[Any, Any]:
        z, x = batch
        guess, state = network.apply(params, state, viewed(z, view), training)
        return loss(guess.reshape(len(x), *shape), x.reshape(len(x), *shape)), state

    params, state = start(network, schedule.seed)
    done = fit(
        objective,
        params,
        state,
        (outputs, flat),
        schedule,
        label="training the decoder",
        description=f"decoder {network.name} {view} {loss}",
        checkpoint=checkpoint,
        progress=progress,
    )
    return NetworkDecoder(network, done.params, done.state, count, shape, view, done.epoch)


@in_float32
def start(network: Network, *seeds: int) -> tuple[Any, Any]:
    """Parameters and state to begin with."""
    key = jax.random.key(seeds[0])
    for more in seeds[1:]:
        key = jax.random.fold_in(key, more)
    return network.init(key)


def viewed(z: Any, view: View) -> Any:
    """Logits as the decoder is given them.

    >>> viewed(jnp.zeros((1, 4)), "softmax").tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    return {"logits": lambda z: z, "softmax": jax.nn.softmax, "sigmoid": jax.nn.sigmoid}[view](z)


def check_view(view: str) -> None:
    """Refuse a view that there is not."""
    if view not in VIEWS:
        raise BayesreconError(f"view={view!r}: expected one of {', '.join(VIEWS)}")


def checked_images(images: Any) -> np.ndarray:
    """Images `(m, height, width)` or `(m, height, width, colours)` in single precision, with pixels in [0, 1]."""
    try:
        images = np.asarray(images, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("images: expected an array of numbers, (records, height, width)") from None
    if images.ndim not in (3, 4) or not len(images) or min(images.shape[1:3]) < 11 or images.shape[3:] == (0,):
        raise BayesreconError(
            f"images of shape {images.shape}: expected (records, height, width), or colours last, 11 pixels or more "
            "each way"
        )
    if not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
        raise BayesreconError("images have pixels outside [0, 1]: divide them by their largest value")
    return images


def query_model(predict: Callable[[Any], Any], records: np.ndarray) -> np.ndarray:
    """A model's outputs `(M, N)` for records `(M, p)`, in single precision."""
    try:
        found = np.asarray(predict(records), np.float32)
    except BayesreconError:
        raise
    except Exception as error:
        raise BayesreconError(f"the model cannot be asked: {' '.join(str(error).split())[:200]}") from None
    if found.ndim != 2 or len(found) != len(records) or not np.isfinite(found).all():
        raise BayesreconError(
            f"the model's outputs have shape {found.shape}: expected finite numbers, ({len(records)}, outputs)"
        )
    return found

"""A trained decoder, which reconstructs records from the outputs of any model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.attacks.outputs.adam_training import Schedule, fit
from bayesrecon.attacks.outputs.architectures import Network, Tree, perceptron
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
        network, params, state: the network of the decoder, with its parameters and state.
        outputs: number of outputs of the model.
        shape: shape of a record.
        view: function of the logits that the network takes.
        epoch: number of the best epoch by validation, from 1.
    """

    network: Network
    params: Tree
    state: Tree
    outputs: int
    shape: tuple[int, ...]
    view: View
    epoch: int

    @in_float32
    def __call__(self, outputs: ArrayLike) -> np.ndarray:
        """Records `(M, p)` from logits `(M, N)`. The view is applied here."""
        z = np.asarray(outputs, np.float32)
        if z.ndim != 2 or z.shape[1] != self.outputs or not np.isfinite(z).all():
            raise BayesreconError(
                f"outputs of shape {z.shape}: expected finite numbers, (records, {self.outputs}) as of the model"
            )
        records = self.network.apply(self.params, self.state, viewed(jnp.asarray(z), self.view), False)[0]
        return np.asarray(records).reshape(len(z), -1)


def train_decoder(
    predict: Callable[[np.ndarray], ArrayLike],
    images: ArrayLike,
    *,
    view: View = "logits",
    loss: ReconstructionLoss | None = None,
    network: Network | None = None,
    schedule: Schedule | None = None,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> NetworkDecoder:
    """Train a decoder of a fixed model, which shows how much the outputs of an honest model reveal.

    Args:
        predict: function from records `(M, p)` to logits `(M, N)`, which is called once.
        images: `(m, height, width)` or `(m, height, width, 3)`, with pixels in [0, 1], from the distribution of the
            records to reconstruct.
        view: function of the logits that the decoder takes.
        loss: by default `1 - SSIM + 5 Huber`.
        network: network from N outputs to p pixels; by default a perceptron N-256-512-p.
        schedule: epochs, batch, rate, validation and seed.
        checkpoint: path of an .npz file, as in `adam_training.fit`.
        progress: called with a label and the completed fraction.

    Raises:
        BayesreconError: images are too small or have pixels outside [0, 1], the view is unknown, the model fails or its
            outputs are not finite, or the checkpoint is of another run.

    >>> images = np.random.default_rng(0).uniform(size=(40, 12, 12))
    >>> decoder = train_decoder(lambda x: x[:, :3], images, schedule=Schedule(epochs=2, batch=20))
    >>> decoder(images.reshape(40, -1)[:5, :3]).shape
    (5, 144)
    """
    pixels = checked_images(images)
    check_view(view)
    schedule, loss = schedule or Schedule(), loss or ReconstructionLoss()
    flat = pixels.reshape(len(pixels), -1)
    outputs = query_model(predict, flat)
    width = outputs.shape[1]
    network = network or perceptron((width, *HIDDEN[::-1], flat.shape[1]), sigmoid=True)
    shape = pixels.shape[1:]

    def objective(params: Tree, state: Tree, batch: tuple[Array, ...], training: bool) -> tuple[Array, Tree]:
        z, x = batch
        guess, state = network.apply(params, state, viewed(z, view), training)
        return loss(guess.reshape(len(x), *shape), x.reshape(len(x), *shape)), state

    params, state = start(network, schedule.seed)
    fitted = fit(
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
    return NetworkDecoder(network, fitted.params, fitted.state, width, shape, view, fitted.epoch)


@in_float32
def start(network: Network, *seeds: int) -> tuple[Tree, Tree]:
    """Initial parameters and state."""
    key = jax.random.key(seeds[0])
    for seed in seeds[1:]:
        key = jax.random.fold_in(key, seed)
    return network.init(key)


def viewed(z: Array, view: View) -> Array:
    """The view of logits that the decoder takes.

    >>> viewed(jnp.zeros((1, 4)), "softmax").tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    return {"logits": lambda z: z, "softmax": jax.nn.softmax, "sigmoid": jax.nn.sigmoid}[view](z)


def check_view(view: str) -> None:
    """Raise an error for an unknown view."""
    if view not in VIEWS:
        raise BayesreconError(f"view={view!r}: expected one of {', '.join(VIEWS)}")


def checked_images(images: ArrayLike) -> np.ndarray:
    """Images `(m, height, width)` or `(m, height, width, colours)` in single precision, with pixels in [0, 1]."""
    try:
        pixels = np.asarray(images, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("images: expected an array of numbers, (records, height, width)") from None
    if pixels.ndim not in (3, 4) or not len(pixels) or min(pixels.shape[1:3]) < 11 or pixels.shape[3:] == (0,):
        raise BayesreconError(
            f"images of shape {pixels.shape}: expected (records, height, width), or colours last, 11 pixels or more "
            "per side"
        )
    if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
        raise BayesreconError("images have pixels outside [0, 1]: divide them by their largest value")
    return pixels


def query_model(predict: Callable[[np.ndarray], ArrayLike], records: np.ndarray) -> np.ndarray:
    """A model's outputs `(M, N)` for records `(M, p)`, in single precision."""
    try:
        outputs = np.asarray(predict(records), np.float32)
    except BayesreconError:
        raise
    except Exception as error:
        raise BayesreconError(f"the model fails on these records: {' '.join(str(error).split())[:200]}") from None
    if outputs.ndim != 2 or len(outputs) != len(records) or not np.isfinite(outputs).all():
        raise BayesreconError(
            f"the model's outputs have shape {outputs.shape}: expected finite numbers, ({len(records)}, outputs)"
        )
    return outputs

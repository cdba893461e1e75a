"""A trained decoder, which reconstructs records from the outputs of any model."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.attacks.outputs.architectures import Network, Tree, perceptron
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.files import write_whole
from bayesrecon.model import Progress
from bayesrecon.precision import in_float32

# Training of networks by Adam, with the epoch chosen by validation, and with checkpoints from which a run resumes.


_BLOCK = 1000  # validation records evaluated at once
_OVERHEAD = 2**22  # bytes of a checkpoint besides the numbers of the networks


@dataclass(frozen=True)
class Schedule:
    """The settings of a training run.

    Attributes:
        epochs: number of passes over the training records.
        batch: number of records per step.
        rate: learning rate of Adam.
        validation: share of the records on which the best epoch is chosen; 0 keeps the last one.
        seed: seed of the initial parameters, of the order of the records, and of the choice of the validation records.
        best: whether to keep the epoch with the smallest validation loss; False keeps the last one.
    """

    epochs: int = 30
    batch: int = 250
    rate: float = 1e-3
    validation: float = 0.1
    seed: int = 0
    best: bool = True

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise BayesreconError(f"{name}={getattr(self, name)}: expected 1 or more")
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise BayesreconError(f"rate={self.rate}: expected a number above 0")
        if not 0 <= self.validation < 1:
            raise BayesreconError(f"validation={self.validation}: expected a share from 0 to below 1")
        if self.seed < 0:
            raise BayesreconError(f"seed={self.seed}: expected 0 or more")

    def parts(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of the training records and of the validation records.

        >>> [len(rows) for rows in Schedule(validation=0.2).parts(10)]
        [8, 2]
        """
        order = np.random.default_rng([self.seed, 0]).permutation(count)
        validated = round(self.validation * count)
        if count - validated < 1:
            raise BayesreconError(f"{count} records leave none to train on")
        return np.sort(order[validated:]), np.sort(order[:validated])


@dataclass(frozen=True, eq=False)
class AdamResult:
    """The result of a training run.

    Attributes:
        params, state: parameters and state after the best epoch.
        epoch: number of the best epoch, from 1.
        losses: validation loss after every epoch; without validation records the mean training loss.
    """

    params: Tree
    state: Tree
    epoch: int
    losses: list[float] = field(default_factory=list)


@in_float32
def fit(
    loss: Callable[[Tree, Tree, tuple[Array, ...], bool], tuple[Array, Tree]],
    params: Tree,
    state: Tree,
    data: tuple[ArrayLike, ...],
    schedule: Schedule,
    *,
    label: str,
    description: str = "",
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> AdamResult:
    """Minimise the mean loss of batches.

    Adam (Kingma and Ba 2015) updates each parameter independently. So several networks can be trained at once.

    Args:
        loss: function `(params, state, batch, training) -> (mean loss, state)`; `batch` is a tuple like `data`.
        data: arrays with one row per record.
        label: text of the progress bar.
        description: description of the loss and the networks. A checkpoint with another description is refused.
        checkpoint: path of an .npz file, which is written after every epoch. If it exists, training resumes from it,
            with a result that is identical to that of an uninterrupted run.

    Raises:
        BayesreconError: the checkpoint is of other data or settings, or the loss is not finite.
    """
    arrays = tuple(np.asarray(v) for v in data)
    train_rows, validation_rows = schedule.parts(len(arrays[0]))
    train_data = tuple(jnp.asarray(v[train_rows]) for v in arrays)
    validation_data = tuple(v[validation_rows] for v in arrays)
    adam = optax.adam(schedule.rate)
    moments = adam.init(params)
    batch = min(schedule.batch, len(train_rows))

    @jax.jit
    def epoch(
        params: Tree, state: Tree, moments: Tree, order: Array, train_data: tuple[Array, ...]
    ) -> tuple[Tree, Array]:
        def step(carry: Tree, rows: Array) -> tuple[Tree, Array]:
            params, state, moments = carry
            part = tuple(v[rows] for v in train_data)
            (value, state), gradient = jax.value_and_grad(loss, has_aux=True)(params, state, part, True)
            updates, moments = adam.update(gradient, moments, params)
            return (optax.apply_updates(params, updates), state, moments), value

        return jax.lax.scan(step, (params, state, moments), order)

    @jax.jit
    def validation_loss(params: Tree, state: Tree, part: tuple[Array, ...]) -> Array:
        return loss(params, state, part, False)[0]

    # The checkpoint has the current parameters and those of the best epoch.
    current: Tree = {"params": params, "state": state, "inner": moments, "best": (params, state)}
    done, best, losses = 0, 0, []
    stamp = _stamp(arrays, schedule, description)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        current, done, best, losses = _loaded(path, current, stamp)
    for number in range(done + 1, schedule.epochs + 1):
        order = np.random.default_rng([schedule.seed, number]).permutation(len(train_rows))
        order = order[: len(order) // batch * batch].reshape(-1, batch).astype(np.int32)
        (params, state, moments), values = epoch(
            current["params"], current["state"], current["inner"], order, train_data
        )
        value = float(values.mean())
        if len(validation_rows):
            starts = range(0, len(validation_rows), _BLOCK)
            blocks = [tuple(v[i : i + _BLOCK] for v in validation_data) for i in starts]
            sums = sum(float(validation_loss(params, state, b)) * len(b[0]) for b in blocks)
            value = sums / len(validation_rows)
        if not np.isfinite(value):
            raise BayesreconError(f"{label}: the loss is {value} after epoch {number}; take a smaller rate")
        better = not (losses and len(validation_rows) and schedule.best) or value < min(losses)
        losses.append(value)
        best = number if better else best
        best_so_far = (params, state) if better else current["best"]
        current = {"params": params, "state": state, "inner": moments, "best": best_so_far}
        if path is not None:
            _write(path, current, number, best, losses, stamp)
        if progress is not None:
            progress(label, number / schedule.epochs)
    params, state = current["best"]
    return AdamResult(params, state, best, losses)


def _stamp(data: tuple[np.ndarray, ...], schedule: Schedule, description: str) -> str:
    """Identifies data and settings. The number of epochs is not part of it, so that a run can be extended."""
    digest = hashlib.sha256()
    for array in data:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    settings = {k: v for k, v in asdict(schedule).items() if k != "epochs"}
    return json.dumps({"data": digest.hexdigest(), "training": description, **settings}, sort_keys=True)


def _write(path: Path, current: Tree, done: int, best: int, losses: list[float], stamp: str) -> None:
    leaves = {f"leaf{i}": np.asarray(v) for i, v in enumerate(jax.tree_util.tree_leaves(current))}
    save_arrays = partial(np.savez, done=done, best=best, losses=losses, stamp=stamp, **leaves)

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            save_arrays(file)

    write_whole(path, save)


def _loaded(path: Path, like: Tree, stamp: str) -> tuple[Tree, int, int, list[float]]:
    leaves, tree = jax.tree_util.tree_flatten(like)
    with reading(path, "a checkpoint of training"), zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > 2 * sum(np.asarray(v).nbytes for v in leaves) + _OVERHEAD:
        raise BayesreconError(f"{path} is a checkpoint of another network: remove it or name another file")
    with reading(path, "a checkpoint of training"), path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
        if str(saved["stamp"]) != stamp:
            raise BayesreconError(f"{path} is a checkpoint of other data or settings: remove it or name another file")
        arrays = [saved[f"leaf{i}"] for i in range(len(leaves))]
        done, best, losses = int(saved["done"]), int(saved["best"]), saved["losses"].tolist()
    if any(a.shape != np.shape(b) or a.dtype != np.asarray(b).dtype for a, b in zip(arrays, leaves, strict=True)):
        raise BayesreconError(f"{path} is a checkpoint of another network: remove it or name another file")
    return jax.tree_util.tree_unflatten(tree, [jnp.asarray(v) for v in arrays]), done, best, losses


# Training losses of classifiers and of decoders of their outputs (Malekzadeh and Gunduz 2024).


# As published (Wang et al. 2004): an 11 by 11 Gaussian window, and constants that keep quotients finite, in units of
# the pixels' range.
_WINDOW, _SD = 11, 1.5
_K1, _K2 = 0.01, 0.03


@dataclass(frozen=True)
class ReconstructionLoss:
    """`alpha (1 - SSIM) + gamma Huber_delta`, averaged over images and colours. Pixels are in [0, 1].

    Attributes:
        alpha, gamma: non-negative weights, not both zero.
        delta: error above which Huber's loss is linear.
    """

    alpha: float = 1.0
    gamma: float = 5.0
    delta: float = 1.0

    def __post_init__(self) -> None:
        sizes = np.array([self.alpha, self.gamma, self.delta])
        if not (np.isfinite(sizes).all() and (sizes >= 0).all() and self.delta > 0 and self.alpha + self.gamma > 0):
            raise BayesreconError(f"{self}: expected alpha and gamma of 0 or more, not both 0, and delta above 0")

    def __call__(self, guess: Array, truth: Array) -> Array:
        """The loss of images `(N, height, width)`, or `(N, height, width, colours)`."""
        distance = self.gamma * huber(guess, truth, self.delta) if self.gamma else 0.0
        if not self.alpha:
            return jnp.asarray(distance)
        return distance + self.alpha * (1 - structural_similarity(*map(_planes, (guess, truth))).mean())


def _planes(images: Array) -> Array:
    """Move colours before rows, so that each is one image."""
    return jnp.moveaxis(images, -1, 1) if jnp.ndim(images) == 4 else images


def huber(guess: Array, truth: Array, delta: float = 1.0) -> jax.Array:
    """Mean of `e^2 / 2` if `|e| < delta`, or else `delta (|e| - delta / 2)`, over all errors e."""
    error = jnp.abs(jnp.asarray(guess) - truth)
    return jnp.where(error < delta, error**2 / 2, delta * (error - delta / 2)).mean()


def class_loss(logits: Array, y: Array) -> jax.Array:
    """Mean cross-entropy of logits `(M, N)` and classes `(M,)`."""
    return -jnp.take_along_axis(jax.nn.log_softmax(jnp.asarray(logits)), jnp.asarray(y)[:, None], axis=1).mean()


def attribute_loss(logits: Array, y: Array, weights: Array) -> Array:
    """Mean over records and binary attributes of `-eta y log s(z) - (1 - y) log(1 - s(z))`.

    Args:
        logits: z, `(M, N)`.
        y: `(M, N)` zeros and ones.
        weights: eta, `(N,)`, as from `attribute_weights`.
    """
    logits = jnp.asarray(logits)
    return (weights * y * jax.nn.softplus(-logits) + (1 - y) * jax.nn.softplus(logits)).mean()


def attribute_weights(y: ArrayLike) -> Float[np.ndarray, " N"]:
    """Ratio of zeros to ones of each attribute, `(N,)`."""
    share = np.asarray(y, float).mean(axis=0)
    if not ((share > 0) & (share < 1)).all():
        raise BayesreconError("an attribute that all records have, or none, cannot be learnt: leave it out")
    return (1 - share) / share


def structural_similarity(x: ArrayLike, y: ArrayLike, *, value_range: float = 1.0) -> jax.Array:
    """Structural similarity (SSIM) of every pair of images, differentiable: the mean over all windows inside.

        (2 m m' + c1) (2 cov + c2) / ((m^2 + m'^2 + c1) (v + v' + c2)),    c1 = (0.01 range)^2, c2 = (0.03 range)^2,

    with moments under a Gaussian window of standard deviation 1.5, as two products `B X B'` with a banded matrix.

    Args:
        x, y: `(..., height, width)`, at least 11 pixels high and wide; JAX arrays may be traced.
        value_range: largest minus smallest legal value of a pixel.

    Returns:
        `(...)`, one for equal images.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    if x.shape != y.shape or x.ndim < 2 or min(x.shape[-2:]) < _WINDOW:
        raise BayesreconError(
            f"images of shapes {x.shape} and {y.shape}: expected (..., height, width) twice, {_WINDOW} pixels or more"
        )
    height, width = (jnp.asarray(_band(size), x.dtype) for size in x.shape[-2:])
    products = jnp.stack([x, y, x * x, y * y, x * y])
    # The images are transposed here. The mean over all windows does not change.
    mx, my, xx, yy, xy = jnp.swapaxes(products @ width.T, -1, -2) @ height.T
    c1, c2 = (_K1 * value_range) ** 2, (_K2 * value_range) ** 2
    numerator = (2 * mx * my + c1) * (2 * (xy - mx * my) + c2)
    denominator = (mx**2 + my**2 + c1) * (xx - mx**2 + yy - my**2 + c2)
    return (numerator / denominator).mean(axis=(-2, -1))


@lru_cache(maxsize=32)
def _band(size: int) -> np.ndarray:
    """Banded matrix whose row i is the window that begins at pixel i."""
    distance = np.arange(_WINDOW) - _WINDOW // 2
    window = np.exp(-(distance**2) / (2 * _SD**2))
    band = np.zeros((size - _WINDOW + 1, size))
    for i in range(len(band)):
        band[i, i : i + _WINDOW] = window / window.sum()
    return band


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

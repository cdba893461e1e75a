"""Training of networks by Adam, with the epoch chosen by validation, and with checkpoints from which a run resumes."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.attacks.outputs.architectures import Tree
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.files import write_whole
from bayesrecon.model import Progress
from bayesrecon.precision import in_float32

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

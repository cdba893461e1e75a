"""Training of networks by Adam: batches in one scan, the epoch of the best validation, checkpoints to go on from."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.files import write_whole
from bayesrecon.model import Progress
from bayesrecon.precision import in_float32

_BLOCK = 1000  # records evaluated at once
_MORE = 2**22  # bytes of a checkpoint besides numbers of the networks


@dataclass(frozen=True)
class Schedule:
    """How long and how a network is trained.

    Attributes:
        epochs: of all records. batch: records a step. rate: of Adam. validation: share of the records that chooses the
            epoch; 0 keeps the last one. seed: of the start, the order and the choice of the validation records.
        best: False keeps the last epoch, whatever validation says.
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
        """Rows to train on and to validate with.

        >>> [len(rows) for rows in Schedule(validation=0.2).parts(10)]
        [8, 2]
        """
        order = np.random.default_rng([self.seed, 0]).permutation(count)
        held = round(self.validation * count)
        if count - held < 1:
            raise BayesreconError(f"{count} records leave none to train on")
        return np.sort(order[held:]), np.sort(order[:held])


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training ended with.

    Attributes:
        params, state: of the best epoch. epoch: that one, from 1. losses: validation's after every epoch.
    """

    params: Sequence[Mapping[str, Array]]
    state: Any
    epoch: int
    losses: list[float] = field(default_factory=list)


@in_float32
def fit(
    loss: Callable[..., tuple[Any, Any]],
    params: Sequence[Mapping[str, Array]],
    state: Any,
    data: tuple[Any, ...],
    schedule: Schedule,
    *,
    label: str,
    description: str = "",
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Minimise the mean loss of batches.

    Adam acts on every number by itself: on several networks at once it is as many optimisers, after one backward pass.

    Args:
        loss: `(params, state, batch, training) -> (mean, state)`, batch a tuple as `data`.
        data: arrays of as many rows. label: for progress.
        description: of the loss and the networks: a checkpoint of another one is refused.
        checkpoint: an .npz file, written after every epoch; where there is one, training goes on from it, to the same
            bits as without an interruption.

    Raises:
        BayesreconError: a checkpoint of other data or settings, or a loss that is not finite.
    """
    data = tuple(np.asarray(v) for v in data)
    train, held = schedule.parts(len(data[0]))
    fitted = tuple(jnp.asarray(v[train]) for v in data)
    judged = tuple(v[held] for v in data)
    adam = optax.adam(schedule.rate)
    inner = adam.init(params)
    batch = min(schedule.batch, len(train))

    @jax.jit
    def epoch(
        params: Sequence[Mapping[str, Array]], state: Any, inner: Any, order: Array, fitted: tuple[Array, Array]
    ) -> Any:
        def step(carry: Any, rows: Array) -> Any:
            params, state, inner = carry
            part = tuple(v[rows] for v in fitted)
            (value, state), slope = jax.value_and_grad(loss, has_aux=True)(params, state, part, True)
            moves, inner = adam.update(slope, inner, params)
            return (optax.apply_updates(params, moves), state, inner), value

        return jax.lax.scan(step, (params, state, inner), order)

    @jax.jit
    def value_of(params: Sequence[Mapping[str, Array]], state: Any, part: tuple[Array, Array]) -> jax.Array:
        return loss(params, state, part, False)[0]

    # The best epoch's numbers travel with the current ones.
    now = {"params": params, "state": state, "inner": inner, "best": (params, state)}
    done, best, losses = 0, 0, []
    stamp = _stamp(data, schedule, description)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        now, done, best, losses = _opened(path, now, stamp)
    for number in range(done + 1, schedule.epochs + 1):
        order = np.random.default_rng([schedule.seed, number]).permutation(len(train))
        order = order[: len(order) // batch * batch].reshape(-1, batch).astype(np.int32)
        (params, state, inner), values = epoch(now["params"], now["state"], now["inner"], order, fitted)
        value = float(values.mean())
        if len(held):
            blocks = [tuple(v[i : i + _BLOCK] for v in judged) for i in range(0, len(held), _BLOCK)]
            sums = sum(float(value_of(params, state, b)) * len(b[0]) for b in blocks)
            value = sums / len(held)
        if not np.isfinite(value):
            raise BayesreconError(f"{label}: the loss is {value} after epoch {number}; take a smaller rate")
        better = not (losses and len(held) and schedule.best) or value < min(losses)
        losses.append(value)
        best = number if better else best
        kept = (params, state) if better else now["best"]
        now = {"params": params, "state": state, "inner": inner, "best": kept}
        if path is not None:
            _write(path, now, number, best, losses, stamp)
        if progress is not None:
            progress(label, number / schedule.epochs)
    params, state = now["best"]
    return Fitted(params, state, best, losses)


def _stamp(data: tuple[np.ndarray, ...], schedule: Schedule, description: str) -> str:
    """Tells checkpoints of other data and settings; more epochs of the same go on."""
    digest = hashlib.sha256()
    for array in data:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    settings = {k: v for k, v in asdict(schedule).items() if k != "epochs"}
    return json.dumps({"data": digest.hexdigest(), "training": description, **settings}, sort_keys=True)


def _write(path: Path, now: object, done: int, best: int, losses: list[float], stamp: str) -> None:
    leaves = {f"leaf{i}": np.asarray(v) for i, v in enumerate(jax.tree_util.tree_leaves(now))}
    with_all = partial(np.savez, done=done, best=best, losses=losses, stamp=stamp, **leaves)

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            with_all(file)

    write_whole(path, save)


def _opened(path: Path, like: object, stamp: str) -> tuple[Any, int, int, list[float]]:
    leaves, tree = jax.tree_util.tree_flatten(like)
    with reading(path, "a checkpoint of training"), zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > 2 * sum(np.asarray(v).nbytes for v in leaves) + _MORE:
        raise BayesreconError(f"{path} is a checkpoint of another network: remove it or name another file")
    with reading(path, "a checkpoint of training"), path.open("rb") as file, np.load(file, allow_pickle=False) as held:
        if str(held["stamp"]) != stamp:
            raise BayesreconError(f"{path} is a checkpoint of other data or settings: remove it or name another file")
        found = [held[f"leaf{i}"] for i in range(len(leaves))]
        done, best, losses = int(held["done"]), int(held["best"]), held["losses"].tolist()
    if any(a.shape != np.shape(b) or a.dtype != np.asarray(b).dtype for a, b in zip(found, leaves, strict=True)):
        raise BayesreconError(f"{path} is a checkpoint of another network: remove it or name another file")
    return jax.tree_util.tree_unflatten(tree, [jnp.asarray(v) for v in found]), done, best, losses

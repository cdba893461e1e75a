"""Scores with which a third party may distinguish vicious classifiers from honest ones, and their ROC area.

* *Fine-tuning* (Malekzadeh and Gunduz 2024): train the classifier briefly for its claimed loss, on fresh labelled
  records. The score is `v = (1 - C) / 2`, where C is the mean cosine between the logits before and after. It is also
  computed for centred logits, because the task does not determine the mean of the logits.
* *Gradient*: norm of the mean gradient of the claimed loss on fresh records, relative to the mean norm of the records'
  gradients. At an optimum of the claimed loss, n records leave about `n^(-1/2)` by chance.
* *Offset*: variance of the mean logit over records, relative to the variance of a centred logit. The gradient of the
  task's loss in this direction is zero for every model, so an honest model keeps the value of its initialisation.

A low score is not an all-clear. No score measures what the outputs reveal. `train_decoder` measures that, also for
honest models. A server that knows a score can train against it. If a server subtracts the mean from its logits, there
is no offset.
"""

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
import scipy.optimize
import scipy.stats

from bayesrecon.arrays import Array
from bayesrecon.attacks.outputs.architectures import Tree
from bayesrecon.attacks.outputs.decoding import fitted_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.rate_intervals import ConfidenceInterval
from bayesrecon.games.vicious.network import NetworkClassifier
from bayesrecon.precision import in_float32

_BATCH = 50  # number of records whose gradients are in memory together


@dataclass(frozen=True)
class DetectionScores:
    """Scores of one classifier. A large score suggests a vicious classifier. A low score is not evidence of an honest
    one.

    Attributes:
        tuning, tuning_centred: v for logits and for centred logits.
        gradient: relative norm of the mean gradient.
        offset: relative variance of the mean logit.
        offset_gain: improvement of the best linear reconstruction by the offset, in dB.
    """

    tuning: float
    tuning_centred: float
    gradient: float
    offset: float
    offset_gain: float

    def to_dict(self) -> dict[str, float]:
        """Scores by name."""
        return asdict(self)


@in_float32
def detection_scores(
    model: NetworkClassifier,
    images: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    rounds: int = 50,
    batch: int = 100,
    rate: float = 1e-4,
    records: int = 500,
    key: int = 0,
) -> DetectionScores:
    """Detection scores of a classifier, from fresh labelled records.

    Args:
        model: the classifier.
        images, y: records from the distribution of the training data that were not used in training. One half is used
            for fine-tuning, and the other half for the cosine.
        rounds, batch, rate: number of steps, batch size and learning rate of the fine-tuning with Adam.
        records: number of records whose gradients are computed.
        key: seed of the batches.

    Raises:
        BayesreconError: the labels do not fit the model, there are too few records for a batch, or there are no rounds.

    >>> from bayesrecon.attacks.outputs.decoder import Schedule
    >>> from bayesrecon.games.vicious import train
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 80)
    >>> images = 0.5 * rng.uniform(size=(80, 12, 12)) + 0.5 * y[:, None, None]
    >>> model = train(images[:40], y[:40], ratio=0, schedule=Schedule(epochs=3, batch=20)).classifier
    >>> 0 <= detection_scores(model, images[40:], y[40:], rounds=2, batch=20).gradient <= 1
    True
    """
    pixels = np.asarray(images, np.float32)
    flat = pixels.reshape(len(pixels), -1)
    labels = _labels(model, y)
    if len(labels) != len(flat):
        raise BayesreconError(f"{len(flat)} images and {len(labels)} labels: expected equal numbers")
    half = len(flat) // 2
    if rounds < 1 or not 0 < batch <= half:
        raise BayesreconError(f"rounds={rounds}, batch={batch}: expected at least 1, and a batch of at most {half}")
    tuned = _tuned(model, flat[:half], labels[:half], rounds, batch, rate, key)
    before, after = (np.asarray(model.logits(p, flat[half:]), float) for p in (model.params, tuned))
    z = np.asarray(model.logits(model.params, flat), float)
    centred = z - z.mean(axis=1, keepdims=True)
    return DetectionScores(
        _tuning_score(before, after),
        _tuning_score(*(v - v.mean(axis=1, keepdims=True) for v in (before, after))),
        _gradient(model, flat[:records], labels[:records]),
        float(z.mean(axis=1).var() / centred.var(axis=0).mean()),
        _gain(flat, z, centred),
    )


def _labels(model: NetworkClassifier, labels: npt.ArrayLike) -> np.ndarray:
    """Check the labels. A few fresh records need not contain every class."""
    y = np.asarray(labels)
    if model.eta is not None:
        if y.ndim != 2 or y.shape[1] != model.outputs or not np.isin(y, (0, 1)).all():
            raise BayesreconError(f"labels of shape {y.shape}: expected zeros and ones, (records, {model.outputs})")
        return y.astype(np.float32)
    if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y) or y.min() < 0 or y.max() >= model.outputs:
        raise BayesreconError(f"labels of shape {y.shape}: expected classes from 0 to {model.outputs - 1}")
    return y.astype(np.int32)


def _tuned(
    model: NetworkClassifier, x: np.ndarray, y: np.ndarray, rounds: int, batch: int, rate: float, key: int
) -> Tree:
    """The parameters after some steps of Adam for the claimed loss."""
    adam = optax.adam(rate)
    rng, rows = np.random.default_rng(key), []
    while len(rows) < rounds:
        order = rng.permutation(len(x))
        rows += [order[i : i + batch] for i in range(0, len(x) - batch + 1, batch)]

    @jax.jit
    def step(params: Tree, moments: Tree, x: Array, y: Array) -> tuple[Tree, Tree]:
        updates, moments = adam.update(jax.grad(model.loss)(params, x, y), moments, params)
        return optax.apply_updates(params, updates), moments

    params, moments = model.params, adam.init(model.params)
    for batch_rows in rows[:rounds]:
        params, moments = step(params, moments, x[batch_rows], y[batch_rows])
    return params


def _tuning_score(before: np.ndarray, after: np.ndarray) -> float:
    """v, from the logits before and after the fine-tuning."""
    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return float((1 - np.mean((before * after).sum(axis=1) / np.where(norms > 0, norms, 1.0))) / 2)


def _gradient(model: NetworkClassifier, x: np.ndarray, y: np.ndarray) -> float:
    """Norm of the summed gradient divided by the sum of the records' norms."""

    def of_record(params: Tree, x: Array, y: Array) -> tuple[Array, Tree]:
        gradient = jax.grad(model.loss)(params, x[None], y[None])
        return jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(gradient))), gradient

    @jax.jit
    def summed(params: Tree, x: Array, y: Array) -> tuple[Array, Tree]:
        norms, gradients = jax.vmap(of_record, (None, 0, 0))(params, x, y)
        return norms.sum(), jax.tree_util.tree_map(lambda v: v.sum(axis=0), gradients)

    norms, total = 0.0, None
    for i in range(0, len(x), _BATCH):
        batch_norms, gradient = summed(model.params, x[i : i + _BATCH], y[i : i + _BATCH])
        norms += float(batch_norms)
        total = gradient if total is None else jax.tree_util.tree_map(jnp.add, total, gradient)
    length = np.sqrt(sum(float(jnp.sum(v**2)) for v in jax.tree_util.tree_leaves(total)))
    return float(length / norms) if norms > 0 else 0.0


def _gain(x: np.ndarray, z: np.ndarray, centred: np.ndarray) -> float:
    """Improvement by the offset in dB, fitted on one half of the records and evaluated on the other."""
    half = len(x) // 2
    if half <= z.shape[1] + 1:
        return float("nan")
    errors = [
        np.mean((fitted_decoder(x[:half], outputs[:half])(outputs[half:]) - x[half:]) ** 2) for outputs in (centred, z)
    ]
    return float(10 * np.log10(errors[0] / errors[1]))


def roc_area(honest: npt.ArrayLike, vicious: npt.ArrayLike, *, level: float = 0.95) -> ConfidenceInterval:
    """Area under the ROC curve: the share of pairs in which the vicious model has the larger score. Ties count half.

    The interval over models is Newcombe's (2006, method 5). It uses Hanley and McNeil's variance at the candidate area,
    with the mean of the two numbers of models. So its width is not zero if a few models are separated perfectly.

    Args:
        honest, vicious: scores, one per independently trained model.
        level: level of the interval.
    """
    low, high = np.asarray(honest, float), np.asarray(vicious, float)
    if low.ndim != 1 or high.ndim != 1 or not (len(low) and len(high)) or not np.isfinite([*low, *high]).all():
        raise BayesreconError("a ROC area needs finite scores of at least one honest and one vicious model")
    area = float(np.mean(np.sign(high[:, None] - low[None]) / 2 + 0.5))
    mean_size, z = (len(low) + len(high)) / 2 - 1, float(scipy.stats.norm.ppf(0.5 + level / 2))

    def excess(t: float) -> float:
        variance = t * (1 - t) * (1 + mean_size * ((1 - t) / (2 - t) + t / (1 + t))) / (len(low) * len(high))
        return float((t - area) ** 2 - z**2 * variance)

    def limit(inner: float, outer: float) -> float:
        root: Any = scipy.optimize.brentq(excess, inner, outer) if excess(outer) > 0 else round(outer)
        return float(root)

    return ConfidenceInterval(
        area, 0.0 if area == 0 else limit(area - 1e-9, 1e-9), 1.0 if area == 1 else limit(area + 1e-9, 1 - 1e-9)
    )

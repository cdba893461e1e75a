"""Scores by which a third party may tell a vicious classifier from an honest one, and how well they do.

* *Fine-tuning* (Malekzadeh and Gunduz 2024): train F a little for the loss that it claims, on fresh labelled records;
  `v = (1 - C) / 2` with C the mean cosine of the logits before and after. The same for centred logits, as the task does
  not fix what is common to all of them.
* *Gradient*: norm of the mean gradient of the claimed loss on fresh records, relative to the mean norm of their own. An
  optimum of the claimed loss is stationary; of n records, chance alone leaves about `n^(-1/2)`.
* *Offset*: variance over records of the mean logit, relative to that of a centred one. The task's gradient along it is
  zero for every model, so nothing holds an honest one's near zero but how it began.

A low score is no all-clear. None of them measures what outputs give away, which `train_decoder` does, for honest models
too; a server that knows a score can train against it, and one that takes the mean off its logits has no offset.
"""

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize
import scipy.stats

from bayesrecon.attacks.outputs.linear_decoder import fitted_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.rates import Interval
from bayesrecon.games.vicious.network import NetworkClassifier
from bayesrecon.precision import in_float32

_TOGETHER = 50  # gradients of records held at once


@dataclass(frozen=True)
class DetectionScores:
    """Of one classifier; larger speaks for a vicious one, and a low one for nothing.

    Attributes:
        tuning, tuning_centred: v, of logits and of centred ones.
        gradient: relative norm. offset: relative variance.
        offset_gain: dB that the offset adds to the best linear reconstruction.
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
    images: Any,
    y: Any,
    *,
    rounds: int = 50,
    batch: int = 100,
    rate: float = 1e-4,
    records: int = 500,
    key: int = 0,
) -> DetectionScores:
    """The scores of a classifier that was received, from fresh labelled records.

    Args:
        images, y: records of the law that it was trained for, which it was not trained on; half of them are trained on,
            the cosine is taken on the others.
        rounds, batch, rate: of the fine-tuning, by Adam. records: whose gradients are taken.

    Raises:
        BayesreconError: labels that are none of the model's, too few records for a batch, or no rounds.

    >>> from bayesrecon.attacks.outputs.training import Schedule
    >>> from bayesrecon.games.vicious import train
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 80)
    >>> images = 0.5 * rng.uniform(size=(80, 12, 12)) + 0.5 * y[:, None, None]
    >>> model = train(images[:40], y[:40], ratio=0, schedule=Schedule(epochs=3, batch=20)).classifier
    >>> 0 <= detection_scores(model, images[40:], y[40:], rounds=2, batch=20).gradient <= 1
    True
    """
    flat = np.asarray(images, np.float32).reshape(len(images), -1)
    labels = _labels(model, y)
    if len(labels) != len(flat):
        raise BayesreconError(f"{len(flat)} images and {len(labels)} labels: expected as many")
    half = len(flat) // 2
    if rounds < 1 or not 0 < batch <= half:
        raise BayesreconError(f"rounds={rounds}, batch={batch}: expected 1 or more, a batch of at most {half} records")
    tuned = _tuned(model, flat[:half], labels[:half], rounds, batch, rate, key)
    before, after = (np.asarray(model.logits(p, flat[half:]), float) for p in (model.params, tuned))
    z = np.asarray(model.logits(model.params, flat), float)
    centred = z - z.mean(axis=1, keepdims=True)
    return DetectionScores(
        _apart(before, after),
        _apart(*(v - v.mean(axis=1, keepdims=True) for v in (before, after))),
        _gradient(model, flat[:records], labels[:records]),
        float(z.mean(axis=1).var() / centred.var(axis=0).mean()),
        _gain(flat, z, centred),
    )


def _labels(model: NetworkClassifier, y: Any) -> np.ndarray:
    """Few fresh records need not have every class."""
    y = np.asarray(y)
    if model.eta is not None:
        if y.ndim != 2 or y.shape[1] != model.outputs or not np.isin(y, (0, 1)).all():
            raise BayesreconError(f"labels of shape {y.shape}: expected zeros and ones, (records, {model.outputs})")
        return y.astype(np.float32)
    if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y) or y.min() < 0 or y.max() >= model.outputs:
        raise BayesreconError(f"labels of shape {y.shape}: expected classes from 0 to {model.outputs - 1}")
    return y.astype(np.int32)


def _tuned(model: NetworkClassifier, x: Any, y: Any, rounds: int, batch: int, rate: float, key: int) -> Any:
    adam = optax.adam(rate)
    rng, rows = np.random.default_rng(key), []
    while len(rows) < rounds:
        order = rng.permutation(len(x))
        rows += [order[i : i + batch] for i in range(0, len(x) - batch + 1, batch)]

    @jax.jit
    def step(params: Any, inner: Any, x: Any, y: Any) -> Any:
        moves, inner = adam.update(jax.grad(model.loss)(params, x, y), inner, params)
        return optax.apply_updates(params, moves), inner

    params, inner = model.params, adam.init(model.params)
    for part in rows[:rounds]:
        params, inner = step(params, inner, x[part], y[part])
    return params


def _apart(before: np.ndarray, after: np.ndarray) -> float:
    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return float((1 - np.mean((before * after).sum(axis=1) / np.where(norms > 0, norms, 1.0))) / 2)


def _gradient(model: NetworkClassifier, x: np.ndarray, y: np.ndarray) -> float:
    def one(params: Any, x: Any, y: Any) -> Any:
        slope = jax.grad(model.loss)(params, x[None], y[None])
        return jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(slope))), slope

    @jax.jit
    def some(params: Any, x: Any, y: Any) -> Any:
        norms, slopes = jax.vmap(one, (None, 0, 0))(params, x, y)
        return norms.sum(), jax.tree_util.tree_map(lambda v: v.sum(axis=0), slopes)

    norms, total = 0.0, None
    for i in range(0, len(x), _TOGETHER):
        more, slope = some(model.params, x[i : i + _TOGETHER], y[i : i + _TOGETHER])
        norms += float(more)
        total = slope if total is None else jax.tree_util.tree_map(jnp.add, total, slope)
    length = np.sqrt(sum(float(jnp.sum(v**2)) for v in jax.tree_util.tree_leaves(total)))
    return float(length / norms) if norms > 0 else 0.0


def _gain(x: np.ndarray, z: np.ndarray, centred: np.ndarray) -> float:
    """Fitted on one half of the records, in the errors of the other."""
    half = len(x) // 2
    if half <= z.shape[1] + 1:
        return float("nan")
    errors = [
        np.mean((fitted_decoder(x[:half], outputs[:half])(outputs[half:]) - x[half:]) ** 2) for outputs in (centred, z)
    ]
    return float(10 * np.log10(errors[0] / errors[1]))


def roc_area(honest: Any, vicious: Any, *, level: float = 0.95) -> Interval:
    """Share of pairs in which the vicious model has the larger score, ties counted half, with an interval over models.

    The interval is Newcombe's (2006, method 5): Hanley and McNeil's variance at the area that is judged, with the mean
    of both numbers of models, so that perfect separation of a few models still leaves doubt.

    Args:
        honest, vicious: scores, one of each independently trained model.

    Raises:
        BayesreconError: no models on a side, or scores that are not finite.

    >>> found = roc_area([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    >>> found.estimate, found.upper, round(found.lower, 2) < 0.6
    (1.0, 1.0, True)
    """
    low, high = np.asarray(honest, float), np.asarray(vicious, float)
    if low.ndim != 1 or high.ndim != 1 or not (len(low) and len(high)) or not np.isfinite([*low, *high]).all():
        raise BayesreconError("a ROC area needs finite scores of one honest and one vicious model at least")
    area = float(np.mean(np.sign(high[:, None] - low[None]) / 2 + 0.5))
    more, z = (len(low) + len(high)) / 2 - 1, float(scipy.stats.norm.ppf(0.5 + level / 2))

    def excess(t: float) -> float:
        spread = t * (1 - t) * (1 + more * ((1 - t) / (2 - t) + t / (1 + t))) / (len(low) * len(high))
        return float((t - area) ** 2 - z**2 * spread)

    def end(inner: float, outer: float) -> float:
        found: Any = scipy.optimize.brentq(excess, inner, outer) if excess(outer) > 0 else round(outer)
        return float(found)

    return Interval(
        area, 0.0 if area == 0 else end(area - 1e-9, 1e-9), 1.0 if area == 1 else end(area + 1e-9, 1 - 1e-9)
    )

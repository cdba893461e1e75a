"""Honest and vicious training of networks: a classifier and a decoder of its outputs, together.

    classifier:  beta_C L_C + beta_R L_R,    decoder:  beta_R L_R,    ratio = beta_R / beta_C,

where L_C is the cross-entropy of the classes or binary attributes, and L_R is the `ReconstructionLoss` (Malekzadeh and
Gunduz 2024, algorithm 1). One backward pass is enough for both, because the task's loss does not depend on the decoder.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.attacks.outputs.architectures import Network, Tree, perceptron
from bayesrecon.attacks.outputs.decoder import (
    HIDDEN,
    NetworkDecoder,
    ReconstructionLoss,
    Schedule,
    View,
    attribute_loss,
    attribute_weights,
    check_view,
    checked_images,
    class_loss,
    fit,
    start,
    viewed,
)
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Progress


@dataclass(frozen=True, eq=False)
class NetworkClassifier:
    """A network classifier `z = F(x)` with one logit per class or binary attribute.

    Attributes:
        network, params, state: the network, its parameters and its state.
        outputs: number of logits, N.
        eta: weights of the attributes; None for classes.
        centred: whether the mean of the logits is subtracted before they are released.
    """

    network: Network
    params: Tree
    state: Tree
    outputs: int
    eta: np.ndarray | None = None
    centred: bool = False

    def logits(self, params: Tree, x: Array) -> Array:
        """Logits `(M, N)` of records `(M, p)`, as a JAX function of the parameters."""
        return centred_logits(self.network.apply(params, self.state, x, False)[0], self.centred)

    def loss(self, params: Tree, x: Array, y: Array) -> Array:
        """The claimed training loss, averaged over records."""
        return task_loss(self.logits(params, x), y, self.eta)

    def __call__(self, x: npt.ArrayLike) -> Array:
        """Logits `(M, N)` of records `(M, p)` or images `(M, height, width)`; JAX can differentiate them."""
        records = jnp.asarray(x)
        return self.logits(self.params, records.reshape(len(records), -1).astype(jnp.float32))

    def accuracy(self, x: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Share of correct classes, or of correct attributes over all records."""
        return accuracy(np.asarray(self(x)), y)


@dataclass(frozen=True, eq=False)
class Vicious:
    """A classifier and the decoder that was trained with it.

    Attributes:
        classifier: function of records.
        decoder: function of the classifier's logits; None for an honest classifier.
        epoch: the best epoch by validation loss, counted from 1.
        losses: total loss on the validation records after every epoch.
    """

    classifier: NetworkClassifier
    decoder: NetworkDecoder | None
    epoch: int
    losses: list[float]


def train(
    images: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    ratio: float = 3.0,
    view: View = "logits",
    centred: bool = False,
    loss: ReconstructionLoss | None = None,
    classifier: Network | None = None,
    decoder: Network | None = None,
    schedule: Schedule | None = None,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> Vicious:
    """Train a classifier, honest or vicious.

    Args:
        images: `(m, height, width)` or `(m, height, width, colours)`, pixels in [0, 1].
        y: `(m,)` classes from 0 to N - 1, or `(m, N)` binary attributes.
        ratio: weight of the reconstruction relative to the task. Zero is an honest classifier without a decoder, and
            infinity is reconstruction only.
        view: input of the decoder: "logits", their "softmax", or the "sigmoid" of each.
        centred: whether to subtract the mean of the logits, on which the task does not depend. Not for attributes.
        loss: reconstruction loss. Defaults to `1 - SSIM + 5 Huber`.
        classifier, decoder: networks. Default to perceptrons p-512-256-N and N-256-512-p.
        schedule: epochs, batch size, learning rate, validation share and seed.
        checkpoint: an .npz file to resume from, as in `attacks.outputs.decoder.fit`.
        progress: called after every epoch.

    Raises:
        BayesreconError: pixels are outside [0, 1], the images have another shape, the labels are neither classes nor
            attributes, the ratio is negative, the view is unknown, or the checkpoint belongs to another training.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 60)
    >>> images = 0.5 * rng.uniform(size=(60, 12, 12)) + 0.5 * y[:, None, None]
    >>> model = train(images, y, schedule=Schedule(epochs=5, batch=20))
    >>> model.decoder(model.classifier(images)).shape, model.classifier.accuracy(images, y) > 0.9
    ((60, 144), True)
    """
    pixels, (labels, count) = checked_images(images), checked_labels(y)
    check_view(view)
    if len(pixels) != len(labels):
        raise BayesreconError(f"{len(pixels)} images and {len(labels)} labels: expected equal numbers")
    if math.isnan(ratio) or ratio < 0:
        raise BayesreconError(f"ratio={ratio}: expected 0 or more (infinity for reconstruction only)")
    if labels.ndim == 2 and (centred or view == "softmax"):
        raise BayesreconError("centred= and the softmax view are for classes; with binary attributes use another view")
    schedule, loss = schedule or Schedule(), loss or ReconstructionLoss()
    shape, flat = pixels.shape[1:], pixels.reshape(len(pixels), -1)
    task_weight, hiding_weight = (0.0, 1.0) if math.isinf(ratio) else (1.0, float(ratio))
    classifier = classifier or perceptron((flat.shape[1], *HIDDEN, count))
    decoder = decoder or perceptron((count, *HIDDEN[::-1], flat.shape[1]), sigmoid=True)
    training_rows, _ = schedule.parts(len(labels))
    eta = attribute_weights(labels[training_rows]).astype(np.float32) if labels.ndim == 2 else None

    def objective(params: Tree, state: Tree, batch: tuple[Array, ...], training: bool) -> tuple[Array, Tree]:
        x, y = batch
        z, after = classifier.apply(params["classifier"], state["classifier"], x, training)
        z, state = centred_logits(z, centred), state | {"classifier": after}
        total = task_weight * task_loss(z, y, eta) if task_weight else jnp.zeros((), jnp.float32)
        if hiding_weight:
            guess, after = decoder.apply(params["decoder"], state["decoder"], viewed(z, view), training)
            state = state | {"decoder": after}
            total = total + hiding_weight * loss(guess.reshape(len(x), *shape), x.reshape(len(x), *shape))
        return total, state

    initial = {"classifier": start(classifier, schedule.seed, 0)}
    if hiding_weight:
        initial["decoder"] = start(decoder, schedule.seed, 1)
    fitted = fit(
        objective,
        {k: v[0] for k, v in initial.items()},
        {k: v[1] for k, v in initial.items()},
        (flat, labels),
        schedule,
        label="training the classifier" + (" and the decoder" if hiding_weight else ""),
        description=f"{classifier.name}, {decoder.name}, ratio {ratio}, {view}, centred {centred}, {loss}",
        checkpoint=checkpoint,
        progress=progress,
    )
    trained = NetworkClassifier(
        classifier, fitted.params["classifier"], fitted.state["classifier"], count, eta, centred
    )
    if not hiding_weight:
        return Vicious(trained, None, fitted.epoch, fitted.losses)
    trained_decoder = NetworkDecoder(
        decoder, fitted.params["decoder"], fitted.state["decoder"], count, shape, view, fitted.epoch
    )
    return Vicious(trained, trained_decoder, fitted.epoch, fitted.losses)


def task_loss(z: Array, y: Array, eta: np.ndarray | None) -> Array:
    """Cross-entropy of classes, or of binary attributes with weights eta."""
    return class_loss(z, y) if eta is None else attribute_loss(z, y, eta)


def centred_logits(z: Array, centred: bool = True) -> Array:
    """Logits minus their mean, on which the softmax does not depend.

    >>> centred_logits(jnp.asarray([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """
    return z - z.mean(axis=-1, keepdims=True) if centred else z


def accuracy(z: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Share of correct labels: classes `(M,)` with the largest logit, or attributes `(M, N)` with the right sign."""
    logits, labels = np.asarray(z), np.asarray(y)
    if labels.ndim == 2:
        return float(np.mean((logits > 0) == (labels > 0)))
    return float(np.mean(logits.argmax(axis=1) == labels))


def checked_labels(y: npt.ArrayLike) -> tuple[np.ndarray, int]:
    """Classes `(m,)` or attributes `(m, N)` with 32 bits, and N."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] and labels.dtype.kind in "iufb" and np.isin(labels, (0, 1)).all():
        return labels.astype(np.float32), labels.shape[1]
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu":
        raise BayesreconError(
            f"labels of shape {labels.shape} and type {labels.dtype}: expected integers (records,) or zeros and ones "
            "(records, N)"
        )
    count = int(labels.max()) + 1
    if labels.min() < 0 or count < 2 or len(np.unique(labels)) < count:
        raise BayesreconError("labels: expected at least two classes, 0 to N - 1, each with at least one record")
    return labels.astype(np.int32), count


# Honest and vicious training of linear classifiers, in closed form: the exact analogue of networks.
#
# Let S be the covariance of the records (with a ridge), C their covariance with the indicators of the classes, and
# pi the mean of the indicators. Least squares on the indicators gives honest logits with `W = S^-1 C`. A server
# that also wants to reconstruct records minimises
#
#     E |y - pi - T V'(x - mean)|^2 + ratio E |x - mean - G V'(x - mean)|^2,    V'S V = 1,
#
# over V, T and G. This is a reduced-rank regression of both targets. The solution is V = S^-1/2 U, where U contains
# the leading eigenvectors of `S^-1/2 (C C' + ratio S S) S^-1/2`, and T = C'V. The logits are `T V'(x - mean) + pi`.
#
# The offset: adding the same number c(x) to all logits does not change the class. So logits can carry one more
# number at no cost. The best linear one is `a'(x - mean)`, where a is S^-1/2 times the leading eigenvector of the
# residual covariance of the records given the logits. Softmax removes the offset.


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """A linear classifier `z = W'(x - mean) + centre` with one logit per class.

    Attributes:
        mean: mean of the records, `(p,)`.
        covariance: S with its ridge, `(p, p)`.
        weights: W, `(p, N)`.
        centre: mean of the indicators of the classes, `(N,)`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    weights: np.ndarray
    centre: np.ndarray

    def __call__(self, x: npt.ArrayLike) -> np.ndarray:
        """Logits `(M, N)` of records `(M, p)`."""
        return np.asarray((np.asarray(x, float) - self.mean) @ self.weights + self.centre)

    def classes(self, x: npt.ArrayLike) -> np.ndarray:
        """The class of the largest logit, `(M,)`."""
        return np.asarray(self(x).argmax(axis=1))


def train_linear(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    ratio: float = 0.0,
    offset: bool = False,
    scale: float = 1.0,
    ridge: float = 1e-3,
) -> LinearClassifier:
    """Train a linear classifier, honest or vicious.

    Args:
        x: records, `(m, p)`.
        y: classes from 0 to N - 1, `(m,)`.
        ratio: weight of the reconstruction relative to the task. Zero is an honest classifier.
        offset: whether to use the offset of the logits, on which the task does not depend.
        scale: standard deviation of the offset, relative to the logits. It matters if the outputs are noisy.
        ridge: number added to the diagonal of S, relative to the mean variance.
    """
    x, y = np.asarray(x, float), np.asarray(y)
    if x.ndim != 2 or y.shape != x.shape[:1] or y.dtype.kind not in "iu" or not np.isfinite(x).all():
        raise BayesreconError(
            f"records {x.shape} and classes {y.shape} of type {y.dtype}: expected a table and integers"
        )
    count = int(y.max()) + 1 if len(y) else 0
    if count < 2 or y.min() < 0 or len(np.unique(y)) < count:
        raise BayesreconError("expected at least two classes, 0 to N - 1, each with at least one record")
    for name, value in (("ratio", ratio), ("scale", scale), ("ridge", ridge)):
        if not (np.isfinite(value) and value >= 0):
            raise BayesreconError(f"{name}={value}: expected a number, 0 or more")
    mean, indicators = x.mean(axis=0), np.eye(count)[y]
    records, share = x - mean, indicators.mean(axis=0)
    covariance = records.T @ records / len(x)
    covariance[np.diag_indices(len(mean))] += ridge * np.trace(covariance) / len(mean)
    cross_covariance = records.T @ (indicators - share) / len(x)  # C
    values, vectors = np.linalg.eigh(covariance)
    if not values[0] > 0:
        raise BayesreconError("the records do not vary in some direction; set ridge= to a positive number")
    inverse_root = vectors * values**-0.5 @ vectors.T
    target = inverse_root @ cross_covariance
    rank = min(count - 1, len(mean))
    leading = np.linalg.eigh(target @ target.T + ratio * covariance)[1][:, -rank:]
    basis = inverse_root @ leading  # V
    weights = basis @ (cross_covariance.T @ basis).T
    if offset and rank < len(mean):
        residual = np.eye(len(mean)) - leading @ leading.T
        direction = inverse_root @ np.linalg.eigh(residual @ covariance @ residual)[1][:, -1]
        sd = np.sqrt(np.einsum("pk,pq,qk->k", weights, covariance, weights).mean())
        weights = weights + scale * sd * direction[:, None]
    return LinearClassifier(mean, covariance, weights, share)

"""Training losses of classifiers and of decoders of their outputs (Malekzadeh and Gunduz 2024)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.divergence.similarity import structural_similarity
from bayesrecon.errors import BayesreconError


@dataclass(frozen=True)
class ReconstructionLoss:
    """`alpha (1 - SSIM) + gamma Huber_delta`, averaged over images and colours. Pixels are in [0, 1].

    Attributes:
        alpha, gamma: non-negative weights, not both zero.
        delta: error above which Huber's loss is linear.

    >>> float(ReconstructionLoss(alpha=0.0)(np.ones((1, 12, 12)), np.zeros((1, 12, 12))))
    2.5
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
    """Mean of `e^2 / 2` if `|e| < delta`, or else `delta (|e| - delta / 2)`, over all errors e.

    >>> float(huber(np.array([0.5, 3.0]), np.zeros(2)))
    1.3125
    """
    error = jnp.abs(jnp.asarray(guess) - truth)
    return jnp.where(error < delta, error**2 / 2, delta * (error - delta / 2)).mean()


def class_loss(logits: Array, y: Array) -> jax.Array:
    """Mean cross-entropy of logits `(M, N)` and classes `(M,)`.

    >>> round(float(class_loss(np.zeros((3, 4)), np.array([0, 1, 2]))), 4)  # log 4
    1.3863
    """
    return -jnp.take_along_axis(jax.nn.log_softmax(jnp.asarray(logits)), jnp.asarray(y)[:, None], axis=1).mean()


def attribute_loss(logits: Array, y: Array, weights: Array) -> Array:
    """Mean over records and binary attributes of `-eta y log s(z) - (1 - y) log(1 - s(z))`.

    Args:
        logits: z, `(M, N)`.
        y: `(M, N)` zeros and ones.
        weights: eta, `(N,)`, as from `attribute_weights`.

    >>> round(float(attribute_loss(np.zeros((1, 1)), np.ones((1, 1)), np.array([3.0]))), 4)  # 3 log 2
    2.0794
    """
    logits = jnp.asarray(logits)
    return (weights * y * jax.nn.softplus(-logits) + (1 - y) * jax.nn.softplus(logits)).mean()


def attribute_weights(y: ArrayLike) -> Float[np.ndarray, " N"]:
    """Ratio of zeros to ones of each attribute, `(N,)`.

    Raises:
        BayesreconError: all records have an attribute, or none has it.

    >>> attribute_weights([[0], [0], [0], [1]]).tolist()
    [3.0]
    """
    share = np.asarray(y, float).mean(axis=0)
    if not ((share > 0) & (share < 1)).all():
        raise BayesreconError("an attribute that all records have, or none, cannot be learnt: leave it out")
    return (1 - share) / share

"""Training losses of classifiers and of decoders of their outputs (Malekzadeh and Gunduz 2024)."""

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError

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

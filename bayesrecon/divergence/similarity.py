"""Structural similarity of images (Wang et al. 2004), differentiable, so that it can be a loss of reconstructions."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesrecon.errors import BayesreconError

# As published: an 11 by 11 Gaussian window, and constants that keep quotients finite, in units of the pixels' range.
_WINDOW, _SD = 11, 1.5
_K1, _K2 = 0.01, 0.03


def structural_similarity(x: ArrayLike, y: ArrayLike, *, value_range: float = 1.0) -> jax.Array:
    """Structural similarity (SSIM) of every pair of images: the mean over all windows inside of the image.

        (2 m m' + c1) (2 cov + c2) / ((m^2 + m'^2 + c1) (v + v' + c2)),    c1 = (0.01 range)^2, c2 = (0.03 range)^2,

    with moments under a Gaussian window of standard deviation 1.5, as two products `B X B'` with a banded matrix.

    Args:
        x, y: `(..., height, width)`, at least 11 pixels high and wide; JAX arrays may be traced.
        value_range: largest minus smallest legal value of a pixel.

    Returns:
        `(...)`, one for equal images.

    Raises:
        BayesreconError: images of different shapes or too small for a window.

    >>> image = np.random.default_rng(0).uniform(size=(16, 16))
    >>> float(structural_similarity(image, image)), bool(structural_similarity(image, 1 - image) < 0)
    (1.0, True)
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

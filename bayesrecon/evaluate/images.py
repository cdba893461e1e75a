"""Similarity of two images."""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError, MissingExtraError


def psnr(truth: ArrayLike, guess: ArrayLike, *, value_range: float) -> np.ndarray:
    """Peak signal-to-noise ratio `10 log10(range^2 / mean (truth - guess)^2)` in dB; infinite for equal images.

    Args:
        truth, guess: `(..., height, width)`.
        value_range: largest minus smallest legal value of a pixel: 2 for images in [-1, 1].

    Raises:
        BayesreconError: the images differ in shape, or have fewer than two dimensions.

    >>> import numpy as np
    >>> float(psnr(np.zeros((8, 8)), np.full((8, 8), 0.1), value_range=1).round(2))
    20.0
    """
    true, guessed = _images(truth, guess)
    error = np.mean((true - guessed) ** 2, axis=(-2, -1))
    with np.errstate(divide="ignore"):
        return 10 * np.log10(value_range**2 / error)


def ssim(truth: ArrayLike, guess: ArrayLike, *, value_range: float) -> np.ndarray:
    """Structural similarity with Gaussian windows of standard deviation 1.5 (Wang et al. 2004), by scikit-image.

    Args:
        truth, guess: `(..., height, width)`, at least 11 pixels high and wide; smaller images take the largest
            uniform window of odd width that fits, up to 7.
        value_range: largest minus smallest legal value of a pixel.

    Raises:
        BayesreconError: the images differ in shape, or are less than three pixels high or wide.
        MissingExtraError: scikit-image is not installed.

    >>> import numpy as np
    >>> image = np.random.default_rng(0).uniform(size=(16, 16))
    >>> float(ssim(image, image, value_range=1)), bool(ssim(image, 1 - image, value_range=1) < 0)
    (1.0, True)
    """
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        raise MissingExtraError("structural similarity", "images") from None
    true, guessed = _images(truth, guess)
    height, width = true.shape[-2:]
    smallest = min(height, width)
    if smallest < 3:
        raise BayesreconError(f"images of {height} by {width} pixels are too small for structural similarity")
    similarity = partial(structural_similarity, data_range=value_range)
    if smallest < 11:
        similarity = partial(similarity, win_size=min(7, smallest - 1 + smallest % 2))
    else:
        similarity = partial(similarity, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)
    pairs = zip(true.reshape(-1, height, width), guessed.reshape(-1, height, width), strict=True)
    values = [similarity(one, other) for one, other in pairs]
    return np.array(values).reshape(true.shape[:-2])


def _images(truth: ArrayLike, guess: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    true, guessed = np.asarray(truth, float), np.asarray(guess, float)
    if true.shape != guessed.shape or true.ndim < 2:
        raise BayesreconError(f"images of shapes {true.shape} and {guessed.shape}; expected (..., height, width) twice")
    return true, guessed

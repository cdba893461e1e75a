"""Similarity of two images."""

from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, MissingExtraError


def psnr(truth: Any, guess: Any, *, value_range: float) -> np.ndarray:
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
    truth, guess = _images(truth, guess)
    error = np.mean((truth - guess) ** 2, axis=(-2, -1))
    with np.errstate(divide="ignore"):
        return 10 * np.log10(value_range**2 / error)


def ssim(truth: Any, guess: Any, *, value_range: float) -> np.ndarray:
    """Structural similarity with Gaussian windows of standard deviation 1.5 (Wang et al. 2004), by scikit-image.

    Args:
        truth, guess: `(..., height, width)`, at least 11 pixels high and wide; smaller images take the largest
            uniform window of odd width that fits, up to 7.
        value_range: largest minus smallest legal value of a pixel.

    Raises:
        BayesreconError: images of different shapes, or less than three pixels high or wide.
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
    truth, guess = _images(truth, guess)
    height, width = truth.shape[-2:]
    smallest = min(height, width)
    if smallest < 3:
        raise BayesreconError(f"images of {height} by {width} pixels are too small for structural similarity")
    options: dict[str, Any] = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    if smallest < 11:
        options = {"win_size": min(7, smallest - 1 + smallest % 2)}
    pairs = zip(truth.reshape(-1, height, width), guess.reshape(-1, height, width), strict=True)
    values = [structural_similarity(t, g, data_range=value_range, **options) for t, g in pairs]
    return np.array(values).reshape(truth.shape[:-2])


def _images(truth: Any, guess: Any) -> tuple[np.ndarray, np.ndarray]:
    truth, guess = np.asarray(truth, float), np.asarray(guess, float)
    if truth.shape != guess.shape or truth.ndim < 2:
        raise BayesreconError(f"images of shapes {truth.shape} and {guess.shape}; expected (..., height, width) twice")
    return truth, guess

"""Structural similarity that can be differentiated, against scikit-image."""

import jax
import numpy as np
import pytest

from bayesrecon.attacks.outputs.decoder import structural_similarity
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import x64

similarity = jax.jit(structural_similarity)


@pytest.mark.parametrize("shape", [(11, 11), (28, 28), (17, 32)])
def test_it_is_that_of_scikit_image(shape):
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(3, *shape))
    y = np.clip(x + 0.3 * rng.normal(size=x.shape), 0, 1)
    expected = [
        metrics.structural_similarity(
            a, b, data_range=1.0, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
        )
        for a, b in zip(x, y, strict=True)
    ]
    with x64():
        np.testing.assert_allclose(similarity(x, y), expected, atol=1e-10)
    np.testing.assert_allclose(similarity(np.float32(x), np.float32(y)), expected, atol=1e-4)


def test_its_gradient_is_that_of_differences():
    rng = np.random.default_rng(1)
    x, y, way = rng.uniform(size=(3, 12, 13))
    with x64():
        slope = jax.jit(jax.grad(structural_similarity))(x, y)
        step = 1e-6 * way
        by_hand = (similarity(x + step, y) - similarity(x - step, y)) / 2e-6
        assert float((slope * way).sum()) == pytest.approx(float(by_hand), rel=1e-6)


def test_equal_flat_images_have_a_finite_gradient():
    flat = np.zeros((12, 12), np.float32)
    slope = jax.jit(jax.grad(structural_similarity))(flat, flat)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("other", [(12, 13), (12,), (10, 12)])
def test_images_it_does_not_take(other):
    with pytest.raises(BayesreconError, match=r"expected .* height, width"):
        structural_similarity(np.zeros(other if other == (10, 12) else (12, 12)), np.zeros(other))

"""Metrics against brute force, SciPy, scikit-learn and numbers worked out by hand."""

import itertools

import numpy as np
import pytest
import scipy.stats
from scipy.spatial import distance

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import (
    bootstrap,
    clopper_pearson,
    cosine_similarity,
    gaussian_mmd,
    mahalanobis,
    match,
    psnr,
    reconstruction_risk,
    ssim,
    wasserstein,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("cost", ["euclidean", "cosine"])
def test_the_assignment_is_the_best_of_all(cost):
    truth, guess = RNG.normal(size=(5, 3)), RNG.normal(size=(6, 3))
    costs = distance.cdist(truth, guess, cost)
    best = min(sum(costs[i, j] for i, j in enumerate(p)) for p in itertools.permutations(range(6), 5))
    found = match(truth, guess, cost=cost)
    assert found.cost.sum() == pytest.approx(best)
    assert len(set(found.guess)) == 5
    np.testing.assert_allclose(found.cost, costs[found.truth, found.guess], atol=1e-7)


def test_repeating_one_record_does_not_pay():
    truth = np.array([[0.0], [10.0], [20.0]])
    assert match(truth, truth[[0, 0, 0]]).cost.sum() == pytest.approx(30)
    assert match(truth, truth[::-1]).cost.sum() == 0


def test_cosine_similarity_is_scipys():
    a, b = RNG.normal(size=(4, 7)), RNG.normal(size=(4, 7))
    expected = [1 - distance.cosine(x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(cosine_similarity(a, b), expected)
    assert np.isnan(cosine_similarity(np.zeros(3), np.ones(3)))


def test_psnr_by_hand_and_by_scikit_image():
    metrics = pytest.importorskip("skimage.metrics")
    truth = RNG.uniform(-1, 1, (3, 12, 9))
    guess = truth + 0.2
    np.testing.assert_allclose(psnr(truth, guess, value_range=2), 20.0)
    noisy = truth + RNG.normal(0, 0.3, truth.shape)
    expected = [metrics.peak_signal_noise_ratio(t, g, data_range=2) for t, g in zip(truth, noisy, strict=True)]
    np.testing.assert_allclose(psnr(truth, noisy, value_range=2), expected)
    assert np.isinf(psnr(truth, truth, value_range=2)).all()


def test_ssim_by_its_formula():
    """With Gaussian windows (11 by 11), written out pixel by pixel; scikit-image leaves out a margin of 5."""
    pytest.importorskip("skimage.metrics")
    truth = RNG.uniform(0, 1, (16, 14))
    guess = np.clip(truth + RNG.normal(0, 0.2, truth.shape), 0, 1)
    offset = np.arange(-5, 6)
    window = np.exp(-(offset[:, None] ** 2 + offset**2) / (2 * 1.5**2))
    window /= window.sum()
    c1, c2 = 0.01**2, 0.03**2
    values = []
    for i, j in itertools.product(range(5, 11), range(5, 9)):
        x, y = (image[i - 5 : i + 6, j - 5 : j + 6] for image in (truth, guess))
        mx, my = (window * x).sum(), (window * y).sum()
        vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
        cov = (window * (x - mx) * (y - my)).sum()
        values.append((2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    assert float(ssim(truth, guess, value_range=1)) == pytest.approx(np.mean(values), rel=1e-9)
    assert ssim(truth[:8, :8], truth[:8, :8], value_range=1) == pytest.approx(1)
    assert ssim(np.stack([truth, truth]), np.stack([truth, guess]), value_range=1).shape == (2,)


def test_mmd_by_its_double_sum():
    x, y = RNG.normal(size=(6, 2)), RNG.normal(1, 1, size=(4, 2))
    a = RNG.random(6)

    def k(p, q):
        return np.exp(-distance.cdist(p, q, "sqeuclidean") / (2 * 0.7**2))

    w, v = a / a.sum(), np.full(4, 0.25)
    expected = np.sqrt(w @ k(x, x) @ w + v @ k(y, y) @ v - 2 * w @ k(x, y) @ v)
    assert gaussian_mmd(x, y, x_weights=a, bandwidth=0.7) == pytest.approx(expected)
    assert gaussian_mmd(x, x) == pytest.approx(0, abs=1e-7)
    # A record split into two half-weights changes nothing.
    assert gaussian_mmd(np.concatenate([x, x]), y, bandwidth=1.0) == pytest.approx(gaussian_mmd(x, y, bandwidth=1.0))


def test_wasserstein_is_scipys_and_a_shift_costs_its_length():
    x, y = RNG.normal(size=30), RNG.normal(1, 2, size=20)
    assert wasserstein(x, y) == pytest.approx(scipy.stats.wasserstein_distance(x, y))
    table = RNG.normal(size=(12, 3))
    assert wasserstein(table, table + [3.0, 4.0, 0.0]) == pytest.approx(5)
    uneven = wasserstein(table, table[:5], x_weights=np.r_[np.ones(5), np.zeros(7)])
    assert uneven == pytest.approx(0, abs=1e-9)
    with pytest.raises(BayesreconError, match="too many"):
        wasserstein(np.zeros((600, 2)), np.zeros((601, 2)))


def test_mahalanobis_and_risk():
    training = RNG.multivariate_normal([1, 2, 3], [[2, 0.5, 0], [0.5, 1, 0], [0, 0, 3]], 400)
    truth = training[:50]
    covariance = np.cov(training, rowvar=False)
    inverse = np.linalg.inv(covariance)
    expected = [distance.mahalanobis(t, training.mean(0), inverse) for t in truth]
    np.testing.assert_allclose(mahalanobis(truth, training.mean(0), covariance), expected)
    mean = np.broadcast_to(training.mean(0), truth.shape)
    assert reconstruction_risk(truth, mean, training) == pytest.approx(1)
    half = 0.5 * (truth + mean)
    assert reconstruction_risk(truth, half, training) == pytest.approx(2)


def test_clopper_pearson_by_the_beta_law():
    found = clopper_pearson(37, 50)
    assert found.estimate == 0.74
    assert found.lower == pytest.approx(scipy.stats.beta.ppf(0.025, 37, 14))
    assert found.upper == pytest.approx(scipy.stats.beta.ppf(0.975, 38, 13))
    assert clopper_pearson(5, 5).upper == 1
    with pytest.raises(BayesreconError, match="6 successes in 5"):
        clopper_pearson(6, 5)


def test_bootstrap_is_the_normal_interval_for_a_mean():
    values = RNG.normal(3, 2, 400)
    found = bootstrap(values, np.mean)
    half = 1.96 * values.std() / 20
    assert found.estimate == pytest.approx(values.mean())
    np.testing.assert_allclose(
        [found.lower, found.upper], [values.mean() - half, values.mean() + half], atol=0.15 * half
    )
    assert bootstrap(values, key=1) == bootstrap(values, key=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: match(np.zeros(3), np.zeros((3, 1))), "expected .records, fields."),
        (lambda: match(np.zeros((3, 2)), np.zeros((3, 1))), "2 columns and guess 1"),
        (lambda: match(np.zeros((3, 2)), np.full((3, 2), np.nan)), "missing"),
        (lambda: match(np.zeros((3, 2)), np.zeros((3, 2)), cost="l3"), "euclidean"),
        (lambda: psnr(np.zeros((3, 3)), np.zeros((3, 4)), value_range=1), "height, width"),
        (lambda: ssim(np.zeros((2, 2)), np.zeros((2, 2)), value_range=1), "too small"),
        (lambda: gaussian_mmd(np.zeros((3, 2)), np.zeros((3, 2)), x_weights=[1, -1, 1]), "non-negative"),
        (lambda: bootstrap([1.0]), "two values"),
    ],
)
def test_bad_input_is_one_line(call, message):
    if "too small" in message:
        pytest.importorskip("skimage.metrics")
    with pytest.raises(BayesreconError, match=message):
        call()

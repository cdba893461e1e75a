"""Diagnostics of draws and of probabilities."""

import tracemalloc

import arviz as az
import numpy as np
import pytest

from bayesrecon.diagnostics import calibration_table, effective_sample_size, split_r_hat
from bayesrecon.evaluate.truth import calibration_error


def test_effective_sample_size_and_r_hat_agree_with_arviz():
    rng = np.random.default_rng(9)
    noise = rng.normal(size=(4, 800, 3))
    series = np.empty_like(noise)
    series[:, 0] = noise[:, 0]
    for t in range(1, 800):
        series[:, t] = np.array([0.0, 0.7, -0.4]) * series[:, t - 1] + noise[:, t]
    flat, chain = series.reshape(-1, 3), np.repeat(np.arange(4), 800)
    ours, hats = effective_sample_size(flat, chain), split_r_hat(flat, chain)
    for j in range(3):
        data = az.convert_to_dataset(series[:, :, j])
        assert ours[j] == pytest.approx(float(az.ess(data, method="mean").x), rel=0.02)
        assert hats[j] == pytest.approx(float(az.rhat(data, method="split").x), abs=1e-3)


def test_series_that_are_all_constant_count_as_independent():
    assert effective_sample_size(np.ones((40, 3)), np.repeat([0, 1], 20)).tolist() == [40.0] * 3


def test_calibration_counts_every_bin():
    stated, right = np.array([0.55, 0.95, 0.95, 1.0]), np.array([True, True, False, True])
    assert [n for _, _, n in calibration_table(stated, right)] == [1, 3]
    assert calibration_error(stated, right) == pytest.approx((0.45 + abs(2.9 - 2)) / 4)


@pytest.mark.slow
def test_many_series_are_not_copied_at_once():
    rng = np.random.default_rng(0)
    series, chain = rng.normal(size=(100_000, 80)), np.repeat(np.arange(4), 25_000)
    tracemalloc.start()
    sizes = effective_sample_size(series, chain)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * series.nbytes
    np.testing.assert_array_equal(sizes[[3, 70]], effective_sample_size(series[:, [3, 70]], chain))

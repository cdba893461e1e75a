"""Rates and their intervals."""

import pytest

from bayesrecon.evaluate import clopper_pearson


def test_exact_binomial_interval():
    _, lower, upper = clopper_pearson(8, 10)
    assert (lower, upper) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert clopper_pearson(0, 10).lower == 0
    assert clopper_pearson(10, 10).upper == 1

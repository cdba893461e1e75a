"""Rates and their intervals."""

import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import bounded_mean, clopper_pearson


def test_exact_binomial_interval():
    _, lower, upper = clopper_pearson(8, 10)
    assert (lower, upper) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert clopper_pearson(0, 10).lower == 0
    assert clopper_pearson(10, 10).upper == 1


def test_the_mean_of_bounded_numbers():
    """The ends solve `n KL(mean || p) = log(2 / 0.05)`; all ones give `p^n = 0.05 / 2`, as the exact interval."""
    assert bounded_mean([1.0] * 10).lower == pytest.approx(clopper_pearson(10, 10).lower)
    assert bounded_mean([1.0] * 10).upper == 1
    assert bounded_mean([0.0] * 10)[:2] == (0, 0)
    coins = [1.0] * 7 + [0.0] * 3
    found, exact = bounded_mean(coins), clopper_pearson(7, 10)
    assert found.lower < exact.lower < 0.7 < exact.upper < found.upper
    for p in found[1:]:
        assert 10 * (0.7 * np.log(0.7 / p) + 0.3 * np.log(0.3 / (1 - p))) == pytest.approx(np.log(40))
    for wrong in ([], [1.2], [np.nan]):
        with pytest.raises(BayesreconError, match=r"values in \[0, 1\]"):
            bounded_mean(wrong)

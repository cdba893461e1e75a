"""Rates and their intervals."""

import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import clopper_pearson
from bayesrecon.evaluate.rate_intervals import bounded_mean


def test_exact_binomial_interval():
    _, lower, upper = clopper_pearson(8, 10)
    assert (lower, upper) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert clopper_pearson(0, 10).lower == 0
    assert clopper_pearson(10, 10).upper == 1


def test_the_mean_of_bounded_numbers():
    assert bounded_mean([1.0] * 10)[::2] == (1, 1)
    assert bounded_mean([0.0] * 10)[:2] == (0, 0)
    # Two numbers tell little of a mean, whatever they are; equal ones never give an interval without width.
    assert bounded_mean([0.4, 0.4]).lower < 0.05
    assert bounded_mean([0.4, 0.4]).upper > 0.8
    equal = bounded_mean([0.4] * 100_000)
    assert 0.399 < equal.lower < 0.4 < equal.upper < 0.401
    for wrong in ([], [1.2], [np.nan]):
        with pytest.raises(BayesreconError, match=r"values in \[0, 1\]"):
            bounded_mean(wrong)


@pytest.mark.parametrize(("law", "widest"), [((1.0, 1.0), 0.25), ((60.0, 30.0), 0.1), ((0.1, 0.4), 0.35)])
def test_the_mean_of_bounded_numbers_lies_in_its_interval(law, widest):
    """500 samples of 60: more than 41 misses at a level of 95 % have a probability below 0.001."""
    rng, (a, b) = np.random.default_rng(7), law
    found = [bounded_mean(rng.beta(a, b, 60)) for _ in range(500)]
    assert sum(not one.lower <= a / (a + b) <= one.upper for one in found) <= 41
    assert np.mean([one.upper - one.lower for one in found]) < widest  # 0.34 by Hoeffding's inequality at the least

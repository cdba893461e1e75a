"""Bounds on reconstruction from privacy: exact cases, and a mechanism that reaches them."""

import numpy as np
import pytest
from scipy.stats import norm
from written import refused

from bayesrecon.disclosure.robustness import reconstruction_bound


def test_known_cases():
    assert reconstruction_bound(0.25, epsilon=0.0) == 0.25  # nothing is released
    # Two records: the bound of the deletion games, e^epsilon / (1 + e^epsilon), lies below it.
    for epsilon in (0.5, 1.0, 3.0):
        bound = reconstruction_bound(0.5, epsilon=epsilon)
        assert bound == pytest.approx(1 - np.exp(-epsilon) / 2)
        assert bound >= 1 / (1 + np.exp(-epsilon))
    assert reconstruction_bound(0.01, epsilon=1.0, delta=0.02) == pytest.approx(np.e * 0.01 + 0.02)
    np.testing.assert_array_equal(reconstruction_bound([0.0, 1.0], epsilon=2.0), [0.0, 1.0])
    assert reconstruction_bound(0.3, mu=0.0) == pytest.approx(0.3)
    assert reconstruction_bound(0.9, epsilon=50.0) <= 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("count", [2, 5, 40])
def test_no_rule_does_better_under_randomised_response(epsilon, count):
    """One of K records, answered truly with the probability that epsilon allows: the best rule believes the answer."""
    success = np.exp(epsilon) / (np.exp(epsilon) + count - 1)
    assert success <= reconstruction_bound(1 / count, epsilon=epsilon)
    # It is reached up to the others' share, which vanishes as the records grow in number.
    assert success >= reconstruction_bound(1 / count, epsilon=epsilon) / (1 + (np.exp(epsilon) - 1) / count) - 1e-12


def test_gaussian_noise_reaches_the_bound_of_its_own_privacy():
    """Record 1 of rate kappa at distance mu, everything else at 0: the best set of releases is a half line."""
    kappa, mu = 0.1, 1.3
    threshold = norm.isf(kappa)
    assert reconstruction_bound(kappa, mu=mu) == pytest.approx(norm.sf(threshold - mu))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"guess": 1.2, "epsilon": 1.0}, "between 0 and 1"),
        ({"guess": np.nan, "epsilon": 1.0}, "between 0 and 1"),
        ({"guess": 0.1}, "give one of them"),
        ({"guess": 0.1, "epsilon": 1.0, "mu": 1.0}, "give one of them"),
        ({"guess": 0.1, "epsilon": -1.0}, "no negative number"),
        ({"guess": 0.1, "epsilon": 1.0, "delta": 1.0}, "delta below 1"),
        ({"guess": 0.1, "mu": np.nan}, "no negative number"),
    ],
)
def test_what_is_no_privacy_is_refused(options, said):
    refused(said, reconstruction_bound, options.pop("guess"), **options)

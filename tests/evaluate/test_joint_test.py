"""All recovered totals together, beside those of the records."""

import numpy as np
import pytest
from conjugate import regression_model, sample_regression

from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.joint_test import joint_test
from bayesrecon.posteriors import from_draws


@pytest.mark.slow
def test_chances_are_uniform():
    """Of exact draws, correlated ones included, by Kolmogorov and Smirnov."""
    from scipy.stats import kstest

    found = []
    for key in range(24):
        rng = np.random.default_rng(key)
        x = rng.normal(3, 2, (60, 1))
        y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, 60)
        draws = sample_regression(x, y, 1500, rng)
        again = {k: np.repeat(v, 2, axis=1) for k, v in draws.items()}  # as a sampler that stays where it is
        found.append(joint_test(from_draws(again if key % 2 else draws, regression_model()), {"x": x, "y": y}))
    assert {one.freedom for one in found} == {6}
    assert kstest([one.probability for one in found], "uniform").pvalue > 0.001
    off = joint_test(from_draws(draws, regression_model()), {"x": x, "y": y + 0.3})
    assert off.probability < 1e-6


@pytest.mark.slow
def test_what_has_no_joint_test(regression, logistic_case):
    data, release = regression
    with pytest.raises(BayesreconError, match="lack field 'y'"):
        joint_test(release, {"x": data["x"]})
    with pytest.raises(BayesreconError, match="too few"):
        joint_test(release.take(np.arange(200)), data)

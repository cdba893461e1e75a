"""Means of covariates from a prior of the centred intercept: exact, or not told."""

import numpy as np
import pytest
from scipy import stats

from bayesrecon.attacks.sidechannels.centred_prior import means_by_prior

PROGRAM = """
  lprior += student_t_lpdf(Intercept | 3, 111.7, 12.2);
  lprior += student_t_lpdf(sigma | 3, 0, 12.2)
    - 1 * student_t_lccdf(0 | 3, 0, 12.2);
"""
MEANS = np.array([56.65, 25.4, 0.45])


def draws(count, rng):
    """Of three slopes, as brms writes them."""
    slopes = rng.normal([0.4, 0.8, 2.0], [0.07, 0.2, 1.5], (count, 3))
    centred, sigma = rng.normal(111.0, 1.1, count), rng.gamma(60, 0.15, count)
    prior = stats.t.logpdf(centred, 3, 111.7, 12.2) + stats.t.logpdf(sigma, 3, 0, 12.2) - stats.t.logsf(0, 3, 0, 12.2)
    named = {"b_age": slopes[:, 0], "b_bmi": slopes[:, 1], "b_sexmale": slopes[:, 2]}
    return {"b_Intercept": centred - slopes @ MEANS, **named, "sigma": sigma, "lprior": prior}


@pytest.mark.parametrize("seed", range(5))
def test_the_means_come_back(seed):
    found = means_by_prior(PROGRAM, draws(200, np.random.default_rng(seed)))
    assert found.names == ("b_age", "b_bmi", "b_sexmale")
    np.testing.assert_allclose(found.values, MEANS, rtol=1e-6)
    assert np.all(found.errors < 1e-4)


def test_nothing_is_told_of_draws_that_do_not_obey_the_program():
    rng = np.random.default_rng(0)
    good = draws(200, rng)
    for name in ("b_age", "lprior", "sigma"):
        moved = good[name] + 0.01 * good[name].std() * rng.normal(size=200)
        assert means_by_prior(PROGRAM, {**good, name: moved}) is None
    assert means_by_prior(PROGRAM.replace("111.7", "90"), good) is None
    assert means_by_prior(PROGRAM + "  lprior += normal_lpdf(b | 0, 1);", good) is None
    assert means_by_prior(PROGRAM, {k: v for k, v in good.items() if k != "lprior"}) is None
    assert means_by_prior(PROGRAM, {k: v[:10] for k, v in good.items()}) is None


def test_rounded_draws_are_not_told_with_more_digits_than_they_have():
    rounded = {k: np.round(v, 3) for k, v in draws(200, np.random.default_rng(1)).items()}
    found = means_by_prior(PROGRAM, rounded)
    assert found is None or np.all(np.abs(found.values - MEANS) < 5 * found.errors + 1e-9)

"""The solve: its bias, and draws too few for the rank."""

import numpy as np
import pytest
from conjugate import regression_model, sample_regression, sample_slopes, slopes_model

import bayesrecon
from bayesrecon import Metric
from bayesrecon.divergence.mean_embedding import Moments, Stretch
from bayesrecon.estimation.jackknife import jackknifed
from bayesrecon.models import load
from bayesrecon.posteriors import from_draws


def test_too_few_draws_for_the_rank():
    """Three parameters and four draws give twelve equations; nine features leave no room to see the end."""
    rng = np.random.default_rng(10)
    values = {"beta": rng.normal(size=(1, 2, 9)), "sigma": rng.gamma(5, size=(1, 2))}
    release = from_draws(values, load("nes"))
    with pytest.raises(bayesrecon.BayesreconError, match="too few"):
        bayesrecon.recover(release)
    with pytest.raises(bayesrecon.BayesreconError, match="too few draws"):
        bayesrecon.recover(release, metric=Metric("identity"))


@pytest.mark.slow
def test_many_parameters_do_not_lower_the_count():
    """A metric estimated from the draws that it is summed over would make every total too small by 1 + d/T."""
    groups, z = 40, []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        group, x = rng.integers(groups, size=800), rng.integers(0, 2, 800)
        y = x + rng.normal(size=800)
        release = from_draws(sample_slopes(group, x, y, groups, 1000, rng), slopes_model(groups))
        found = bayesrecon.recover(release, statistics={"ones": lambda r: r["x"]})["total(ones)"]
        z.append((found.estimate - x.sum()) / found.se)
    assert abs(np.mean(z)) < 2  # four standard errors are lost otherwise


@pytest.mark.slow
def test_the_jackknife_takes_out_the_bias_of_a_solution():
    """A ratio of two means of T = 80 draws, `E[t] / E[g] = 2`, is too small by `(Cov(g, t) - 2 Var(g)) / T = 0.019`."""
    rng = np.random.default_rng(0)
    g = rng.gamma(2.0, 0.5, (4000, 20, 4))
    t = 2 * g + 3 * (g - 1) + 0.1 * rng.normal(size=g.shape)
    plain, found = [], []
    for gram, target in zip(g.mean(axis=2) / 20, t.mean(axis=2) / 20, strict=True):
        parts = [Stretch(1 / 20, np.array([[x]]), np.array([y])) for x, y in zip(gram, target, strict=True)]
        plain.append(np.array([target.sum() / gram.sum()]))
        found.append(jackknifed(Moments.of_stretches(parts, np.zeros((1, 1))), plain[-1]))
    error = np.std(plain) / np.sqrt(len(plain))
    assert abs(np.mean(plain) - 2 + 0.019) < 3 * error < 0.019
    assert abs(np.mean(found) - 2) < 3 * error
    assert np.std(found) < 1.05 * np.std(plain)


@pytest.mark.slow
@pytest.mark.parametrize("draws, few", [(40, True), (4000, False)])
def test_few_draws_for_many_features_are_noticed(draws, few):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6))
    y = x @ np.full(6, 0.3) + rng.normal(size=200)
    release = from_draws(sample_regression(x, y, draws, rng), regression_model(6))
    result = bayesrecon.recover(release)
    row = result["n"]
    assert (row.verdict == "determined") != few
    assert row.se is None if few else abs(row.estimate - 200) < 3 * row.se
    assert row.lower <= 200 <= row.upper
    for found in (result, bayesrecon.recover(release, total=200)):
        told = [w for w in found.warnings if w.startswith("few draws: ") and "for 36 features" in w]
        assert len(told) == few

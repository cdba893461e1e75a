"""Weights that stand beside draws are weights of the draws."""

import conjugate
import numpy as np
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_cmdstan, from_draws
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.readers import from_npz
from bayesrecon.posteriors.sources import accepted_draws

RECORDS = 80


@pytest.fixture(scope="module")
def posterior():
    """Data of a regression, and 4,000 exact draws of its posterior."""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (RECORDS, 1))
    y = 1 + 0.5 * x[:, 0] + rng.normal(0, 1.5, RECORDS)
    return x, y, conjugate.sample_regression(x, y, 4000, rng)


def log_density(x, y, variance, beta):
    """Up to a constant, in the logarithm of the variance, `(T,)`."""
    residual = ((y - beta[:, :1] - beta[:, 1:] * x[:, 0]) ** 2).sum(axis=1)
    prior = (beta**2).sum(axis=1) / conjugate.PRIOR_SCALE**2
    size = len(y) / 2 + conjugate.SHAPE + beta.shape[1] / 2
    return -size * np.log(variance) - ((residual + prior) / 2 + conjugate.RATE) / variance


@pytest.fixture(scope="module")
def states(posterior):
    """Four Metropolis chains: `(4, S)` states as `log variance, beta`, and how often each was visited in turn."""
    x, y, draws = posterior
    rng = np.random.default_rng(1)
    exact = np.column_stack([np.log(draws["variance"][0]), draws["beta"][0]])
    root = 1.4 * np.linalg.cholesky(np.cov(exact.T))
    found = []
    for chain in range(4):
        now = exact[chain]
        value = log_density(x, y, np.exp(now[None, 0]), now[None, 1:])[0]
        visited, count = [now], [1]
        while len(visited) < 1500:
            step = now + root @ rng.normal(size=3)
            there = log_density(x, y, np.exp(step[None, 0]), step[None, 1:])[0]
            if np.log(rng.random()) < there - value:
                now, value = step, there
                visited.append(now)
                count.append(1)
            else:
                count[-1] += 1
        found.append((np.array(visited), np.array(count)))
    return np.stack([s for s, _ in found]), np.stack([c for _, c in found])


def of(theta, **beside):
    return {"variance": np.exp(theta[..., 0]), "beta": theta[..., 1:], **beside}


@pytest.mark.slow
def test_visits_of_a_chain_count(states):
    """4.5 standard errors are exceeded once in 150,000 data sets; without the weights n is off by more."""
    theta, count = states
    release = from_draws(of(theta, weight=count), conjugate.regression_model())
    assert release.size == count.sum()
    assert release.notes == (
        "each state is repeated as often as weight says; weights=False (--weights none) gives all draws equal weight",
    )
    found = bayesrecon.recover(release)
    assert found.consistent
    assert abs(found["n"].estimate - RECORDS) < 4.5 * found["n"].se
    assert found["n"].ess < 0.5 * release.size
    plain = from_draws(of(theta), conjugate.regression_model())
    wrong = bayesrecon.recover(plain, force=True)["n"]
    assert abs(wrong.estimate - RECORDS) > 4.5 * wrong.se


def test_visits_are_those_of_chains_that_repeat_their_states(states):
    theta, count = states
    model = conjugate.regression_model()
    release = from_draws(of(theta, mult=count), model)
    repeated = [np.repeat(t, c, axis=0) for t, c in zip(theta, count, strict=True)]
    assert np.allclose(release.theta, np.concatenate(repeated), rtol=1e-12)
    assert np.array_equal(release.chain, np.repeat([1, 2, 3, 4], count.sum(axis=1)))
    assert np.ptp(release.weights) == 0


def test_an_audit_sees_every_draw_once(states):
    theta, count = states
    release, kept = accepted_draws(Draws(of(theta, weight=count)), conjugate.regression_model())
    assert np.array_equal(kept, np.arange(count.size))
    assert np.allclose(release.weights, count.ravel() / count.sum())


@pytest.fixture(scope="module")
def sampled(posterior):
    """Draws of a wider normal law, `(1, T, 3)`, and the logarithms of their importance weights."""
    x, y, draws = posterior
    rng = np.random.default_rng(2)
    exact = np.column_stack([np.log(draws["variance"][0]), draws["beta"][0]])
    covariance = 1.5 * np.cov(exact.T)
    theta = rng.multivariate_normal(exact.mean(axis=0), covariance, 6000)
    off = theta - exact.mean(axis=0)
    log_q = -((off @ np.linalg.inv(covariance)) * off).sum(axis=1) / 2
    return theta[None], (log_density(x, y, np.exp(theta[:, 0]), theta[:, 1:]) - log_q)[None]


@pytest.mark.parametrize("name", ["weight", "weights", "log_weight"])
def test_importance_weights_count(sampled, name):
    theta, log_weight = sampled
    weight = np.exp(log_weight - log_weight.max())
    given = log_weight if name == "log_weight" else 7 * weight
    release = from_draws(of(theta, **{name: given}), conjugate.regression_model())
    assert np.allclose(release.weights, weight[0] / weight.sum())
    assert f"draws are weighted by {name}: effective sample size" in release.notes[0]
    found = bayesrecon.recover(release)
    assert found.consistent
    assert abs(found["n"].estimate - RECORDS) < 4.5 * found["n"].se


def test_weights_of_another_name(sampled):
    theta, log_weight = sampled
    model, values = conjugate.regression_model(), of(theta, w=np.exp(log_weight - log_weight.max()))
    with pytest.raises(BayesreconError, match="hold w, which model"):
        from_draws(values, model)
    assert np.ptp(from_draws(values, model, weights="w").weights) > 0
    with pytest.raises(BayesreconError, match="weights='v': the draws have no variable of this name"):
        from_draws(values, model, weights="v")
    with pytest.raises(BayesreconError, match=r"weights='beta': its shape is \(1, 6000, 2\)"):
        from_draws(values, model, weights="beta")


def test_columns_that_are_not_weights_are_ignored_or_refused(sampled):
    theta, log_weight = sampled
    model = conjugate.regression_model()
    equal = from_draws(of(theta, weight=np.ones_like(log_weight)), model)
    assert equal.notes == ()
    assert np.ptp(equal.weights) == 0
    left = from_draws(of(theta, weight=log_weight), model, weights=False, ignore_unknown=True)
    assert np.ptp(left.weights) == 0
    assert left.notes == ("model regression does not have weight: ignored",)
    with pytest.raises(BayesreconError, match="weight holds the weights of the draws, but some are negative"):
        from_draws(of(theta, weight=log_weight), model)
    with pytest.raises(BayesreconError, match="hold weight and log_weight, which both look like weights"):
        from_draws(of(theta, weight=np.exp(log_weight), log_weight=log_weight), model)
    several = np.ones((*log_weight.shape, 3))
    assert from_draws(of(theta, weights=several), model, ignore_unknown=True).notes[0].endswith("weights: ignored")


def test_a_parameter_may_be_called_weight():
    import numpyro
    import numpyro.distributions as dist

    from bayesrecon.models import from_numpyro

    def program(y):
        weight = numpyro.sample("weight", dist.Normal(0, 1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(weight, 1), obs=y)

    values = np.random.default_rng(0).normal(size=(1, 50))
    release = from_draws({"weight": values}, from_numpyro(program, {"y": ()}))
    assert np.array_equal(release.theta[:, 0], values[0])
    assert np.ptp(release.weights) == 0


def test_weights_in_files(states, tmp_path):
    theta, count = states
    model = conjugate.regression_model()
    paths = []
    for chain in range(4):
        table = np.column_stack([count[chain], np.exp(theta[chain, :, 0]), theta[chain, :, 1:]])
        paths.append(tmp_path / f"mh_{chain + 1}.csv")
        np.savetxt(paths[-1], table, delimiter=",", header="weight,variance,beta.1,beta.2", comments="")
    np.savez(tmp_path / "mh.npz", **of(theta, weight=count))
    expected = from_draws(of(theta, weight=count), model)
    for release in (from_cmdstan(paths, model), from_npz(tmp_path / "mh.npz", model)):
        assert np.allclose(release.theta, expected.theta, rtol=1e-12)
        assert np.array_equal(release.chain, expected.chain)
    with pytest.raises(BayesreconError, match="weight may be the weights of the draws, which cannot be read in blocks"):
        bayesrecon.posteriors.from_file(paths, model)


def test_weights_that_leave_next_to_nothing(sampled):
    theta, log_weight = sampled
    model, few = conjugate.regression_model(), np.zeros_like(log_weight)
    with pytest.raises(BayesreconError, match="weight holds the weights of the draws, but all are zero"):
        from_draws(of(theta, weight=few), model)
    few[0, :20] = 1.5
    with pytest.raises(BayesreconError, match="the effective sample size of 6000 draws weighted by weight is 20"):
        from_draws(of(theta, weight=few), model)


def test_a_failure_asks_about_the_weights(posterior):
    """Exact draws of which one half is said to count a quarter: the prior is not the only suspect."""
    draws = posterior[2]
    theta = np.column_stack([np.log(draws["variance"][0]), draws["beta"][0]])[None]
    weight = np.where(theta[..., 1] > np.median(theta[..., 1]), 1.0, 0.25)
    found = bayesrecon.recover(from_draws(of(theta, weight=weight), conjugate.regression_model()))
    assert found.failures[-1].endswith("Or are the weights not those of these draws?")

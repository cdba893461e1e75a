"""Chains that differ, that have not converged or that were put in order, and chains of one distribution."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import lfilter

import bayesrecon
from bayesrecon.estimation.checks.chains import check_chains
from bayesrecon.estimation.checks.check import CheckInput, nothing
from bayesrecon.estimation.scored import ScoredDraws

ROOT = np.linalg.cholesky(np.full((4, 4), 0.6) + 0.4 * np.eye(4))


def failures(x: np.ndarray, weights: np.ndarray | None = None) -> tuple[str, ...]:
    """Of chains `(m, n, d)`."""
    chains, length, d = x.shape
    size = chains * length
    weights = np.full(size, 1 / size) if weights is None else weights
    theta = x.reshape(size, d)
    draws = ScoredDraws(theta, weights, np.repeat(np.arange(1, chains + 1), length), theta)
    return check_chains(CheckInput(tuple("abcd"[:d]), draws, lambda h, j, into: nothing(h, j, into)[None]))


def chains_of(rng: np.random.Generator, along: float = 0.0, chains: int = 4, length: int = 1000) -> np.ndarray:
    """Normal autoregressive chains `(chains, length, 4)`, stationary from the first draw."""
    steps = rng.normal(size=(chains, length, 4))
    steps[:, 1:] *= np.sqrt(1 - along**2)
    return lfilter([1], [1, -along], steps, axis=1) @ ROOT.T


def other_data(x, rng):
    """As a posterior of other data: the same mean, but other variances and correlations."""
    wishart = np.linalg.cholesky(np.cov(rng.normal(size=(4, 60))))
    x[3] = rng.normal(size=x[3].shape) @ (ROOT @ wishart).T


def narrowest_direction(x, rng):
    direction = np.linalg.eigh(ROOT @ ROOT.T)[1][:, 0]
    x[3] += 0.4 * np.outer(x[3] @ direction, direction)


def other_correlations(x, rng):
    x[3] = rng.normal(size=x[3].shape) @ np.linalg.cholesky(np.full((4, 4), 0.4) + 0.6 * np.eye(4)).T


def one_coordinate_stuck(x, rng):
    x[3, :, 1] = x[3, 0, 1]


def stuck_at_the_end(x, rng):
    x[3, 700:, 1] = x[3, 700, 1]


def warm_up(x, rng):
    x[:, :30] += np.linspace(4, 0, 30)[:, None] * np.array([1, -1, 1, -1])[:, None, None]


def narrow_warm_up(x, rng):
    x[:, :120] *= 0.5


def sorted_by_density(x, rng):
    distance = (np.linalg.solve(ROOT, x[..., None])[..., 0] ** 2).sum(axis=2)
    x[:] = np.take_along_axis(x, distance.argsort(axis=1)[:, :, None], axis=1)


def sorted_by_one(x, rng):
    x[:] = np.take_along_axis(x, x[:, :, :1].argsort(axis=1), axis=1)


def jittered_copy(x, rng):
    x[3] = x[1] + 1e-6 * rng.normal(size=x[1].shape)


def jittered_copy_backwards(x, rng):
    x[3] = x[1, ::-1] + 1e-6 * rng.normal(size=x[1].shape)


def one_seed(x, rng):
    x[3] = 0.8 * x[1] + 0.6 * x[3]


FAULTS = (
    other_data, narrowest_direction, other_correlations, one_coordinate_stuck, stuck_at_the_end, warm_up,
    narrow_warm_up, sorted_by_density, sorted_by_one, jittered_copy, jittered_copy_backwards, one_seed,
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_chains_that_differ_fail_whatever_their_means(fault: Callable[[np.ndarray, np.random.Generator], None]):
    rng = np.random.default_rng(1)
    x = chains_of(rng)
    fault(x, rng)
    x -= x.mean(axis=1, keepdims=True) * (fault is other_data)
    assert failures(x)


@pytest.mark.parametrize("along", [0.0, 0.7])
@pytest.mark.parametrize("chains", [1, 4])
def test_chains_of_one_distribution_pass(along: float, chains: int):
    """Heavy tails and skewness included: ranks do not see them."""
    rng = np.random.default_rng(chains)
    for tails, length in ((np.array, 100), (np.sinh, 1000)):
        x = tails(chains_of(rng, along, chains, length))
        assert not failures(x)
        assert not failures(x[:, ::-1])


def test_a_sorted_chain_is_told_by_what_it_is_sorted():
    x = chains_of(np.random.default_rng(0))
    sorted_by_one(x, None)
    (failure,) = failures(x)
    assert "sorted, which no sampler does: they stand in the order of a " in failure


@pytest.mark.parametrize("verb", [bayesrecon.recover, bayesrecon.diagnose])
def test_chains_far_apart_are_refused_before_anything_is_computed(verb):
    rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    coef = rng.normal(2, 0.1, (4, 400, 1, 1)) + 20 * np.arange(4)[:, None, None, None]
    draws = {"coef": coef, "intercept": rng.normal(1, 0.1, (4, 400, 1))}
    with pytest.raises(bayesrecon.BayesreconError, match=r"R-hat of coef\[1,1\] is .*force=True"):
        verb(draws, model=model)


def test_force_shows_what_chains_far_apart_give():
    rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    coef = rng.normal(2, 0.1, (4, 400, 1, 1)) + 20 * np.arange(4)[:, None, None, None]
    found = bayesrecon.recover({"coef": coef, "intercept": rng.normal(1, 0.1, (4, 400, 1))}, model=model, force=True)
    assert any("converged" in failure or "differ" in failure for failure in found.failures)
    assert not any(row.verdict == "determined" for row in found)

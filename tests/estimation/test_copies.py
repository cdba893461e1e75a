"""Copies count once, whatever their order; a sampler that stays where it is copies nothing."""

from dataclasses import replace

import conjugate
import numpy as np
import pytest

import bayesrecon
from bayesrecon.estimation.checks.copies import counted_once
from bayesrecon.precision import x64


def of(release, theta, chain, weights=None):
    weights = np.full(len(theta), 1 / len(theta)) if weights is None else weights
    return replace(release, theta=theta, chain=chain, weights=weights)


@pytest.fixture
def draws(small):
    """400 draws in two chains."""
    release = small[1]
    return of(release, np.asarray(release.theta), np.repeat([1, 2], 200))


def test_exact_draws_are_let_pass(draws):
    assert counted_once(draws) is draws


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), np.random.default_rng(0).permutation(200)])
def test_a_copied_chain_is_left_out_in_any_order(draws, order):
    one = draws.theta[:200]
    copied = of(draws, np.concatenate([one, one[order], draws.theta[200:]]), np.repeat([1, 2, 3], 200))
    found = counted_once(copied)
    assert np.array_equal(found.theta, draws.theta)
    np.testing.assert_allclose(found.weights, 1 / 400)
    assert list(np.unique(found.chain)) == [1, 3]
    assert found.notes[-1] == "200 of 600 draws are copies of others (all of chain 2): each counts once"


def test_errors_are_those_of_the_draws_that_are_left(draws):
    four = of(draws, np.concatenate([draws.theta] * 4), np.repeat([1, 2, 3, 4], 400))
    found, one = bayesrecon.recover(four)["n"], bayesrecon.recover(of(draws, draws.theta, np.ones(400, int)))["n"]
    assert found.estimate == pytest.approx(one.estimate, rel=1e-9)
    assert found.se == pytest.approx(one.se, rel=1e-6)


def test_repeated_states_of_one_visit_stay(draws):
    """As Metropolis chains have them."""
    slow = of(draws, np.repeat(draws.theta[::4], 4, axis=0), draws.chain)
    assert counted_once(slow) is slow


def test_resampled_draws_keep_their_weight(draws):
    rows = np.random.default_rng(0).choice(400, 400)
    resampled = of(draws, draws.theta[rows], np.ones(400, int))
    found = counted_once(resampled)
    assert abs(found.size - len(np.unique(rows))) < 4  # some stand next to each other
    np.testing.assert_allclose(found.weights @ found.theta, resampled.theta.mean(axis=0))


def test_values_that_agree_because_they_were_rounded_are_no_copies(draws):
    rounded = of(draws, np.round(draws.theta, 1), draws.chain)
    assert len(np.unique(rounded.theta, axis=0)) < 300
    assert counted_once(rounded) is rounded


@pytest.fixture
def printed(draws):
    """Values that vary together, to two digits."""

    def of_chains(count, rng):
        one = rng.normal(26, 6, 1000 * count)
        values = np.stack([rng.normal(18, 0.6, one.size), one, one / 10 + rng.normal(0, 0.05, one.size)], axis=1)
        values = np.vectorize(lambda v: float(f"{v:.2g}"))(values)
        theta = np.column_stack([np.log(values[:, 0]), values[:, 1:]])
        chain = np.repeat(range(count), 1000)
        return replace(draws, model=conjugate.regression_model(), **fields(theta, chain))

    def fields(theta, chain):
        return {"theta": theta, "chain": chain, "weights": np.full(len(theta), 1 / len(theta))}

    return of_chains


def test_values_that_vary_together_agree_more_often(printed):
    with x64():
        rounded = printed(4, np.random.default_rng(1))
        assert len(np.unique(rounded.theta, axis=0)) < 2500
        assert counted_once(rounded) is rounded


def test_a_chain_of_rounded_draws_that_was_copied_is_left_out(printed):
    rng = np.random.default_rng(1)
    with x64():
        whole = printed(4, rng)
        copied = of(whole, np.concatenate([whole.theta, whole.theta[rng.permutation(1000)]]), np.repeat(range(5), 1000))
        found = counted_once(copied)
    assert np.array_equal(found.theta, whole.theta)
    assert found.notes[-1] == "1000 of 5000 draws are copies of others (all of chain 4): each counts once"

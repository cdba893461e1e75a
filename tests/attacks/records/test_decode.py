"""Decoding against enumeration."""

import itertools

import numpy as np

from bayesrecon.attacks.records.solution_noise import decode


def test_probabilities_are_those_of_enumeration():
    """Expectation propagation against the sum over all 2^8 tables of a correlated system."""
    rng = np.random.default_rng(3)
    n = 8
    root = rng.normal(size=(n, 40))
    precision = 0.4 * root @ root.T / 4
    truth = rng.integers(0, 2, n)
    solution = truth + np.linalg.cholesky(np.linalg.inv(precision)) @ rng.normal(size=n)
    candidates = np.tile([[0.0], [1.0]], (n, 1, 1))
    log_prior = np.log(rng.dirichlet([3, 3], n))
    found = decode(precision, solution, candidates, log_prior)
    tables = np.array(list(itertools.product([0, 1], repeat=n)))
    gap = tables - solution
    energy = -0.5 * np.einsum("kn,nm,km->k", gap, precision, gap) + sum(log_prior[i, tables[:, i]] for i in range(n))
    weight = np.exp(energy - energy.max())
    exact = (weight[:, None] * tables).sum(axis=0) / weight.sum()
    assert np.abs(found[:, 1] - exact).max() < 0.06
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_two_coordinates_a_row_and_padding():
    """Rows of two features with different numbers of legal values; without noise the true ones have probability one."""
    rng = np.random.default_rng(4)
    candidates = rng.normal(size=(5, 4, 2))
    log_prior = np.zeros((5, 4))
    log_prior[2, 3] = -np.inf
    truth = candidates[np.arange(5), [0, 1, 2, 3, 0]]
    found = decode(1e6 * np.eye(10), truth.ravel(), candidates, log_prior)
    assert found.argmax(axis=1).tolist() == [0, 1, 2, 3, 0]
    assert found.max(axis=1).min() > 0.999
    assert found[2, 3] == 0


def test_values_that_differ_by_rounding_are_the_same():
    """A direction in which the candidates move by rounding alone must not be taken for one of their distances."""
    rng, n = np.random.default_rng(0), 40
    candidates = np.zeros((n, 3, 2))
    candidates[:, 1, 0] = 1
    candidates[:, 2] = 1 / 3
    candidates += 2e-9 * rng.normal(size=candidates.shape)
    truth = rng.integers(0, 2, n)
    solution = candidates[np.arange(n), truth].ravel()
    root = rng.normal(size=(2 * n, 2 * n))
    root[1::2] = 0  # nothing is seen of the second coordinate
    found = decode(50 * root @ root.T, solution, candidates, np.tile(np.log([0.6, 0.39, 0.01]), (n, 1)))
    assert (found.argmax(axis=1) == truth).all()

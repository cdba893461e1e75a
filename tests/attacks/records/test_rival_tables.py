"""Rival tables, against all tables there are."""

import itertools

import numpy as np
import pytest

from bayesrecon.attacks.records.blocks import layered
from bayesrecon.attacks.records.solution_noise import BinaryTable, odds_against, with_rival_tables


@pytest.fixture
def table():
    """Three persons and three items: sums over either are known well, single answers hardly."""
    place = np.arange(9).reshape(3, 3)
    sets = [*place, *place.T]
    precision = layered(sets, [np.ones((3, 3)) + 0.02 * np.eye(3) for _ in sets], 9)
    truth = np.array([1, 0, 1, 0, 1, 1, 0, 0, 1])
    solution = truth + 0.1 * np.random.default_rng(3).normal(size=9)
    candidates, log_prior = np.tile([[0.0, 1.0]], (9, 1)), np.log(np.random.default_rng(1).dirichlet([5, 5], 9))
    return BinaryTable(precision, 40.0, solution, candidates, log_prior), solution, log_prior


def energies(table, solution, log_prior):
    tables = np.array(list(itertools.product([0, 1], repeat=9)))
    gap = solution - tables
    quadratic = np.einsum("kn,nm,km->k", gap, 40 * table.precision.dense(), gap)
    return tables, -0.5 * quadratic + log_prior[np.arange(9), tables].sum(axis=1)


def test_flips_gain_what_the_table_gains(table):
    table, solution, log_prior = table
    tables, energy = energies(table, solution, log_prior)
    of = {tuple(t): e for t, e in zip(tables.tolist(), energy, strict=True)}
    start = np.array([1, 1, 0, 0, 1, 0, 0, 0, 1])
    table.start(start)
    for row in (4, 0, 4, 7):
        before = of[tuple(table.chosen.tolist())]
        gain = table.gains[row]
        table.flip(row)
        assert of[tuple(table.chosen.tolist())] - before == pytest.approx(gain)
    held = table.chosen.copy()
    for gain, path in table.paths(2):
        other = held.copy()
        other[path] = 1 - other[path]
        assert of[tuple(other.tolist())] - of[tuple(held.tolist())] == pytest.approx(gain)
    assert (table.chosen == held).all()


def test_the_best_table_and_its_rivals_are_found(table):
    """From any table. Odds are those of the best table with another value, or less where it is unlikely."""
    table, solution, log_prior = table
    tables, energy = energies(table, solution, log_prior)
    top = tables[energy.argmax()]
    rival = np.array([np.exp(energy[tables[:, i] != top[i]].max() - energy.max()) for i in range(9)])
    for seed in range(5):
        best, odds = odds_against(table, np.random.default_rng(seed).integers(0, 2, 9))
        assert (best == top).all()
        assert (odds <= rival * (1 + 1e-6)).all()
        assert (odds[rival > 0.05] > 0.05).all()


def test_no_certainty_survives_a_rival(table):
    """Certain of the second best table, which other values on some rows leave almost as likely as the best."""
    table, solution, log_prior = table
    tables, energy = energies(table, solution, log_prior)
    top = tables[energy.argmax()]
    swapped = top.copy()
    swap = [i for i in range(9) if top[i] != tables[energy.argsort()[-2]][i]]
    swapped[swap] = 1 - swapped[swap]
    certain = np.full((9, 2), 1e-9)
    certain[np.arange(9), swapped] = 1 - 1e-9
    found = with_rival_tables(table, certain)
    assert (found.argmax(axis=1) == top).all()
    assert found[swap].max() < 0.51
    np.testing.assert_allclose(found.sum(axis=1), 1)
    # What was no more than likely stays what it was, where there is no rival.
    likely = np.full((9, 2), 0.4)
    likely[np.arange(9), top] = 0.6
    assert (with_rival_tables(table, likely).max(axis=1) <= 0.6 + 1e-12).all()

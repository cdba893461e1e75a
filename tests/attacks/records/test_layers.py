"""A sum of block-diagonal layers against the array it is."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse
from answered import answers, design, parts

import bayesrecon
from bayesrecon.attacks.records import solution_noise as noise_module
from bayesrecon.attacks.records import system as system_module
from bayesrecon.attacks.records.blocks import NotSolved, Solver, layered
from bayesrecon.attacks.records.solution_noise import DenseNoise, LayeredNoise, decode, decode_layers, noise_of
from bayesrecon.attacks.records.system import halves_of, in_layers, is_worthwhile, make_system, solved
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws

PERSONS, ITEMS = 30, 12


def crossed(seed, draws=400):
    """Blocks of a table of persons and items, and what the rows of a set do together: as products of derivatives that
    move little around means that are large."""
    rng, size = np.random.default_rng(seed), PERSONS * ITEMS
    place = np.arange(size).reshape(PERSONS, ITEMS)
    sets, values, common = [*place, *place.T], [], np.zeros((size, PERSONS + ITEMS))
    for i, rows in enumerate(sets):
        mean = rng.normal(1, 0.3, len(rows))
        derivative = mean + 0.3 * rng.normal(size=(draws, len(rows)))
        values.append(derivative.T @ derivative / draws)
        common[rows, i] = mean
    return layered(sets, values, size), scipy.sparse.csr_array(common)


@pytest.fixture(scope="module")
def table():
    return crossed(0)


def test_it_is_the_sum_of_its_blocks(table):
    q, common = table
    dense, rng = q.dense(), np.random.default_rng(1)
    x = rng.normal(size=(q.size, 3))
    assert len(q.layers) == 2
    np.testing.assert_allclose(dense, dense.T)
    np.testing.assert_allclose(q @ x, dense @ x)
    np.testing.assert_allclose(q @ x[:, 0], dense @ x[:, 0])
    np.testing.assert_allclose(q.diagonals().sum(axis=0), np.diag(dense))
    np.testing.assert_allclose(q.between(common, common.shape[1]), common.T @ dense @ common.toarray())
    np.testing.assert_allclose((q.with_(q, np.add) @ x), 2 * dense @ x)


def test_the_layers_agree_on_the_variances(table):
    """Where the diagonal alone is off by a factor of ten, with and without a diagonal matrix."""
    q, _ = table
    rng = np.random.default_rng(2)
    for more in (np.zeros(q.size), np.exp(rng.normal(size=q.size))):
        true = np.diag(np.linalg.inv(q.dense() + np.diag(more)))
        found = q.inverse(more)
        np.testing.assert_allclose(found.variance, true, rtol=0.06)
        again = q.inverse(more, found.sites)
        np.testing.assert_allclose(again.variance, true, rtol=0.06)
    alone = np.linalg.inv(q.dense())
    assert np.median(np.diag(alone) * np.diag(q.dense())) > 5


def test_one_layer_is_exact():
    one = layered([np.arange(5), np.arange(5, 12)], [np.eye(5) + 1, np.eye(7) + 2], 12)
    np.testing.assert_allclose(one.inverse().variance, np.diag(np.linalg.inv(one.dense())))


def test_systems_are_solved_in_few_steps(table, monkeypatch):
    q, common = table
    monkeypatch.setattr("bayesrecon.attacks.records.blocks._STEPS", 40)
    more = np.exp(np.random.default_rng(3).normal(size=q.size))
    right = np.random.default_rng(4).normal(size=(q.size, 5))
    for diagonal in (np.zeros(q.size), more):
        solver = Solver(q, q.inverse(diagonal), common, diagonal)
        expected = np.linalg.solve(q.dense() + np.diag(diagonal), right)
        np.testing.assert_allclose(solver(right), expected, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_allclose(solver(right[:, 0], start=expected[:, 0] + 1), expected[:, 0], atol=1e-8)


def test_halves_are_those_of_the_array(table):
    q, common = table
    first, _ = crossed(5)
    whole = q.with_(first, np.add)
    rng = np.random.default_rng(6)
    at, target = rng.normal(size=(2, q.size))
    solver, halves = in_layers(whole, target, common, (first, at))
    expected = halves_of(whole.dense(), target, None, first.dense(), at)
    np.testing.assert_allclose(halves, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(solver(target), solved(whole.dense(), target)[0], atol=1e-8)


def test_a_singular_kernel_is_refused():
    """Fewer draws than a set has rows and one row without a set of its own: some sums move with nothing."""
    q, common = crossed(7, draws=6)
    assert np.linalg.matrix_rank(q.dense()) < q.size
    with pytest.raises(NotSolved):
        in_layers(q, np.ones(q.size), common, None)


def test_only_large_and_sparse_tables_are_taken_apart():
    place = np.arange(4000).reshape(100, 40)
    assert is_worthwhile([*place, *place.T], 4000)
    assert not is_worthwhile([*place, np.arange(4000)], 4000)
    assert not is_worthwhile([*place[:10]], 400)


@pytest.mark.slow
def test_probabilities_are_those_of_the_array(table):
    q, common = table
    rng, size, scale = np.random.default_rng(8), q.size, 30.0
    truth = rng.integers(0, 2, size)
    root = np.linalg.cholesky(np.linalg.inv(scale * q.dense()))
    solution = truth + root @ rng.normal(size=size)
    candidates = np.tile([[0.0, 1.0]], (size, 1))
    log_prior = np.log(rng.dirichlet([3, 3], size))
    expected = decode(scale * q.dense(), solution, candidates[:, :, None], log_prior)
    found = decode_layers(q, scale, common, solution, candidates, log_prior)
    assert ((expected > 0.05) & (expected < 0.95)).any(axis=1).sum() > 40
    assert np.abs(found - expected).max() < 0.06
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.fixture(scope="module")
def system():
    model, rng = answers(24, 8), np.random.default_rng(9)
    theta = rng.normal(0, 0.4, (600, model.dimension))
    release = PosteriorDraws(theta, model, np.full(600, 1 / 600), np.zeros(600, int))
    with x64():
        rows, _, slots = parts(release, design(24, 8))
        make = partial(make_system, release, slots, rows.base(), rows.pairs())
        dense = make()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(system_module, "_LARGE", 0)
            return dense, make(layers=True)


@pytest.mark.slow
def test_the_release_in_layers_is_the_release(system):
    dense, sparse = system
    np.testing.assert_allclose(sparse.gram.dense(), dense.gram, rtol=1e-12)
    np.testing.assert_allclose(sparse.solution, dense.solution, atol=1e-7 * np.abs(dense.solution).max())
    np.testing.assert_allclose(sparse.halves, dense.halves, atol=1e-6 * np.abs(dense.halves).max())


@pytest.mark.slow
def test_its_noise_is_that_of_the_array_or_the_array_itself(system, monkeypatch):
    dense, sparse = system
    columns = scipy.sparse.csc_array(np.diag(np.linspace(1, 2, len(dense.target))))
    one, other = noise_of(dense), noise_of(sparse)
    assert isinstance(other, LayeredNoise)
    np.testing.assert_allclose(other.variances(columns), one.variances(columns), rtol=0.05)
    np.testing.assert_allclose(other.length(dense.solution), one.length(dense.solution), rtol=1e-9)
    # Where exact variances show that the layers do not agree with them.
    monkeypatch.setattr(noise_module, "_OFF", 1e-9)
    third = noise_of(sparse)
    assert isinstance(third, DenseNoise)
    np.testing.assert_allclose(third.precision, one.precision, rtol=1e-9)


@pytest.mark.slow
def test_a_table_of_answers_either_way(monkeypatch):
    """The same draws through layers and through the array: the same estimates, and errors alike."""
    model, rng = answers(24, 8), np.random.default_rng(10)
    theta = rng.normal(0, 0.3, (1000, model.dimension))
    release = PosteriorDraws(theta, model, np.full(1000, 1e-3), np.zeros(1000, int))
    ask = partial(bayesrecon.reconstruct, release, known=design(24, 8), unit=("person", "item"), force=True)
    dense = ask()["y"]
    monkeypatch.setattr(system_module, "_LARGE", 0)
    found = ask()["y"]
    assert np.isfinite(dense.floor).all()
    np.testing.assert_allclose(found.floor, dense.floor, rtol=0.03)
    np.testing.assert_allclose(found.estimate, dense.estimate, atol=1e-6 * np.nanmax(np.abs(dense.estimate)))
    np.testing.assert_allclose(np.median(found.se / dense.se), 1, atol=0.1)

"""Releases whose draws stay in a file: the same numbers as those in memory."""

import pickle
import tempfile
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import bayesrecon
from bayesrecon.arrays import Stored
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import from_arviz, from_cmdstan, from_file
from bayesrecon.posteriors.conversion import release_of
from bayesrecon.posteriors.formats import stored
from bayesrecon.running import scratch
from bayesrecon.running.draws_on_disk import column_blocks, mean_and_covariance, row_blocks
from bayesrecon.running.scratch import HDF5Rows, Series

RNG = np.random.default_rng(0)
DRAWS = {"beta": RNG.normal(26, 3, (2, 201, 2)), "sigma": RNG.gamma(400, 1 / 20, (2, 201))}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of the same draws, read a few at a time."""
    monkeypatch.setattr(stored, "_NUMBERS", 100)
    data = xr.Dataset(
        {"beta": (("chain", "draw", "k"), DRAWS["beta"]), "sigma": (("chain", "draw"), DRAWS["sigma"])},
    )
    stats = xr.Dataset({"lp": (("chain", "draw"), DRAWS["beta"].sum(axis=2))})
    tree = xr.DataTree.from_dict({"posterior": data, "sample_stats": stats})
    tree.to_netcdf(tmp_path / "draws.nc")
    if pytest.importorskip("zarr"):
        tree.to_zarr(tmp_path / "draws.zarr", consolidated=False, zarr_format=2)
    for k in range(2):
        rows = np.column_stack([np.zeros(201), DRAWS["beta"][k], DRAWS["sigma"][k]])
        lines = ["lp__,beta.1,beta.2,sigma", *(",".join(map(repr, row.tolist())) for row in rows)]
        (tmp_path / f"chain_{k}.csv").write_text("# a comment\n" + "\n".join(lines) + "\n# timing\n")
    return tmp_path


def same(one, other):
    np.testing.assert_array_equal(np.asarray(one.theta), other.theta)
    np.testing.assert_array_equal(one.chain, other.chain)
    np.testing.assert_allclose(one.weights, other.weights)


@pytest.mark.parametrize("name", ["draws.nc", "draws.zarr"])
def test_files_of_arviz(folder, name):
    model = load("kidscore_momiq")
    one = from_file(folder / name, model, folder / "store.h5", trusted=True)
    assert isinstance(one.theta, HDF5Rows)
    other = from_arviz(folder / name, model, trusted=True)
    same(one, other)
    np.testing.assert_array_equal(one.log_density, other.log_density)


@pytest.mark.parametrize("name", ["draws.nc", "draws.zarr", "chain_0.csv"])
def test_large_files_stay_files_at_the_door(folder, name, monkeypatch):
    """Their draws are in a temporary file that goes with the release."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    model, path = load("kidscore_momiq"), folder / name
    small = release_of(path, model, trusted=True)
    assert not isinstance(small.theta, Stored)
    monkeypatch.setattr(stored, "_LARGE", 100)
    large = release_of(path, model, trusted=True)
    assert isinstance(large.theta, HDF5Rows)
    same(large, small)
    np.testing.assert_array_equal(large.log_density, small.log_density)
    assert len(list(folder.glob(".scratch.bayesrecon-*.h5"))) == 1
    del large
    assert not list(folder.glob(".scratch.bayesrecon-*.h5"))
    assert not isinstance(release_of(path, model, draws=50, trusted=True).theta, Stored)


def test_files_of_cmdstan(folder):
    model, paths = load("kidscore_momiq"), [folder / "chain_0.csv", folder / "chain_1.csv"]
    one, other = from_file(paths, model, folder / "store.h5"), from_cmdstan(paths, model)
    same(one, other)
    np.testing.assert_array_equal(one.log_density, other.log_density)


def test_rows_and_columns_of_a_file(folder):
    release = from_file(folder / "draws.nc", load("kidscore_momiq"), folder / "store.h5", trusted=True)
    theta, whole = release.theta, np.asarray(release.theta)
    for at in (slice(3, 90), slice(None), np.array([5, 300, 7, 7]), np.arange(10, 20), whole[:, 0] > 26):
        np.testing.assert_array_equal(theta[at], whole[at])
    np.testing.assert_array_equal(theta.part(10, 50)[2:5], whole[12:15])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(theta.part(10, 50)))[:], whole[10:50])
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in row_blocks(theta, 100)]), whole)
    np.testing.assert_array_equal(np.hstack([columns for _, columns in column_blocks(theta, 402)]), whole)
    mean, covariance = mean_and_covariance(theta, release.weights)
    np.testing.assert_allclose(mean, whole.mean(axis=0))
    np.testing.assert_allclose(covariance, np.cov(whole.T, bias=True))
    with pytest.raises(IndexError, match="step"):
        theta[::2]


@pytest.mark.slow
def test_a_verb_gives_the_same_whatever_is_in_files(folder, monkeypatch):
    """Every large array in files: draws, series, fitted scores."""
    monkeypatch.setattr(scratch, "_SPOOLED", 100)
    model = replace(load("kidscore_momiq"), gaussian=None)
    one = from_file(folder / "draws.nc", model, folder / "store.h5", trusted=True)
    found = bayesrecon.recover(one, force=True)
    monkeypatch.setattr(scratch, "_SPOOLED", 10**9)
    alone = bayesrecon.recover(from_arviz(folder / "draws.nc", model, trusted=True), force=True)
    assert found.failures == alone.failures
    for row, other in zip(found.rows, alone.rows, strict=True):
        assert (row.name, row.verdict) == (other.name, other.verdict)
        for key in ("estimate", "se", "floor", "lower"):
            assert getattr(row, key) == pytest.approx(getattr(other, key), rel=1e-7, abs=1e-7), (row.name, key)


def test_a_series_goes_to_a_file_that_goes_with_it(monkeypatch):
    monkeypatch.setattr(scratch, "_SPOOLED", 10)
    rows, series = np.arange(40.0).reshape(20, 2), Series(20, 2)
    series.add(rows[:7])
    series.add(rows[7:])
    found = series.done()
    path = scratch.Path(found.path)
    del series
    np.testing.assert_array_equal(np.asarray(found), rows)
    assert path.exists()
    del found
    assert not path.exists()


def test_what_cannot_be_read_leaves_nothing(folder):
    model, store = load("kidscore_momiq"), folder / "store.h5"
    (folder / "bad.csv").write_text("beta.1,beta.2,sigma\n1,2,3\n1,2\n")
    with pytest.raises(BayesreconError, match="header of 3"):
        from_file(folder / "bad.csv", model, store)
    with pytest.raises(BayesreconError, match="no such file"):
        from_file(folder / "none.nc", model, store)
    assert not store.exists()
    store.write_text("")
    with pytest.raises(BayesreconError, match="exists already"):
        from_file(folder / "draws.nc", model, store)
    with pytest.raises(BayesreconError, match="lack parameter"):
        from_file(folder / "draws.nc", load("linear_predictor"), folder / "other.h5", trusted=True)

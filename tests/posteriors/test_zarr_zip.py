"""Zarr folders in zip archives."""

import stat
import warnings
import zipfile

import numpy as np
import pytest
import xarray as xr
from written import refused

from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.untrusted import packed

pytest.importorskip("zarr")

MU = np.random.default_rng(0).normal(size=(2, 30))


@pytest.fixture
def archive(tmp_path):
    """Written by zarr's own ZipStore."""
    import zarr

    path = tmp_path / "fit.zarr.zip"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = {
            "posterior": xr.Dataset({"mu": (("chain", "draw"), MU)}),
            "observed_data": xr.Dataset({"y": ("n", MU[0])}),
        }
        store = zarr.storage.ZipStore(str(path), mode="w")
        xr.DataTree.from_dict(tree).to_zarr(store, consolidated=False)
        store.close()
    return path


def test_the_folder_is_read(archive):
    draws = read_draws(archive)
    assert draws.name == "fit"
    np.testing.assert_array_equal(draws.values["mu"], MU)
    found = read_contents(archive)
    np.testing.assert_array_equal(found.group("observed_data")[0].values, MU[0])
    assert found.files[0].size == archive.stat().st_size


def test_an_archive_of_a_named_folder(archive, tmp_path):
    path = tmp_path / "named.zarr.zip"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w") as new:
        for member in dict.fromkeys(old.namelist()):
            new.writestr(f"fit.zarr/{member}", old.read(member))
        new.comment = b"ask Ann"
    np.testing.assert_array_equal(read_draws(path).values["mu"], MU)
    assert any(entry.values == "ask Ann" for entry in read_leaves(path).entries)


def added(archive, name, content=b"", mode=0):
    member = zipfile.ZipInfo(name)
    member.external_attr = mode << 16
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=1)


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "C:/out"])
def test_nothing_leaves_the_folder(archive, name):
    added(archive, name)
    refused("lies outside its folder", read_draws, archive)


def test_links_and_bombs_are_refused(archive, monkeypatch):
    added(archive, "link", b"/etc/passwd", stat.S_IFLNK | 0o777)
    refused("'link' is a link", read_draws, archive)
    monkeypatch.setattr(packed, "MOST_FILES", 2)
    refused("members, more than 2", read_draws, archive, trusted=True)


@pytest.mark.slow
def test_a_bomb_is_refused(archive):
    added(archive, "zeros", bytes(2**28 + 1))
    refused("declares .* of arrays", read_draws, archive)


def test_what_was_written_again_is_not_lost(archive):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        added(archive, "notes.txt", b"ask Ann")
        added(archive, "notes.txt", b"nothing")
    assert any(entry.values == "ask Ann" for entry in read_leaves(archive).entries)


def test_a_damaged_zip_is_refused(tmp_path):
    (tmp_path / "a.zarr.zip").write_bytes(b"PK nothing")
    refused("cannot be read", read_draws, tmp_path / "a.zarr.zip")

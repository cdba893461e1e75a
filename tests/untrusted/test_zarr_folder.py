"""Zarr folders are read in the guarded process as xarray reads them, and bombs of shards and chunks are refused."""

import gzip
import json
import sys
import warnings

import numpy as np
import pytest
import xarray as xr
from costs import measured
from written import refused

from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.formats.hdf5 import dataset_of
from bayesrecon.untrusted.guarded import PROCESS, opened
from bayesrecon.untrusted.zarr_folder import ZarrFolder

zarr = pytest.importorskip("zarr", reason="the extra bayesrecon[arviz] is not installed")
pytestmark = [pytest.mark.small, pytest.mark.skipif(sys.platform == "win32", reason="memory is not measured there")]

RNG = np.random.default_rng(0)


def dataset():
    gaps, told = RNG.normal(size=(2, 30)), {"units": "seconds", "numbers": [1.5, 2.5], "é": {"a": 1}}
    gaps[1, 3] = np.nan
    return xr.Dataset(
        {
            "mu": (("chain", "draw"), RNG.normal(size=(2, 30)), told),
            "gaps": (("chain", "draw"), gaps),
            "count": (("draw", "chain", "k"), RNG.integers(0, 9, (30, 2, 3)).astype(float)),
            "small": (("chain", "draw"), RNG.normal(size=(2, 30)).astype("f4")),
            "flag": (("chain", "draw"), RNG.random((2, 30)) < 0.5),
            "single": ((), 7.5),
        },
        {"chain": [0, 1], "k": ["a", "bb", "Ömer"]},
        {"note": "hello"},
    )


@pytest.mark.parametrize("version", [2, 3])
def test_the_same_as_xarray(tmp_path, version):
    path, whole = tmp_path / "a.zarr", dataset()
    packed = {"count": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -1}}
    with warnings.catch_warnings():  # texts have no stable form in zarr 3
        warnings.simplefilter("ignore")
        xr.DataTree.from_dict({"posterior": whole}).to_zarr(
            path, zarr_format=version, consolidated=False, encoding={"/posterior": packed}
        )
        theirs = xr.open_dataset(
            path, group="posterior", engine="zarr", consolidated=False, decode_times=False, decode_timedelta=False
        ).load()
    with opened(ZarrFolder, path) as folder:
        found = folder.describe()
        ours = dataset_of(folder, found["contents"]["posterior"]).load()
        part = dataset_of(folder, found["contents"]["posterior"])["count"].isel(draw=slice(20, 3, -4), k=1).values
    assert found["groups"] == ["posterior"]
    xr.testing.assert_equal(ours, theirs)
    assert ours.attrs == theirs.attrs
    assert {k: v.attrs for k, v in ours.variables.items()} == {k: v.attrs for k, v in theirs.variables.items()}
    np.testing.assert_array_equal(part, theirs["count"].values[20:3:-4, :, 1])


def test_this_process_reads_nothing(tmp_path, monkeypatch):
    """Unless the folder is trusted."""
    path = tmp_path / "a.zarr"
    xr.DataTree.from_dict({"posterior": dataset().drop_vars(["k", "single"])}).to_zarr(
        path, zarr_format=2, consolidated=False
    )

    def fail(*args, **options):
        raise AssertionError("read here")

    monkeypatch.setattr(zarr, "open_group", fail)
    assert "mu" in read_draws(path).values
    assert read_contents(path).group("posterior")
    refused("read here", read_draws, path, trusted=True)


def array(path, **how):
    """A variable `mu` of zarr 3 with nothing in it, and the folder of its chunks."""
    group = zarr.open_group(str(path), mode="w", zarr_format=3).create_group("posterior")
    group.create_array("mu", dtype="f8", dimension_names=("chain", "draw"), **how)
    return path / "posterior" / "mu"


def shards(path, count):
    """One shard of so many chunks of one number, none of which is there: 16 bytes each in its index."""
    from numcodecs.checksum32 import CRC32C

    folder = array(path, shape=(1, count), chunks=(1, 1), shards=(1, count)) / "c" / "0"
    folder.mkdir(parents=True)
    index = b"\xff" * (16 * count)
    (folder / "0").write_bytes(index + int(CRC32C.checksum(index)).to_bytes(4, "little"))
    return path


def inflated(path):
    """A chunk of 80 numbers that unpacks to four gigabytes."""
    folder = array(path, shape=(1, 10), chunks=(1, 10), compressors=zarr.codecs.GzipCodec()) / "c" / "0"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(gzip.compress(bytes(2**26)) * 64)
    return path


def nested(path):
    """Metadata of 100,000 lists within lists."""
    file = array(path, shape=(1, 10), chunks=(1, 10)) / "zarr.json"
    deep = json.loads(file.read_text()) | {"attributes": "DEEP"}
    file.write_text(json.dumps(deep).replace('"DEEP"', '{"a": ' + "[" * 10**5 + "]" * 10**5 + "}"))
    return path


BOMBS = {
    "shards": (lambda p: shards(p, 10**6), r"declares 1.0e\+06 chunks within shards in 15.3 MiB, refused"),
    "as many shards as are read": (lambda p: shards(p, 9999), ""),
    "a chunk": (inflated, "takes more than 4.. MiB of memory to read, refused"),
    "lists": (nested, "recursion"),
}


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_draws, read_contents])
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_within_five_seconds(tmp_path, name, read):
    """Each within five seconds of computing and 500 MiB."""
    write, match = BOMBS[name]
    path = write(tmp_path / "a.zarr")
    with measured() as cost:
        if match:
            refused(match, read, path)
        else:
            read(path)
    assert cost.seconds < 5
    assert cost.memory < 500 * 2**20
    assert PROCESS._running is None

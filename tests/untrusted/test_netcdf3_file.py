"""Classic netCDF files: as xarray reads them, cut off, and with bytes that nothing uses."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_draws
from bayesrecon.posteriors.formats.hdf5 import dataset_of
from bayesrecon.untrusted.netcdf3_file import NetCDF3File

pytestmark = pytest.mark.small

DATA = xr.Dataset(
    {
        "mu": (("draw", "chain"), np.random.default_rng(1).normal(size=(30, 2))),
        "counts": (("draw", "k"), np.arange(90, dtype="i2").reshape(30, 3)),
        "bytes": ("draw", np.arange(30, dtype="i1")),
        "name": ("s", ["Ann", "Örjan", "Bob"]),
        "flag": ("s", [True, False, True]),
        "number": ((), 3.5),
        "text": ((), "hello"),
    },
    coords={"draw": np.arange(30)},
    attrs={"numbers": [1.5, 2.5], "text": "a text", "whole": 3},
)


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT"])
@pytest.mark.parametrize("unlimited", [[], ["draw"], ["s"]])
def test_as_xarray_reads_them(tmp_path, form, unlimited):
    path = tmp_path / "a.nc"
    DATA.to_netcdf(path, engine="scipy", format=form, unlimited_dims=unlimited)
    file = NetCDF3File(path)
    found = dataset_of(file, file.describe_group("/")).load()
    with xr.open_dataset(path, engine="scipy") as expected:
        xr.testing.assert_identical(found, expected.load())
    assert file.inventory() == {"found": [], "unread": []}


@pytest.mark.parametrize("unlimited", [[], ["draw"]])
def test_a_truncated_file_is_refused(tmp_path, unlimited):
    path = tmp_path / "a.nc"
    DATA.to_netcdf(path, engine="scipy", unlimited_dims=unlimited)
    whole = path.read_bytes()
    for size in (2, 3, 10, 200, len(whole) // 2, len(whole) - 9):
        path.write_bytes(whole[:size])
        with pytest.raises(BayesreconError, match=r"classic|cut off|damaged"):
            NetCDF3File(path)


def test_bytes_that_nothing_uses_are_found(tmp_path):
    path = tmp_path / "a.nc"
    DATA.to_netcdf(path, engine="scipy")
    secret = np.arange(5.0).tobytes()
    path.write_bytes(path.read_bytes() + secret)
    ((where, kind, values),) = NetCDF3File(path).inventory()["found"]
    assert (kind, values.tobytes()) == ("bytes", secret)
    assert where.startswith("bytes that nothing")


def test_draws_and_their_audit(tmp_path):
    """Draws at the root, as `fit.posterior.to_netcdf` writes them without another engine."""
    rng = np.random.default_rng(2)
    posterior = xr.Dataset(
        {"beta": (("chain", "draw", "k"), rng.normal(size=(2, 50, 2))), "sigma": (("chain", "draw"), np.ones((2, 50)))}
    )
    path = Path(tmp_path / "fit.nc")
    posterior.to_netcdf(path, engine="scipy")
    np.testing.assert_array_equal(read_draws(path).values["beta"], posterior["beta"].values)
    with path.open("ab") as stream:
        stream.write(np.arange(30.0).tobytes())
    found = bayesrecon.audit(path, data={"y": np.arange(30.0)}, remedies=False)
    assert found.severity == "high"

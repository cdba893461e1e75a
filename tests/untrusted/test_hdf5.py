"""An HDF5 file shows nothing but itself, and is no larger than its bytes can be."""

from functools import partial

import h5py
import numpy as np
import pytest
from written import along, hdf5_fit, refused

from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.untrusted.hdf5 import HDF5File

pytestmark = pytest.mark.small

SECRET = np.arange(60.0).reshape(2, 30)
fit = partial(hdf5_fit, mu=SECRET)


def external_storage(file, other):
    raw = other.with_suffix(".raw")
    raw.write_bytes(SECRET.tobytes())
    place = [(str(raw), 0, h5py.h5f.UNLIMITED)]
    file["posterior"].create_dataset("own", (2, 30), "f8", external=place)
    along(file["posterior"], "own")


def external_link(file, other):
    file["posterior/own"] = h5py.ExternalLink(str(other), "/posterior/mu")


def external_group(file, other):
    file["observed_data"] = h5py.ExternalLink(str(other), "/posterior")


def through_a_soft_link(file, other):
    file["a/b"] = h5py.ExternalLink(str(other), "/posterior")
    file["observed_data"] = h5py.SoftLink("/a/b")


def virtual(file, other):
    layout = h5py.VirtualLayout((2, 30), "f8")
    layout[:] = h5py.VirtualSource(str(other), "/posterior/mu", (2, 30))
    file["posterior"].create_virtual_dataset("own", layout)
    along(file["posterior"], "own")


REACHING = {
    external_storage: "'/posterior/own' has external storage",
    external_link: "'/posterior/own' is an external link",
    external_group: "'/observed_data' is an external link",
    through_a_soft_link: "'/a/b' is an external link",
    virtual: "'/posterior/own' is a virtual dataset",
}


@pytest.mark.parametrize("read", [read_draws, read_contents])
@pytest.mark.parametrize("reach", REACHING, ids=lambda f: f.__name__)
def test_other_files_are_not_read(tmp_path, reach, read):
    path, other = fit(tmp_path / "fit.nc"), fit(tmp_path / "other.nc")
    assert list(read(path).groups if read is read_contents else read(path).values)
    with h5py.File(path, "a") as file:
        reach(file, other)
    refused(REACHING[reach], read, path)


def test_links_inside_the_file_are_followed(tmp_path):
    path = fit(tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        file["posterior/nu"] = h5py.SoftLink("/posterior/mu")
        file["posterior/circle"] = file["/"]
    assert set(read_draws(path).values) == {"mu", "nu"}


@pytest.mark.parametrize("group", ["posterior", "observed_data", "log_likelihood"])
def test_an_empty_array_of_any_width(tmp_path, group):
    """Chunks that were never written take no room in the file, and all of it in memory."""
    path = fit(tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        file.require_group(group).create_dataset("wide", (1, 1, 3 * 10**8), "f8", chunks=(1, 1, 1000))
    refused("declares 2.2 GiB of arrays in .* KiB of file", read_contents, path)


def test_one_chunk_of_any_size(tmp_path):
    path = fit(tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        file["posterior"].create_dataset("c", (2, 30), "f8", chunks=(2, 2**26), maxshape=(2, None), compression=1)
    refused("declares", read_draws, path)


def test_each_array_is_opened_once_to_be_described(tmp_path, monkeypatch):
    path, opened, own = fit(tmp_path / "fit.nc"), [], h5py.h5o.open
    with h5py.File(path, "a") as file:
        for name in "abc":
            file[f"posterior/{name}"] = SECRET
        names = set(file["posterior"])

    def counted(group, name, **settings):
        if h5py.h5i.get_file_id(group).name == bytes(path):
            opened.append(name)
        return own(group, name, **settings)

    monkeypatch.setattr(h5py.h5o, "open", counted)
    file = HDF5File(path)
    file.describe()
    file.inventory()
    file.close()
    assert [opened.count(name.encode()) for name in names] == [1] * len(names)

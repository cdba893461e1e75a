"""Small files that unpack to gigabytes, or take minutes, are refused before they do."""

import sys
import time
import zipfile

import numpy as np
import pytest
from costs import measured
from written import refused

from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.look import Look
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.tables import read_table


@pytest.fixture(autouse=True)
def quickly():
    """No test here takes longer than reading what it refuses."""
    began = time.perf_counter()
    yield
    assert time.perf_counter() - began < 10


def zipped(path, start, middle, count, end=b""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.json", "w") as member:
        member.write(start)
        for _ in range(count):
            member.write(middle)
        member.write(end)
    return path


@pytest.mark.parametrize("read", [read_draws, read_contents])
@pytest.mark.parametrize("content", [(b'[{"a":[', b"0.5," * 2**18, 64, b"1]}]"), (b"", bytes(2**20), 64)])
def test_a_zip_that_unpacks_to_too_much_is_refused(tmp_path, read, content):
    path = zipped(tmp_path / "a.json.zip", *content)
    assert path.stat().st_size < 2**18
    refused("unpacks to more than 32 MiB, refused", read, path)


def test_a_zip_may_be_trusted(tmp_path):
    path = zipped(tmp_path / "a.json.zip", b'[{"a":[', b" " * 2**20, 40, b"0.5,1]}]")
    refused("refused", read_draws, path)
    assert read_draws(path, trusted=True).values["a"].shape == (1, 2)


@pytest.mark.parametrize("read", [read_draws, read_contents, read_table])
def test_an_archive_that_declares_too_much_is_refused(tmp_path, read):
    path = tmp_path / "a.npz"
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|b1', 'fortran_order': False, 'shape': (1, %d), }" % 2**26
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header.ljust(127) + b"\n" + bytes(2**26))
    refused("declares 512.0 MiB of arrays in .* KiB of file, refused", read, path)


@pytest.mark.parametrize("read", [read_draws, read_contents, read_table])
def test_very_many_columns(tmp_path, read):
    path = tmp_path / "a.csv"
    names = ",".join(f"a{i}" for i in range(10**5))
    path.write_text(f"{names}\n" + ",".join(["1"] * 10**5) + "\n")
    refused("100000 (parameters|columns), more than 50000", read, path)


@pytest.mark.slow
def test_very_many_entries_are_welcome(tmp_path):
    path = tmp_path / "a.csv"
    names = ",".join(f"a.{i + 1}" for i in range(10**5))
    path.write_text(f"{names}\n" + ",".join(["1"] * 10**5) + "\n")
    assert read_draws(path).values["a"].shape == (1, 1, 10**5)


def test_no_text_takes_long_to_look_through():
    for text in ("a" * 10**5, "a@" + "b" * 10**5, "a." * 10**5, "-/" * 10**5, "@" * 10**5):
        began = time.process_time()
        examine(Look(Contents("a", "text", attributes={"posterior/note": text})))
        assert time.process_time() - began < 1
    told = Contents("a", "text", attributes={"posterior/note": "ask eve.w+1@uni-x.example.org now"})
    (found,) = examine(Look(told)).findings
    assert "eve.w+1@uni-x.example.org" in found.summary


def test_one_long_text_among_short_ones(tmp_path):
    import xarray as xr

    names = np.array(["x" * 10**6] + ["y"] * 10**4, object)
    tree = xr.DataTree.from_dict({"observed_data": xr.Dataset({"names": ("obs", names)})})
    tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    (found,) = read_contents(tmp_path / "a.nc").variables
    assert found.values.nbytes < 2**27
    assert found.values[1] == "y"


QUOTED = {
    "an end of a line in a name": b'"a\nb",' + b"c," * 2**23 + b"d\n1\n",
    "quotes in a name": b'x,"a""\n",' + b"c," * 2**23 + b"d\n1\n",
    "quotes inside of names": b'a"b,' + b"c," * 2**23 + b'c"d\n1\n',
    "after empty lines": b"\n\r\n\n" + b"c," * 2**23 + b"d\n1\n",
    "with a mark of byte order": b"\xef\xbb\xbf" + b"c," * 2**23 + b"d\n1\n",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="memory is not measured there")
@pytest.mark.parametrize("name", QUOTED)
def test_many_columns_in_more_than_a_line(tmp_path, name):
    path = tmp_path / "a.csv"
    path.write_bytes(QUOTED[name])
    with measured() as cost:
        refused("83886.. columns, more than 50000", read_table, path)
    assert cost.seconds < 5
    assert cost.memory < 500 * 2**20


def test_good_names_in_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\n"weight, in kg","of\nfather ""and"" mother",n\n1.5,x,2\n2.5,"y\nz",3\n')
    found = read_table(path)
    assert list(found) == ["weight, in kg", 'of\nfather "and" mother', "n"]
    assert found['of\nfather "and" mother'].tolist() == ["x", "y\nz"]
    assert found["n"].dtype == np.int64

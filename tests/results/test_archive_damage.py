"""Files that are no saved results end in one line, whatever is wrong with them."""

import io
import zipfile

import numpy as np
import pytest
from costs import measured

from bayesrecon import BayesreconError, load_result
from bayesrecon.results.diagnosis import Bounds, Interval


@pytest.fixture
def saved(tmp_path):
    found = Bounds("draws", 0.99, {"y": (0.0, 1.0)}, (Interval("n", 40.0, None),))
    return found.save(tmp_path / "bounds.npz").read_bytes()


def refused(path):
    with pytest.raises(BayesreconError) as error:
        load_result(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_truncated_and_damaged_anywhere(saved, tmp_path):
    path, rng = tmp_path / "a.npz", np.random.default_rng(0)
    for k in range(60):
        damaged = bytearray(saved[: rng.integers(1, len(saved))] if k % 2 else saved)
        for at in rng.integers(len(damaged), size=8):
            damaged[at] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            load_result(path)  # what was changed need not matter
        except BayesreconError as error:
            assert "\n" not in str(error)


def test_a_field_of_another_type(tmp_path):
    """What only a notebook shows is looked at while the file is read, too."""
    found = Bounds("draws", 0.99, {"y": (0.0, 1.0)}, (Interval("n", 40.0, None),), failures=(3,))
    assert "not a saved bayesrecon result" in refused(found.save(tmp_path / "bounds.npz"))


def zipped(path, how=zipfile.ZIP_DEFLATED):
    array = io.BytesIO()
    np.save(array, np.arange(1000.0))
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr("__bayesrecon__.npy", array.getvalue())
    return bytearray(path.read_bytes())


def damaged(path, how):
    content = zipped(path, how)
    content[60:300] = bytes(240)
    path.write_bytes(content)


def changed(path, at, value):
    """A number of two bytes in the member's header and in the archive's directory."""
    content = zipped(path)
    for start in (content.index(b"PK\x03\x04") + at, content.index(b"PK\x01\x02") + at + 2):
        content[start : start + 2] = value.to_bytes(2, "little")
    path.write_bytes(content)


RAISING = {
    "zlib": lambda path: damaged(path, zipfile.ZIP_DEFLATED),
    "bzip2": lambda path: damaged(path, zipfile.ZIP_BZIP2),
    "lzma": lambda path: damaged(path, zipfile.ZIP_LZMA),
    "encrypted": lambda path: changed(path, 6, 1),
    "another program's compression": lambda path: changed(path, 8, 97),
}


@pytest.mark.parametrize("name", RAISING)
def test_whatever_a_reader_raises(tmp_path, name):
    path = tmp_path / "a.npz"
    RAISING[name](path)
    assert "is not a saved bayesrecon result" in refused(path)


def test_a_header_of_another_language(saved, tmp_path):
    path, header = tmp_path / "a.npz", b"\x93NUMPY\x01\x00" + (20).to_bytes(2, "little") + b"{('" + b" " * 16 + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__bayesrecon__.npy", header)
    assert "is not a saved bayesrecon result" in refused(path)


@pytest.mark.slow
def test_members_that_unpack_to_far_more(tmp_path):
    """A quarter of a gigabyte of zeros in a quarter of a megabyte is not unpacked."""
    path, block, header = tmp_path / "a.npz", bytes(2**24), io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (2 * len(block),)}
    np.lib.format.write_array_header_1_0(header, about)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as member,
    ):
        member.write(header.getvalue())
        for _ in range(16):
            member.write(block)
    with measured() as cost:
        assert "declares 256.0 MiB of arrays" in refused(path)
    assert cost.seconds < 5
    assert cost.memory < 500 * 2**20

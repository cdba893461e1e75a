"""Files that are no saved results end in one line, whatever is wrong with them."""

import io
import lzma
import zipfile
import zlib

import numpy as np
import pytest

from bayesrecon import BayesreconError, load_result
from bayesrecon.results.bounds import Bounds, Interval


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


@pytest.mark.parametrize("error", [zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, MemoryError])
def test_whatever_a_reader_raises(saved, tmp_path, monkeypatch, error):
    path = tmp_path / "a.npz"
    path.write_bytes(saved)

    def fail(*args, **kwargs):
        raise error("no")

    monkeypatch.setattr(np, "load", fail)
    assert "is not a saved bayesrecon result" in refused(path)


def test_a_header_of_another_language(saved, tmp_path):
    path, header = tmp_path / "a.npz", b"\x93NUMPY\x01\x00" + (20).to_bytes(2, "little") + b"{('" + b" " * 16 + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__bayesrecon__.npy", header)
    assert "is not a saved bayesrecon result" in refused(path)


def test_members_that_unpack_to_far_more(tmp_path):
    """A hundred megabytes of zeros in a hundred kilobytes are not unpacked."""
    path, array = tmp_path / "a.npz", io.BytesIO()
    np.save(array, np.zeros(100_000_000 // 8))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__bayesrecon__.npy", array.getvalue())
    assert "declares 100,000,128 bytes" in refused(path)

"""Archives of arrays: right values, one line of complaint about damaged ones."""

import io
import json
import pathlib
import tempfile
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import BETA, DRAWS, LP, SIGMA, draws_or_complaint, refused, same

from bayesrecon.posteriors.formats import read_draws
from bayesrecon.posteriors.formats.npz import from_arrays, read_npz
from bayesrecon.untrusted import size_limits

pytestmark = pytest.mark.small


def test_draws_and_attributes_of_an_archive_are_read(tmp_path):
    path = tmp_path / "fit.npz"
    attributes = json.dumps({"bayesrecon_model": "m", "n": 3})
    np.savez_compressed(path, sigma=SIGMA, beta=BETA, __log_density__=LP, __attributes__=attributes, s=["x"])
    draws = read_draws(path)
    same(draws)
    assert (draws.name, draws.attributes) == ("fit", {"bayesrecon_model": "m"})


def test_npz_of_a_single_chain(tmp_path):
    path = tmp_path / "fit.npz"
    np.savez(path, sigma=SIGMA[0], beta=BETA[0], __log_density__=LP[0])
    draws = read_npz(path)
    np.testing.assert_array_equal(draws.values["beta"], BETA[:1])
    np.testing.assert_array_equal(draws.log_density, LP[:1])
    # The log density alone settles it too.
    assert from_arrays({"beta": BETA[0], "__log_density__": LP[0]}).values["beta"].shape == (1, DRAWS, 2, 3)
    assert from_arrays({"k": np.arange(12).reshape(3, 4)}).values["k"].shape == (3, 4)


@pytest.mark.parametrize(
    "arrays, match",
    [
        ({}, "no numeric arrays"),
        ({"s": np.array(["x"])}, "no numeric arrays"),
        ({"__log_density__": LP}, "no numeric arrays"),
        ({"a": np.float64(1)}, "single number"),
        ({"a": SIGMA, "b": SIGMA.T}, "'b' has"),
        ({"a": SIGMA[0], "b": BETA}, "share the first dimension"),
        ({"a": SIGMA, "__log_density__": LP.T}, "log density has shape"),
        ({"a": np.zeros((2, 0))}, "at least one draw"),
        ({"a": SIGMA, "__attributes__": np.array("{")}, "JSON in __attributes__"),
        ({"a": SIGMA, "__attributes__": np.array("[1]")}, "not a JSON object"),
        ({"a": SIGMA, "__attributes__": np.array([1.0])}, "not valid JSON"),
        ({"a": SIGMA, "b": np.array([None, 1])}, "'b.npy' is pickled"),
    ],
)
def test_npz_refuses(tmp_path, arrays, match):
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(match, read_npz, tmp_path / "bad.npz")


def npy_header(shape, descr="<f8", version=1):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text.encode()


def test_npz_damaged_files(tmp_path, monkeypatch):
    path = tmp_path / "bad.npz"
    np.savez(path, a=SIGMA)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:100]):
        path.write_bytes(content)
        refused("not an .npz file", read_npz, path)
    path.write_bytes(whole[:200] + b"\x00\xff" + whole[202:])
    refused("cannot be read as an .npz file", read_npz, path)
    for member, match in (
        (npy_header((10**6, 10**6)) + bytes(80), "shorter than its header says"),
        (npy_header((2, -3)), "cannot be"),
        (npy_header((1, 1), version=3) + bytes(8), "not a plain numeric array"),
        (b"not an array", "cannot be read as an .npz file"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", member)
        refused(match, read_npz, path)
    path.write_bytes(whole)
    monkeypatch.setattr(size_limits, "FREE", 10)
    monkeypatch.setattr(size_limits, "RATIO", 0)
    refused("declares .* of arrays in .* of file, refused", read_npz, path)
    refused("no such file", read_npz, tmp_path / "none.npz")


NPZ = io.BytesIO()
np.savez(NPZ, a=np.zeros((2, 3)), __attributes__=np.array("{}"))


@pytest.mark.parametrize("examples", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_any_bytes_as_npz(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(st.integers(0, len(NPZ.getvalue()) - 1), st.binary(min_size=1, max_size=4)), max_size=3))
    def check(changes):
        content = bytearray(NPZ.getvalue())
        for position, patch in changes:
            content[position : position + len(patch)] = patch
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "fuzz.npz")
            path.write_bytes(content)
            draws_or_complaint(read_npz, path)

    check()


def test_vectors_of_one_chain_are_not_many_chains():
    refused("749 chains of 3 draws", from_arrays, {"samples": np.zeros((749, 3))})
    refused("PyMC's Tracker", from_arrays, {"mean": np.zeros((300, 3)), "std": np.ones((300, 3))})
    assert from_arrays({"samples": np.zeros((1, 749, 3))}).length == 749
    assert from_arrays({"tau": np.zeros((64, 20))}).chains == 64

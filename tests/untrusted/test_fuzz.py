"""Anything at all in place of a file is read or refused: no traceback, no hang, no flood of memory."""

import contextlib
import json
import sys
import warnings

import h5py
import numpy as np
import pytest
from fuzz_files import KINDS, netcdf, zarr
from fuzzed import LARGE, SLOW, VERBS, Tally, fuzz, look_through
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parts import slow_then_large

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_draws

pytestmark = [
    pytest.mark.small,
    pytest.mark.skipif(sys.platform == "win32", reason="memory is not measured there"),
]


LITTLE = [name for name in KINDS if "printed" not in name]  # of which a few files take little time


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "percent"),
    [
        *((name, 0.01) for name in LITTLE),
        *(case for name in KINDS for case in slow_then_large((name, 0.5), (name, 1))),
    ],
)
def test_mutated_files(name, percent):
    """A few of those of `benchmarks/files/fuzz.py`, with whole verbs."""
    pytest.importorskip("zarr")
    count = int(max(3, 1000 * KINDS[name].share // 100 * percent))
    tally = fuzz(name, range(count))
    assert tally.failures == []
    assert sum(tally.counts.values()) == count
    if percent == 1 or count >= 30:
        assert tally.counts["refused"] > count // 20
    assert tally.peak <= LARGE, f"{tally.peak / 2**30:.1f} GiB"
    assert tally.slowest <= SLOW


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:The data type")  # zarr, of texts
def test_good_files_are_read(name, tmp_path):
    """Those that changed ones are made of: a kind that is refused whole would pass every other test."""
    pytest.importorskip("zarr")
    kind = KINDS[name]
    for folder in ("file", "other"):
        (tmp_path / folder).mkdir()
    VERBS[kind.use][0](kind.make(tmp_path / "file"), netcdf(tmp_path / "other"))


def test_the_fuzzer_tells(tmp_path, monkeypatch):
    """What it is there to find is found."""
    tally = Tally()
    outcomes = iter([BayesreconError("one line"), KeyError("x"), None, MemoryError(), "hang"])
    monkeypatch.setattr("fuzzed.SLOW", 0.1)

    def use(path, good):
        match next(outcomes):
            case "hang":
                while True:
                    pass
            case None:
                return
            case error:
                raise error

    for number in range(5):
        tally.add(number, tmp_path, tmp_path, (use,))
    assert tally.counts == {"refused": 1, "traceback": 2, "read": 1, "hang": 1}
    assert [number for number, _ in tally.failures] == [1, 3, 4]


def test_shares_are_a_hundred():
    assert sum(kind.share for kind in KINDS.values()) == 100
    for format in "netCDF", "zarr":
        assert sum(kind.share for name, kind in KINDS.items() if name.startswith(format)) >= 20


# Files of another structure, which the libraries themselves find sound


NAMES = st.sampled_from(["mu", "chain", "draw", "lp", "y", "é", "a b", "\u202e", "log_lik"]) | st.text(
    st.characters(exclude_characters="/\0.", codec="utf-8"), min_size=1, max_size=5
)
GROUPS = st.sampled_from(["posterior", "sample_stats", "log_likelihood", "observed_data", "prior", "x"])
TYPES = st.sampled_from(["f8", "f4", "i4", "u1", "?", "S3", "c16", "text", ">f8", "f2"])
SHAPES = st.lists(st.integers(0, 4), max_size=4)
VALUES = st.none() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.floats(), max_size=5)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["units", "scale_factor", "_FillValue", "add_offset", "coordinates", "dtype", "CLASS", "NAME"])
    | st.sampled_from(["bayesrecon_model", "bayesrecon_model_settings", "calendar", "missing_value", "note"]),
    VALUES,
    max_size=3,
)
ARRAYS = st.fixed_dictionaries({"kind": TYPES, "shape": SHAPES, "attributes": ATTRIBUTES, "scale": st.booleans()})
FILES = st.dictionaries(GROUPS, st.tuples(st.dictionaries(NAMES, ARRAYS, max_size=4), ATTRIBUTES), max_size=4)


def put(item, attributes):
    for key, value in attributes.items():
        try:
            item.attrs[key] = h5py.Empty("f8") if value is None else value
        except (TypeError, OverflowError, ValueError):  # no such number, or text, in HDF5
            item.attrs[key] = json.dumps(str(value))


def write_hdf5(path, content):
    with h5py.File(path, "w") as file:
        for group, (arrays, attributes) in content.items():
            held = file.create_group(group)
            put(held, attributes)
            for name, one in arrays.items():
                kind = h5py.string_dtype() if one["kind"] == "text" else one["kind"]
                item = held.create_dataset(name, one["shape"], kind)
                put(item, one["attributes"])
                if one["scale"]:
                    item.make_scale(name)
            scales = [item for item in held.values() if item.is_scale]
            for item in held.values():
                for axis in range(0 if item.is_scale else item.ndim):
                    for scale in scales:
                        if scale.shape == (item.shape[axis],):
                            with contextlib.suppress(RuntimeError):  # attributes that are none of a scale's
                                item.dims[axis].attach_scale(scale)
                            break


def check(path):
    for read in (read_draws, look_through):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(path)
        except BayesreconError as error:
            assert str(error)
            assert "\n" not in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, *slow_then_large(150, 500)])
def test_any_hdf5_structure(tmp_path, count):
    @given(content=FILES)
    @settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def run(content):
        write_hdf5(tmp_path / "a.nc", content)
        check(tmp_path / "a.nc")

    run()


JSON = st.recursive(
    VALUES | st.sampled_from(["|O", "<f8", "|S9", "pickle", "vlen-utf8", "float64", 10**400]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = [
    "shape",
    "chunks",
    "dtype",
    "filters",
    "compressor",
    "fill_value",
    "order",
    "zarr_format",
    "dimension_separator",
]


@pytest.mark.parametrize("count", [15, *slow_then_large(150, 500)])
def test_any_zarr_metadata(tmp_path, count):
    pytest.importorskip("zarr")
    path = zarr(2)(tmp_path)
    file = path / "posterior" / "sigma" / ".zarray"
    whole = json.loads(file.read_text())

    @given(changes=st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=3))
    @settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def run(changes):
        file.write_text(json.dumps(whole | changes))
        check(path)

    run()


@pytest.mark.parametrize("count", [15, *slow_then_large(150, 500)])
def test_any_archive(tmp_path, count):
    arrays = st.builds(
        lambda kind, shape: np.zeros(shape, kind), st.sampled_from(["f8", "i2", "?", "U3", "c8"]), SHAPES
    )

    @given(content=st.dictionaries(st.sampled_from(["mu", "y_rep", "__attributes__", "__log_density__"]), arrays))
    @settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def run(content):
        np.savez(tmp_path / "a.npz", **content)
        check(tmp_path / "a.npz")

    run()

"""Saved objects of strangers: nothing in them runs, nothing takes all memory, and what would run is named."""

import io
import time
import tracemalloc
from functools import cache
from pathlib import Path

import fuzzed_saved
import hostile
import numpy as np
import pytest
from quick import quick

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.untrusted.saved import pickle_machine
from bayesrecon.untrusted.saved.file import SavedFile
from bayesrecon.untrusted.saved.nodes import Unreadable

SECONDS, BYTES = 10.0, 500 * 2**20


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    return tmp_path_factory.mktemp("mine") / "canary"


CANARIES = [name for name, _ in hostile.canaries(Path("x"))]
STATED = dict(hostile.bombs())
BOMBS = [*STATED, *hostile.UNPACK]


@cache
def bomb(name):
    return STATED[name] if name in STATED else hostile.UNPACK[name]()


@pytest.mark.parametrize("name", CANARIES)
def test_nothing_runs_and_what_would_is_named(tmp_path, canary, name):
    path = tmp_path / name
    path.write_bytes(dict(hostile.canaries(canary))[name])
    found = bayesrecon.audit(path, remedies=False)
    assert not canary.exists()
    (runs,) = [f for f in found if f.kind == "code" and f.severity == "high"]
    assert "system" in runs.title or "eval" in runs.title
    assert found.advice.startswith("Do not publish this file")


def test_the_canary_sings_where_it_is_loaded(tmp_path, canary):
    """By hand, as a loader would call it: the files are not harmless by mistake."""
    ran = hostile.Runs(Path.touch, tmp_path / "sang")
    function, arguments = ran.__reduce__()
    function(*arguments)
    assert (tmp_path / "sang").exists()
    assert not canary.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(BOMBS, [*STATED, "bomb_gz.joblib"]))
def test_what_a_file_states_takes_neither_time_nor_memory(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(bomb(name))
    tracemalloc.start()
    began = time.process_time()
    try:
        found = SavedFile(path).everything()
        assert isinstance(found["items"], list)
    except BayesreconError as problem:
        assert str(problem).startswith(str(path))
        assert "\n" not in str(problem)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < BYTES
    assert time.process_time() - began < 4 * SECONDS  # traced, which is several times slower


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("unknown.pkl", "damaged"),
        ("text.pkl", "cannot be read as a saved object"),
        ("empty.pkl", "it is empty"),
        ("long_bytes.pkl", "damaged"),
        ("bomb_gz.joblib", "unpacks to more than 64 MiB"),
        ("cut_xz.joblib", "the end of its xz is missing"),
        ("lz4.joblib", "compressed by LZ4, which is not supported"),
        ("zip_bomb.pt", "declares 512.0 MiB"),
        ("wide.safetensors", "not a safetensors file"),
        ("beyond.safetensors", "does not lie in the file"),
    ],
)
def test_what_is_damaged_is_refused_in_one_line(tmp_path, name, told):
    path = tmp_path / name
    path.write_bytes(bomb(name))
    with pytest.raises(BayesreconError, match=told) as caught:
        read_contents(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("persistent.pkl", "a persistent id"),
        ("buffer.pkl", "a buffer outside the pickle"),
        ("out_of_band.pkl", "a buffer outside the pickle"),
        ("registry.pkl", "an entry of the registry of extensions"),
        ("shape.pkl", "0 bytes for an array of float64"),
        ("tensor.pt", "a tensor of more than its storage"),
        ("tensor_beyond.pt", "a tensor beyond its storage"),
        ("beside.joblib", "its arrays lie in other files"),
        ("deep.pkl", "there is more than can be searched"),
    ],
)
def test_what_is_not_read_is_told(tmp_path, name, told):
    path = tmp_path / name
    path.write_bytes(bomb(name))
    found = bayesrecon.audit(path, remedies=False)
    assert found.verdict == "incomplete"
    assert any(told in n.reason for n in found.not_run)


def test_opcodes_are_counted(monkeypatch):
    monkeypatch.setattr(pickle_machine, "MOST_OPCODES", 100)
    with pytest.raises(Unreadable, match="more than 100 opcodes"):
        pickle_machine.Machine(io.BytesIO(b"N0" * 60 + b"N.")).run()


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_brings_the_same(tmp_path, protocol):
    import pickle

    values = {
        "doubles": np.arange(12.0).reshape(3, 4).T,
        "whole": np.arange(5, dtype=">i4"),
        "texts": np.array(["Ömer", "b"]),
        "objects": np.array(["a", "bcd"], object),
        "numbers": [1.5, 2.5, -3.0],
        "number": np.float32(1.5),
        "set": {4},
        "bytes": b"\x00\xffabc",
        "large": 2**70,
        "record": np.array([(1, 2.5)], [("left", "i8"), ("value", "f8")]),
        "days": np.array(["2024-02-29"], "M8[D]"),
        "flags": (True, None, False),
    }
    path = tmp_path / "all.pkl"
    path.write_bytes(pickle.dumps(values, protocol))
    found = {item["where"]: item for item in SavedFile(path).everything()["items"] if item["kind"] != "name"}
    np.testing.assert_array_equal(found["doubles"]["values"], values["doubles"])
    np.testing.assert_array_equal(found["whole"]["values"], values["whole"])
    assert found["texts"]["values"].tolist() == ["Ömer", "b"]
    assert list(found["objects"]["values"]) == ["a", "bcd"]
    assert found["numbers"]["values"].tolist() == [1.5, 2.5, -3.0]
    assert found["number"]["values"] == 1.5
    assert found["set"]["values"].tolist() == [4.0]
    assert found["bytes"]["values"] == b"\x00\xffabc"
    assert found["large"]["kind"] == "bytes"
    assert found["record/left"]["values"].tolist() == [1]
    assert found["record/value"]["values"].tolist() == [2.5]
    assert found["days"]["values"].tolist() == ["2024-02-29"]


def test_of_many_alike_things_each_is_listed(tmp_path):
    """What is made on the way bears no identity of its own."""
    import pickle

    names = [np.array([f"{k}a", f"{k}b"], object) for k in range(200)]
    path = tmp_path / "alike.pkl"
    path.write_bytes(pickle.dumps({"names": names, "sets": [{k, k + 0.5} for k in range(200)]}))
    found = {item["where"]: item["values"] for item in SavedFile(path).everything()["items"]}
    assert [list(found[f"names/{k}"]) for k in range(200)] == [list(one) for one in names]
    assert all(f"sets/{k}" in found for k in range(200))


def test_what_is_there_twice_is_listed_once(tmp_path):
    import pickle

    values = np.arange(5.0)
    path = tmp_path / "twice.pkl"
    path.write_bytes(pickle.dumps({"first": values, "second": values}))
    listed = [item["where"] for item in SavedFile(path).everything()["items"] if item["kind"] == "array"]
    assert listed == ["first"]


def test_what_is_no_part_of_the_object_is_listed(tmp_path):
    """Put on the stack and taken away again, left below the object, set twice, or behind the end."""
    path = tmp_path / "beside.pkl"
    path.write_bytes(b"\x80\x04\x8c\x03Ann0\x8c\x03Bob(\x8c\x04Cleo1}(\x8c\x01aK\x07\x8c\x01aK\x08u.Dora")
    found = SavedFile(path).everything()["items"]
    told = [item["values"] for item in found if item["kind"] != "name"]
    assert {"Ann", "Bob", "Cleo", 7, 8, b"Dora"} <= {v for one in told for v in (one if np.ndim(one) else [one])}


def test_a_slice_brings_all_that_it_was_cut_from(tmp_path):
    """torch writes whole storages: one row of a batch is the batch."""
    path = tmp_path / "slice.pt"
    path.write_bytes(hostile.tensor(size=(2,), stride=(1,)))
    found = {item["where"]: item["values"] for item in SavedFile(path).everything()["items"]}
    assert found["the object"].shape == (2,)
    assert found["storage 0, beyond its tensors"].shape == (4,)
    path.write_bytes(hostile.tensor(size=(2, 2), stride=(2, 1)))
    assert "storage 0, beyond its tensors" not in {i["where"] for i in SavedFile(path).everything()["items"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzzed_saved.FORMATS)
def test_fuzzed_files_are_refused_or_read(name):
    """A fixed part of what `benchmarks/files/fuzz_saved.py` reads."""
    tally = fuzzed_saved.fuzz(name, 25)
    assert tally.failures == []
    assert tally.counts.total() == 25
    assert tally.peak < BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzzed_saved.FORMATS)
def test_more_files_that_nobody_wrote(name):
    tally = fuzzed_saved.fuzz(name, 500, seed=2)
    assert tally.failures == []
    assert tally.peak < BYTES

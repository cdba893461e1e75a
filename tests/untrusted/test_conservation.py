"""What lies in a saved object, by its bytes, reaches the audit: it is found, or the audit is incomplete."""

import io
import pickle

import byte_changes
import byte_oracle
import hiding
import hiding_beside
import joblib
import numpy as np
import pandas as pd
import pytest
import saving
import vanishing
from fuzz_files import R_OBJECTS
from quick import quick

import bayesrecon
from bayesrecon.untrusted.saved.file import SavedFile
from bayesrecon.untrusted.saved.nodes import Made, Named, Pairs
from bayesrecon.untrusted.saved.walk import Walk

OBJECTS = vanishing.objects()
SOME = ["frame of decimals", "nested lists", "unused categories", "unused levels", "metadata of a type", "records"]


@pytest.mark.parametrize("name", quick(list(OBJECTS), SOME))
def test_what_the_bytes_hold_is_found_or_said_to_be_unknown(name, tmp_path):
    path = tmp_path / "object.pkl"
    path.write_bytes(pickle.dumps(OBJECTS[name]))
    seen = byte_oracle.columns_in(path, vanishing.TABLE)
    blind, told = bayesrecon.audit(path, remedies=False), bayesrecon.audit(path, data=vanishing.TABLE, remedies=False)
    for found in (blind, told):
        assert found.severity in ("medium", "high") or found.verdict == "incomplete"
    if seen:
        assert told.severity in ("medium", "high"), (seen, told.unrecognised)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [0, 2])
def test_old_protocols_and_joblib_hold_the_same(protocol, tmp_path):
    for name in SOME:
        (path := tmp_path / "object.pkl").write_bytes(pickle.dumps(OBJECTS[name], protocol))
        joblib.dump(OBJECTS[name], packed := tmp_path / "object.joblib", compress=3)
        for file in (path, packed):
            found = bayesrecon.audit(file, data=vanishing.TABLE, remedies=False)
            assert found.severity in ("medium", "high"), (name, file)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_what_programs_write_has_nothing_beside(protocol, tmp_path):
    kept = {
        "a": np.arange(9000.0),
        "t": "x" * 900,
        "b": b"y" * 70_000,
        "o": np.array([1, "a"], object),
        "n": [0.1, 10**40],
    }
    plain, by_python = io.BytesIO(pickle.dumps(kept, protocol)), io.BytesIO()
    pickle._Pickler(by_python, protocol).dump(kept)
    joblib.dump(kept, joined := io.BytesIO(), protocol=protocol)
    for file in (plain, by_python, joined):
        (path := tmp_path / "object.joblib").write_bytes(file.getvalue())
        assert SavedFile(path).everything()["unread"] == []


def test_what_a_decoder_drops_is_unread(monkeypatch, tmp_path):
    """The comparison of what was described with what was handed over is a function of its own."""
    walk, lost = Walk(), Made(Named("mylib", "Box"), (), [Pairs([("rows", [[41.5, 17.2], "x"])])])
    monkeypatch.setattr(Walk, "_listed", lambda self, place, items, of: iter(()))
    walk.over(lost)
    walk.done()
    assert walk.unread == [("the object", "1 of its parts were not searched")]


def test_every_value_has_one_place(tmp_path):
    (path := tmp_path / "object.pkl").write_bytes(pickle.dumps(OBJECTS["fields by key"]))
    items = [item for item in SavedFile(path).everything()["items"] if item["kind"] == "setting"]
    assert len({item["path"] for item in items}) == len(items) == 2 * vanishing.COUNT


MOST_SILENT = {"ONNX": 0.2, "ONNX of a tree": 0.1}
"""Formats whose ignored bytes are not told apart: nothing links the name of a field to its place in the file."""


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.large])])
@pytest.mark.parametrize("name", byte_changes.FORMATS)
@pytest.mark.filterwarnings("ignore:The data type")  # zarr, of texts
def test_a_changed_byte_is_seen_refused_or_known_to_be_ignored(name, count, tmp_path):
    pytest.importorskip("zarr")
    path = byte_changes.FORMATS[name](tmp_path)
    good, silent = byte_changes.seen(path), []
    assert good
    files = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for change, seen in byte_changes.changes(path, count, np.random.default_rng(count)):
        if seen == good and not byte_changes.is_ignored(name, files[change.file], change):
            silent.append(change)
    assert len(silent) <= count * MOST_SILENT.get(name, 0), silent


BESIDE = ["nc: comment of an array", "npz: an extra field", "csv: ends of lines", "pkl: bytes after STOP"]
PLACES = {place.id: place for place in hiding_beside.PLACES}


@pytest.mark.parametrize("name", quick(list(PLACES), BESIDE))
def test_what_lies_beside_the_content_is_found_or_makes_the_audit_incomplete(name, tmp_path):
    pytest.importorskip("zarr")
    found = bayesrecon.audit(PLACES[name].make(tmp_path), data=hiding.DATA, remedies=False)
    seen = [one for one in found.not_run if "model" not in one.reason]
    assert seen or found.severity in ("medium", "high")


OF_R = {f"{csv.stem}.{k}": v for csv in sorted(R_OBJECTS.glob("pat*.csv")) for k, v in pd.read_csv(csv).items()}
FIXTURES = {
    path.name: (path, table)
    for folder, table in ((R_OBJECTS, OF_R), (byte_changes.SAVED, dict(saving.DATA.items())))
    for path in sorted(folder.iterdir())
    if path.suffix not in (".csv", ".md", ".R")
}
"""Files that other programs wrote, each with the private table behind it."""


@pytest.mark.parametrize(
    "name",
    [
        n if n in ("kmeans.rds", "weights.pt") else pytest.param(n, marks=[pytest.mark.slow, pytest.mark.large])
        for n in FIXTURES
    ],
)
def test_columns_that_the_bytes_of_a_file_hold_are_found(name):
    path, table = FIXTURES[name]
    columns = {column: np.asarray(values) for column, values in table.items()}
    if seen := byte_oracle.columns_in(path, columns):
        assert bayesrecon.audit(path, data=columns, remedies=False).severity in ("medium", "high"), seen

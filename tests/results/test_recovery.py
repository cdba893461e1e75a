"""Results: they come back from a file as they were, and never show more than they hold."""

import dataclasses
import html
import json
import math
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import h5py
import numpy as np
import pytest
import xarray as xr

import bayesrecon
from bayesrecon import BayesreconError, load_result
from bayesrecon.errors import Note, visible
from bayesrecon.results import Recovery
from bayesrecon.results.recovery import Row
from bayesrecon.types import PseudoData

pytestmark = pytest.mark.small

HOSTILE = ["<script>alert(1)</script>", "a&b\"'", "漢字 \u202e", "$x^", "", "%s{}"]


def row(name, estimate, se, **rest):
    return Row(name, estimate, se, estimate - 2 * se, estimate + 2 * se, 0.9 * se, 1.0, "determined", 812.5, **rest)


ROWS = (
    row("n", 438.25, 4.5),
    row("mean(x[1])", 0.1, 0.3),
    replace(row("var(x[1])", 2.0, 0.1), visibility=0.75, verdict="partly"),
    row("total(known)", 12.0, 0.0),
    Row("mean(y)", visibility=0.125, verdict="undetermined"),
    Row("mean(z)", 1.5, visibility=1.0, verdict="determined"),  # a trained parameter: no sampling error
)


def recovery(**changes):
    result = Recovery(
        rows=ROWS,
        release="some-release",
        model="some_model",
        draws=4000,
        metric="covariance",
        coordinates="unconstrained",
        temperature=1.0,
        rank=6,
        gap=True,
        spectrum=np.array([1.0, 1e-3, 1e-30]),
        pseudo=PseudoData(np.array([2.0, -1.0]), {"x": np.array([[1.5, 2.5], [3.5, 4.5]]), "y": np.array([0, 1])}),
        warnings=("the chains have not converged: <R-hat> is 1.2", "zweite Warnung “…”"),
        seconds=1.25,
    )
    return replace(result, **changes)


CASES = {
    "everything": {},
    "no warnings": {"warnings": ()},
    "nothing determined": {"rows": (ROWS[4],)},
    "no gap, trained parameter": {"gap": False, "temperature": 0.0, "rows": (ROWS[5],), "draws": 1},
    "hostile names": {
        "rows": tuple(row(name, 1.0, 0.5) for name in HOSTILE),
        "release": HOSTILE[0],
        "warnings": tuple(HOSTILE),
    },
    "constrained": {"coordinates": "constrained", "metric": "identity"},
}


@pytest.mark.parametrize("case", CASES)
def test_saved_and_loaded(case, tmp_path):
    result = recovery(**CASES[case])
    path = tmp_path / "result.nc"
    assert result.save(path) == path
    again = load_result(path)
    assert type(again) is Recovery
    assert again.rows == result.rows
    assert again.to_dict() == result.to_dict()
    assert {type(value) for value in again.to_dict().values()} <= {str, int, float, bool, list}
    np.testing.assert_array_equal(again.spectrum, result.spectrum)
    np.testing.assert_array_equal(again.pseudo.weights, result.pseudo.weights)
    assert again.pseudo.records.keys() == result.pseudo.records.keys()
    for name, values in result.pseudo.records.items():
        np.testing.assert_array_equal(again.pseudo.records[name], values)
        assert again.pseudo.records[name].dtype == values.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["result.nc"]


@pytest.mark.parametrize("suffix", [".nc", ".npz"])
def test_notes_are_told_apart_from_warnings(suffix, tmp_path):
    result = recovery(warnings=(Note("every 2nd draw was used"), "the chains are short"))
    for one in (result, load_result(result.save(tmp_path / f"result{suffix}"))):
        document = one.to_dict()
        assert (document["notes"], document["warnings"]) == (["every 2nd draw was used"], ["the chains are short"])
        assert {"note: every 2nd draw was used", "warning: the chains are short"} <= set(repr(one).splitlines())


def test_a_file_with_fields_of_another_version_is_refused_by_name(tmp_path):
    path = recovery().save(tmp_path / "result.npz")
    with np.load(path) as file:
        content = dict(file)
    about = str(content["__bayesrecon__"]).replace('"coordinates"', '"places"')
    np.savez(path, **{**content, "__bayesrecon__": np.array(about)})
    with pytest.raises(BayesreconError, match=r"was saved by bayesrecon .* has a field 'places'"):
        load_result(path)


def test_the_file_holds_what_the_result_holds(tmp_path):
    """Read without our own reader: names, numbers and settings are there, gaps are NaN."""
    recovery().save(tmp_path / "result.nc")
    with h5py.File(tmp_path / "result.nc") as file:
        names = [name.decode() for name in file["statistic"][:]]
        assert names == [row.name for row in ROWS]
        np.testing.assert_array_equal(file["estimate"][:], [438.25, 0.1, 2.0, 12.0, math.nan, 1.5])
        np.testing.assert_array_equal(file["weight"][:], [2.0, -1.0])
        assert file["record_x"].shape == (2, 2)
        assert file.attrs["bayesrecon_release"] == "some-release"
        assert file.attrs["bayesrecon_version"] == bayesrecon.__version__


def test_saving_twice_replaces_the_file(tmp_path):
    path = tmp_path / "result.nc"
    recovery().save(str(path))
    recovery(release="other").save(path)
    with h5py.File(path) as file:
        assert file.attrs["bayesrecon_release"] == "other"


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "result.nc"
    recovery().save(path)
    before = path.read_bytes()

    def fail(target, content):
        target.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(type(path), "write_bytes", fail)
    for target in (path, tmp_path / "new.nc"):
        with pytest.raises(OSError, match="disk full"):
            recovery(release="other").save(target)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["result.nc"]


def test_saving_into_no_folder(tmp_path):
    with pytest.raises(BayesreconError, match="none does not exist"):
        recovery().save(tmp_path / "none" / "result.nc")
    assert list(tmp_path.iterdir()) == []


def without(name):
    def write(path):
        recovery().to_dataset().drop_vars(name).to_netcdf(path, engine="h5netcdf")

    return write


def with_attributes(**changes):
    def write(path):
        dataset = recovery().to_dataset()
        dataset.attrs = {key: value for key, value in {**dataset.attrs, **changes}.items() if value is not None}
        dataset.to_netcdf(path, engine="h5netcdf")

    return write


def with_another(name, *variable):
    def write(path):
        recovery().to_dataset().drop_vars(name).assign({name: variable}).to_netcdf(path, engine="h5netcdf")

    return write


NOT_RESULTS = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("n,438"),
    "folder": lambda path: path.mkdir(),
    "another netCDF file": lambda path: xr.Dataset({"x": ("i", [1.0])}).to_netcdf(path, engine="h5netcdf"),
    "HDF5 of another program": lambda path: h5py.File(path, "w").close(),
    "without estimates": without("estimate"),
    "without a spectrum": without("spectrum"),
    "without a model": with_attributes(bayesrecon_model=None),
    "without warnings": with_attributes(bayesrecon_warnings=None),
    "with warnings that are no JSON": with_attributes(bayesrecon_warnings="["),
    "with warnings that are no list": with_attributes(bayesrecon_warnings="3"),
    "with fewer estimates": with_another("estimate", "other", [1.0]),
    "with one estimate": with_another("estimate", (), 1.0),
    "with words for estimates": with_another("estimate", "statistic", np.array(["x"] * 6, object)),
}


NO_RESULT = r"file\.nc is not a saved bayesrecon result"


def not_loaded(path):
    with pytest.raises(BayesreconError, match=NO_RESULT) as caught:
        load_result(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", NOT_RESULTS)
def test_a_file_that_is_not_a_result_is_refused_silently(case, tmp_path, capfd):
    path = tmp_path / "file.nc"
    NOT_RESULTS[case](path)
    not_loaded(path)
    assert capfd.readouterr() == ("", "")


def test_loading_no_file(tmp_path):
    with pytest.raises(BayesreconError, match=r"no such file: .*none\.nc"):
        load_result(tmp_path / "none.nc")


DAMAGE = """
import sys
from pathlib import Path
import bayesrecon

path = Path(sys.argv[1])
whole = path.read_bytes()
for content in [whole, whole[:-2000], whole[: len(whole) // 2], whole[:100], b""]:
    path.write_bytes(content)
    try:
        print(bayesrecon.load_result(path).model)
    except bayesrecon.BayesreconError as error:
        print(error)
"""


@pytest.mark.slow
def test_loading_a_damaged_file(tmp_path):
    """Whatever is cut off, one line comes back; the libraries below stay silent."""
    path = tmp_path / "file.nc"
    recovery().save(path)
    done = subprocess.run([sys.executable, "-c", DAMAGE, path], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "some_model"
    assert len(lines) == 5
    assert all(re.search(NO_RESULT, line) for line in lines[1:])


@pytest.mark.parametrize("case", CASES)
def test_a_result_becomes_plain_json(case):
    result = recovery(**CASES[case])
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert found == result.to_dict()
    assert found["version"] == bayesrecon.__version__
    assert found["warnings"] == list(result.warnings)
    assert [entry["name"] for entry in found["statistics"]] == [row.name for row in result]
    for entry, row in zip(found["statistics"], result, strict=True):
        assert entry == {key: getattr(row, key) for key in entry}
        if row.verdict == "undetermined":
            assert entry["estimate"] is entry["se"] is entry["lower"] is entry["upper"] is entry["floor"] is None
    # What is done to it does not reach the result.
    whole = result.to_dict()
    whole["statistics"][0]["estimate"] = -1
    whole["warnings"].append("mine")
    assert result.to_dict() == found


def test_to_dataframe():
    frame = recovery().to_dataframe()
    assert list(frame.index) == [row.name for row in ROWS]
    assert frame.index.name == "name"
    assert list(frame.columns) == [
        "estimate",
        "se",
        "lower",
        "upper",
        "floor",
        "visibility",
        "verdict",
        "ess",
        "condition",
    ]
    assert frame.loc["n", "estimate"] == 438.25
    assert frame.loc["mean(y)", ["estimate", "se", "lower", "upper", "floor", "ess"]].isna().all()
    assert frame.loc["mean(y)", "verdict"] == "undetermined"
    assert set(frame.dtypes.drop(["verdict", "condition"])) == {np.dtype(float)}
    assert recovery(rows=(ROWS[4],)).to_dataframe()["estimate"].dtype == float
    frame.loc["n", "estimate"] = 0.0
    assert recovery().to_dataframe().loc["n", "estimate"] == 438.25


def test_html_escapes_what_others_named():
    shown = recovery(**CASES["hostile names"])._repr_html_()
    assert "<script" not in shown
    for name in HOSTILE[:3]:
        assert html.escape(visible(name)) in shown
    shown = recovery()._repr_html_()
    assert "&lt;R-hat&gt;" in shown
    assert "<R-hat>" not in shown
    for text in ("some-release", "438.25", "undetermined", "mean(y)"):
        assert text in shown
    assert "nan" not in shown.lower().replace("some", "")
    assert "None" not in shown


def test_text_is_a_table_that_a_terminal_can_be_given():
    shown = str(recovery())
    assert shown.startswith("some-release")
    for text in ("438.25", "undetermined", "mean(y)", "warning: "):
        assert text in shown
    assert "nan" not in shown.lower()
    rows = tuple(dataclasses.replace(ROWS[0], name=f"n\x1b[31m{i}") for i in range(30))
    shown = repr(recovery(rows=rows))
    assert "\x1b" not in shown
    assert "n\\x1b[31m0" in shown
    assert "... and 10 more rows" in shown
    assert "10 more rows" in recovery(rows=rows)._repr_html_()


def test_rows_by_name_and_in_order():
    result = recovery()
    assert len(result) == len(list(result)) == len(ROWS)
    assert result["n"] is ROWS[0]
    with pytest.raises(KeyError, match=r"no statistic 'mean\(x\)'; did you mean .*mean\(x\[1\]\)"):
        _ = result["mean(x)"]


def test_results_do_not_change():
    result = recovery()
    for target, name in ((result, "rows"), (result, "release"), (result["n"], "estimate"), (result, "other")):
        with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
            setattr(target, name, 3)
        with pytest.raises((FrozenInstanceError, AttributeError)):
            delattr(target, name)
    assert isinstance(result.rows, tuple)
    assert isinstance(result.warnings, tuple)
    with pytest.raises(TypeError):
        result["n"] = ROWS[1]

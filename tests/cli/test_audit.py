"""`bayesrecon audit`: report, cleaned copy, exit codes."""

import json

import numpy as np
import pytest
import xarray as xr
from audited import arviz_tree
from command import Outcome
from kidscore import DRAWS

from bayesrecon.attacks.sidechannels.resolution import round_to


def audit_file(tmp_path, everything):
    tree = arviz_tree(source="/home/alice/kids.csv")
    tree["sample_stats"] = xr.DataTree(xr.Dataset({"lp": (("chain", "draw"), everything["__log_density__"])}))
    path = tmp_path / "posterior.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    return path


def test_command_with_report_and_cleaned_copy(run, tmp_path, everything):
    path = audit_file(tmp_path, everything)
    options = ("--model", "kidscore_momiq", "--no-remedies", "--fix", "safe.nc", "--keep-draws", 200, "--digits", 4)
    outcome = run("audit", path, *options, "--html", "report.html", "--out", "audit.json", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["severity"] == "high"
    assert found["fixed"]["severity"] == "low"
    assert [f["kind"] for f in found["fixed"]["findings"]] == ["draws"]
    assert found["files"][0]["path"] == str(path)
    assert json.loads((tmp_path / "audit.json").read_text()) == found
    assert (tmp_path / "report.html").stat().st_size > 5_000
    with xr.open_datatree(tmp_path / "safe.nc", engine="h5netcdf") as safe:
        assert list(safe.children) == ["posterior"]
        assert set(safe["posterior"].data_vars) == {"beta", "sigma"}
        assert safe["posterior"].sizes["chain"] * safe["posterior"].sizes["draw"] == 200
        assert not safe["posterior"].attrs
        sigma = safe["posterior"]["sigma"].values
        np.testing.assert_array_equal(sigma, round_to(sigma, 4))


def test_exit_codes(run, tmp_path, everything):
    path = audit_file(tmp_path, everything)
    table = run("audit", path)
    assert table.code == 0
    assert "high" in table.out
    assert run("audit", path, "--fail-on", "high").code == 1
    np.savez(tmp_path / "clean.npz", **DRAWS)
    clean = run("audit", "clean.npz", "--fail-on", "low")
    assert clean.code == 0
    assert "nothing found" in clean.out
    both = run("audit", "clean.npz", path, "--json")
    assert json.loads(both.out)["name"] == "clean, posterior"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.nc",), "missing.nc"),
        (("clean.npz", "--fail-on", "awful"), "low, medium or high"),
        (("clean.npz", "--html", "a.pdf"), ".html"),
        (("clean.npz", "--fix", "clean.npz"), "name another"),
        (("clean.npz", "--keep-draws", "5"), "belong to --fix"),
        (("clean.npz", "--settings", "{}", "--known", "x.csv"), "name it with --model"),
        (("clean.npz", "clean.npz"), "given twice"),
        (("clean.npz", "--model", "eight_schools_noncentered"), "eight_schools_noncentered"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, arguments, words):
    np.savez(tmp_path / "clean.npz", **DRAWS)
    code, out, err = run("audit", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert err.count("\n") == 1
    assert words in err


def test_nothing_half_written(run, tmp_path):
    np.savez(tmp_path / "clean.npz", **DRAWS)
    outcome: Outcome = run("audit", "clean.npz", "--fix", "safe.nc", "--keep-draws", "100000")
    assert outcome.code == 2
    assert not (tmp_path / "safe.nc").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["clean.npz"]

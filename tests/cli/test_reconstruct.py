"""`bayesrecon reconstruct`: pseudo-data and records on the command line."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from command import document

from bayesrecon.attacks.attack import attacks
from bayesrecon.posteriors.fitting.database import open_database, read_data
from bayesrecon.results.base import plain


@pytest.mark.parametrize("attack", attacks())
def test_options_of_every_attack_are_listed(run, attack):
    done = run("reconstruct", "--attack", attack)
    assert (done.code, done.err) == (0, "")
    assert f"{attack}: " in done.out
    assert "takes" in done.out


@pytest.mark.slow
def test_records_on_the_command_line(database, run, tmp_path):
    data = read_data(open_database(), "eight_schools")
    lines = ["school,sigma", *(f"{i + 1},{s}" for i, s in enumerate(data["sigma"]))]
    (tmp_path / "design.csv").write_text("\n".join(lines))
    name = "eight_schools-eight_schools_noncentered"
    done = run("reconstruct", name, "--known", "design.csv", "--unit", "school", "--out", "y.csv", "--json")
    assert done.code == 0
    records = json.loads(done.out)["records"]
    assert len(records) == 8
    assert records[0]["estimate"] == pytest.approx(28, abs=3)
    assert (tmp_path / "y.csv").read_text().count("\n") == 9
    assert run("reconstruct", name, "--known", "design.csv", "--unit", "school", "--out", "y.nc").code == 2
    assert "most exposed" in run("reconstruct", name, "--known", "design.csv", "--unit", "school").out


KIDIQ = "kidiq-kidscore_momiq"
SMALL = ("--draws", 200, "-n", 12)
ADAM = ("--draws", 100, "-n", 5, "--attack", "score-matching")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def reconstruct(run):
    """`bayesrecon reconstruct ...` in this process."""
    return lambda *arguments: run("reconstruct", *arguments)


def one_line(outcome, *words):
    code, out, err = outcome
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


@pytest.mark.slow
def test_json_and_files(database, reconstruct, tmp_path):
    files = {suffix: tmp_path / f"records{suffix}" for suffix in (".nc", ".csv", ".png")}
    outcome = reconstruct(KIDIQ, *SMALL, "--json", "--out", files[".nc"], "--plot", files[".png"])
    found = document(outcome)
    assert outcome[2] == "".join(f"wrote {files[suffix]}\n" for suffix in (".nc", ".png"))
    assert found.keys() >= {"version", "release", "n", "relative_gap", "gap_in_noise", "certificate", "statistics"}
    assert (found["release"], found["n"], found["method"], found["draws"]) == (KIDIQ, 12, "newton", 200)
    assert (found["objective"], found["metric"], found["coordinates"]) == ("exact", "covariance", "unconstrained")
    assert found["relative_gap"] < 1e-8
    assert set(found["statistics"]) == {"n", *(f"{f}({x})" for f in ("mean", "var") for x in ("mom_iq", "kid_score"))}
    with xr.open_dataset(files[".nc"], engine="h5netcdf") as stored:
        assert stored["weight"].sum().item() == pytest.approx(found["statistics"]["n"])
        assert stored["trace"].sizes["column"] == 9
    assert files[".png"].read_bytes().startswith(PNG)

    again = document(reconstruct(KIDIQ, *SMALL, "--json", "-o", files[".csv"]))
    assert {**again, "seconds": 0} == {**found, "seconds": 0}
    records = pd.read_csv(files[".csv"], index_col="record")
    assert list(records.columns) == ["weight", "mom_iq", "kid_score"]
    assert len(records) == 12
    assert np.average(records["mom_iq"], weights=records["weight"]) == pytest.approx(
        found["statistics"]["mean(mom_iq)"], rel=1e-9
    )


def test_table_and_checkpoint(database, reconstruct, tmp_path):
    stored = tmp_path / "descent.npz"
    options = ("--objective", "sliced", "--slices", 4, "--slice-law", "rademacher", "--checkpoint", stored, "--details")
    code, out, err = reconstruct(KIDIQ, *SMALL, *options)
    assert stored.exists()
    assert (code, err) == (0, "")
    for words in ("12 weighted records by newton, sliced", "mean(mom_iq)", "var(kid_score)", "what the draws resolve"):
        assert words in out
    assert "relative gap" in out
    assert "signed measures" in out
    assert "converged after" in out


@pytest.mark.slow
def test_domain_and_mass_are_stated(database, reconstruct):
    code, out, _ = reconstruct(
        KIDIQ, *SMALL, "--total", 434, "--domain", "mom_iq=50:160", "--domain", "kid_score=0:200", "--details"
    )
    assert code == 0
    assert "mom_iq in [50, 160], kid_score in [0, 200], total weight at most 434" in " ".join(out.split())


@pytest.mark.slow
def test_published_recipe(database, reconstruct):
    options = (*ADAM, "--steps", 100, "--no-fresh", "--no-reduced", "--rate", 0.01)
    found = document(reconstruct(KIDIQ, *options, "--json"))
    assert (found["objective"], found["metric"], found["coordinates"]) == ("sliced", "identity", "constrained")
    assert found["weights"] == "free"
    assert found["stopped"] == "all steps taken"


@pytest.mark.slow
def test_diverged_is_still_json(database, reconstruct, tmp_path):
    out = tmp_path / "out.json"
    outcome = reconstruct(KIDIQ, *ADAM, "--objective", "exact", "--steps", 100, "--rate", 1e300, "--json", "--out", out)
    found = document(outcome)
    assert found["stopped"] == "diverged"
    assert outcome[2].startswith("warning: ")
    assert json.loads(out.read_text()) == found


@pytest.mark.slow
def test_interrupted_reports_the_best_so_far(database, reconstruct, monkeypatch, tmp_path):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesrecon.attacks.pseudodata.descent_run.newton", stop)
    out, picture = tmp_path / "records.csv", tmp_path / "records.png"
    outcome = reconstruct(KIDIQ, *SMALL, "--json", "--out", out, "--plot", picture)
    assert document(outcome)["stopped"] == "interrupted"
    assert outcome[2] == f"warning: interrupted: these are the best records so far\nwrote {out}\nwrote {picture}\n"
    assert len(pd.read_csv(out)) == 12
    assert picture.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["-n", "0"], "--n 0"),
        (["--attack", "score-matchin"], "did you mean score-matching"),
        (["--attack", "weighted-records", "--rate", "1"], "it belongs to score-matching"),
        (["--attack", "gradient-matching"], "takes a trained parameter"),
        (["--attack", "gradient-matching", "--metric", "identity"], "does not accept --metric"),
        (["--objective", "fisher"], "'exact' or 'sliced'"),
        (["--start", "zero"], "'located', 'published'"),
        (["--objective", "sliced", "--slices", "0"], "--slices 0"),
        (["--objective", "sliced", "--slice-law", "cauchy"], "'normal' or 'rademacher'"),
        (["--objective", "sliced", "--no-reduced"], "belongs to score-matching"),
        (["--slices", "5"], "sliced objective"),
        (["--steps", "0"], "--steps 0"),
        (["--attack", "score-matching", "--rate", "-1"], "--rate -1"),
        (["--tolerance", "2"], "--tolerance 2"),
        (["--domain", "mom_iq=low,high"], "FIELD=LOW:HIGH"),
        (["--out", "records.txt"], ".nc or .csv or .json or .npz"),
        (["--plot", "records.gif"], ".png or .pdf or .svg"),
        (["--checkpoint", "records.csv"], ".npz"),
        (["--out", "no/such/folder.csv"], "does not exist"),
        (["--metric", "euclid"], "metric"),
        (["--rounds", "3"], "--rounds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(database, reconstruct, arguments, words):
    one_line(reconstruct(KIDIQ, "--draws", 100, *arguments), words)


def test_help_imports_no_verb():
    code = (
        "import sys; from bayesrecon.cli.main import main\nsys.argv = ['bayesrecon', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.exit(any(m in sys.modules for m in ('jax', 'numpy', 'matplotlib', 'bayesrecon.attacks.reconstruction')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_that_do_not_exist_are_null():
    assert plain({"a": [np.nan, 1.5], "b": {"c": np.float64("inf"), "d": "nan"}, "e": (1, True)}) == {
        "a": [None, 1.5],
        "b": {"c": None, "d": "nan"},
        "e": [1, True],
    }

"""`bayesrecon sanitise`: a file that may be published, a page, and a ledger elsewhere."""

import json
import os
import re
import stat
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from command import X, Y, document, exact_draws, one_line

import bayesrecon
from bayesrecon.disclosure.sanitising import ledger_file
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.results.base import schema

ASKED = ("sanitise", "draws.npz", "--model", "kidscore_momiq", "--ledger", "book/ledger.json")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "book").mkdir()
    np.savez(tmp_path / "draws.npz", lp__=np.zeros((2, 1000)), **exact_draws(2, 1000))
    np.savez(tmp_path / "private.npz", mom_iq=X, kid_score=Y)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nc", ".npz"])
def test_a_file_that_may_be_published(run, folder, suffix):
    out = f"safe{suffix}"
    np.savez(folder / "draws.npz", **exact_draws(2, 1000))
    found = document(run(*ASKED, "-o", out, "--page", "page.json", "--json"))
    jsonschema.validate(found, schema("Sanitised"))
    assert json.loads((folder / "page.json").read_text()) == found
    assert (found["worth"], found["draws"], found["spent"], found["budget"]) == (100, 500, 100, 100)
    contents = read_contents(folder / out)
    assert {v.name for v in contents.variables} == {"beta", "sigma"}
    assert contents.draws.attributes["bayesrecon_sanitised"] == f"worth 100 draws, cap {found['cap']}"
    told = bayesrecon.audit(str(folder / out), "kidscore_momiq", remedies=False)
    assert not [f for f in told if f.severity in ("medium", "high")]
    assert told.verdict != "incomplete"  # everything in it has an account, its attribute too
    again = run("recover", out, "--model", "kidscore_momiq")
    assert "these draws are marked as sanitised (worth 100 draws" in again.err
    if os.name != "nt":
        assert stat.S_IMODE((folder / "book/ledger.json").stat().st_mode) == 0o600


@pytest.mark.slow
def test_with_data_and_words(run, folder):
    outcome = run(*ASKED, "-o", "safe.nc", "--data", "private.npz")
    assert outcome.code == 2  # lp__ is no parameter
    np.savez(folder / "draws.npz", **exact_draws(2, 1000))
    outcome = run(*ASKED, "-o", "safe.nc", "--data", "private.npz", "--budget", "200")
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    assert "shifts by your records (do not publish" in words
    assert "100 of 200 draws' worth of account default is released; 100 is left" in words
    assert "not anonymous" in words
    assert "wrote safe.nc" in outcome.err
    same = run(*ASKED, "-o", "other.nc", "--data", "private.npz")
    assert "the same tilt is reused" in same.err
    # The files are in the ledger with what they determine, and are not entered twice. The two hold the same draws.
    book = ("--ledger", "book/ledger.json")
    again = run("ledger", "add", "safe.nc", "other.nc", *book)  # without the model, which forgets nothing
    assert again.err.count("there already, entry 1 of account default, netCDF: it determines 6") == 2
    run(*ASKED, "-o", "more.nc", "--data", "private.npz", "--worth", "100.5", "--budget", "300")
    listed = document(run("ledger", "list", *book, "--json"))
    assert [one["name"] for one in listed["published"]] == ["safe.nc", "more.nc"]
    assert listed["state"][0] == "account default: 2 published, 2 sanitised with a worth"
    files = [read_contents(folder / name).draws.attributes for name in ("safe.nc", "other.nc", "more.nc")]
    named = [attributes["bayesrecon_measure"] for attributes in files]
    assert named[0] == named[1] != named[2]
    audit = document(run("audit", "more.nc", "--model", "kidscore_momiq", *book, "--no-remedies", "--json"))
    (together,) = (f for f in audit["findings"] if f["kind"] == "outputs together")
    assert together["summary"].startswith("with the earlier output of the same records")  # they show the same draws
    assert "counts once" not in together["summary"]  # but not the same measure


@pytest.mark.slow
@pytest.mark.parametrize("at", ["the ledger", "the file"])
def test_a_release_that_fails_is_nowhere_without_its_worth(run, folder, monkeypatch, at):
    """What cannot be entered is not written. What cannot be written is in the ledger, since it may be known."""
    np.savez(folder / "draws.npz", **exact_draws(2, 1000))
    asked = (*ASKED, "-o", "safe.nc", "--data", "private.npz")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if at == "the ledger":
            patch.setattr(ledger_file, "_write", full)
        else:
            patch.setattr(Path, "replace", lambda self, to: full() if to == Path("safe.nc") else os.replace(self, to))
        assert run(*asked).code == 2
    assert {path.name for path in folder.iterdir()} == {"book", "draws.npz", "private.npz"}
    state = document(run("ledger", "list", "--ledger", "book/ledger.json", "--json"))["state"][0]
    assert ("1 published, 1 sanitised" in state) is (at == "the file")
    found = document(run(*asked, "--json"))
    assert (found["spent"], found["budget"]) == (100, 100)
    state = document(run("ledger", "list", "--ledger", "book/ledger.json", "--json"))["state"][0]
    assert "1 published, 1 sanitised" in state


REFUSED = {
    "a ledger beside the release": (("--ledger", "ledger.json"), "never keep the ledger beside a release"),
    "a worth below 100": (("--worth", "50"), "--worth 50 is not supported.*use --worth 100"),
    "a budget below the worth": (("--budget", "50"), "50 is left of the budget of 50.*state --budget 100"),
    "no name": (("--account", ""), "--account '': expected a name"),
    "another suffix": (("-o", "safe.txt"), r"must end in \.nc or \.npz or \.csv"),
    "records that cannot be hidden": (("--records", "0.5"), "a record moves the release by"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(run, folder, name):
    np.savez(folder / "draws.npz", **exact_draws(2, 1000))
    options, told = REFUSED[name]
    one_line(run(*ASKED, "-o", "safe.nc", *options), told)
    assert not (folder / "safe.nc").exists()
    assert not (folder / "book/ledger.json").exists()


@pytest.mark.slow
def test_a_trial_writes_nothing_and_a_cure_that_is_typed_works(run, folder):
    np.savez(folder / "draws.npz", **exact_draws(2, 1000))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    asked = (*ASKED, "-o", "safe.nc", "--data", "private.npz")
    outcome = run(*asked, "--dry-run", "--page", "page.json")
    assert outcome.code == 0
    assert "100 of 100 draws' worth of account default would be released; 0 would be left" in " ".join(
        outcome.out.split()
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert run(*asked, "--part", "2026-01").code == 0
    refused = run(*asked, "--worth", "40", "--account", "default")
    (cure,) = re.findall(r"use (--worth \S+ with --budget \d+)", refused.err)
    again = run(*asked, *cure.replace(" with", "").replace(",", "").split(), "--json")
    assert (document(again)["spent"], document(again)["budget"]) == (200, 200)
    plan = ("diagnose", "draws.npz", "--model", "kidscore_momiq", "--ledger", "book/ledger.json")
    one_line(run(*plan, "--releases", "60"), "need --plan")


def mode_table(model, mean, covariance):
    names = list(model.coordinates)
    columns = ["mode", "sd", *(f"cov({name})" for name in names)]
    rows = np.column_stack([mean, np.sqrt(np.diag(covariance)), covariance])
    return pd.DataFrame(rows, pd.Index(names, name="coordinate"), columns)


@pytest.mark.slow
def test_a_mode_is_written_as_a_table_of_the_same_form(run, folder):
    model = bayesrecon.models.load("kidscore_momiq")
    theta = np.asarray(bayesrecon.posteriors.from_draws(exact_draws(2, 1000), model).theta)
    given = mode_table(model, theta.mean(axis=0), np.cov(theta.T))
    given.to_csv(folder / "mode.csv")
    asked = ("sanitise", "mode.csv", *ASKED[2:], "--data", "private.npz")
    found = document(run(*asked, "-o", "safe.csv", "--json"))
    assert (found["draws"], found["worth"]) == (0, 100)
    safe = pd.read_csv(folder / "safe.csv", index_col=0)
    assert list(safe.index) == list(given.index)
    assert list(safe.columns) == list(given.columns)
    moved = (safe["mode"] - given["mode"]) / given["sd"]
    assert 0 < np.abs(moved).max() < 1
    again = run("sanitise", "safe.csv", *ASKED[2:], "-o", "more.csv")
    one_line(again, "supply the private records")


def test_a_mode_that_is_none_is_refused_in_a_line(run, folder):
    model = bayesrecon.models.load("kidscore_momiq")
    table = mode_table(model, np.array([25.8, 0.6, 2.9]), np.diag([36.0, 0.004, 0.001]))
    table.to_csv(folder / "mode.csv")
    table.drop(columns="cov(sigma)").to_csv(folder / "less.csv")
    asked = (*ASKED[2:], "--data", "private.npz")
    one_line(run("sanitise", "mode.csv", *asked, "-o", "safe.nc"), "a mode with its covariance is written to .csv")
    one_line(run("sanitise", "draws.npz", *asked, "-o", "safe.csv"), "draws are written to .nc or .npz")
    one_line(run("sanitise", "less.csv", *asked, "-o", "safe.csv"), r"has a column cov\(sigma\)")
    without = run("sanitise", "mode.csv", "--ledger", "book/ledger.json", "-o", "safe.csv")
    one_line(without, "name its model with --model")


@pytest.mark.slow
def test_a_table_becomes_draws_with_a_guarantee(run, folder):
    asked = ("sanitise", "--epsilon", 2, "--delta", "1e-6", "--data", "private.npz", "--model", "kidscore_momiq")
    ranges = ("--domain", "mom_iq=50:150", "--domain", "kid_score=0:160", "--ledger", "book/ledger.json")
    one_line(run(*asked, "--domain", "mom_iq=50:150", "-o", "safe.nc"), "range of kid_score: state --domain")
    one_line(run("sanitise", "draws.npz", *asked[1:], *ranges, "-o", "safe.nc"), "without draws.npz")
    one_line(run("sanitise", "-o", "safe.nc"), "name the draws")
    found = document(run(*asked, *ranges, "-o", "safe.nc", "--json"))
    jsonschema.validate(found, schema("Guaranteed"))
    assert read_contents(folder / "safe.nc").draws.attributes["bayesrecon_guaranteed"]
    one_line(run(*asked, *ranges, "-o", "again.nc"), "the budget of epsilon 2 does not allow this release")
    recovered = document(run("recover", "safe.nc", "--model", "kidscore_momiq", "--json"))
    assert {row["verdict"] for row in recovered["statistics"]} == {"partly"}
    audited = document(run("audit", "safe.nc", "--model", "kidscore_momiq", "--json"))
    assert {finding["severity"] for finding in audited["findings"]} <= {"none", "low"}

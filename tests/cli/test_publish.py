"""`bayesrecon publish`: a folder with a file that was audited, a report and a paragraph, or nothing."""

import os
import stat

import numpy as np
import pytest
from command import X, Y, document, exact_draws, one_line

from bayesrecon.posteriors.formats import read_contents
from bayesrecon.results.audit import Audit

ASKED = ("publish", "draws.npz", "--model", "kidscore_momiq", "-o", "out", "--ledger", "book/ledger.json")
WRITTEN = {"posterior.nc", "confidential_report.html", "data_availability.txt", "statement.json"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "book").mkdir()
    np.savez(tmp_path / "draws.npz", lp__=np.zeros((2, 1000)), **exact_draws(2, 1000))
    np.savez(tmp_path / "private.npz", mom_iq=X, kid_score=Y)
    return tmp_path


def test_what_is_refused(run, folder):
    one_line(run("publish", "draws.npz", "-o", "out"), "name it with --model")
    one_line(run(*ASKED, "--accept", "none"), "expected low, medium or high")
    one_line(run(*ASKED[:-1], "out/ledger.json"), "never keep the ledger beside a release")
    one_line(run(*ASKED, "--epsilon", "1", "--delta", "1e-6"), "--epsilon needs --delta, --domain and --data")
    (folder / "out").mkdir()
    (folder / "out/mine.txt").write_text("")
    one_line(run(*ASKED), "it exists; name a new folder")


@pytest.mark.slow
def test_a_cleaned_copy_is_enough(run, folder):
    assert run(*ASKED, "--data", "private.npz", "--dry-run").code == 0
    assert not (folder / "out").exists()
    outcome = run(*ASKED, "--data", "private.npz")
    assert outcome.code == 0
    assert {path.name for path in (folder / "out").iterdir()} == WRITTEN
    assert {v.name for v in read_contents(folder / "out/posterior.nc").variables} == {"beta", "sigma"}
    assert "totals of all people" in (folder / "out/data_availability.txt").read_text()
    told = document(run("ledger", "list", "--ledger", "book/ledger.json", "--json"))
    assert [(one["name"], one["statistics"]) for one in told["published"]] == [("posterior.nc", 6)]
    assert told["state"] == ["account default: 1 published, 0 sanitised with a worth"]  # nothing was spent
    if os.name != "nt":
        assert stat.S_IMODE((folder / "out/confidential_report.html").stat().st_mode) == 0o600


@pytest.mark.slow
@pytest.mark.parametrize("still", [False, True])
def test_draws_that_say_too_much_are_altered_or_refused(run, folder, still, monkeypatch):
    judged = iter([True, still])
    monkeypatch.setattr(Audit, "fails", lambda audit, level: next(judged))
    outcome = run(*ASKED, "--data", "private.npz")
    assert outcome.code == still
    if still:
        assert "of the altered draws it still says too much" in outcome.err
        assert not (folder / "out").exists()
        assert not (folder / "book/ledger.json").exists()  # nothing was spent
    else:
        assert "altered at random, once" in (folder / "out/data_availability.txt").read_text()
        assert read_contents(folder / "out/posterior.nc").draws.attributes["bayesrecon_sanitised"]


@pytest.mark.slow
def test_a_guarantee_stands_in_the_paragraph(run, folder):
    ranges = ("--domain", "mom_iq=-2:6", "--domain", "kid_score=-1:5")
    outcome = run(*ASKED, "--data", "private.npz", "--epsilon", "3", "--delta", "1e-6", *ranges)
    assert outcome.code == 0, outcome.err
    paragraph = (folder / "out/data_availability.txt").read_text()
    assert "differentially private" in paragraph
    assert "totals of all people" not in paragraph
    assert (folder / "book/ledger.json").exists()

"""`bayesrecon deletion`: records, candidates, and bad input on the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayesrecon.cli.main import app
from bayesrecon.errors import BayesreconError


def run(*arguments):
    return CliRunner().invoke(app, ["deletion", *map(str, arguments)])


def test_the_record_on_the_command_line(folder, tmp_path):
    path, truth = folder
    pair = path / "before.npz", path / "after.npz"
    done = run(*pair, "--public", path / "public.csv", "--json", "--plot", tmp_path / "a.png", "-o", tmp_path / "a.csv")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    x = np.array(found["record"]["x"])
    assert x @ truth / np.linalg.norm(x) / np.linalg.norm(truth) > 0.95
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert len(pd.read_csv(tmp_path / "a.csv")) == 4
    image = run(*pair, "--public", path / "public.csv", "--image", "2x2", "--plot", tmp_path / "b.png")
    assert image.exit_code == 0, image.output
    assert "x[1]" in image.stdout
    assert (tmp_path / "b.png").exists()


def test_several_deletions_beside_the_truth(folder, tmp_path):
    path, _ = folder
    files = path / "before.npz", path / "after.npz", path / "second.npz", "--public", path / "public.csv"
    more = "--truth", path / "deleted.csv", "--image", "2x2"
    drawn = "--plot", tmp_path / "grid.png", "--cdf", tmp_path / "cdf.pdf", "-o", tmp_path / "all.csv"
    done = run(*files, *more, *drawn, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found["cosine_similarity"]) == {"HRec", "Avg", "MaxDiff"}
    assert min(found["cosine_similarity"]["HRec"]) > 0.9
    assert [d["after"] for d in found["deletions"]] == ["after", "second"]
    table = pd.read_csv(tmp_path / "all.csv", index_col="after")
    assert table.loc["second", "cosine, HRec"] == pytest.approx(found["cosine_similarity"]["HRec"][1])
    assert table.loc["after", "x[1]"] == pytest.approx(found["deletions"][0]["record"]["x"][0])
    assert (tmp_path / "grid.png").exists()
    assert (tmp_path / "cdf.pdf").exists()
    shown = run(*files, "--truth", path / "deleted.csv")
    assert "median cosine similarity" in shown.stdout


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--cdf", "c.png"], "--cdf compares"),
        (["--plot", "c.png"], "add --image"),
        (["--candidates", "members.csv"], "one AFTER"),
        (["--truth", "members.csv"], "200 records for 2 deletions"),
    ],
)
def test_bad_input_of_several(folder, extra, message, monkeypatch):
    path, _ = folder
    monkeypatch.chdir(path)
    done = run("before.npz", "after.npz", "second.npz", "--public", "public.csv", *extra)
    assert isinstance(done.exception, BayesreconError)
    assert message in str(done.exception)


def test_candidates_on_the_command_line(folder, tmp_path):
    path, _ = folder
    done = run(
        *(path / "before.npz", path / "after.npz", "--public", path / "public.csv"),
        *("--candidates", path / "members.csv", "--json", "--plot", tmp_path / "c.png"),
    )
    assert done.exit_code == 0, done.output
    assert 0 in json.loads(done.stdout)["ranking"][:3]
    assert (tmp_path / "c.png").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ([], "need public records"),
        (["--public", "public.csv", "--response", "z"], "5 columns besides 'z'"),
        (["--public", "missing.csv"], "no file"),
        (["--public", "public.csv", "--image", "4"], "HEIGHTxWIDTH"),
        (["--public", "public.csv", "--bounds", "x=0:1"], "HRec has no use for bounds="),
        (["--public", "public.csv", "--out", "a.nc"], ".json or .csv"),
    ],
)
def test_bad_input_is_one_line(folder, extra, message, monkeypatch):
    path, _ = folder
    monkeypatch.chdir(path)
    done = run("before.npz", "after.npz", *extra)
    assert isinstance(done.exception, BayesreconError)
    assert message in str(done.exception)


def test_identical_files(folder):
    path, _ = folder
    assert "identical" in str(run(path / "before.npz", path / "before.npz").exception)

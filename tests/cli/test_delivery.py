"""What is written is whole or not there."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command import KIDIQ, NUMBERS, document, draws, statistics

import bayesrecon

pytestmark = pytest.mark.small


@pytest.mark.slow
def test_saved_results(run, database, tmp_path):
    files = {suffix: tmp_path / f"result{suffix}" for suffix in (".nc", ".json", ".csv", ".png")}
    options = ("--draws", 1000, "--json")
    found = document(run("recover", KIDIQ, *options, "--out", files[".nc"]))
    assert bayesrecon.load_result(files[".nc"]).to_dict() == found
    found = document(run("recover", KIDIQ, *options, "-o", files[".json"], "--plot", files[".png"]))
    assert json.loads(files[".json"].read_text()) == found
    assert files[".png"].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    found = document(run("recover", KIDIQ, *options, "--out", files[".csv"]))
    table = pd.read_csv(files[".csv"], index_col="name")
    for name, row in statistics(found).items():
        assert [table.loc[name, key] for key in NUMBERS] == pytest.approx([row[key] for key in NUMBERS], rel=1e-14)
    assert sorted(tmp_path.iterdir()) == sorted(files.values())
    assert {file.stat().st_mode & 0o777 for file in files.values()} == {0o600}


def test_a_write_that_fails_leaves_nothing(run, tmp_path, monkeypatch):
    arguments = [*draws()(tmp_path), "--out", "result.csv"]

    def fail(frame, path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "No space left on device" in outcome.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["draws.npz"]

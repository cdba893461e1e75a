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
        (["--cdf", "c.png"], "--cdf needs --truth"),
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


@pytest.mark.slow
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
        (["--public", "missing.csv"], "no such file"),
        (["--public", "public.csv", "--image", "4"], "HEIGHTxWIDTH"),
        (["--public", "public.csv", "--domain", "x=0:1"], "HRec has no use for --domain"),
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


def regression_table(folder, name, x, y):
    design = np.column_stack([np.ones(len(x)), x])
    slope, rest, _, _ = np.linalg.lstsq(design, y)
    scale = rest[0] / (len(x) - 2)
    covariance = scale * np.linalg.inv(design.T @ design)
    se = np.sqrt(np.diag(covariance))
    lines = [f"const,{slope[0]:.8g},{se[0]:.8g}", f"age,{slope[1]:.8g},{se[1]:.8g}", f"sigma,{scale**0.5:.8g},"]
    (folder / f"{name}.csv").write_text("\n".join(["name,coef,se", *lines]) + "\n")
    related = f"{covariance[0, 1] / se[0] / se[1]:.8f}"
    (folder / f"{name}_r.csv").write_text(f",const,age\nconst,1,{related}\nage,{related},1\n")
    return folder / f"{name}.csv", folder / f"{name}_r.csv"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(1)
    x = rng.normal(50, 10, 60)
    y = 5 + 0.4 * x + rng.normal(0, 6, 60)
    files = [regression_table(folder, f"table{i}", x[i:], y[i:]) for i in (0, 1)]
    pd.DataFrame({"age": x[:9], "y": y[:9]}).to_csv(folder / "candidates.csv", index=False)
    return files, folder / "candidates.csv", (x[0], y[0])


@pytest.mark.slow
def test_the_record_between_two_tables(tables):
    ((before, one), (after, two)), candidates, record = tables
    related = "--model", "ols", "--correlations", one, "--correlations", two
    done = run(before, after, *related, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [found["record"][k] for k in ("age", "y")] == pytest.approx(record, abs=0.02)
    done = run(before, after, *related, "--candidates", candidates, "--json")
    assert json.loads(done.stdout)["ranking"][0] == 0


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ([], "table0.csv has only limits, no equations of its data; read it with its correlations"),
        (["--correlations", "table0_r.csv"], "1 --correlations for 2 tables"),
        (["--power", "0.5"], "do not apply to a table"),
    ],
)
def test_tables_that_do_not_tell(tables, extra, message):
    ((before, one), (after, _)), _, _ = tables
    done = run(before, after, "--model", "ols", *(one if e.endswith(".csv") else e for e in extra))
    assert isinstance(done.exception, BayesreconError)
    assert message in str(done.exception)

"""`bayesrecon deletion`, files of trained parameters, and plots of deletions."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import bayesrecon
from bayesrecon import HRec
from bayesrecon.cli.inputs import open_release
from bayesrecon.cli.main import app
from bayesrecon.errors import BayesreconError
from bayesrecon.plots import plot_deleted, plot_images, plot_inference, plot_similarity
from bayesrecon.posteriors import from_sklearn, save_trained

NAMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("deletion")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    y = x @ [1.0, 0.5, -1.0, 0.0] + rng.normal(size=400)
    save_trained(from_sklearn(Ridge(1.0).fit(x[:200], y[:200])), path / "before.npz")
    save_trained(from_sklearn(Ridge(1.0).fit(x[1:200], y[1:200])), path / "after.npz")
    save_trained(from_sklearn(Ridge(1.0).fit(np.delete(x[:200], 1, 0), np.delete(y[:200], 1))), path / "second.npz")
    for name, rows in (("deleted", slice(0, 2)), ("public", slice(200, 400)), ("members", slice(0, 200))):
        pd.DataFrame(x[rows], columns=NAMES).assign(y=y[rows]).to_csv(path / f"{name}.csv", index=False)
    return path, x[0]


def run(*arguments):
    return CliRunner().invoke(app, ["deletion", *map(str, arguments)])


def test_a_trained_parameter_comes_back_from_its_file(folder):
    path, _ = folder
    release = open_release([str(path / "before.npz")])
    assert release.temperature == 0
    assert release.model.settings["penalty"] == 1.0
    assert release.model is open_release([str(path / "after.npz")]).model


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


def test_plots_of_deletions(folder, tmp_path):
    path, _ = folder
    pair = bayesrecon.deletion(*(open_release([str(path / f"{n}.npz")]) for n in ("before", "after")))
    table = pd.read_csv(path / "public.csv")
    public = {"x": table[NAMES].to_numpy(), "y": table["y"].to_numpy()}
    found = bayesrecon.reconstruct(pair, attack=HRec(public=public))
    assert len(found.plot().get_yticklabels()) == 4
    assert plot_deleted(found, shape=(2, 2)).get_images()[0].get_array().shape == (2, 2)
    with pytest.raises(BayesreconError, match="no image"):
        plot_deleted(found, shape=(3, 3))
    likely = bayesrecon.infer_deletion(pair, public, public=public)
    assert len(plot_inference(likely).patches) == 20
    rng = np.random.default_rng(0)
    ax = plot_similarity({"one": rng.uniform(0.8, 1, 50), "two": rng.uniform(0.5, 1, 50)}, path=tmp_path / "s.png")
    line = ax.get_lines()[0]
    assert line.get_ydata()[-1] == 1
    assert (np.diff(line.get_xdata()) >= 0).all()
    assert len(ax.collections) == 2
    grid = plot_images({"true": rng.random((3, 4)), "found": rng.random((3, 4))}, (2, 2), path=tmp_path / "g.png")
    assert grid.shape == (2, 3)
    with pytest.raises(BayesreconError, match="same number"):
        plot_images({"a": np.ones((2, 4)), "b": np.ones((3, 4))}, (2, 2))


def test_save_trained_refuses_draws_and_other_names(folder, tmp_path):
    path, _ = folder
    release = open_release([str(path / "before.npz")])
    with pytest.raises(BayesreconError, match=r"end in \.npz"):
        save_trained(release, tmp_path / "a.nc")

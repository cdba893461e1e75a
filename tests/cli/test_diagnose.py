"""`bayesrecon diagnose`: features, plans and bounds on the command line."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from command import document

import bayesrecon
from bayesrecon.cli.inputs import ReleaseOptions, open_releases
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.nuts import save_draws

KIDIQ = "kidiq-kidscore_momiq"


def test_diagnose_as_json(run, database, tmp_path):
    table, figure = tmp_path / "features.csv", tmp_path / "diagnosis.svg"
    options = ("--draws", 1000, "--order", 2, "--seed", 3, "--out", table, "--plot", figure, "--json")
    found = document(run("diagnose", KIDIQ, *options))
    expected = bayesrecon.diagnose(from_posteriordb(KIDIQ, draws=1000), order=2, key=3)
    wanted = json.loads(json.dumps(expected.to_dict()))
    assert {k: v for k, v in found.items() if k != "seconds"} == {k: v for k, v in wanted.items() if k != "seconds"}
    assert found["rank"] == 6
    assert all(np.isfinite([f["visibility"], f["seen"], f["residual"]]).all() for f in found["features"])
    assert list(pd.read_csv(table)["name"]) == [f.name for f in expected.features]
    ET.parse(figure)
    assert sorted(tmp_path.iterdir()) == [figure, table]


def test_diagnose_in_words(run, database):
    code, out, err = run("diagnose", KIDIQ, "--draws", 1000)
    assert (code, err) == (0, "")
    assert "kidiq-kidscore_momiq: it reveals 6 of 6 independent sums over the records" in out
    assert "mom_iq*kid_score" in out
    assert "undetermined" in out
    detailed = run("diagnose", KIDIQ, "--draws", 1000, "--details").out
    assert "rank 6 (finite), 6 resolved by 1000 draws, index 6.0" in detailed
    assert "% constant" in detailed


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("diagnose", KIDIQ, "--out", "a.nc"), "--out a.nc: the name must end in .json or .csv"),
        (("diagnose", KIDIQ, "--plot", "a.bmp"), "--plot a.bmp: the name must end in"),
        (("diagnose", KIDIQ, "--order", -1), "--order -1: expected 0 or more"),
        (("diagnose", KIDIQ, "--metric", "euclid"), "metric"),
        (("diagnose", KIDIQ, "--plan", "--bound"), "--plan and --bound"),
        (("recover", KIDIQ, KIDIQ), "is given twice"),
    ],
)
def test_diagnose_refuses(run, database, arguments, problem):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert problem in err


def test_several_files(tmp_path, database):
    """Archives are releases of their own; CmdStan files are the chains of one."""
    draws = {"beta": np.random.default_rng(0).normal(size=(1, 50, 2)), "sigma": np.ones((1, 50))}
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", **draws)
        columns = {f"beta.{i + 1}": draws["beta"][0, :, i] for i in range(2)} | {"sigma": draws["sigma"][0]}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    archives, tables = ([str(tmp_path / f"{name}.{suffix}") for name in "ab"] for suffix in ("npz", "csv"))
    found = open_releases(archives, ReleaseOptions(model="kidscore_momiq"))
    assert [release.size for release in found] == [50, 50]
    (found,) = open_releases(tables, ReleaseOptions(model="kidscore_momiq"))
    assert (found.size, len(np.unique(np.asarray(found.chain)))) == (100, 2)
    with pytest.raises(bayesrecon.BayesreconError, match="CmdStan chains"):
        open_releases([archives[0], tables[0]], ReleaseOptions(model="kidscore_momiq"))


@pytest.mark.slow
def test_plan_on_the_command_line(database, run, tmp_path):
    path, saved = tmp_path / "plan.png", tmp_path / "plan.npz"
    plan = "diagnose", "kidiq-kidscore_momiq", "--draws", 1000, "--plan"
    found = document(run(*plan, "--json", "--plot", path, "--out", saved))
    assert found["rank"] == 6
    assert [feature["name"] for feature in found["features"]][:2] == ["1", "mom_iq"]
    names = [outlook["name"] for outlook in found["plan"]["outlooks"]]
    assert names[:2] == ["n", "mean(mom_iq)"]
    assert path.read_bytes().startswith(b"\x89PNG")
    again = bayesrecon.load_result(saved)
    assert again.plan["n"].estimate == found["plan"]["outlooks"][0]["estimate"]
    panels = again.plotted("diagnosis.plot_diagnosis")
    assert [ax.get_xlabel() for ax in panels][::2] == [
        "share of the feature that the release determines",
        "half width of the interval, relative to the estimate",
    ]
    code, out, _ = run(*plan)
    assert code == 0
    assert "6 of 6 independent sums" in out
    assert "an attacker's errors from fewer draws, fewer digits, summaries and sanitised draws" in out


@pytest.mark.slow
def test_bounds_on_the_command_line(logistic_case, run, tmp_path):
    _, release, _ = logistic_case
    draws, picture = tmp_path / "draws.nc", tmp_path / "bounds.png"
    save_draws(release.take(np.arange(0, release.size, 4)), draws)
    (tmp_path / "own.py").write_text("from gridded import switching\n\nmodel = switching()\n")
    model = ("--model", f"{tmp_path / 'own.py'}:model")
    options = (*model, "--bound", "--domain", "dist=0:250", "--json", "--plot", picture)
    code, out, _ = run("diagnose", draws, *options)
    found = json.loads(out)
    assert code == 0
    assert found["domain"]["dist"] == [0.0, 250.0]
    assert found["intervals"][0]["lower"] < 600 < found["intervals"][0]["upper"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, out, err = run("diagnose", draws, *model, "--bound", "--domain", "dist=low,high")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "FIELD=LOW:HIGH" in err

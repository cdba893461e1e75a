"""`bayesrecon recover`: one JSON object on stdout, everything else on stderr."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import KIDIQ, NAMED, NUMBERS, SIZE, X, Y, document, exact_draws, one_line, statistics, without_time

import bayesrecon
from bayesrecon.cli.option_values import parse_domains
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import find, load
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.database import read_data, read_reference_draws

KEYS = {"version", "release", "model", "draws", "metric", "coordinates", "rank", "seconds", "statistics"}


def test_recover_as_json(run, database):
    outcome = run("recover", KIDIQ, "--json")
    found = document(outcome)
    assert outcome.err == ""
    assert found.keys() >= KEYS
    assert (found["version"], found["release"], found["model"]) == (bayesrecon.__version__, KIDIQ, "kidscore_momiq")
    assert (found["draws"], found["metric"], found["coordinates"]) == (10_000, "covariance", "unconstrained")
    assert found["rank"] == 6
    assert found["seconds"] > 0
    rows = statistics(found)
    truth = true_statistics(load("kidscore_momiq"), find("kidscore_momiq").records(read_data(database, "kidiq")))
    assert set(rows) == {"n", *(f"{f}({x})" for f in ("mean", "var") for x in ("mom_iq", "kid_score"))} | {
        "cov(mom_iq,kid_score)"
    }
    for name, row in rows.items():
        assert row.keys() >= {"name", *NUMBERS, "visibility", "verdict"}
        assert row["verdict"] == "determined"
        assert row["visibility"] == pytest.approx(1)
        assert row["lower"] < row["estimate"] < row["upper"]
        assert abs(row["estimate"] - truth[name]) < 5 * row["se"]
        assert 0.5 < row["se"] / row["floor"] < 2
    assert without_time(found) == without_time(bayesrecon.recover(from_posteriordb(KIDIQ)).to_dict())


def test_last_draws(run, database):
    found = document(run("recover", KIDIQ, "--draws", 1000, "--json"))
    assert found["draws"] == 1000
    expected = bayesrecon.recover(from_posteriordb(KIDIQ, draws=1000))
    assert without_time(found) == without_time(expected.to_dict())


@pytest.mark.slow
def test_weights_of_another_name(run, tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.gamma(1, 1, 400)
    values = {"coef": rng.normal(2, 0.1, (1, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (1, 400, 1))}
    path = tmp_path / "draws.npz"
    np.savez(path, **values, weight=weight[None])
    expected = f"draws are weighted by weight: effective sample size {weight.sum() ** 2 / (weight**2).sum():.0f} of 400"
    assert expected in run("recover", path, "--model", "linear_predictor").err
    assert expected in run("recover", path, "--model", "linear_predictor", "--weights", "weight").err
    refused = run("recover", path, "--model", "linear_predictor", "--weights", "w")
    one_line(refused, "--weights w: the draws have no variable of this name")
    table = tmp_path / "fit.csv"
    table.write_text("name,estimate,std. error\nconst,1.2,0.1\nsigma,1.2,\n")
    one_line(run("recover", table, "--model", "ols", "--weights", "w"), "state with --fit-weights how its fit")


@pytest.mark.parametrize("option, value", [("metric", "identity"), ("coordinates", "constrained")])
def test_another_metric_or_other_coordinates(run, database, option, value):
    found = document(run("recover", KIDIQ, f"--{option}", value, "--draws", 1000, "--json"))
    assert found[option] == value
    assert abs(statistics(found)["n"]["estimate"] - 434) < 5 * statistics(found)["n"]["se"]
    default = document(run("recover", KIDIQ, "--draws", 1000, "--json"))
    assert statistics(found)["n"]["estimate"] != statistics(default)["n"]["estimate"]


@pytest.mark.slow
def test_numbers_are_null_where_nothing_is_determined(run, database):
    found = document(run("recover", "sblrc-blr", "--draws", 1000, "--json"))
    verdicts = {name: row["verdict"] for name, row in statistics(found).items()}
    assert verdicts["n"] == "determined"
    assert verdicts["mean(y)"] == verdicts["var(X[1])"] == "undetermined"  # a regression without an intercept
    assert verdicts["mean(y*y)"] == "determined"
    for row in found["statistics"]:
        assert 0 <= row["visibility"] <= 1
        assert {row[key] is None for key in NUMBERS} == {row["verdict"] == "undetermined"}


def test_what_is_known_is_used(run, database):
    data = read_data(database, "kidiq")
    pd.DataFrame({"mom_iq": data["mom_iq"], "other": 0}).to_csv("design.csv", index=False)
    rows = statistics(document(run("recover", KIDIQ, "--known", "design.csv", "--draws", 1000, "--json")))
    assert rows["n"]["estimate"] == pytest.approx(434)
    assert rows["n"]["se"] == 0
    assert "mean(mom_iq)" not in rows
    assert abs(rows["mean(kid_score)"]["estimate"] - np.mean(data["kid_score"])) < 5 * rows["mean(kid_score)"]["se"]
    total = statistics(document(run("recover", KIDIQ, "--total", 434, "--draws", 1000, "--json")))
    assert total["n"]["estimate"] == pytest.approx(434)
    assert 434 - 1e-6 < total["n"]["lower"] <= total["n"]["estimate"] <= total["n"]["upper"] < 434 + 1e-6


def test_domains_are_those_of_the_verb(run, database):
    typed = ("--domain", "mom_iq=50:150", "--domain", "kid_score=positive")
    found = statistics(document(run("recover", KIDIQ, *typed, "--draws", 1000, "--json")))
    stated = {"mom_iq": (50.0, 150.0), "kid_score": "positive"}
    expected = bayesrecon.recover(from_posteriordb(KIDIQ, draws=1000), domain=stated)
    assert found["var(mom_iq)"]["estimate"] == pytest.approx(expected["var(mom_iq)"].estimate, rel=1e-9)
    assert parse_domains(["a=0,1", "b=2", "c=-inf:3"]) == {"a": [0, 1], "b": [2], "c": (-np.inf, 3)}


def test_everything_known(run, database):
    """Nothing is left to recover but the number of records; a table that cannot be the data is no reason to crash."""
    data = read_data(database, "kidiq")
    table = pd.DataFrame({name: data[name] for name in ("mom_iq", "kid_score")})
    table.to_csv("all.csv", index=False)
    table[:2].to_csv("two.csv", index=False)
    found = document(run("recover", KIDIQ, "--known", "all.csv", "--draws", 1000, "--json"))
    assert [(row["name"], row["se"]) for row in found["statistics"]] == [("n", 0.0)]
    assert found["statistics"][0]["estimate"] == pytest.approx(434)
    outcome = run("recover", KIDIQ, "--known", "two.csv", "--draws", 1000, "--json")
    if outcome.code:
        one_line(outcome, "known")
    else:
        assert statistics(document(outcome))["n"]["estimate"] is None
        assert document(outcome)["consistent"] is False


@pytest.mark.slow
def test_the_same_draws_from_other_files(run, database):
    """An archive and CmdStan's CSV files hold the draws of posteriordb: the same numbers to the last digit."""
    options = ("--model", "kidscore_momiq", "--json")
    expected = without_time(document(run("recover", KIDIQ, "--draws", 2000, "--json")))
    values = read_reference_draws(database, KIDIQ, draws=2000).values
    np.savez(f"{KIDIQ}.npz", **values)
    np.savez("named.npz", **values, __attributes__=NAMED)
    table = np.concatenate([values["sigma"][..., None], values["beta"]], axis=2)
    files = [f"{KIDIQ}-{chain}.csv" for chain in (1, 2)]
    for file, rows in zip(files, table.tolist(), strict=True):
        lines = [",".join(map(repr, row)) for row in rows]
        Path(file).write_text("\n".join(["sigma,beta.1,beta.2", *lines, ""]))
    assert without_time(document(run("recover", f"{KIDIQ}.npz", *options))) == expected
    assert without_time(document(run("recover", "named.npz", "--json"))) == {**expected, "release": "named"}
    assert without_time(document(run("recover", *files, *options))) == expected
    one = document(run("recover", files[-1], *options))
    assert one["statistics"] == document(run("recover", KIDIQ, "--draws", 1000, "--json"))["statistics"]


def test_recover_without_posteriordb(run, monkeypatch):
    monkeypatch.delenv("POSTERIOR_DB_PATH", raising=False)
    np.savez("draws.npz", **exact_draws())
    outcome = run("recover", "draws.npz", "--model", "kidscore_momiq", "--json")
    rows = statistics(document(outcome))
    assert outcome.err == ""
    assert abs(rows["n"]["estimate"] - SIZE) < 5 * rows["n"]["se"]
    assert abs(rows["mean(mom_iq)"]["estimate"] - X.mean()) < 5 * rows["mean(mom_iq)"]["se"]
    assert abs(rows["var(kid_score)"]["estimate"] - Y.var()) < 5 * rows["var(kid_score)"]["se"]


def test_recover_as_a_table(run, database):
    outcome = run("recover", KIDIQ, "--draws", 1000)
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("mean(mom_iq)", "cov(mom_iq,kid_score)", "determined", "95 % interval", "1000 draws"):
        assert word in outcome.out


def test_warnings_go_to_stderr(run):
    right = exact_draws()
    np.savez("wrong.npz", **{**right, "beta": 2 * right["beta"]})
    outcome = run("recover", "wrong.npz", "--model", "kidscore_momiq", "--json")
    found = document(outcome)
    assert found["consistent"] is False
    assert all(row["verdict"] == "undetermined" and row["estimate"] is None for row in found["statistics"])
    lines = outcome.err.splitlines()
    told = [*(f"failed: {failure}" for failure in found["failures"]), *found["warnings"]]
    assert lines == [f"warning: {line}" for line in told]
    assert any("draws and model disagree" in line for line in lines)


def test_numbers_of_draws_that_fail_are_shown_by_force(run):
    right = exact_draws()
    np.savez("wrong.npz", **{**right, "beta": 2 * right["beta"]})
    shown = run("recover", "wrong.npz", "--model", "kidscore_momiq")
    assert shown.out.startswith("draws and model do not belong together: nothing is determined")
    assert "if these are exact draws of kidscore_momiq" in shown.out
    assert "a check of draws and model failed" in shown.out
    assert "are determined" not in shown.out
    found = document(run("recover", "wrong.npz", "--model", "kidscore_momiq", "--force", "--json"))
    assert found["consistent"] is False
    assert statistics(found)["n"]["estimate"] is not None
    assert "determined" not in {row["verdict"] for row in found["statistics"]}

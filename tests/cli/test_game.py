"""`bayesrecon game`: lists, named games, and one's own table."""

import numpy as np
import pandas as pd
import pytest
from command import document, one_line

from bayesrecon import load_result


@pytest.fixture
def customers(tmp_path):
    """A table of 80 customers, one in three of whom left."""
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(18, 80, 80), "visits": rng.poisson(4, 80), "town": rng.choice(list("abc"), 80)}
    table["churned"] = np.where(rng.random(80) < 1 / (1 + np.exp(table["visits"] - 3.0)), "yes", "no")
    path = tmp_path / "customers.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    return path


def test_games_are_listed(run):
    listed = document(run("game", "--json"))
    assert listed["games"]["diabetes-linear"].startswith("linear regression on diabetes")
    assert {"exm", "ins", "lira", "white-box"} <= set(listed["adversaries"])
    assert "logistic" in listed["learners"]
    shown = run("game")
    assert shown.code == 0
    for names in listed.values():
        assert all(name in shown.out for name in names)


@pytest.mark.slow
def test_a_named_game_is_played_and_resumed(run, tmp_path):
    play = ("game", "diabetes-linear", "--rounds", 30, "--seed", 4, "--adversary", "exm", "--adversary", "ins")
    found = document(run(*play, "--json", "--folder", "rounds", "-o", "g.npz", "--plot", "g.png"))
    assert found["rounds"] == 30
    assert [row["adversary"] for row in found["adversaries"]] == ["Del-Inf-Exm", "Del-Inf-Ins"]
    assert (tmp_path / "g.png").stat().st_size > 1000
    again = document(run(*play, "--json", "--folder", "rounds"))
    assert again["adversaries"] == found["adversaries"]
    assert load_result(tmp_path / "g.npz").rows[0].wins == found["adversaries"][0]["wins"]
    shown = run("game", "plane-linear", "--rounds", 5)
    assert "names the deleted record" in shown.out
    flowers = ("game", "iris-logistic", "--rounds", 5, "--workers", 1)
    alone = document(run(*flowers, "--show", "labels", "--labels-only", "--json"))
    assert [row["adversary"] for row in alone["adversaries"]] == ["Del-Inf-Lbl"]
    alone = run(*flowers, "--show", "instances", "--added")
    assert "names the added record" in alone.out
    one_line(run("game", "diabetes-linear", "--rounds", 30, "--folder", "rounds"), "contains rounds of another game")


@pytest.mark.slow
def test_which_of_my_customers_was_deleted(run, customers):
    found = document(run("game", customers, "--response", "churned", "--rounds", 40, "--workers", 1, "--json"))
    assert found["data"] == "customers"
    assert found["learner"].startswith("logistic regression")
    exm, _ = found["adversaries"]
    assert exm["success"]["lower"] > 0.5
    more = ("--learner", "ridge", "--adversary", "white-box", "--others")
    found = document(run("game", customers, "--response", "visits", "--rounds", 10, *more, "--workers", 1, "--json"))
    assert found["adversaries"][0]["sees"] == "parameters"


@pytest.mark.slow
def test_a_promised_epsilon_is_held_against_what_was_measured(run, customers, monkeypatch):
    from bayesrecon.games import OutputPerturbation

    play = ("game", customers, "--response", "churned", "--learner", "private-output", "--epsilon", 0.5)
    play += ("--adversary", "likelihood", "--adversary", "exm", "--others", "--rounds", 40, "--workers", 1)
    found = document(run(*play, "--json"))
    assert (found["claimed_epsilon"], round(found["bound"], 4), found["consistent"]) == (0.5, 0.6225, True)
    assert "columns were standardised" in found["warnings"][0]
    bounds = ("--domain", "age=18:80", "--domain", "visits=0:20")
    assert document(run(*play, *bounds, "--json"))["warnings"] == []
    shown = run(*play)
    assert shown.code == 0
    assert "bound of the claimed epsilon" in shown.out
    assert "best of 2: " in shown.out
    monkeypatch.setattr(OutputPerturbation, "sensitivity", lambda self, count: 1e-6)
    flagged = run(*play)
    assert flagged.code == 1
    assert "ERROR: logistic regression, output perturbation (epsilon 0.5) is not 0.5-private" in flagged.out
    assert "failed: likelihood ratio: success " in flagged.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diabetes-linaer"], "did you mean diabetes-linear"),
        (["diabetes-linear", "--response", "churned"], "is a named game"),
        (["customers.csv"], r"--response COLUMN \("),
        (["nothing.csv", "--response", "churned"], "nothing.csv: no such file"),
        (["customers.csv", "--response", "churn"], "no column 'churn'; did you mean churned"),
        (["customers.csv", "--response", "churned", "--learner", "linear"], "responses of a regression"),
        (["customers.csv", "--response", "churned", "--learner", "magic"], "there is no learner 'magic'"),
        (["names.csv", "--response", "churned"], "80 distinct words"),
        (["holes.csv", "--response", "churned"], "column age: 1 values are missing"),
        (["cancer-private-output", "--epsilon", "0"], "--epsilon 0.0: expected a positive number"),
        (["cancer-logistic", "--epsilon", "1"], "logistic is not private"),
        (["cancer-private-output", "--domain", "age=0:1"], "is a named game"),
        (
            ["customers.csv", "--response", "churned", "--domain", "age=0:1"],
            "column visits needs public bounds",
        ),
        (["diabetes-linear", "--adversary", "oracle"], "there is no adversary 'oracle'"),
        (["diabetes-linear", "--adversary", "exm", "--show", "instances"], "needs the challenges' labels"),
        (["diabetes-linear", "-o", "game.txt"], "must end in .json, .csv or .npz|must end in"),
    ],
)
def test_bad_input_is_one_line(run, customers, arguments, message):
    table = pd.read_csv(customers)
    table.assign(name=[f"customer {i}" for i in range(80)]).to_csv(customers.parent / "names.csv", index=False)
    table.assign(age=[None, *table["age"][1:]]).to_csv(customers.parent / "holes.csv", index=False)
    one_line(run("game", *arguments), message)

"""Verdicts on posteriors of posteriordb: real draws, scored against the real data behind them."""

import re

import numpy as np
import pytest
from command import document

from bayesrecon import BayesreconError
from bayesrecon.auditing.verdict import cells, verdict
from bayesrecon.evaluate import score_records
from bayesrecon.posteriors.database import read_data
from bayesrecon.results.records import Column, RecordTable

NOTHING = "single records are not determined, sums over them are"


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def test_records_on_the_command_line(run, database):
    (row,) = document(run("posteriors", "--verdict", "eight_schools-eight_schools_noncentered", "--json"))
    assert (row["attack"], row["source"], row["records"], row["draws"]) == ("records", "reference", 8, 10_000)
    assert number(r"^y: ([\d.]+)% exact$", row["recovered"]) >= 87.5
    assert number(r"^RMSE ([\d.]+)$", row["error"]) < 0.45
    assert 0.3 < float(row["floor"]) < float(row["expected"]) < 0.8
    assert row["naive"] == "0.0%"
    assert row["verdict"] in ("most records given away one by one", "every record given away one by one")


def test_draws_from_other_data_give_no_record_away(database, monkeypatch):
    """The schools' effects in another order, which is a data set that the same standard errors go with."""

    def other(database, name):
        data = read_data(database, name)
        return {**data, "y": np.roll(data["y"], 3)}

    monkeypatch.setattr("bayesrecon.posteriors.database.read_data", other)
    row = verdict("eight_schools-eight_schools_noncentered")
    assert number(r"^y: ([\d.]+)% exact$", row.recovered) < 30
    assert number(r"^RMSE ([\d.]+)$", row.error) > 5
    assert row.verdict == NOTHING


def test_statistics_and_counts_of_groups(database):
    row = verdict("kidiq-kidscore_momiq")
    assert (row.attack, row.recovered[:21]) == ("statistics", "6 of 6 statistics, n ")
    assert number(r"n (\d+\.\d+)$", row.recovered) == pytest.approx(434, rel=0.03)
    assert number(r"largest z ([\d.]+)$", row.error) < 4
    assert row.verdict == "6 statistics determined (6 features exactly)"
    assert cells(row)[0] == "kidiq-kidscore_momiq"
    row = verdict("kidiq_with_mom_work-kidscore_mom_work")
    assert row.attack == "groups"
    assert row.recovered.startswith("4 of 4 counts per mom_work")
    assert number(r"^RMSE ([\d.]+)$", row.error) < 3 * float(row.expected)
    assert row.verdict == "count and sums of every mom_work"


@pytest.mark.slow
def test_records_that_the_draws_do_not_determine(database):
    row = verdict("one_comp_mm_elim_abs-one_comp_mm_elim_abs")
    assert (row.attack, row.recovered, row.verdict) == ("records", "C_hat: none determined", NOTHING)


def test_a_posterior_without_draws_or_model(database, monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path))
    with pytest.raises(BayesreconError, match="no shipped model serves"):
        verdict("mnist-nn_rbm1bJ100")
    with pytest.raises(BayesreconError, match="wells_data-wells_dist"):
        verdict("wells_data-wells_dist", build=False)


@pytest.mark.parametrize("right, guessed, both, chance", [(5, 3, 0, 93 / 256), (8, 0, 0, 1 / 256), (2, 2, 9, 11 / 16)])
def test_right_by_chance(right, guessed, both, chance):
    """`right` records by the attack alone, `guessed` by the naive guess alone, `both` by both."""
    y = np.zeros(20)
    value, naive = y + 1, y + 1
    value[:right] = 0
    naive[right : right + guessed] = 0
    value[20 - both :] = naive[20 - both :] = 0
    blank = np.full(20, np.nan)
    column = Column(blank, blank, blank, blank, blank, blank, blank.astype(str), value, y + 0.5, naive=naive)
    table = RecordTable({"row": np.arange(20)}, ("row",), {"y": column}, "draws", "model", 100, 100.0, 20, 1, 0)
    score = score_records(table, {"y": y})["y"]
    assert score["exact"] == (right + both) / 20
    assert score["naive_exact"] == (guessed + both) / 20
    assert score["chance"] == pytest.approx(chance)

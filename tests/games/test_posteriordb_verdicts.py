"""Verdicts on posteriors of posteriordb: real draws, scored against the real data behind them."""

import numpy as np
import pytest
from command import document

from bayesrecon import BayesreconError
from bayesrecon.evaluate import score_records
from bayesrecon.games.posteriordb.outcomes import (
    Attacked,
    Average,
    Exposure,
    GroupsFound,
    RecordsFound,
    SeriesFound,
    StatisticsFound,
    Values,
)
from bayesrecon.games.posteriordb.verdict import verdict
from bayesrecon.posteriors.fitting.database import read_data
from bayesrecon.results.records import Column, RecordTable

EIGHT = "eight_schools-eight_schools_noncentered"


@pytest.mark.slow
def test_the_command_line_says_it_in_words(run, database):
    (row,) = document(run("posteriors", "--verdict", EIGHT, "--json"))
    (values,) = row["found"]["fields"]
    assert (row["attack"], row["source"], row["records"], row["draws"]) == ("records", "reference", 8, 10_000)
    assert row["recovered"] == f"y: {values['correct'] / 8:.1%} exact"
    assert row["error"] == f"RMSE {values['error']:.3g}"
    assert (row["expected"], row["floor"]) == (f"{values['expected']:.3g}", f"{values['floor']:.3g}")
    assert row["naive"] == "0.0%"
    assert row["verdict"] in ("most individual records disclosed", "every individual record disclosed")


@pytest.mark.slow
def test_effects_of_eight_schools_give_their_records(database):
    found = verdict(EIGHT)
    assert (found.attacked, found.records, found.draws) == (Attacked.RECORDS, 8, 10_000)
    assert found.reference
    assert found.converged
    (values,) = found.found.fields
    assert (values.field, values.records, values.determined, values.naive_correct) == ("y", 8, 8, 0)
    assert values.correct >= 7
    assert values.error < 0.45
    assert 0.3 < values.floor < values.expected < 0.8
    assert values.error < values.naive_error
    assert values.p_value <= 2**-7
    assert found.found.exposure in (Exposure.MOST, Exposure.EVERY)


@pytest.mark.slow
def test_draws_from_other_data_give_no_record_away(database, monkeypatch):
    """The schools' effects in another order, which is a data set that the same standard errors go with."""

    def other(database, name):
        data = read_data(database, name)
        return {**data, "y": np.roll(data["y"], 3)}

    monkeypatch.setattr("bayesrecon.posteriors.fitting.programs.read_data", other)
    found = verdict(EIGHT).found
    (values,) = found.fields
    assert values.share < 0.3
    assert values.error > 5
    assert found.exposure is Exposure.NONE


def test_statistics(database):
    found = verdict("kidiq-kidscore_momiq").found
    assert isinstance(found, StatisticsFound)
    assert (found.statistics, found.estimated, found.determined, found.rank, found.finite) == (6, 6, 6, 6, True)
    assert found.n == pytest.approx(434, rel=0.03)
    assert abs(found.n - 434) < 4 * found.n_se
    assert 0 < found.n_floor <= found.n_se
    assert 0 < found.z < 4
    assert found.consistent


@pytest.mark.slow
def test_counts_of_groups(database):
    found = verdict("kidiq_with_mom_work-kidscore_mom_work").found
    assert isinstance(found, GroupsFound)
    assert (found.group, found.part, found.groups, found.determined) == ("mom_work", None, 4, 4)
    assert found.error < 3 * found.expected
    assert found.n == pytest.approx(434, rel=0.05)
    assert found.consistent


@pytest.mark.slow
def test_records_that_the_draws_do_not_determine(database):
    found = verdict("one_comp_mm_elim_abs-one_comp_mm_elim_abs").found
    (values,) = found.fields
    assert (values.field, values.determined, values.correct, values.error) == ("C_hat", 0, None, None)
    assert found.exposure is Exposure.NONE


@pytest.mark.parametrize(
    ("right", "guessed", "p_value", "given"),
    [
        (20, 0, 0.0, Exposure.EVERY),
        (20, 20, 1.0, Exposure.PUBLIC),
        (15, 4, 0.01, Exposure.MOST),
        (15, 12, 0.01, Exposure.SOME),
        (15, 12, 0.05, Exposure.NONE),  # by chance
        (12, 15, 0.0, Exposure.NONE),  # no better than the guess
    ],
)
def test_what_counts_as_given_away(right, guessed, p_value, given):
    one = Values("y", 20, 20, 0, right, naive_correct=guessed, p_value=p_value)
    assert RecordsFound((one,)).exposure is given
    none = Values("x", 20, 20, 0, 0, p_value=1.0)  # a record is right where all its fields are
    assert RecordsFound((one, none)).exposure is Exposure.NONE


def test_a_series_is_astray_where_an_average_is_further_off_than_stated():
    def series(*averages):
        return SeriesFound(9, 0, averages, None, None, 1.0, 5, True, None, True)

    near, far = Average("mean of y", 1.1, 1.0, 0.1), Average("mean square of y", 2.0, 1.0, 0.1)
    assert near.z == pytest.approx(1.96, abs=1e-3)
    assert (series().z, series(near).z, series(near, far).z) == (None, near.z, far.z)
    assert [series(*some).astray for some in ((), (near,), (near, far))] == [False, False, True]


def test_a_posterior_without_draws_or_model(database, monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESRECON_CACHE", str(tmp_path))
    with pytest.raises(BayesreconError, match="its own program cannot be used: the data mnist are not in this copy"):
        verdict("mnist-nn_rbm1bJ100")
    with pytest.raises(BayesreconError, match="Rate_1_data-Rate_1_model"):
        verdict("Rate_1_data-Rate_1_model", build=False)


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

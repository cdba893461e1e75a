"""Printed figures beside ours: the comparison is made by the program, and no difference goes without a reason."""

import math
import re
from functools import cache

import pytest

from benchmarks import papers
from benchmarks.paper_cells import DELETION, Cell, by_chance, reason, state


@cache
def cells():
    return papers.all_cells()


@pytest.mark.parametrize(
    ("printed", "ours", "interval", "expected"),
    [
        ("99.8", 99.3, (98.6, 99.7), "differs"),
        ("99.8", 99.3, (98.6, 99.76), "agrees"),
        ("3001.7", 3001.753, None, "agrees"),
        ("21.897", 21.895, None, "differs"),
        ("0", 1, None, "differs"),
        ("at most 56.2", 57.1, (55.0, 59.0), "agrees"),
        ("at most 56.2", 58.1, (57.0, 59.0), "differs"),
        ("at least 67.1", 84.5, (80.6, 87.9), "agrees"),
        ("at least 67.1", 60.0, (55.0, 65.0), "differs"),
        ("0.5", math.nan, None, "differs"),
    ],
)
def test_a_printed_figure_is_compared_with_the_interval_of_ours(printed, ours, interval, expected):
    assert state(Cell(DELETION, "Table 2", "", printed, ours, interval)) == expected


@pytest.mark.parametrize(
    ("printed", "ours"), [("99.8", "nonsense"), ("close to guessing", 62.0), ("", 1.0), ("1", None)]
)
def test_what_is_not_two_figures_is_not_compared(printed, ours):
    with pytest.raises(ValueError, match="Table 2"):
        state(Cell(DELETION, "Table 2", "", printed, ours))
    assert state(Cell(DELETION, "Table 2", "", printed, ours, unlike="other data")) == "not comparable"


@pytest.mark.parametrize("empty", [{}, {"why": " "}, {"unlike": " "}, {"lacks": " "}])
def test_no_difference_goes_without_a_reason(empty):
    with pytest.raises(ValueError, match="without a reason"):
        reason(Cell(DELETION, "Table 2", "", "99.8", 50.0, **empty))


def test_a_difference_by_chance_is_one_that_sampling_errors_of_both_explain():
    assert "1,000 rounds" in by_chance((0.983, 0.973, 0.990), 97.1, 1000)
    assert not by_chance((0.913, 0.894, 0.930), 99.8, 1000)


@pytest.mark.slow
def test_other_figures_make_another_page():
    held = papers.page(cells())
    measured = [i for i, cell in enumerate(cells()) if state(cell) in ("agrees", "differs")]
    for start in range(10):
        mutated = cells().copy()
        for i in measured[start::10][:10]:
            ours, interval = 1 + 3 * mutated[i].ours, mutated[i].interval and [1 + 3 * e for e in mutated[i].interval]
            mutated[i] = mutated[i]._replace(ours=ours, interval=interval, why="mutated")
        counts = [re.findall(r"all cells.*", page) for page in (held, papers.page(mutated))]
        assert counts[0] != counts[1]
    mutated[measured[0]] = mutated[measured[0]]._replace(ours="nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        papers.page(mutated)


def test_every_cell_of_the_published_tables_is_there():
    tables = {
        "Table 2": 20,
        "Table 3": 40,
        "Workshop table": 28,
        "Table 5: deleted label": 6,
        "Table 6: known instance": 6,
    }
    own = [cell.piece for cell in cells() if cell.paper == DELETION]
    assert {piece: own.count(piece) for piece in tables} == tables
    assert {cell.paper for cell in cells()} == set(papers.PAPERS)


def test_the_page_is_that_of_the_rows():
    assert papers.page(cells()) == papers.STUDY.place.read_text(encoding="utf-8")

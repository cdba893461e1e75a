"""The page of what is reproduced: it collects what rows say, and hides nothing that they do not reach."""

import json

import pytest

from benchmarks import papers
from benchmarks.paper_tags import CENTRAL, DELETION, rate, tag


def test_tags_are_found_wherever_rows_keep_them(tmp_path):
    one, other, third = (tag(DELETION, "Table 2", f"cell {k}", k) for k in range(3))
    (tmp_path / "a.json").write_text(json.dumps({"rows": [{"papers": [one]}, {"x": 1}], "papers": [other]}))
    (tmp_path / "b.json").write_text(json.dumps([{"deep": {"papers": [third]}}, [1, 2]]))
    found = papers.collected(tmp_path)
    assert sorted(one["ours"] for one in found) == [0, 1, 2]
    (tmp_path / "c.json").write_text(json.dumps({"papers": [tag("another", "Table 1", "", 1)]}))
    with pytest.raises(AssertionError, match="another"):
        papers.collected(tmp_path)


@pytest.mark.parametrize(
    ("piece", "state"),
    [
        ({"piece": "Table 2", "cell": "Boston"}, "done"),
        ({"piece": "Table 2", "cell": "diabetes"}, "other data"),
        ({"piece": "Table 2", "cell": "iris"}, "no data"),
        ({"piece": "Table 2", "cell": "wine"}, "not done"),
        ({"piece": "Table 3", "blocked": "CIFAR-10"}, "no data"),
        ({"piece": "Table 2"}, "done"),
    ],
)
def test_how_far_a_piece_is_reached(piece, state):
    tags = [
        rate(DELETION, "Table 2: regression", "Boston, linear", (0.5, 0.4, 0.6)),
        tag(DELETION, "Table 2: regression", "diabetes, linear", 1, blocked="the table"),
        tag(DELETION, "Table 2: regression", "iris, linear", None, blocked="the table"),
        tag(CENTRAL, "Table 3", "", 1),
    ]
    assert papers.state({"paper": DELETION, **piece}, tags) == state


def test_the_page_shows_every_tag_and_every_piece_without_one():
    tags = [
        tag(DELETION, "Table 2", "Boston", 98.5, published=99.8, interval=(98.0, 99.0), why="a | b", blocked="Boston")
    ]
    pieces = [
        {"paper": DELETION, "piece": "Table 2", "cell": "Boston"},
        {"paper": DELETION, "piece": "Table 9", "tried": "in vain", "published": 7},
    ]
    page = papers.page({"pieces": pieces, "tags": tags})
    assert "| Table 2 | Boston | 98.5 | 99.8 | 98 to 99 | a / b; no data: Boston |" in page
    assert "* Table 9 (published: 7): not done; in vain." in page
    assert "| all | 2 | 0 | 1 | 0 | 1 | 1 |" in page


def test_the_page_is_that_of_the_rows():
    assert papers.STUDY.page() == papers.STUDY.place.read_text(encoding="utf-8")


def test_pieces_name_papers_that_there_are():
    pieces = json.loads(papers.PIECES.read_text(encoding="utf-8"))
    assert {one["paper"] for one in pieces} == set(papers.PAPERS)
    names = [(one["paper"], one["piece"], one.get("cell")) for one in pieces]
    assert len(set(names)) == len(names)
    assert not any(set(one) - {"paper", "piece", "cell", "published", "tried", "blocked"} for one in pieces)

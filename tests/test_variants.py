"""Programs of variants play their small part, and their pages show what they played."""

import pytest

from benchmarks.games import variants
from benchmarks.games.variants_page import page


@pytest.mark.parametrize(
    "name",
    ["labels | iris-logistic", "rounds | diabetes", "memorisation | iris | 5 neighbours", "lira | diabetes-ridge"],
)
def test_the_small_part(name):
    found = variants.TASKS[name](True)
    shown = page({name: found})
    for row in found if isinstance(found, list) else ():
        assert 0 <= row["stated"][1] <= row["stated"][0] <= row["stated"][2] <= 1
        assert f"| {row['name']} | {row['rounds']} |" in shown
    assert "Not run yet." in shown


@pytest.mark.slow
def test_the_informed_adversary_stays_below_its_bound():
    from bayesrecon.disclosure.robustness import reconstruction_bound

    found = variants.informed("posterior draw", 8.0, True)
    assert found["stated"][1] <= reconstruction_bound(0.1, epsilon=8.0)
    assert "| posterior draw | 8 | 20 |" in page({"informed | posterior draw | 8": found})

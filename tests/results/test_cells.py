"""Tables that are saved hold names from files: no cell is a formula, and none steers a terminal."""

import csv

import pytest

from bayesrecon.auditing.audit import audit
from bayesrecon.results.diagnosis import Bounds, Interval


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "mu\x1b[31m", "a\u202eb"])
def test_saved_cells_are_texts(tmp_path, name):
    found = Bounds("draws", 0.99, {"y": (0.0, 1.0)}, (Interval(name, -40.0, 2.0),))
    path = found.save(tmp_path / "bounds.csv")
    with path.open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not any(cell[:1] in set("=+@\t\r") for cell in cells)
    assert not any(cell.startswith("-") and not cell.lstrip("-")[:1].isdigit() for cell in cells)
    assert "-2+3" not in cells
    text = path.read_text(encoding="utf-8")
    assert not {"\x1b", "\u202e"} & set(text)
    assert "-40.0" in cells


def test_an_audit_as_a_table(tmp_path):
    import numpy as np

    values = np.ones((2, 50, 1)) * np.arange(6.0)
    path = audit({"mu": np.random.default_rng(0).normal(size=(2, 50)), "=cmd\u202e": values}).save(tmp_path / "a.csv")
    text = path.read_text(encoding="utf-8")
    assert "\u202e" not in text
    assert ",=cmd" not in text

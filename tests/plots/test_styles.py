"""Series are told apart: by colour, by marker, by name, and by the place on an axis that says which unit is which."""

import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb

from bayesrecon.plots import plot_similarity
from bayesrecon.plots.diagnosis import plot_plan
from bayesrecon.plots.records import plot_records
from bayesrecon.plots.report import plot_audit
from bayesrecon.plots.style import styles
from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import Finding, Remedy
from bayesrecon.results.plan import Outlook, Plan
from bayesrecon.results.records import Column, RecordTable


def lightness(colour, matrix):
    """Of a linear colour as somebody sees it who lacks one kind of cone (Machado 2009)."""
    rgb = np.array(to_rgb(colour)) ** 2.2
    return np.clip(np.array(matrix) @ rgb, 0, 1) ** (1 / 2.2)


DEUTERAN = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTAN = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]


@pytest.mark.parametrize("seen", [np.eye(3), DEUTERAN, PROTAN])
def test_six_series_are_told_apart(seen):
    six = styles(6)
    assert len({s.colour for s in six}) == len({s.marker for s in six}) == 6
    hues = [rgb_to_hsv(to_rgb(s.colour))[0] for s in six]
    assert sum(0.5 < h < 0.7 for h in hues) == 2  # a dark blue and a light one, no shades in between
    colours = [lightness(s.colour, seen) for s in six]
    apart = min(np.abs(a - b).max() for i, a in enumerate(colours) for b in colours[:i])
    assert apart > 0.12
    for one, other in zip(styles(30), styles(30)[1:], strict=False):
        assert one.colour != other.colour
        assert one.marker != other.marker
        assert one.dashes != other.dashes


def test_a_plan_shows_six_statistics():
    names = ["n", "mean(a)", "mean(b)", "var(a)", "var(b)", "cov(a,b)"]
    ax = plot_plan(
        Plan("survey", 1000, tuple(Outlook(name, 10.0, {100: 1.0, 1000: 0.3}, {}, {}, {}) for name in names))
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == names
    assert len({(line.get_color(), line.get_marker()) for line in ax.get_lines() if line.get_marker() != "None"}) == 6


def test_schools_stand_on_their_own_axis(tmp_path):
    schools, y = np.array([3, 1, 7]), np.array([2.0, -1.0, 4.0])
    ones, seen = np.ones(3), np.array(["determined"] * 3)
    column = Column(y, ones, ones, y - 1.96, y + 1.96, ones, seen)
    table = RecordTable({"school": schools}, ("school",), {"y": column}, "schools", "means", 100, 100.0, 3, 1, 0)
    for truth in (None, {"y": y + 0.5}):
        ax = plot_records(table, truth=truth, path=tmp_path / "schools.png")[0, 0]
        assert ax.get_xlabel() == "school"
        assert [text.get_text() for text in ax.get_xticklabels()] == ["3", "1", "7"]
        legend = [text.get_text() for text in ax.get_legend().get_texts()]
        assert legend == ["recovered, 95 %"] if truth is None else sorted(legend) == ["recovered, 95 %", "true"]


def test_equal_remedies_of_two_findings_have_names_of_their_own():
    thinner = (Remedy("keep 1000 draws", "n", before=1.0, predicted=2.0),)
    found = [Finding(kind, "low", kind, ("posterior",), "", remedies=thinner) for kind in ("draws", "log density")]
    ax = plot_audit(Audit(tuple(found), "fit.nc", "netCDF", None, 100, (), {}))
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["keep 1000 draws: n (draws)", "keep 1000 draws: n (log density)"]


def test_curves_in_one_legend_have_different_names():
    ax = plot_similarity({f"method {i}": [0.1 * i, 0.5, 0.9] for i in range(6)})
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(set(names)) == 6

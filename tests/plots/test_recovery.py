import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from bayesrecon.errors import BayesreconError
from bayesrecon.plots import plot_recovered_against_true, plot_summary
from bayesrecon.plots.recovery_summary import plot_recovery, plot_spectrum
from bayesrecon.plots.style import label
from bayesrecon.results.recovery import Recovery, Row
from bayesrecon.types import PseudoData

pytestmark = pytest.mark.small

HOSTILE = ["$x^", r"\$a\$", "<b>&amp;--</b>", "two\nlines\x00\u202e", "漢字\U0001f600", "_{^", "", "%s{}", "x" * 500]


@pytest.fixture(autouse=True)
def headless():
    """Any backend will do; this one needs no display."""
    backend = matplotlib.get_backend()
    plt.switch_backend("Agg")
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")
    plt.switch_backend(backend)


def row(name, estimate, se, verdict="determined", visibility=1.0):
    if se is None:
        return Row(name, estimate, visibility=visibility, verdict=verdict)
    half = 1.959964 * se
    return Row(name, estimate, se, estimate - half, estimate + half, 0.8 * se, visibility, verdict, 900.0)


def recovery(rows, **changes):
    result = Recovery(
        rows=tuple(rows),
        release="some-release",
        model="some-model",
        draws=4000,
        metric="covariance",
        coordinates="unconstrained",
        temperature=1.0,
        rank=6,
        gap=True,
        spectrum=np.concatenate([np.logspace(0, -4, 6), np.logspace(-31, -32, 10), np.zeros(4)]),
        pseudo=PseudoData(np.ones(1), {"x": np.ones(1)}),
    )
    return replace(result, **changes)


ROWS = (
    row("n", 438.0, 0.0),
    row("mean(x)", 100.06, 0.15),
    row("var(x)", 219.4, 3.8, "partly", 0.7),
    row("cov(x,y)", -3.2, 1.5),
    Row("mean(y)", visibility=0.2),
    row("max(y)", 12.0, 0.5),
)
TRUTH = {"n": 438.0, "mean(x)": 100.0, "var(x)": 224.5, "cov(x,y)": -2.0, "mean(y)": 5.0, "max(y)": 14.0}
TRAINED = tuple(replace(r, se=None, lower=None, upper=None, floor=None) for r in ROWS)
UNSEEN = tuple(Row(name, visibility=0.1) for name in TRUTH)
EXTREME = (
    row("far", 1e9, 1e-6),
    row("zero", 0.0, 0.0),
    row("noise", 1e-9, 5.0),
    row("huge", 1e300, 1e299),
    row("tiny", 1e-300, 1e-310),
    row("nan", float("nan"), 1.0),
    row("no error", 1.0, float("nan")),
    row("exact, off", 3.0, 0.0),
)
EXTREME_TRUTH = {"far": -1e9, "zero": 0.0, "noise": 0.0, "huge": 1.0, "tiny": float("nan"), "exact, off": 4.0}
LONG = [row(f"u{i}", i + 1.0, 0.5) for i in range(15)]


def plain():
    """Axes that need no layout."""
    return plt.figure(figsize=(5, 3)).add_subplot()


def words(ax):
    legend = ax.get_legend()
    return {text.get_text() for text in [*ax.texts, *(legend.get_texts() if legend else [])]}


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def marks(ax, markers="osD"):
    """Where marks of these shapes are drawn."""
    lines = [line for line in ax.lines if line.get_marker() in list(markers)]
    return {(x, y) for line in lines for x, y in zip(*line.get_data(), strict=True) if np.isfinite(x)}


class TestRecovery:
    def test_errors_in_standard_errors(self):
        ax = plot_recovery(recovery(ROWS), truth=TRUTH)
        assert isinstance(ax, Axes)
        assert names(ax) == list(TRUTH)
        assert "standard error" in ax.get_xlabel()
        expected = [0.0, 0.06 / 0.15, -5.1 / 3.8, -1.2 / 1.5, -4.0]
        assert sorted(x for x, _ in marks(ax)) == pytest.approx(sorted(expected))
        assert {"truth in 95 % interval (2)", "truth in 95 % interval, seen in part (1)"} <= words(ax)
        assert {"truth outside (1)", "exact (1)", "not determined", "exact", "true", "438", "100.06"} <= words(ax)
        # The row's state is in the marks.
        hollow = [m for m in ax.lines if m.get_marker() == "o" and m.get_markerfacecolor() != m.get_markeredgecolor()]
        assert [list(m.get_ydata()) for m in hollow] == [[2]]
        assert [y for _, y in marks(ax, "D")] == [0]
        assert [y for _, y in marks(ax, "s")] == [5]
        colours = [label.get_color() for label in ax.get_yticklabels()]
        assert [i for i, c in enumerate(colours) if c != colours[0]] == [4]
        # Nothing overlaps or is cut off.
        boxes = [text.get_window_extent() for text in [*ax.texts, *ax.get_yticklabels()]]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        whole = ax.figure.bbox
        assert all(whole.x0 <= b.x0 and b.x1 <= whole.x1 and whole.y0 <= b.y0 and b.y1 <= whole.y1 for b in boxes)

    def test_relative_errors_without_the_truth(self):
        ax = plot_recovery(recovery(ROWS))
        assert ax.get_xscale() == "log"
        lengths = [x for x, _ in sorted(marks(ax, "o"), key=lambda mark: mark[1])]
        assert lengths == pytest.approx([0.15 / 100.06, 3.8 / 219.4, 1.5 / 3.2, 0.5 / 12])
        assert {"95 % interval", "Cramér-Rao floor", "99.77 to 100.35", "seen in part (1)"} <= words(ax)

    def test_trained_parameters_have_no_errors(self):
        result = recovery(TRAINED, temperature=0.0)
        assert plot_recovery(result, truth=TRUTH, ax=plain()).get_xlabel().endswith("/ |true|")
        ax = plot_recovery(result, ax=plain())
        assert ax.get_xlabel().startswith("share")
        assert not any("±" in text for text in words(ax))

    @pytest.mark.parametrize("truth", [None, TRUTH])
    def test_nothing_determined(self, truth):
        ax = plot_recovery(recovery(UNSEEN), truth=truth, ax=plain())
        assert [text.get_text() for text in ax.texts].count("not determined") == 6
        assert ax.get_xlabel().startswith("share")

    def test_many_rows_are_cut(self):
        result = recovery([row(f"unit[{i}]", float(i), 1.0) for i in range(67)])
        assert names(plot_recovery(result, ax=plain()))[-2:] == ["unit[39]", "and 27 more"]
        ax = plot_recovery(result, statistics=[f"unit[{i}]" for i in range(45)], ax=plain())
        assert names(ax)[-1] == "unit[44]"

    def test_selection_order_and_labels(self):
        ax = plot_recovery(recovery(ROWS), statistics=["var(x)", "n"], names={"n": "records ($)"}, ax=plain())
        assert names(ax) == ["var(x)", r"records (\$)"]
        assert names(plot_recovery(recovery(ROWS), statistics="n", ax=plain())) == ["n"]

    def test_unknown_statistic(self):
        with pytest.raises(BayesreconError, match=r"no statistic 'mean\(z\)'; did you mean .*mean\(x\)"):
            plot_recovery(recovery(ROWS), statistics=["mean(z)"])
        assert not plt.get_fignums()

    def test_incomplete_truth(self):
        ax = plot_recovery(recovery(ROWS), truth={"mean(x)": 100.0, "n": float("nan")}, ax=plain())
        assert [(round(x, 6), y) for x, y in marks(ax)] == [(0.4, 1)]

    def test_far_errors_are_arrows(self):
        ax = plot_recovery(recovery(EXTREME), truth=EXTREME_TRUTH, ax=plain())
        assert {"z = 2e+15", "exact, yet off", "truth outside (2)"} <= words(ax)
        low, high = ax.get_xlim()
        assert {(low < x < 0, 0 < x < high, y) for x, y in marks(ax, "<>")} == {(False, True, 0), (True, False, 7)}


class TestRecoveredAgainstTrue:
    def test_points_on_a_common_scale(self):
        ax = plot_recovered_against_true(recovery(ROWS), TRUTH)
        assert ax.get_xlim() == ax.get_ylim()
        assert ax.get_xscale() == ax.get_yscale()
        assert marks(ax) == {(TRUTH[r.name], r.estimate) for r in ROWS if r.estimate is not None}
        assert {"1 of 6 not determined", "max(y)"} <= words(ax)

    @pytest.mark.parametrize(
        "values, scale",
        [
            ([90.0, 440.0], "linear"),
            ([0.05, 46.0], "log"),
            ([3.0, 70.0], "log"),
            ([-3.0, 1e6], "symlog"),
            ([-600.0, -5.0], "symlog"),
            ([0.0], "linear"),
            ([1e-300, 1e280], "log"),
        ],
    )
    def test_scale(self, values, scale):
        rows = [row(f"v{i}", v, abs(v) * 0.002) for i, v in enumerate(values)]
        ax = plot_recovered_against_true(recovery(rows), {r.name: r.estimate for r in rows}, plain())
        ax.figure.canvas.draw()
        assert ax.get_xscale() == scale
        if scale == "log":
            low, high = ax.get_xlim()
            assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 2

    @pytest.mark.parametrize("rows", [(), UNSEEN])
    def test_nothing_to_compare(self, rows):
        assert "nothing to compare" in words(plot_recovered_against_true(recovery(rows), TRUTH, plain()))


class TestSpectrum:
    def test_gap(self):
        ax = plot_spectrum(recovery(ROWS))
        assert ax.get_yscale() == "log"
        kept, rest = (line.get_ydata() for line in ax.lines if line.get_marker() == "o")
        assert (len(kept), len(rest)) == (6, 14)
        assert rest.min() == 1e-18
        assert "rank 6: everything\nabove the gap is kept" in words(ax)

    def test_no_gap(self):
        ax = plot_spectrum(recovery(ROWS, spectrum=np.logspace(0, -30, 30), rank=20, gap=False), plain())
        assert "rank 20, no gap:\nregularised at the noise level" in words(ax)

    @pytest.mark.parametrize("spectrum", [[], [1.0], [0.0, 0.0], [1.0, np.nan, -1.0, np.inf], [5.0, 4.0]])
    def test_odd_spectra(self, spectrum):
        for rank in (0, 1, 100):
            ax = plot_spectrum(recovery(ROWS, spectrum=np.array(spectrum), rank=rank), plain())
            assert all(y <= 1 for _, y in marks(ax))
        ax.figure.canvas.draw()


class TestSummary:
    @pytest.mark.parametrize("rows, truth", [((), None), (EXTREME, EXTREME_TRUTH), (LONG, None), (LONG, {"u3": 3.0})])
    def test_panels(self, rows, truth):
        axes = plot_summary(recovery(rows), truth)
        assert axes.shape == ((2,) if truth is None else (3,))
        (figure,) = {ax.figure for ax in axes}
        assert figure.get_suptitle() == "some-release: 4000 draws, rank 6"
        assert plt.get_fignums() == [figure.number]
        boxes = [ax.get_tightbbox() for ax in axes]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])

    @pytest.mark.parametrize(
        "suffix, start", [pytest.param("pdf", b"%PDF", marks=pytest.mark.slow), ("svg", b"<?xml"), ("PNG", b"\x89PNG")]
    )
    def test_save(self, tmp_path, suffix, start):
        rows = [row(name, 1.0 + i, 0.1) for i, name in enumerate(HOSTILE if suffix == "svg" else ["n"])]
        path = tmp_path / f"summary.{suffix}"
        assert plot_summary(recovery(rows, release=HOSTILE[2]), path=path).shape == (2,)
        assert path.read_bytes().startswith(start)
        assert list(tmp_path.iterdir()) == [path]
        assert not plt.get_fignums()
        if suffix == "svg":
            ET.parse(path)

    def test_other_suffix(self, tmp_path):
        with pytest.raises(BayesreconError, match=r"must end in \.png, \.pdf, \.svg"):
            plot_summary(recovery(ROWS), path=tmp_path / "summary.exe")
        assert not list(tmp_path.iterdir())

    def test_no_folder(self, tmp_path):
        with pytest.raises(BayesreconError, match="does not exist"):
            plot_summary(recovery(()), path=tmp_path / "none" / "summary.png")
        assert not list(tmp_path.iterdir())

    def test_nothing_left_on_failure(self, tmp_path, monkeypatch):
        def fail(self, target, **_):
            target.write_bytes(b"half")
            raise OSError("disk full")

        path = tmp_path / "summary.png"
        path.write_bytes(b"before")
        monkeypatch.setattr(Figure, "savefig", fail)
        with pytest.raises(OSError, match="disk full"):
            plot_summary(recovery(()), path=path)
        assert [p.name for p in tmp_path.iterdir()] == ["summary.png"]
        assert path.read_bytes() == b"before"
        assert not plt.get_fignums()


EVERY = {
    "recovery": lambda result, truth, ax: plot_recovery(result, ax=ax),
    "errors": lambda result, truth, ax: plot_recovery(result, truth=truth, ax=ax),
    "against true": lambda result, truth, ax: plot_recovered_against_true(result, truth, ax=ax),
    "spectrum": lambda result, truth, ax: plot_spectrum(result, ax=ax),
}


@pytest.mark.parametrize("plot", EVERY.values(), ids=EVERY)
class TestEveryPlot:
    def test_draws_into_the_given_axes(self, plot):
        figure = plt.figure(figsize=(14, 5), layout="constrained")
        left, right = (part.subplots() for part in figure.subfigures(1, 2))
        assert plot(recovery(ROWS), TRUTH, left) is left
        assert not right.lines
        assert plt.get_fignums() == [figure.number]
        assert tuple(figure.get_size_inches()) == (14, 5)
        figure.canvas.draw()

    def test_hostile_names(self, plot):
        rows = [row(name, 1.0 + i, 0.1, "partly" if i % 2 else "determined") for i, name in enumerate(HOSTILE)]
        truth = {name: 1.0 + i for i, name in enumerate(HOSTILE)}
        ax = plot(recovery(rows, release="$\\frac{"), truth, plain())
        ax.figure.canvas.draw()
        assert not any("\n" in name or "\x00" in name or len(name) > 60 for name in names(ax))

    def test_extreme_values(self, plot):
        plot(recovery(EXTREME), EXTREME_TRUTH, plain()).figure.canvas.draw()

    def test_the_users_style(self, plot):
        with plt.style.context(["dark_background", {"axes.unicode_minus": False}]):
            plot(recovery(ROWS), TRUTH, plain()).figure.canvas.draw()
        # TeX would fail on, or obey, what stands in a name; where it is absent, drawing with it fails anyway.
        with plt.style.context({"text.usetex": True}):
            texts = plot(recovery(ROWS), TRUTH, plain()).findobj(Text)
            assert not any(text.get_usetex() for text in texts if text.get_text())


def test_statistics_seen_in_part_are_drawn_with_their_interval():
    partly = Row("var(x)", 219.4, None, 190.0, 240.0, None, 0.7, "partly", None)
    result, truth = recovery([row("n", 438.0, 2.0), partly]), {"n": 437.0, "var(x)": 241.0}
    axes = plot_recovery(result, truth=truth)
    texts = [text.get_text() for text in axes.texts]
    assert any(text.startswith("219") for text in texts)
    assert sum(text.startswith("±") for text in texts) == 1  # that of n
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert {"truth outside, seen in part (1)", "truth in 95 % interval (1)"} <= set(words)
    ends = [path.vertices[:, 0] for c in axes.collections for path in getattr(c, "get_paths", list)()]
    wanted = np.array([190.0 - 241.0, 240.0 - 241.0]) * 1.959964 / 25
    assert any(np.allclose(x, wanted, rtol=1e-4) for x in ends if len(x) == 2)
    assert any("190" in t.get_text() and "240" in t.get_text() for t in plot_recovery(result).texts)
    scatter = plot_recovered_against_true(result, truth)
    bars = [path.vertices[:, 1] for c in scatter.collections for path in getattr(c, "get_paths", list)()]
    assert any(np.allclose(np.sort(x), [190.0, 240.0]) for x in bars if len(x) == 2)


def test_methods_of_the_result():
    result = recovery(ROWS)
    assert plot_recovery(result, ax=plain()).get_xlabel() == result.plot(ax=plain()).get_xlabel()
    assert "true" in words(result.plot(truth=TRUTH, ax=plain()))
    assert result.plot_spectrum(ax=plain()).get_yscale() == "log"


def test_names_are_escaped_and_cut():
    assert label("$x^") == r"\$x^"
    assert label("a\nb") == "a?b"
    assert len(label("x" * 500)) == 48

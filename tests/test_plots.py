import re
import warnings
from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

import bayesrecon.plots
from bayesrecon.errors import BayesreconError
from bayesrecon.plots import plot_recovered_against_true, plot_recovery, plot_spectrum, plot_summary
from bayesrecon.result import Recovery, Row
from bayesrecon.types import PseudoData

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


def draw(ax):
    """Drawing is where matplotlib warns, and warnings are errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()


def words(ax):
    legend = ax.get_legend()
    texts = [*ax.texts, *ax.get_yticklabels(), *(legend.get_texts() if legend else [])]
    return [text.get_text() for text in texts]


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def marks(ax, marker):
    return [line for line in ax.lines if line.get_marker() == marker and len(line.get_xdata())]


class TestRecovery:
    def test_errors_in_standard_errors(self):
        ax = plot_recovery(recovery(ROWS), truth=TRUTH)
        draw(ax)
        assert isinstance(ax, Axes)
        assert names(ax) == list(TRUTH)
        assert "standard error" in ax.get_xlabel()
        z = {round(float(m.get_xdata()[0]), 6) for marker in "osD" for m in marks(ax, marker)}
        expected = {0.0, 0.06 / 0.15, -5.1 / 3.8, -1.2 / 1.5, -4.0}
        assert z == {round(v, 6) for v in expected}
        assert {"truth in 95 % interval (2)", "truth in 95 % interval, seen in part (1)"} <= set(words(ax))
        assert {"truth outside (1)", "exact (1)", "not determined", "exact", "true", "438", "100.06"} <= set(words(ax))

    def test_the_rows_state_is_in_the_marks(self):
        ax = plot_recovery(recovery(ROWS), truth=TRUTH)
        hollow = [m for m in marks(ax, "o") if m.get_markerfacecolor() != m.get_markeredgecolor()]
        assert [m.get_ydata()[0] for m in hollow] == [2]
        assert [m.get_ydata()[0] for m in marks(ax, "D")] == [0]
        assert [m.get_ydata()[0] for m in marks(ax, "s")] == [5]
        colours = [label.get_color() for label in ax.get_yticklabels()]
        assert [i for i, c in enumerate(colours) if c != colours[0]] == [4]

    def test_relative_errors_without_the_truth(self):
        ax = plot_recovery(recovery(ROWS))
        draw(ax)
        assert ax.get_xscale() == "log"
        lengths = [float(m.get_xdata()[0]) for m in marks(ax, "o")]
        assert lengths == pytest.approx([0.15 / 100.06, 3.8 / 219.4, 1.5 / 3.2, 0.5 / 12])
        assert {"95 % interval", "Cramér-Rao floor", "99.77 to 100.35", "seen in part (1)"} <= set(words(ax))

    def test_trained_parameters_have_no_errors(self):
        ax = plot_recovery(recovery(TRAINED, temperature=0.0), truth=TRUTH)
        draw(ax)
        assert ax.get_xlabel().endswith("/ |true|")
        ax = plot_recovery(recovery(TRAINED, temperature=0.0))
        draw(ax)
        assert ax.get_xlabel().startswith("share")
        assert not any("±" in text for text in words(ax))

    @pytest.mark.parametrize("truth", [None, TRUTH])
    def test_nothing_determined(self, truth):
        ax = plot_recovery(recovery(UNSEEN), truth=truth)
        draw(ax)
        assert words(ax).count("not determined") == 6
        assert ax.get_xlabel().startswith("share")

    def test_many_rows_are_cut(self):
        result = recovery([row(f"unit[{i}]", float(i), 1.0) for i in range(67)])
        ax = plot_recovery(result)
        draw(ax)
        assert names(ax)[-2:] == ["unit[39]", "and 27 more"]
        ax = plot_recovery(result, statistics=[f"unit[{i}]" for i in range(45)])
        assert names(ax)[-1] == "unit[44]"

    def test_selection_order_and_labels(self):
        ax = plot_recovery(recovery(ROWS), statistics=["var(x)", "n"], names={"n": "records ($)"})
        assert names(ax) == ["var(x)", r"records (\$)"]
        assert names(plot_recovery(recovery(ROWS), statistics="n")) == ["n"]

    def test_unknown_statistic(self):
        with pytest.raises(BayesreconError, match=r"no statistic 'mean\(z\)'; did you mean .*mean\(x\)"):
            plot_recovery(recovery(ROWS), statistics=["mean(z)"])
        assert not plt.get_fignums()

    def test_incomplete_truth(self):
        ax = plot_recovery(recovery(ROWS), truth={"mean(x)": 100.0, "n": float("nan")})
        draw(ax)
        assert len(marks(ax, "o")) == 1
        assert not marks(ax, "D")

    def test_far_errors_are_arrows(self):
        ax = plot_recovery(recovery(EXTREME), truth=EXTREME_TRUTH)
        draw(ax)
        assert {"z = 2e+15", "exact, yet off"} <= set(words(ax))
        low, high = ax.get_xlim()
        assert all(low <= x <= high for line in marks(ax, ">") + marks(ax, "<") for x in line.get_xdata())

    def test_columns_do_not_overlap(self):
        ax = plot_recovery(recovery(ROWS), truth=TRUTH)
        draw(ax)
        boxes = [t.get_window_extent() for t in ax.texts] + [t.get_window_extent() for t in ax.get_yticklabels()]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        whole = ax.figure.bbox
        assert all(whole.x0 <= b.x0 and b.x1 <= whole.x1 and whole.y0 <= b.y0 and b.y1 <= whole.y1 for b in boxes)


class TestRecoveredAgainstTrue:
    def test_points_on_a_common_scale(self):
        ax = plot_recovered_against_true(recovery(ROWS), TRUTH)
        draw(ax)
        assert ax.get_xlim() == ax.get_ylim()
        assert ax.get_xscale() == ax.get_yscale()
        points = {(m.get_xdata()[0], m.get_ydata()[0]) for marker in "osD" for m in marks(ax, marker)}
        assert points == {(TRUTH[r.name], r.estimate) for r in ROWS if r.estimate is not None}
        assert "1 of 6 not determined" in words(ax)
        assert "max(y)" in words(ax)

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
        ax = plot_recovered_against_true(recovery(rows), {r.name: r.estimate for r in rows})
        draw(ax)
        assert ax.get_xscale() == scale
        if scale == "log":
            low, high = ax.get_xlim()
            assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 2

    @pytest.mark.parametrize("rows", [(), UNSEEN])
    def test_nothing_to_compare(self, rows):
        ax = plot_recovered_against_true(recovery(rows), TRUTH)
        draw(ax)
        assert "nothing to compare" in words(ax)


class TestSpectrum:
    def test_gap(self):
        ax = plot_spectrum(recovery(ROWS))
        draw(ax)
        assert ax.get_yscale() == "log"
        kept, rest = (line.get_ydata() for line in marks(ax, "o"))
        assert (len(kept), len(rest)) == (6, 14)
        assert rest.min() == 1e-33
        assert any(text.startswith("rank 6: everything") for text in words(ax))

    def test_no_gap(self):
        ax = plot_spectrum(recovery(ROWS, spectrum=np.logspace(0, -30, 30), rank=20, gap=False))
        draw(ax)
        (note,) = (text for text in words(ax) if text.startswith("rank 20"))
        assert re.fullmatch(r"rank 20, no gap:\s*regularised at the noise level", note)

    @pytest.mark.parametrize("spectrum", [[], [1.0], [0.0, 0.0], [1.0, np.nan, -1.0, np.inf], [5.0, 4.0]])
    @pytest.mark.parametrize("rank", [0, 1, 100])
    def test_odd_spectra(self, spectrum, rank):
        ax = plot_spectrum(recovery(ROWS, spectrum=np.array(spectrum), rank=rank))
        draw(ax)
        assert all(np.all(line.get_ydata() <= 1) for line in marks(ax, "o"))


class TestSummary:
    @pytest.mark.parametrize("truth, panels", [(None, 2), (TRUTH, 3)])
    @pytest.mark.parametrize("rows", [(), ROWS, tuple(row(f"u{i}", i + 1.0, 0.5) for i in range(20))])
    def test_panels(self, truth, panels, rows):
        axes = plot_summary(recovery(rows), truth)
        assert axes.shape == (panels,)
        draw(axes[0])
        (figure,) = {ax.figure for ax in axes}
        assert figure.get_suptitle() == "some-release: 4000 draws, rank 6"
        assert plt.get_fignums() == [figure.number]
        boxes = [ax.get_tightbbox() for ax in axes]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])

    @pytest.mark.parametrize(
        "suffix, start", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89")]
    )
    def test_save(self, tmp_path, suffix, start):
        path = tmp_path / f"summary.{suffix}"
        axes = plot_summary(recovery(ROWS), TRUTH, path)
        assert axes.shape == (3,)
        assert path.read_bytes().startswith(start)
        assert list(tmp_path.iterdir()) == [path]
        assert not plt.get_fignums()

    def test_hostile_names_in_svg(self, tmp_path):
        import xml.etree.ElementTree as ET

        rows = [row(name, 1.0 + i, 0.1) for i, name in enumerate(HOSTILE)]
        path = tmp_path / "summary.svg"
        plot_summary(recovery(rows, release=HOSTILE[2]), dict.fromkeys(HOSTILE, 1.0), path)
        ET.parse(path)

    def test_other_suffix(self, tmp_path):
        with pytest.raises(BayesreconError, match=r"must end in \.png, \.pdf, \.svg"):
            plot_summary(recovery(ROWS), path=tmp_path / "summary.exe")
        assert not list(tmp_path.iterdir())

    def test_no_folder(self, tmp_path):
        with pytest.raises(BayesreconError, match="does not exist"):
            plot_summary(recovery(ROWS), path=tmp_path / "none" / "summary.png")
        assert not list(tmp_path.iterdir())

    def test_nothing_left_on_failure(self, tmp_path, monkeypatch):
        from matplotlib.figure import Figure

        def fail(self, target, **_):
            target.write_bytes(b"half")
            raise OSError("disk full")

        path = tmp_path / "summary.png"
        path.write_bytes(b"before")
        monkeypatch.setattr(Figure, "savefig", fail)
        with pytest.raises(OSError, match="disk full"):
            plot_summary(recovery(ROWS), path=path)
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
        figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
        assert plot(recovery(ROWS), TRUTH, left) is left
        assert not right.lines
        assert plt.get_fignums() == [figure.number]
        assert tuple(figure.get_size_inches()) == (14, 5)
        draw(left)

    def test_draws_into_a_subfigure(self, plot):
        figure = plt.figure(figsize=(14, 5), layout="constrained")
        ax = figure.subfigures(1, 2)[0].subplots()
        assert plot(recovery(ROWS), TRUTH, ax) is ax
        figure.canvas.draw()

    def test_hostile_names(self, plot):
        rows = [row(name, 1.0 + i, 0.1, "partly" if i % 2 else "determined") for i, name in enumerate(HOSTILE)]
        result = recovery(rows, release="$\\frac{")
        ax = plot(result, {name: 1.0 + i for i, name in enumerate(HOSTILE)}, None)
        draw(ax)
        assert not any("\n" in name or "\x00" in name or len(name) > 60 for name in names(ax))

    def test_extreme_values(self, plot):
        draw(plot(recovery(EXTREME), EXTREME_TRUTH, None))

    @pytest.mark.parametrize("style", ["dark_background", {"text.usetex": True}, {"axes.unicode_minus": False}])
    def test_the_users_style(self, plot, style):
        # TeX would fail on, or obey, what stands in a name; where it is absent, drawing with it fails anyway.
        with plt.style.context(style):
            ax = plot(recovery(ROWS), TRUTH, None)
            if style == {"text.usetex": True}:
                texts = ax.findobj(matplotlib.text.Text)
                assert not any(text.get_usetex() for text in texts if text.get_text())
            else:
                draw(ax)


def test_methods_of_the_result():
    result = recovery(ROWS)
    assert isinstance(result.plot(), Axes)
    assert isinstance(result.plot(truth=TRUTH), Axes)
    assert isinstance(result.plot_spectrum(), Axes)


def test_import_does_not_import_matplotlib():
    import subprocess
    import sys

    code = "import sys, bayesrecon.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_escaped_and_cut():
    assert bayesrecon.plots._text("$x^") == r"\$x^"
    assert bayesrecon.plots._text("a\nb") == "a?b"
    assert len(bayesrecon.plots._text("x" * 500)) == 48

"""Pictures of reconstructions."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from pseudodata import example

import bayesrecon
from bayesrecon.plots import plot_traces
from bayesrecon.plots.reconstruction import plot_reconstruction


def titles(axes):
    return [ax.get_title(loc="left") for ax in axes]


def legend(ax):
    return {text.get_text() for text in ax.get_legend().get_texts()} if ax.get_legend() else set()


def apart(axes):
    axes[0].figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in axes]
    return not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


class TestReconstruction:
    @pytest.mark.slow
    def test_panels(self):
        axes = plot_reconstruction(example())
        names = ["n", "mean(x)", "mean(y)", "var(x)", "var(y)"]
        assert titles(axes) == [*names, "relative gap", "Pseudo-records, area by weight"]
        assert [ax.get_xlabel() for ax in axes] == ["iteration"] * 6 + ["x"]
        assert axes[-1].get_ylabel() == "y"
        assert [ax.get_xscale() for ax in axes] == ["linear"] * 7
        assert axes[-2].get_yscale() == "log"
        assert legend(axes[-2]) == {"noise of the draws"}
        assert legend(axes[-1]) == {"weight 5"}
        assert axes[0].figure.get_suptitle() == "some-release: 5 weighted records, newton, exact objective"
        assert apart(axes)
        # The value of every trace is that of the result, and a dot marks the iterate that it is.
        assert axes[0].get_title(loc="right") == "15"
        assert [list(line.get_xdata()) for line in axes[0].lines] == [list(range(1, 11)), [10]]

    @pytest.mark.slow
    def test_marks_have_the_area_of_their_weight(self):
        axes = plot_reconstruction(example(weights=[1.0, 2.0, 4.0]))
        assert sorted(axes[-1].collections[0].get_sizes()) == pytest.approx(150 * np.array([0.25, 0.5, 1]))

    def test_the_records_alone_in_given_axes(self):
        (ax,) = example().plot(ax=Figure().add_subplot())
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")

    @pytest.mark.slow
    def test_negative_weights(self):
        axes = plot_reconstruction(example(weights=[1.0, -2.0, 4.0], method="adam"))
        assert legend(axes[-1]) == {"weight 4", "negative (1)"}

    @pytest.mark.parametrize("steps, scale", [(range(1, 400, 40), "log"), (range(0, 20_001, 100), "symlog")])
    def test_iterations_over_decades(self, steps, scale):
        axes = plot_reconstruction(example(fields=("y",), steps=steps))
        assert {ax.get_xscale() for ax in axes[:-1]} == {scale}

    def test_another_certificate(self):
        changes = {"certificate": "measures of bounded mass", "domain": {"x": (0.0, 1.0)}, "gap": 1e-4}
        axes = plot_reconstruction(example(**changes))
        assert legend(axes[-2]) == {"to signed measures", "certified", "noise of the draws"}

    @pytest.mark.parametrize("size", [3, 40])
    def test_a_single_field(self, size):
        axes = plot_reconstruction(example(fields=("y",), weights=np.ones(size)))
        assert titles(axes) == ["n", "mean(y)", "var(y)", "relative gap", "Pseudo-records"]
        assert (axes[-1].get_xlabel(), axes[-1].get_ylabel()) == ("y", "weight")
        heights = [patch.get_height() for patch in axes[-1].patches]
        assert sum(heights) == pytest.approx(size if size > 12 else 0)

    @pytest.mark.slow
    def test_many_fields(self):
        axes = plot_reconstruction(example(fields=[f"x{i}" for i in range(9)]))
        assert len(axes) == 1 + 2 * 7 + 2
        assert axes[0].figure.get_suptitle().endswith("(traces of 7 fields of 9)")
        assert apart(axes)

    @pytest.mark.parametrize("bad", [np.nan, pytest.param(1e30, marks=pytest.mark.slow)])
    def test_a_trace_that_ran_away(self, bad):
        result = example(fields=("y",))
        rows = (*result.trace, (11.0, 1.0, *[bad] * (len(result.columns) - 2)))
        axes = plot_reconstruction(replace(result, trace=rows, stopped="diverged"))
        assert axes[0].figure.get_suptitle().endswith(", diverged")
        assert axes[0].get_yscale() == ("symlog" if bad == 1e30 else "linear")

    @pytest.mark.parametrize("changes", [{}, {"gap_in_noise": None, "bound": 0.0, "relative_gap": None}])
    def test_no_iterations(self, changes):
        axes = plot_reconstruction(example(fields=("y",), steps=(), gap=0.0, **changes))
        assert all("no iterations" in {text.get_text() for text in ax.texts} for ax in axes[:-1])
        assert titles(axes)[-2] == ("gap" if changes else "relative gap")

    @pytest.mark.slow
    def test_hostile_names(self, tmp_path):
        fields = ("$x^", r"\$a\$ <b>&amp;", "x" * 300)
        path = tmp_path / "records.svg"
        axes = plot_reconstruction(example(fields=fields, release="$\\frac{"), path=path)
        assert path.read_bytes().startswith(b"<?xml")
        assert not plt.get_fignums()
        assert all(len(title) < 60 for title in titles(axes))

    def test_other_suffix(self, tmp_path):
        with pytest.raises(bayesrecon.BayesreconError, match=r"must end in \.png, \.pdf, \.svg"):
            plot_reconstruction(example(), path=tmp_path / "records.gif")


class TestTraces:
    def test_own_figure(self):
        other = example(steps=range(0, 5001, 100), method="adam")
        axes = plot_traces({"fast": example(), "published $": other}, {"n": 16.0})
        assert titles(axes) == ["n", "mean(x)", "mean(y)", "var(x)", "var(y)"]
        assert legend(axes[0]) == {"fast", r"published \$", "true"}
        assert not any(legend(ax) for ax in axes[1:])
        assert [len(ax.lines) for ax in axes] == [3, 2, 2, 2, 2]
        assert {ax.get_xscale() for ax in axes} == {"symlog"}
        assert apart(axes)

    def test_given_axes_against_seconds(self):
        figure = plt.figure()
        axes = figure.subplots(5, 2, sharey="row")
        drawn = plot_traces({f"M = {i}": example() for i in range(9)}, axes=axes[:, 1], x="seconds")
        assert list(drawn) == list(axes[:, 1])
        assert {ax.get_xlabel() for ax in drawn} == {"seconds"}
        assert [bool(legend(ax)) for ax in drawn] == [False] * 4 + [True]
        assert plt.get_fignums() == [figure.number]

    def test_bad_input(self):
        with pytest.raises(bayesrecon.BayesreconError, match="'iteration' or 'seconds'"):
            plot_traces({"a": example()}, x="steps")
        with pytest.raises(bayesrecon.BayesreconError, match="at least one"):
            plot_traces({})
        with pytest.raises(bayesrecon.BayesreconError, match="1 given for 5 statistics"):
            plot_traces({"a": example()}, axes=[plt.figure().add_subplot()])
        assert len(plt.get_fignums()) == 1

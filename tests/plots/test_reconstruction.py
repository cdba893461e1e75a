"""`bayesrecon reconstruct` on the command line, and the plots of reconstructions."""

import json
import subprocess
import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from command import document

import bayesrecon
from bayesrecon.attacks.pseudodata.trace import Trace
from bayesrecon.plots import plot_reconstruction, plot_traces
from bayesrecon.results.base import plain
from bayesrecon.results.reconstruction import Reconstruction
from bayesrecon.types import PseudoData

KIDIQ = "kidiq-kidscore_momiq"
SMALL = ("--draws", 200, "-n", 12)
ADAM = ("--draws", 100, "-n", 5, "--method", "adam")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def reconstruct(run):
    """`bayesrecon reconstruct ...` in this process."""
    return lambda *arguments: run("reconstruct", *arguments)


def one_line(outcome, *words):
    code, out, err = outcome
    assert (code, out) == (2, "")
    assert err.startswith("bayesrecon: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


# The command


def test_json_and_files(database, reconstruct, tmp_path):
    files = {suffix: tmp_path / f"records{suffix}" for suffix in (".nc", ".csv", ".json", ".png")}
    outcome = reconstruct(KIDIQ, *SMALL, "--json", "--out", files[".nc"], "--plot", files[".png"])
    found = document(outcome)
    assert outcome[2] == ""
    assert found.keys() >= {"version", "release", "n", "relative_gap", "gap_in_noise", "certificate", "statistics"}
    assert (found["release"], found["n"], found["method"], found["draws"]) == (KIDIQ, 12, "newton", 200)
    assert (found["objective"], found["metric"], found["coordinates"]) == ("exact", "covariance", "unconstrained")
    assert found["relative_gap"] < 1e-8
    assert set(found["statistics"]) == {"n", *(f"{f}({x})" for f in ("mean", "var") for x in ("mom_iq", "kid_score"))}
    with xr.open_dataset(files[".nc"], engine="h5netcdf") as stored:
        assert stored["weight"].sum().item() == pytest.approx(found["statistics"]["n"])
        assert stored["trace"].sizes["column"] == 9
    assert files[".png"].read_bytes().startswith(PNG)

    document(reconstruct(KIDIQ, *SMALL, "--json", "--out", files[".csv"]))
    records = pd.read_csv(files[".csv"], index_col="record")
    assert list(records.columns) == ["weight", "mom_iq", "kid_score"]
    assert len(records) == 12
    assert np.average(records["mom_iq"], weights=records["weight"]) == pytest.approx(
        found["statistics"]["mean(mom_iq)"], rel=1e-9
    )

    again = document(reconstruct(KIDIQ, *SMALL, "--json", "-o", files[".json"]))
    assert json.loads(files[".json"].read_text()) == again
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


def test_table_and_checkpoint(database, reconstruct, tmp_path):
    stored = tmp_path / "descent.npz"
    options = ("--objective", "sliced", "--slices", 4, "--slice-law", "rademacher", "--checkpoint", stored)
    code, out, err = reconstruct(KIDIQ, *SMALL, *options)
    assert stored.exists()
    assert (code, err) == (0, "")
    for words in ("12 weighted records by newton, sliced", "mean(mom_iq)", "var(kid_score)", "what the draws resolve"):
        assert words in out
    assert "relative gap" in out
    assert "signed measures" in out
    assert "converged after" in out


def test_domain_and_mass_are_stated(database, reconstruct):
    code, out, _ = reconstruct(
        KIDIQ, *SMALL, "--total", 434, "--bounds", "mom_iq=50:160", "--bounds", "kid_score=0:200"
    )
    assert code == 0
    assert "mom_iq in [50, 160], kid_score in [0, 200], total weight at most 434" in " ".join(out.split())


def test_published_recipe(database, reconstruct):
    options = (*ADAM, "--steps", 100, "--fixed-slices", "--no-reduced", "--rate", 0.01)
    found = document(reconstruct(KIDIQ, *options, "--json"))
    assert (found["objective"], found["metric"], found["coordinates"]) == ("sliced", "identity", "constrained")
    assert found["weights"] == "free"
    assert found["stopped"] == "all steps taken"


def test_diverged_is_still_json(database, reconstruct, tmp_path):
    out = tmp_path / "out.json"
    outcome = reconstruct(KIDIQ, *ADAM, "--objective", "exact", "--steps", 100, "--rate", 1e300, "--json", "--out", out)
    found = document(outcome)
    assert found["stopped"] == "diverged"
    assert outcome[2].startswith("warning: ")
    assert json.loads(out.read_text()) == found


def test_interrupted_reports_the_best_so_far(database, reconstruct, monkeypatch, tmp_path):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesrecon.attacks.pseudodata.run.newton", stop)
    out, picture = tmp_path / "records.csv", tmp_path / "records.png"
    outcome = reconstruct(KIDIQ, *SMALL, "--json", "--out", out, "--plot", picture)
    assert document(outcome)["stopped"] == "interrupted"
    assert outcome[2] == "warning: interrupted: these are the best records so far\n"
    assert len(pd.read_csv(out)) == 12
    assert picture.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["-n", "0"], "n=0"),
        (["--method", "sgd"], "expected newton or adam"),
        (["--attack", "score-matchin"], "did you mean score-matching"),
        (["--attack", "weighted-records", "--rate", "1"], "it belongs to score-matching"),
        (["--attack", "gradient-matching"], "takes a trained parameter"),
        (["--attack", "gradient-matching", "--metric", "identity"], "no metric"),
        (["--objective", "fisher"], "'exact' or 'sliced'"),
        (["--start", "zero"], "'located', 'published'"),
        (["--objective", "sliced", "--slices", "0"], "slices=0"),
        (["--objective", "sliced", "--slice-law", "cauchy"], "'normal' or 'rademacher'"),
        (["--objective", "sliced", "--no-reduced"], "belongs to score-matching"),
        (["--slices", "5"], "sliced objective"),
        (["--steps", "0"], "steps=0"),
        (["--method", "adam", "--rate", "-1"], "rate=-1"),
        (["--tolerance", "2"], "tolerance=2"),
        (["--bounds", "mom_iq=low"], "FIELD=LOW:HIGH"),
        (["--out", "records.txt"], ".nc or .csv or .json or .npz"),
        (["--plot", "records.gif"], ".png or .pdf or .svg"),
        (["--checkpoint", "records.csv"], ".npz"),
        (["--out", "no/such/folder.csv"], "does not exist"),
        (["--metric", "euclid"], "metric"),
        (["--rounds", "3"], "--rounds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(database, reconstruct, arguments, words):
    one_line(reconstruct(KIDIQ, "--draws", 100, *arguments), words)


def test_help_imports_no_verb():
    code = (
        "import sys; from bayesrecon.cli.main import main\nsys.argv = ['bayesrecon', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.exit(any(m in sys.modules for m in ('jax', 'numpy', 'matplotlib', 'bayesrecon.attacks.reconstruction')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_that_do_not_exist_are_null():
    assert plain({"a": [np.nan, 1.5], "b": {"c": np.float64("inf"), "d": "nan"}, "e": (1, True)}) == {
        "a": [None, 1.5],
        "b": {"c": None, "d": "nan"},
        "e": [1, True],
    }


# The plots


def example(fields=("x", "y"), steps=range(1, 11), weights=None, **changes):
    """A reconstruction of five records that got there geometrically."""
    rng = np.random.default_rng(0)
    weights = np.arange(1.0, 6.0) if weights is None else np.asarray(weights, float)
    pseudo = PseudoData(weights, {name: rng.normal(size=len(weights)) for name in fields})
    trace = Trace(dict.fromkeys(fields, ()))
    for i, step in enumerate(steps):
        trace.add(step, -1 + 10.0 ** (-i - 1), 10.0 ** (-i - 1), PseudoData(weights + 10.0**-i, pseudo.records))
    last = trace.rows[-1] if trace.rows else [0, 0, -1, 0.0]
    result = Reconstruction(
        pseudo=pseudo,
        trace=tuple(map(tuple, trace.rows)),
        columns=tuple(trace.columns),
        release="some-release",
        model="some-model",
        draws=1000,
        n=len(weights),
        objective="exact",
        method="newton",
        metric="covariance",
        coordinates="unconstrained",
        objective_value=last[2],
        bound=-1.0,
        gap=last[3],
        relative_gap=last[3],
        gap_in_noise=last[3] / 0.003,
        certificate="signed measures",
        domain={},
        mass=None,
        rank=6,
        weights="positive",
        stopped="converged",
    )
    return replace(result, **changes)


def titles(axes):
    return [ax.get_title(loc="left") for ax in axes]


def legend(ax):
    return {text.get_text() for text in ax.get_legend().get_texts()} if ax.get_legend() else set()


def apart(axes):
    axes[0].figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in axes]
    return not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


class TestReconstruction:
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

    def test_marks_have_the_area_of_their_weight(self):
        axes = plot_reconstruction(example(weights=[1.0, 2.0, 4.0]))
        assert sorted(axes[-1].collections[0].get_sizes()) == pytest.approx(150 * np.array([0.25, 0.5, 1]))

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

    def test_many_fields(self):
        axes = plot_reconstruction(example(fields=[f"x{i}" for i in range(9)]))
        assert len(axes) == 1 + 2 * 7 + 2
        assert axes[0].figure.get_suptitle().endswith("(traces of 7 fields of 9)")
        assert apart(axes)

    @pytest.mark.parametrize("bad", [np.nan, 1e30])
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

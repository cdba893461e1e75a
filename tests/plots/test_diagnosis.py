"""Pictures of a diagnosis."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

import bayesrecon
from bayesrecon.disclosure.diagnosis import Diagnosis, Eigenfunction, Feature
from bayesrecon.plots import plot_diagnosis
from bayesrecon.plots.diagnosis import plot_diagnosis_spectrum, plot_visibility

HOSTILE = ["$x^", "<b>&amp;", "two\nlines\x00", "漢字", "_{^", "", "x" * 500]


def drawn(features, rank=4, **changes):
    made = Diagnosis(
        release="some-release",
        model="some-model",
        draws=4000,
        rank=rank,
        gap=False,
        resolved=2,
        index=2.25,
        spectrum=np.logspace(0, -9, rank),
        noise=np.full(rank, 1e-5),
        features=tuple(features),
        eigenfunctions=(Eigenfunction(1.0, 1e-5, (("1", 0.9),)),),
    )
    return dataclasses.replace(made, **changes)


def feature(name, visibility=1.0, seen=0.6, verdict="determined"):
    return Feature(name, 1, visibility, seen, 0.1, 0.1, 0.0, verdict)


FEATURES = [feature("a"), feature("b", 0.95, 0.95, "partly"), feature("c", 0.1, 0.05, "undetermined")]


@pytest.fixture
def figures():
    """Leaves pyplot without figures and with the backend it had."""
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


def test_plot_of_visibility(figures):
    ax = plot_visibility(drawn(FEATURES))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["determined (1)", "partly (1)", "undetermined (1)", "with more draws only"]
    assert {patch.get_width() for patch in ax.patches} >= {0.6, 0.4, 0.95}
    assert len({patch.get_facecolor()[:3] for patch in ax.patches}) == 3
    many = plot_visibility(drawn([feature(f"f{i}") for i in range(60)]))
    assert many.get_yticklabels()[-1].get_text() == "and 20 more"


def test_plot_of_the_spectrum(figures):
    ax = plot_diagnosis_spectrum(drawn(FEATURES))
    assert ax.get_yscale() == "log"
    assert ax.get_title(loc="left") == "2 of 4 features stand above\nthe noise of 4,000 draws"
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["resolved (2)", "below the noise (2)", "noise"]
    assert drawn(FEATURES).plot_spectrum(ax) is ax
    assert drawn(FEATURES).plot_visibility(plt.figure().subplots()).get_xlim() == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [0, 3, 60])
def test_plot_of_both(figures, lines):
    axes = plot_diagnosis(drawn([feature(f"f{i}") for i in range(lines)]))
    (figure,) = {ax.figure for ax in axes}
    assert figure.get_suptitle() == "some-release: decaying spectrum, rank 4, index 2.25"
    left, right = (ax.get_tightbbox() for ax in axes)
    assert not left.overlaps(right)


@pytest.mark.parametrize("suffix, start", [("svg", b"<?xml"), pytest.param("PNG", b"\x89PNG", marks=pytest.mark.slow)])
def test_saved_plot(figures, tmp_path, suffix, start):
    path = tmp_path / f"diagnosis.{suffix}"
    plot_diagnosis(drawn([feature(name) for name in HOSTILE], release=HOSTILE[0]), path)
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]
    assert not plt.get_fignums()
    with pytest.raises(bayesrecon.BayesreconError, match="must end in"):
        plot_diagnosis(drawn(FEATURES), tmp_path / "diagnosis.exe")


def test_hostile_plots(figures):
    odd = drawn([feature(name, np.nan, 2.0) for name in HOSTILE], spectrum=np.array([1, 0, np.nan, 1e-300]))
    with plt.style.context({"text.usetex": True}):
        axes = plt.figure(figsize=(16, 5), layout="constrained").subplots(1, 2)
        plot_visibility(odd, axes[0])
        plot_diagnosis_spectrum(odd, axes[1])
        assert not any(text.get_usetex() for ax in axes for text in ax.findobj(Text) if text.get_text())
    assert not any("\n" in label.get_text() or len(label.get_text()) > 60 for label in axes[0].get_yticklabels())
    axes[0].figure.canvas.draw()

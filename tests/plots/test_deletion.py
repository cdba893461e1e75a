"""Pictures of deletions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from deletions import NAMES

import bayesrecon
from bayesrecon import HRec
from bayesrecon.cli.inputs import open_release
from bayesrecon.errors import BayesreconError
from bayesrecon.plots import plot_images, plot_inference, plot_similarity
from bayesrecon.plots.deletion import plot_deleted


@pytest.mark.slow
def test_plots_of_deletions(folder, tmp_path):
    path, _ = folder
    pair = bayesrecon.deletion(*(open_release([str(path / f"{n}.npz")]) for n in ("before", "after")))
    table = pd.read_csv(path / "public.csv")
    public = {"x": table[NAMES].to_numpy(), "y": table["y"].to_numpy()}
    found = bayesrecon.reconstruct(pair, attack=HRec(public=public))
    assert len(found.plot().get_yticklabels()) == 4
    assert plot_deleted(found, shape=(2, 2)).get_images()[0].get_array().shape == (2, 2)
    with pytest.raises(BayesreconError, match="not an image"):
        plot_deleted(found, shape=(3, 3))
    doubtful = replace(found, doubts=("another label explains the change, too",), other={"x": found.record["x"] - 1})
    ax = plot_deleted(doubtful)
    assert "doubt" in ax.get_title("left")
    assert "doubt" not in found.plot().get_title("left")
    assert ax.get_lines()[0].get_markerfacecolor() == "none"
    assert len(ax.get_lines()) == 2
    assert "in doubt" in repr(doubtful)
    assert "other" in repr(doubtful)
    likely = bayesrecon.infer_deletion(pair, public, public=public)
    assert len(plot_inference(likely).patches) == 20
    rng = np.random.default_rng(0)
    ax = plot_similarity({"one": rng.uniform(0.8, 1, 50), "two": rng.uniform(0.5, 1, 50)}, path=tmp_path / "s.png")
    line = ax.get_lines()[0]
    assert line.get_ydata()[-1] == 1
    assert (np.diff(line.get_xdata()) >= 0).all()
    assert len(ax.collections) == 2
    grid = plot_images({"true": rng.random((3, 4)), "found": rng.random((3, 4))}, (2, 2), path=tmp_path / "g.png")
    assert grid.shape == (2, 3)
    with pytest.raises(BayesreconError, match="same number"):
        plot_images({"a": np.ones((2, 4)), "b": np.ones((3, 4))}, (2, 2))

"""Matched records in every form, and mosaics of images."""

import json

import numpy as np
import pytest
from networks import trained

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.plots.matched import mosaic, plot_matched


@pytest.mark.slow
def test_a_match_in_every_form(tmp_path):
    release, _ = trained("softmax", 12)
    found = bayesrecon.reconstruct(release, attack=bayesrecon.GradientMatching(n=6, restarts=1, steps=5))
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["n"] == 6
    assert list(found.to_dataframe().columns) == ["weight", "determined", "x[1]", "x[2]", "y"]
    assert len(found.to_dataframe()) == 6
    assert "&lt;softmax&gt;" in found._repr_html_()
    assert plot_matched(found, path=tmp_path / "records.png").get_xlabel() == "x[1]"
    assert (tmp_path / "records.png").stat().st_size > 0
    assert plot_matched(found, shape=(1, 2), path=tmp_path / "images.png").images
    with pytest.raises(BayesreconError, match="not an image of 3 by 3"):
        plot_matched(found, shape=(3, 3))


def test_a_mosaic_keeps_the_images_apart():
    whole = mosaic(np.arange(44.0).reshape(11, 4), (2, 2))
    assert whole.shape == (5, 29)
    np.testing.assert_array_equal(whole[3:, :2], [[40, 41], [42, 43]])
    assert np.isnan(whole[2]).all()

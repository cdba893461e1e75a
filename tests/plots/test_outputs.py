"""Pictures of an input as outputs tell it."""

import numpy as np
import pytest
from asked import PRIVATE, PUBLIC, linear

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.plots.input_image import plot_input
from bayesrecon.posteriors import outputs


@pytest.fixture(scope="module")
def found():
    return bayesrecon.recover(outputs(linear, linear(PRIVATE[0]), public=PUBLIC))


def test_images_are_what_they_say(found):
    titles = ["Input", "Estimate", "Error (half of 95 %)", "Visibility"]
    axes = plot_input(found, shape=(3, 4), truth=PRIVATE[0])
    assert [ax.get_title("left") for ax in axes] == titles
    drawn = [ax.images[0].get_array() for ax in axes]
    np.testing.assert_allclose(drawn[1], found.estimate.reshape(3, 4))
    np.testing.assert_allclose(drawn[2], (found.upper - found.lower).reshape(3, 4) / 2)
    np.testing.assert_allclose(drawn[3], found.visibility.reshape(3, 4))


def test_records_that_are_no_images_are_intervals(found, tmp_path):
    left, right = found.plot(path=tmp_path / "fields.png")
    assert len(left.get_yticks()) == len(right.patches) == 12
    assert (tmp_path / "fields.png").exists()
    alone = found.plot(ax=left.figure.add_subplot())
    assert [len(ax.get_yticks()) for ax in alone] == [12]
    with pytest.raises(BayesreconError, match="12 values are not an image of 5 by 5"):
        found.plot(shape=(5, 5))
    with pytest.raises(BayesreconError, match="must end in"):
        found.plot(path=tmp_path / "fields.gif")

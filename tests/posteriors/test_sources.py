"""Files of trained parameters."""

import numpy as np
import pytest

from bayesrecon.cli.inputs import open_release
from bayesrecon.errors import BayesreconError
from bayesrecon.models import load
from bayesrecon.posteriors import from_draws, save_trained


def test_a_trained_parameter_comes_back_from_its_file(folder):
    path, _ = folder
    release = open_release([str(path / "before.npz")])
    assert release.temperature == 0
    assert release.model.settings["penalty"] == 1.0
    assert release.model is open_release([str(path / "after.npz")]).model


def test_save_trained_refuses_draws_and_other_names(folder, tmp_path):
    path, _ = folder
    release = open_release([str(path / "before.npz")])
    with pytest.raises(BayesreconError, match=r"end in \.npz"):
        save_trained(release, tmp_path / "a.nc")


def test_one_number_stands_for_a_vector_of_one():
    """A column `beta` of a program whose vector has one entry."""
    model, rng = load("linear_predictor"), np.random.default_rng(0)
    coef, intercept = rng.normal(2, 0.1, (2, 50)), rng.normal(1, 0.1, (2, 50))
    flat = from_draws({"coef": coef, "intercept": intercept}, model)
    whole = from_draws({"coef": coef[..., None, None], "intercept": intercept[..., None]}, model)
    np.testing.assert_array_equal(flat.theta, whole.theta)

"""Files of trained parameters."""

import pytest

from bayesrecon.cli.inputs import open_release
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import save_trained


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

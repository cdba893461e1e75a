"""Draws as JSON: what NumPyro's `get_samples()` gives, and ArviZ's groups."""

import json

import numpy as np
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors.formats import read_contents, read_draws

pytestmark = pytest.mark.small

RNG = np.random.default_rng(3)
COEF, SIGMA = RNG.normal(size=(2, 50, 3)), RNG.gamma(5, size=(2, 50))


def written(path, **content):
    path.write_text(json.dumps({k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in content.items()}))
    return path


def test_samples_of_all_chains_together(tmp_path):
    path = written(tmp_path / "samples.json", coef=COEF.reshape(100, 3), sigma=SIGMA.ravel())
    draws = read_draws(path)
    np.testing.assert_array_equal(draws.values["coef"][0], COEF.reshape(100, 3))
    np.testing.assert_array_equal(draws.values["sigma"][0], SIGMA.ravel())
    assert "one chain of 100 draws" in read_contents(path).notes[0]


def test_samples_by_chain(tmp_path):
    path = written(tmp_path / "samples.json", coef=COEF, sigma=SIGMA, potential_energy=SIGMA)
    draws = read_draws(path)
    np.testing.assert_array_equal(draws.values["coef"], COEF)
    np.testing.assert_array_equal(draws.log_density, -SIGMA)


def test_a_vector_alone_is_one_chain(tmp_path):
    assert read_draws(written(tmp_path / "samples.json", coef=COEF[0])).values["coef"].shape == (1, 50, 3)


def test_groups_of_arviz(tmp_path):
    az = pytest.importorskip("arviz")
    if "InferenceData" not in vars(az):
        pytest.skip("ArviZ 1 writes no JSON")
    fit = az.from_dict({"coef": COEF, "sigma": SIGMA}, observed_data={"y": np.arange(5.0)})
    fit.to_json(str(tmp_path / "fit.json"))
    np.testing.assert_array_equal(read_draws(tmp_path / "fit.json").values["coef"], COEF)
    (data,) = read_contents(tmp_path / "fit.json").group("observed_data")
    np.testing.assert_array_equal(data.values, np.arange(5.0))
    assert audit(str(tmp_path / "fit.json")).severity == "high"


def test_the_layout_of_posteriordb_is_read_as_ever(tmp_path):
    path = tmp_path / "draws.json"
    path.write_text('[{"mu": [1.0, 2.0]}, {"mu": [3.0, 4.0]}]')
    assert read_draws(path).values["mu"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{}", "no lists of draws"),
        ('{"mu": "text"}', "no lists of draws"),
        ('{"mu": [1, 2], "tau": [1, 2, 3]}', "'tau' has"),
        ('{"mu": [[1, 2], [1]]}', "not all equally long"),
        ('{"mu": [1, 2]', "cannot be read"),
        ('{"mu": [1], "mu": [2]}', "twice"),
    ],
)
def test_bad_json_is_refused(tmp_path, text, match):
    (tmp_path / "a.json").write_text(text)
    refused(match, read_draws, tmp_path / "a.json")

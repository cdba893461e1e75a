"""Accounts of what samplers write: a name and values that such a statistic can have."""

import hiding
import numpy as np
import pytest
import xarray as xr

from bayesrecon.auditing.accounts.sampler import is_metric, is_statistic
from bayesrecon.auditing.accounts.texts import is_known
from bayesrecon.auditing.audit import audit

AGES = np.array([[41.0, 17.0, 63.0, 28.0, 35.0, 52.0, 71.0, 44.0, 39.0, 58.0]])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("scaling", [[1.0, 1.0, 0.9, 0.99, 0.495]]),
        ("nstep_in", [[0, 3, 7, 2, 0]]),
        ("transformation_index", [[0, 1, 1, 2, 5]]),
        ("has_divergence", [[False] * 9 + [True]]),
        ("log_accept_ratio", [[-0.1, -0.73, -0.02, 0.0, -1.31]]),
    ],
)
def test_statistics_and_data_under_their_names(name, values):
    assert is_statistic(name, np.array(values))
    assert not is_statistic(name, AGES + 0.37) or name == "log_accept_ratio"


def test_a_metric_is_one_for_a_chain():
    assert is_metric("mass_matrix_inv", np.tile([[[3.1, 0.4]]], (2, 9, 1)))
    assert not is_metric("mass_matrix_inv", AGES.reshape(1, 5, 2))
    assert not is_metric("weights", np.ones((2, 9, 2)))


def test_settings_of_a_sampler_are_few_round_numbers():
    settings = {"num_tune": 200, "step": {"target_accept": 0.8, "max_step_size": np.pi}, "store": False}
    assert is_known("sampler_settings", settings)
    assert not is_known("sampler_settings", {**settings, "ages": [41.37, 17.22]})
    assert not is_known("sampler_settings", {**settings, "ages": list(range(80))})
    assert is_known("sampler", "nuts-rs")
    assert not is_known("sampler", "Ann")


def fit(**more):
    rng = np.random.default_rng(0)
    coef, sigma = rng.normal(size=(2, 100, 2)), rng.gamma(9, size=(2, 100))
    draw = ("chain", "draw")
    posterior = xr.Dataset({"coef": ((*draw, "term"), coef), "sigma": (draw, sigma)})
    free = np.concatenate([coef, np.log(sigma)[..., None]], axis=-1)
    stats = {"unconstrained_draw": ((*draw, "free"), free)} | {
        k: ((*draw, f"{k}_dim_0"), v(free)) for k, v in more.items()
    }
    names = {"free": ["coef_0", "coef_1", "sigma_log__"]}
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": xr.Dataset(stats, names)})


def test_draws_in_coordinates_of_the_sampler_follow_from_the_draws():
    found = audit(fit())
    assert not found.unrecognised
    assert found.severity == "low"


def test_rows_behind_a_logarithm_are_found_beside_others():
    """Columns of one array may be combinations after different functions."""
    rows = np.column_stack([np.ones(8), AGES[0, :8]])
    found = audit(fit(mean=lambda v: np.concatenate([v[..., :1], np.exp(v[..., :2] @ rows.T / 50)], axis=-1)))
    assert any(f.severity == "high" and "sample_stats/mean" in f.where for f in found.findings)


@pytest.mark.slow
def test_statistics_beside_parameters_in_formats_without_groups():
    rng = np.random.default_rng(0)
    draws = {"coef": hiding.DRAWS["coef"], "sigma": hiding.DRAWS["sigma"]}
    shape = draws["sigma"].shape
    more = {"leapfrogs_taken": rng.integers(1, 8, shape), "log_likelihood": rng.normal(size=shape)}
    found = audit({**draws, **more}, hiding.model(), remedies=False)
    assert found.unrecognised == ("posterior/log_likelihood",)

"""Numbers near the largest end no audit, and are not cleared by one that cannot work with them."""

import numpy as np
import pytest
import xarray as xr

import bayesrecon

RNG = np.random.default_rng(0)
BETA, SIGMA = 1.7e308 * RNG.uniform(-1, 1, (2, 60, 2)), 1.7e308 * RNG.uniform(0.1, 1, (2, 60))


@pytest.mark.parametrize("model", [None, "kidscore_momiq"])
def test_warnings_are_errors_here(tmp_path, model):
    path, named = tmp_path / "fit.nc", ("chain", "draw", "k")
    xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"beta": (named, BETA), "sigma": (named[:2], SIGMA)}),
            "sample_stats": xr.Dataset({"lp": (named[:2], SIGMA)}),
            "log_likelihood": xr.Dataset({"y": (("chain", "draw", "i"), BETA)}),
        }
    ).to_netcdf(path)
    found = bayesrecon.audit(path, model)
    assert found.verdict == "incomplete"
    assert any("computing with its numbers failed" in one.reason for one in found.not_run)

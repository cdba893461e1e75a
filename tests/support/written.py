"""Draws that every reader is asked to bring back, and complaints in one line."""

import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.draws import Draws

RNG = np.random.default_rng(20)


CHAINS, DRAWS = 3, 7


SIGMA = RNG.normal(size=(CHAINS, DRAWS))
BETA = RNG.normal(size=(CHAINS, DRAWS, 2, 3))
LP = RNG.normal(size=(CHAINS, DRAWS))


def refused(match, read, *args, **options):
    """`read` must complain in one line that matches."""
    with pytest.raises(BayesreconError, match=match) as caught:
        read(*args, **options)
    assert "\n" not in str(caught.value)


def hdf5_fit(path, mu, **more):
    """A netCDF file of two chains of thirty draws, written without xarray; more arrays at its root."""
    import h5py

    with h5py.File(path, "w") as file:
        posterior = file.create_group("posterior")
        for key, size in (("chain", 2), ("draw", 30)):
            posterior[key] = np.arange(size)
            posterior[key].make_scale(key)
        posterior["mu"] = mu
        along(posterior, "mu")
        for name, values in more.items():
            file[name] = values
    return path


def along(posterior, name):
    """An array of the group is one of chains and draws."""
    posterior[name].dims[0].attach_scale(posterior["chain"])
    posterior[name].dims[1].attach_scale(posterior["draw"])


def same(draws, log_density=LP):
    np.testing.assert_array_equal(draws.values["sigma"], SIGMA)
    np.testing.assert_array_equal(draws.values["beta"], BETA)
    assert draws.values.keys() == {"sigma", "beta"}
    assert all(value.dtype == np.float64 for value in draws.values.values())
    if log_density is None:
        assert draws.log_density is None
    else:
        np.testing.assert_array_equal(draws.log_density, log_density)


def draws_or_complaint(read, *args):
    try:
        result = read(*args)
    except BayesreconError as error:
        result = str(error)
    assert isinstance(result, Draws) or "\n" not in result

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

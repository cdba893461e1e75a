"""Draws in memory as DataFrames."""

import numpy as np
import pandas as pd
import pytest
from written import refused

from bayesrecon.auditing.audit import audit
from bayesrecon.posteriors.conversion import release_of
from bayesrecon.posteriors.formats import read_contents, read_draws

pytestmark = pytest.mark.small

RNG = np.random.default_rng(5)
VALUES = RNG.normal(size=(40, 3))


def frame():
    made = pd.DataFrame(VALUES, columns=["beta[1]", "beta[2]", "sigma"])
    made["sigma"] = np.exp(made["sigma"])
    made["lp__"] = -np.arange(40.0)
    made[".chain"], made[".iteration"], made[".draw"] = (
        np.repeat([1, 2], 20),
        np.tile(np.arange(20) + 1, 2),
        range(1, 41),
    )
    return made


def test_draws_of_posterior():
    draws = read_draws(frame())
    np.testing.assert_array_equal(draws.values["beta"].reshape(40, 2), VALUES[:, :2])
    np.testing.assert_array_equal(draws.log_density.ravel(), -np.arange(40.0))
    assert release_of(frame(), "kidscore_momiq").size == 40


def test_an_index_of_chain_and_draw():
    index = pd.MultiIndex.from_product([range(2), range(20)], names=["chain", "draw"])
    draws = read_draws(pd.DataFrame(VALUES, columns=["a", "b", "c"], index=index))
    np.testing.assert_array_equal(draws.values["b"], VALUES[:, 1].reshape(2, 20))


def test_other_columns_of_the_frame_are_audited():
    made = frame()
    made["name"] = [a + b for a in "ABDEFGHK" for b in ("nn", "ea", "li", "us", "orr")]
    assert "columns/name" in {variable.where for variable in read_contents(made).variables}
    assert any("columns/name" in finding.where for finding in audit(made).findings)


def test_frames_without_draws_are_refused():
    refused("without rows", read_draws, frame()[:0])
    refused("without columns of numbers", read_draws, frame()[[".chain", ".draw"]])
    refused("cannot read draws from", read_draws, pd.DataFrame({"term": ["a"], "estimate": [1.0], "se": [0.1]}))

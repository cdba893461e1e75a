"""Pairs that hold what somebody had."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import bayesrecon
from bayesrecon.errors import BayesreconError


def test_a_pair_of_fits_is_read():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x @ [1.0, -2.0] + rng.normal(size=60)
    before, after = Ridge().fit(x, y), Ridge().fit(x[1:], y[1:])
    attack = bayesrecon.HRec(public={"x": x[30:], "y": y[30:]})
    given, read = bayesrecon.types.Deletion(before, after), bayesrecon.deletion(before, after)
    found, expected = (bayesrecon.reconstruct(pair, attack=attack).record for pair in (given, read))
    np.testing.assert_allclose(found["x"], expected["x"])
    known = {"candidates": {"x": x[:5], "y": y[:5]}, "public": {"x": x[30:], "y": y[30:]}}
    found, expected = (bayesrecon.infer_deletion(pair, **known).probability for pair in (given, read))
    np.testing.assert_allclose(found, expected)


def test_one_release_or_bad_candidates_are_refused():
    rng = np.random.default_rng(0)
    release = bayesrecon.posteriors.from_sklearn(Ridge().fit(rng.normal(size=(9, 2)), rng.normal(size=9)))
    with pytest.raises(BayesreconError, match=r"deletion\(before, after\), not a TrainedParameter"):
        bayesrecon.infer_deletion(release, release)
    other = bayesrecon.posteriors.from_sklearn(Ridge().fit(rng.normal(size=(9, 2)), rng.normal(size=9)))
    with pytest.raises(BayesreconError, match=r"candidates are a mapping of fields to values \(fields: x, y\)"):
        bayesrecon.infer_deletion(bayesrecon.deletion(release, other), np.zeros((4, 2)))


def test_a_pair_is_no_member_of_a_pair():
    rng = np.random.default_rng(0)
    first, second = (
        bayesrecon.posteriors.from_sklearn(Ridge().fit(rng.normal(size=(9, 2)), rng.normal(size=9))) for _ in range(2)
    )
    pair = bayesrecon.deletion(first, second)
    for name, members in (("before", (pair, second)), ("after", (first, pair))):
        with pytest.raises(BayesreconError, match=f"{name} is trained parameters around a deletion; supply"):
            bayesrecon.deletion(*members)

"""Weights of given records."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayesrecon.attacks.pseudodata.descent import nonnegative
from bayesrecon.errors import BayesreconError


@pytest.mark.parametrize("total", [None, 6.0])
@pytest.mark.parametrize("records", range(4))
@pytest.mark.parametrize("features", range(3))
def test_weights_match_what_is_visible_whatever_the_numbers_of_records_and_features(features, records, total):
    seen = np.eye(records, features)
    stated = SimpleNamespace(root=np.eye(features), matched=2 * np.ones(features), at=lambda _: seen)
    if total and not records:
        with pytest.raises(BayesreconError, match="total=6"):
            nonnegative(stated, {}, total)
        return
    weights = nonnegative(stated, {}, total)
    assert weights.shape == (records,)
    assert (weights >= 0).all()
    if total:
        assert weights.sum() == pytest.approx(6)
    else:
        assert weights == pytest.approx(2 * (np.arange(records) < features))
    if not features:
        assert np.ptp(weights) == 0 if records else True

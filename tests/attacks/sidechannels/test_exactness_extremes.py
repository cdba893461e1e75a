"""Values near the largest numbers, and constants, are looked at without an error."""

import numpy as np

from bayesrecon.attacks.sidechannels.exactness import exact_in


def test_features_and_columns_that_overflow_are_no_relations():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    far = x[:, 0] * 1e300
    features = np.column_stack([x, far, np.where(x[:, 0] > 0, np.inf, 1.0)])
    columns = np.column_stack([2 * x[:, 0] - x[:, 1], rng.normal(size=200), np.exp(700 * np.abs(x[:, 2]).clip(0, 1))])
    found = exact_in(features, columns, rng)
    assert found is not None
    assert found.exact.tolist() == [True, False, False]
    assert np.allclose(found.loadings[0][:3], [2, -1, 0], atol=1e-6)

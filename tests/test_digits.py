"""Numbers as they are printed."""

import numpy as np

from bayesrecon.digits import round_to


def test_rounding_is_that_of_printing():
    values = np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)
    np.testing.assert_array_equal(round_to(values, 6), [float(f"{v:.6g}") for v in values])

"""How numbers were written."""

import numpy as np
import pytest

from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.digits import decimal_step, round_to


@pytest.mark.parametrize("digits", [1, 3, 6, 9])
def test_digits_are_found(digits):
    values = np.random.default_rng(0).normal(-1800, 3, 500)
    found = resolution(round_to(values, digits))
    assert found.digits == digits or (digits == 1 and found.digits == 1)
    np.testing.assert_allclose(found.step, decimal_step(values, digits))
    assert np.abs(round_to(values, digits) - values).max() <= found.step.max() / 2 * (1 + 1e-9)


def test_binary_precisions_are_told_apart():
    values = np.random.default_rng(0).normal(size=100)
    assert resolution(values).label == "double precision"
    assert resolution(values.astype(np.float32)).label == "single precision"
    assert resolution(np.zeros(5)).digits == 1

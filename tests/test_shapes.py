"""Annotations of arrays are checked while tests run (`tests/conftest.py`)."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from bayesrecon.attacks.sidechannels.regression import least_squares
from bayesrecon.divergence.metric_view import unwhitened
from bayesrecon.estimation.deviation import whitener


def test_a_wrong_shape_is_noticed():
    with pytest.raises(TypeCheckError):
        unwhitened(np.eye(3), np.ones((4, 2)), 1.0)
    with pytest.raises(TypeCheckError):
        whitener(np.ones((3, 2)))
    with pytest.raises(TypeCheckError):
        least_squares(np.ones((4, 2)), np.ones(5), np.ones(4))

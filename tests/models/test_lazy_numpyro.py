"""Shipped models load NumPyro when a program runs, and can be sent to other processes."""

import cloudpickle
import numpy as np
import pytest

from bayesrecon.models.registry import load


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kidscore_momiq", "eight_schools_noncentered", "sir"])
def test_a_shipped_model_comes_back_from_another_process(name):
    model = load(name)
    again = cloudpickle.loads(cloudpickle.dumps(model))
    theta = np.zeros(model.dimension)
    assert again.log_prior(theta) == model.log_prior(theta)

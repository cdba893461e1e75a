"""A release for attacks on records."""

import numpy as np
import pytest
from answered import answers

from bayesrecon.types import PosteriorDraws


@pytest.fixture(scope="session")
def loose():
    """Draws that belong to no data: what is checked holds for any."""
    model, rng = answers(4, 3), np.random.default_rng(1)
    theta = rng.normal(0, 0.3, (60, model.dimension))
    return PosteriorDraws(theta, model, np.full(60, 1 / 60), np.zeros(60, int))

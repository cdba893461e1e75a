import numpy as np
import pytest

from bayesrecon.posteriors.approximated.normal import rule, student
from bayesrecon.types import GaussianPredictor

REGRESSION = GaussianPredictor((0, 1, 2), lambda beta, z: (0, 0, 0), scale=3)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize(("d", "gaussian"), [(1, None), (2, None), (3, None), (5, None), (4, REGRESSION)])
def test_mean_and_covariance_are_exact(d, gaussian, other):
    nodes, weights = rule(d, gaussian, other=other)
    assert weights.sum() == pytest.approx(1)
    assert np.allclose(weights @ nodes, 0, atol=1e-12)
    assert np.allclose((nodes * weights[:, None]).T @ nodes, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("other", [False, True])
def test_a_regression_is_exact(other):
    # E[exp(-2 c e0) e1^2] = exp(2 c^2)
    nodes, weights = rule(4, REGRESSION, other=other)
    assert weights @ (np.exp(-0.6 * nodes[:, 0]) * nodes[:, 1] ** 2) == pytest.approx(np.exp(0.18), rel=1e-12)


def test_moments_of_the_t_law():
    nodes, log_t = student(3, 8.0, 2**13)
    weights = np.exp(-0.5 * (nodes**2).sum(axis=1) - log_t)
    weights /= weights.sum()
    assert np.allclose(weights @ nodes, 0, atol=3e-3)
    assert np.allclose((nodes * weights[:, None]).T @ nodes, np.eye(3), atol=1e-2)

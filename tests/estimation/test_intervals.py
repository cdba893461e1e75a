import numpy as np
import pytest

from bayesrecon.estimation.intervals import EquationErrors, farthest


def test_the_farthest_point():
    delta = farthest(np.array([1.0, 2.0]), np.array([[1.0, 1.0]]), np.array([0.5]), 1.0)
    assert delta == pytest.approx([1.0, -0.5])
    assert farthest(np.ones(2), np.array([[1.0, 1.0]]), np.array([3.0]), 1.0) is None


def test_without_any_error_equations_hold_or_do_not():
    for count in (0, 2):
        assert farthest(np.zeros(0), np.zeros((count, 0)), np.zeros(count), 1.0).shape == (0,)
    assert farthest(np.zeros(0), np.zeros((2, 0)), np.array([0.0, 0.1]), 1.0) is None


def test_ends_of_a_ratio():
    # (1 + d1) / (2 + d2) over the square
    errors = EquationErrors(np.zeros((2, 0)), np.diag([0.1, 0.2]), np.zeros((2, 0)), np.zeros((0, 2)), np.zeros(0))

    def moved(change):
        a, b = 1 + change[0], 2 + change[1]
        return a / b, np.array([1 / b, -a / b**2])

    low, high = errors.ends(0.5, np.array([0.5, -0.25]), moved)
    assert (low, high) == pytest.approx((0.9 / 2.2, 1.1 / 1.8))


def test_ends_under_sampling_noise():
    errors = EquationErrors(np.eye(1), np.zeros((1, 0)), np.zeros((1, 0)), np.zeros((0, 0)), np.zeros(0))
    low, high = errors.ends(3.0, np.array([2.0]), lambda change: (0.0, change))
    assert (low, high) == pytest.approx((3 - 3.92, 3 + 3.92), abs=1e-2)


def test_ends_of_a_variance_near_its_largest():
    """p (1 - p) at 0.49, moved by up to 0.05: the largest value lies inside, the smallest at the nearer end."""
    errors = EquationErrors(np.zeros((1, 0)), np.full((1, 1), 0.05), np.zeros((1, 0)), np.zeros((0, 1)), np.zeros(0))

    def moved(change):
        p = 0.49 + change[0]
        return p * (1 - p), np.array([1 - 2 * p])

    low, high = errors.ends(0.49 * 0.51, np.array([0.02]), moved)
    assert low == pytest.approx(0.44 * 0.56)
    assert 0.25 - 1e-12 <= high < 0.2505

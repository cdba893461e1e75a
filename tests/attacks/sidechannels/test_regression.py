"""Regression on rounded values."""

import numpy as np
from scipy.optimize import linprog

from bayesrecon.attacks.sidechannels.regression import least_squares, rounded


def problem(count=60, step=0.1, seed=0):
    rng = np.random.default_rng(seed)
    design, truth = rng.normal(size=(count, 3)), np.array([1.0, -2.0, 0.5])
    values = np.round((7 + design @ truth) / step) * step
    return design, values, np.full(count, step), truth


def test_the_centre_lies_in_the_polytope_and_the_truth_beside_it():
    design, values, step, truth = problem()
    found = rounded(design, values, step, np.random.default_rng(1))
    assert found.bounded
    free = values - design @ found.coefficients
    assert np.ptp(free) <= 0.1 * (1 + 1e-9)
    # Every coordinate of truth and centre lies between the polytope's ends, which a linear program finds.
    matrix = np.column_stack([np.ones(len(values)), design])
    for k in range(3):
        ends = []
        for sign in (1, -1):
            c = np.zeros(4)
            c[k + 1] = sign
            bounds = np.concatenate([values + 0.05, 0.05 - values])
            done = linprog(c, A_ub=np.concatenate([matrix, -matrix]), b_ub=bounds, bounds=(None, None))
            ends.append(sign * done.fun)
        assert ends[0] <= found.coefficients[k] <= ends[1]
        assert ends[0] <= truth[k] <= ends[1]
        assert 0.05 < np.sqrt(found.covariance[k, k]) / (ends[1] - ends[0]) < 0.5


def test_rounded_values_beat_least_squares():
    errors = {"bounded": [], "squares": []}
    for seed in range(20):
        design, values, step, truth = problem(600, seed=seed)
        errors["bounded"].append(rounded(design, values, step).coefficients - truth)
        errors["squares"].append(least_squares(design, values, step / np.sqrt(12)).coefficients - truth)
    rms = {k: np.sqrt(np.mean(np.square(v))) for k, v in errors.items()}
    assert rms["bounded"] < 0.6 * rms["squares"]


def test_values_outside_their_intervals_are_near_least_squares():
    design, values, step, truth = problem()
    values = values + np.random.default_rng(3).normal(0, 1, len(values))
    found, plain = rounded(design, values, step, np.random.default_rng(1)), least_squares(design, values, step)
    assert not found.bounded
    assert found.misfit > 10
    error = np.sqrt(np.diag(found.covariance)).max()
    assert np.abs(found.coefficients - truth).max() < 5 * error
    assert np.abs(found.coefficients - plain.coefficients).max() < error


def test_a_little_noise_before_rounding_costs_little():
    errors = {"widened": [], "squares": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        design, truth = rng.normal(size=(600, 3)), np.array([1.0, -2.0, 0.5])
        values = np.round((7 + design @ truth + 0.003 * rng.normal(size=600)) / 0.1) * 0.1
        step = np.full(600, 0.1)
        errors["widened"].append(rounded(design, values, step).coefficients - truth)
        errors["squares"].append(least_squares(design, values, step / np.sqrt(12)).coefficients - truth)
    rms = {k: np.sqrt(np.mean(np.square(v))) for k, v in errors.items()}
    assert rms["widened"] < 0.75 * rms["squares"]


def test_a_start_changes_nothing():
    design, values, step, truth = problem(600)
    one, other = rounded(design, values, step), rounded(design, values, step, start=truth)
    np.testing.assert_allclose(one.coefficients, other.coefficients, atol=1e-6)

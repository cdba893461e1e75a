"""Attacks on log densities, pointwise log likelihoods and predictive draws, against SciPy and the true records."""

import fits
import numpy as np
import pytest
from scipy.optimize import linprog

from bayesrecon.attacks.sidechannels.columns import summarise_columns
from bayesrecon.attacks.sidechannels.densities import recover_from_log_density
from bayesrecon.attacks.sidechannels.preimage import invert_columns, linear_response, standard_errors
from bayesrecon.attacks.sidechannels.regression import least_squares, rounded
from bayesrecon.attacks.sidechannels.resolution import decimal_step, resolution, round_to
from bayesrecon.auditing.scoring import column_of, match_records
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.evaluate import clopper_pearson, true_statistics
from bayesrecon.models import load
from bayesrecon.posteriors import Draws, from_draws
from bayesrecon.precision import x64

MODEL = load("kidscore_momiq")
DATA = fits.records()
DRAWS = fits.draws(DATA)


def release(digits=None, count=None, model=MODEL):
    values = {k: v[:, :count] for k, v in DRAWS.items()}
    density = fits.lp(DATA, values)
    return from_draws(Draws(values, round_to(density, digits) if digits else density), model)


# How numbers were written


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


def test_rounding_is_that_of_printing():
    values = np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)
    np.testing.assert_array_equal(round_to(values, 6), [float(f"{v:.6g}") for v in values])


# Regression on rounded values


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


# Log densities


def test_full_precision_is_exact_from_rank_plus_two_draws():
    truth = true_statistics(MODEL, DATA)
    found = recover_from_log_density(release(count=4))  # eight draws, rank six
    assert (found.rank, found.gap, found.draws) == (6, True, 8)
    assert round(found["n"].estimate) == fits.SIZE
    for row in found.rows:
        assert row.estimate == pytest.approx(truth[row.name], rel=1e-5)
    with pytest.raises(BayesreconError, match="6 log densities cannot settle 6 features"):
        recover_from_log_density(release(count=3))


@pytest.mark.parametrize("digits", [6, 8])
def test_errors_of_rounded_densities_are_honest(digits):
    truth = true_statistics(MODEL, DATA)
    found = recover_from_log_density(release(digits))
    assert found.bounded
    assert found.resolution.digits == digits
    assert 0.9 < found.misfit < 1.1
    for row in found.rows:
        assert abs(row.estimate - truth[row.name]) < 4.5 * row.se
    assert found["n"].se < 10.0 ** (4 - digits)


@pytest.mark.slow
def test_what_remedies_leave_is_predicted():
    """Numbers of different make, rounded and thinned: predicted, and the attack's error about the truth."""
    truth = true_statistics(MODEL, DATA)
    for given, plans in (
        (release(8), ((None, 6), (None, 4), (100, None))),
        (single(), ((None, 6), (None, 4), (100, None))),
    ):
        found = recover_from_log_density(given)
        exact = np.array([truth[name] for name in found.names])
        for count, digits in plans:
            tried = found.tried(count, digits, np.random.default_rng(0))
            left = np.sqrt(np.mean((tried.estimates - exact) ** 2, axis=0))
            # Thinning renews no error: the file's own six hundred are one draw.
            np.testing.assert_allclose(tried.predicted, left, rtol=0.4 if count else 0.25)


def single():
    """Log densities as a sampler in single precision computes them, with errors beyond the last bit."""
    given = release()
    exact = np.asarray(given.log_density)
    errors = 4 * np.spacing(np.abs(exact).astype(np.float32)) * np.random.default_rng(4).normal(size=exact.shape)
    return from_draws(Draws(DRAWS, (exact + errors).astype(np.float32).astype(float).reshape(2, -1)), MODEL)


def test_errors_of_arithmetic_come_from_the_residuals():
    truth = true_statistics(MODEL, DATA)
    found = recover_from_log_density(single())
    assert found.resolution.label == "single precision"
    z = [(row.estimate - truth[row.name]) / row.se for row in found.rows]
    assert 0.2 < np.sqrt(np.mean(np.square(z))) < 2.5  # five statistics that share their errors


def test_another_models_density_does_not_fit():
    other = release(8)
    density = np.asarray(other.log_density) + 3 * np.sin(10 * np.asarray(other.theta)[:, 0])
    found = recover_from_log_density(other, log_density=np.round(density, 5))
    assert found.misfit > 100
    assert not found.bounded


def test_densities_that_cannot_be_used():
    plain = from_draws(DRAWS, MODEL)
    with pytest.raises(BayesreconError, match="carries no log densities"):
        recover_from_log_density(plain)
    with pytest.raises(BayesreconError, match="shape"):
        recover_from_log_density(plain, log_density=np.zeros(3))
    with pytest.raises(BayesreconError, match="missing or infinite"):
        recover_from_log_density(plain, log_density=np.full(plain.size, np.nan))


def test_energies_are_a_regression_with_errors():
    given = release()
    rng = np.random.default_rng(5)
    energy = -np.asarray(given.log_density) + rng.chisquare(3, given.size) / 2
    found = recover_from_log_density(given, log_density=-energy, kinetic=True)
    truth = true_statistics(MODEL, DATA)
    assert not found.bounded
    row = found["n"]
    assert 1 < row.se < 200
    assert abs(row.estimate - truth["n"]) < 4.5 * row.se


# Records from their columns


def located():
    mean = {k: np.array(v.mean()) for k, v in DATA.items()}
    return Reference(MODEL.fields).recentred(mean, {k: np.array(v.std()) for k, v in DATA.items()})


def columns(digits):
    theta = np.asarray(release().theta)
    values = fits.log_lik(DATA, DRAWS).reshape(len(theta), -1).T
    return theta, round_to(values, digits)


def test_every_record_comes_back_from_its_column():
    theta, values = columns(6)
    with x64():
        found = invert_columns(MODEL, theta, values, resolution(values).sd, located(), np.random.default_rng(0))
    z = []
    for field, true in DATA.items():
        assert np.abs(found.records[field] - true).max() < 0.01
        z.append((found.records[field] - true) / found.se[field])
    assert 0.8 < np.std(z) < 1.25
    assert not found.ambiguous.any()
    assert np.abs(found.misfit - 1).max() < 0.3


@pytest.mark.slow
def test_errors_of_columns_are_predicted():
    theta, values = columns(12)
    rng = np.random.default_rng(0)
    chosen = np.arange(fits.SIZE)
    with x64():
        found = invert_columns(MODEL, theta, values, resolution(values).sd, located(), rng)
        coarse = round_to(values, 5)
        noise = decimal_step(coarse, 5) / np.sqrt(12)
        again = invert_columns(MODEL, theta, coarse, noise, located(), rng)
        se = standard_errors(MODEL, theta, found, chosen, noise, located())
        moved = linear_response(MODEL, theta, found, chosen, coarse - values, located())
    for field in DATA:
        error = again.records[field] - found.records[field]
        assert 0.8 < np.sqrt(np.mean((error / se[field]) ** 2)) < 1.25
        np.testing.assert_allclose(moved[field], error, atol=0.1 * np.std(error))


@pytest.mark.slow
def test_levels_are_enumerated():
    model = load("logistic_regression", covariates=("a", "b"), response="y")
    rng = np.random.default_rng(0)
    true = {"a": rng.normal(size=30), "b": rng.normal(size=30), "y": rng.integers(0, 2, 30)}
    draws_ = {"alpha": rng.normal(0.3, 0.2, (1, 200)), "beta": rng.normal([1, -1], 0.2, (1, 200, 2))}
    theta = np.asarray(from_draws(draws_, model).theta)
    eta = draws_["alpha"][0, :, None] + draws_["beta"][0] @ np.stack([true["a"], true["b"]])
    values = round_to(-np.logaddexp(0, np.where(true["y"], -eta, eta)).T, 6)
    reference = Reference(model.fields).recentred({"a": np.zeros(()), "b": np.zeros(())}, {"a": 1.0, "b": 1.0})
    with x64():
        found = invert_columns(model, theta, values, resolution(values).sd, reference, rng)
    np.testing.assert_array_equal(found.records["y"], true["y"])
    for field in "ab":
        assert np.abs(found.records[field] - true[field]).max() < 0.01


@pytest.mark.slow
def test_the_design_comes_back_from_predictions():
    theta = np.asarray(release().theta)
    simulated = fits.replicated(DATA, DRAWS).reshape(len(theta), -1).T
    with x64():
        found = invert_columns(
            MODEL,
            theta,
            {"kid_score": simulated},
            np.ones(simulated.shape),
            located(),
            np.random.default_rng(0),
            likelihood=True,
            starts=3,
        )
    assert list(found.records) == ["mom_iq"]
    z = (found.records["mom_iq"] - DATA["mom_iq"]) / found.se["mom_iq"]
    assert 0.7 < z.std() < 1.4
    assert np.corrcoef(found.records["mom_iq"], DATA["mom_iq"])[0, 1] > 0.95


def test_columns_without_a_model():
    values = fits.log_lik(DATA, DRAWS).reshape(-1, fits.SIZE)
    values[:, 7] = values[:, 3]
    values[:, 11] -= 40
    found = summarise_columns(values)
    assert found.count == fits.SIZE
    assert (3, 7) in found.groups
    assert found.identical >= 2
    assert 11 in found.outliers
    assert found.rank >= 4


# Scores


def test_records_are_matched_one_to_one():
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=80), "y": rng.normal(size=80)}
    order = rng.permutation(80)
    score = match_records({k: v[order] for k, v in data.items()}, data)
    assert (score.matched, score.total, score.share, score.upper) == (80, 80, 1.0, 1.0)
    assert score.null < 0.2
    # Eighty guesses of one and the same record are one match.
    assert match_records({k: np.full(80, v[0]) for k, v in data.items()}, data).matched == 1
    nothing = match_records({k: v + 50 for k, v in data.items()}, data)
    assert (nothing.matched, nothing.lower) == (0, 0.0)


def test_exact_binomial_interval():
    _, lower, upper = clopper_pearson(8, 10)
    assert (lower, upper) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert clopper_pearson(0, 10).lower == 0
    assert clopper_pearson(10, 10).upper == 1


def test_private_columns_are_recognised_in_any_order():
    private = {"age": np.arange(20.0) ** 1.5, "name": np.array([f"p{i}" for i in range(20)])}
    assert column_of(private["age"][::-1], private) == "age"
    assert column_of(private["name"][::-1], private) == "name"
    assert column_of(np.arange(20.0), private) is None
    assert column_of(np.arange(20.0), None) is None

"""Attacks on the log densities of draws, against SciPy and the true totals."""

import fits
import numpy as np
import pytest
from kidscore import DATA, DRAWS, MODEL, release

from bayesrecon.attacks.sidechannels.released_log_densities import recover_from_log_density
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import true_statistics
from bayesrecon.posteriors import Draws, from_draws


def test_full_precision_is_exact_from_rank_plus_two_draws():
    truth = true_statistics(MODEL, DATA)
    found = recover_from_log_density(release(count=4))  # eight draws, rank six
    assert (found.rank, found.gap, found.draws) == (6, True, 8)
    assert round(found["n"].estimate) == fits.SIZE
    for row in found.rows:
        assert row.estimate == pytest.approx(truth[row.name], rel=1e-5)
    with pytest.raises(BayesreconError, match="6 log densities do not determine 6 features"):
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
@pytest.mark.large
def test_what_remedies_leave_is_predicted():
    """Numbers of different make, rounded and thinned: predicted, and the attack's error about the truth."""
    truth = true_statistics(MODEL, DATA)
    for given, plans in (
        (release(8), ((None, 6), (None, 4), (100, None))),
        (single(), ((None, 4),)),
    ):
        found = recover_from_log_density(given)
        exact = np.array([truth[name] for name in found.names])
        for count, digits in plans:
            tries = [found.tried(count, digits, np.random.default_rng(seed)) for seed in range(3)]
            predicted = np.sqrt(np.mean([t.predicted**2 for t in tries], axis=0))
            left = np.sqrt(np.mean([(t.estimates - exact) ** 2 for t in tries], axis=(0, 1)))
            # Thinning renews no error: the file's own six hundred are one draw.
            np.testing.assert_allclose(predicted, left, rtol=0.4 if count else 0.2)


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
    with pytest.raises(BayesreconError, match="has no log densities"):
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

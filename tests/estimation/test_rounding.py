"""Digits that were cut are seen, and matter where they move totals by more than their errors."""

import jax
import numpy as np
import pytest

import bayesrecon
from bayesrecon.attacks.sidechannels.resolution import round_to
from bayesrecon.estimation.rounding import felt_rounding, rounding_steps
from bayesrecon.posteriors import from_draws, from_posteriordb


@pytest.mark.parametrize("digits", [2, 4, 6])
@pytest.mark.parametrize("single", [False, True])
def test_digits_are_counted(digits, single):
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(26, 2, 400), rng.normal(0.6, 0.05, 400)], axis=1)
    values = round_to(values, digits)
    found, step = rounding_steps(values.astype(np.float32).astype(float) if single else values)
    assert found.tolist() == [digits, digits]
    np.testing.assert_allclose(step, [10.0 ** (2 - digits), 10.0**-digits])


def test_full_precision_has_no_step():
    digits, step = rounding_steps(np.random.default_rng(0).normal(size=(50, 3)))
    assert not digits.any()
    assert not step.any()


@pytest.fixture(scope="module")
def printed(database):
    """4,000 draws of a posterior as they are printed with so many digits."""
    release = from_posteriordb("kidiq-kidscore_momiq", draws=4000)
    values = {k: np.asarray(v) for k, v in jax.vmap(release.model.constrain)(np.asarray(release.theta)).items()}

    def at(digits):
        rounded = {k: round_to(v, digits).reshape(4, -1, *v.shape[1:]) for k, v in values.items()}
        return from_draws(rounded, release.model)

    return at


def test_what_is_felt_determines_nothing(printed):
    (failure,) = bayesrecon.recover(printed(2)).failures
    assert failure.startswith("sigma is rounded to 2 digits, steps of 1.")
    found = bayesrecon.recover(printed(2), force=True)["n"]
    assert found.verdict == "partly"
    assert abs(found.estimate - 434) > 6 * found.se  # and so it should not be believed


def test_what_is_not_felt_is_let_pass(printed):
    found = bayesrecon.recover(printed(4))
    assert found.consistent
    assert abs(found["n"].estimate - 434) < 4 * found["n"].se
    assert felt_rounding(printed(4), 4000) is None
    assert felt_rounding(printed(2), 4000)

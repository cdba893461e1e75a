import jax
import numpy as np
import pytest
from summaries import DATA, MODEL

from bayesrecon.posteriors.approximated.approximations import contrasts, evaluated
from bayesrecon.precision import x64


@pytest.mark.slow
def test_the_log_posterior_is_stationary_and_an_error_moves_it_by_itself():
    rng = np.random.default_rng(0)
    points = rng.normal([1, 0.5, 1], 0.1, (7, 3))
    with x64():

        def log_p(theta):
            return jax.vmap(MODEL.log_lik, (None, 0))(theta, DATA).sum() + MODEL.log_prior(theta) + MODEL.log_det(theta)

        exact, off = np.asarray(jax.jit(jax.vmap(log_p))(points)), rng.normal(size=7)
        slopes = []
        for values in (exact + 9, exact + off):
            derived = evaluated(MODEL, points, values)

            def total(e, derived=derived):
                return jax.vmap(derived.log_lik, (None, 0))(e, DATA).sum() + derived.log_prior(e)

            slopes.append(np.asarray(jax.jit(jax.grad(total))(np.zeros(7))))
    np.testing.assert_allclose(slopes[0], 0, atol=1e-10)
    np.testing.assert_allclose(slopes[1], off.mean() - off, atol=1e-10)


def test_contrasts_leave_the_constant_out():
    found = contrasts(6)
    np.testing.assert_allclose(found @ found.T, np.eye(6) - 1 / 6, atol=1e-14)

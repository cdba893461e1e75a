import jax
import jax.numpy as jnp
import numpy as np
import pytest
import summaries
import variational

import bayesrecon
from bayesrecon.divergence.score import total_score
from bayesrecon.estimation.ascent import stationary_mean
from bayesrecon.posteriors.approximated.fitted_distribution import phi_of
from bayesrecon.posteriors.approximated.normal import by_another_rule, whitening
from bayesrecon.posteriors.approximated.normal import variational as derived_of
from bayesrecon.precision import x64
from bayesrecon.types import Ascent, Noise, OptimisedFit

RATES = np.array([0.2, 0.5, 1.0, 1.0, 1.0, 2.0])


def wandering(rng, rate, count, start=0.0):
    r, x = np.exp(-rate * RATES), rng.normal(size=len(RATES)) + start
    points = [x]
    for _ in range(count - 1):
        x = r * x + np.sqrt(1 - r**2) * rng.normal(size=len(RATES))
        points.append(x)
    return np.array(points)


def test_the_mean_of_an_autoregression_and_its_error():
    rng = np.random.default_rng(0)
    for rate in (0.2, 1.0, 5.0):
        found = [stationary_mean(wandering(rng, rate, 20), RATES, np.ones(len(RATES))) for _ in range(100)]
        z = np.array([s.mean / s.error for s in found])
        assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2  # 600 of them, a fifth of them independent at worst
    assert np.median([s.freedom for s in found]) > 50


def test_points_that_have_not_come_to_rest():
    rng = np.random.default_rng(1)
    found = stationary_mean(wandering(rng, 0.3, 40, start=8.0), RATES, np.ones(len(RATES)))
    assert np.abs(found.mean / found.error).max() < 4


def test_too_few_points_tell_nothing():
    assert stationary_mean(np.zeros((3, 6)), RATES, np.ones(6)).freedom == 0
    assert stationary_mean(np.ones((9, 6)), RATES, np.ones(6)).freedom == 0


def raw(u):
    """phi of a mean and the entries of the Cholesky factor, the last coordinate first, as some optimisers move them."""
    lower, at = np.tril_indices(3), np.array([2, 1, 0])
    return phi_of(summaries.MODEL, u[:3][at], jnp.zeros((3, 3)).at[lower].set(u[3:])[at])


@pytest.mark.slow
@pytest.mark.large
def test_gradients_average_to_zero_in_what_was_moved():
    """Iterates wander about where they do, in the entries of the factor: the covariance is then too wide on average,
    and its own gradient does not average to zero."""
    start = summaries.mode(summaries.MODEL, summaries.DATA, summaries.start())
    mean, covariance = variational.optimum(summaries.MODEL, summaries.DATA, *start)
    with x64():
        derived, back = derived_of(summaries.MODEL), np.array([2, 1, 0])
        root = np.linalg.cholesky(covariance[np.ix_(back, back)])
        centre = np.concatenate([mean[back], root[np.tril_indices(3)]])
        size = 0.3 * np.sqrt(np.diag(covariance))[back][np.concatenate([np.arange(3), np.tril_indices(3)[0]])]
        points = centre + np.random.default_rng(0).normal(size=(16, 9)) * size

        def elbo(u):
            records = jax.vmap(derived.log_lik, in_axes=(None, 0))(raw(u), summaries.DATA)
            return records.sum() + derived.log_prior(raw(u))

        gradients, hessian = jax.jit(jax.vmap(jax.grad(elbo))), np.asarray(jax.jit(jax.hessian(elbo))(centre))
        for _ in range(30):
            points = points - np.linalg.solve(hessian, np.asarray(gradients(points)).mean(axis=0))
        slope = jax.jit(jax.jacfwd(raw))
        phis, at = np.array([np.asarray(raw(u)) for u in points]), np.asarray(slope(points.mean(axis=0)))
        turned = np.array([np.asarray(slope(u)) @ np.linalg.inv(at) for u in points])
        ascent, none = Ascent(np.zeros((9, 0)), at * size, phis, turned), np.zeros((9, 0))
        metric = whitening(summaries.MODEL, phis.mean(axis=0))

        scores = [np.asarray(total_score(derived, phi, summaries.DATA, np.ones(80))) for phi in phis]
        moved = np.mean([t.T @ g for t, g in zip(turned, scores, strict=True)], axis=0)
        assert np.abs(metric.T @ moved).max() < 1e-6
        assert np.abs(metric.T @ np.mean(scores, axis=0)).max() > 0.01
    atom, finer = phis.mean(axis=0)[None], by_another_rule(summaries.MODEL)
    found = bayesrecon.recover(OptimisedFit(atom, derived, metric, summaries.MODEL, Noise(none, none), ascent, finer))
    assert not found.failures
    for name, true in summaries.TRUTH.items():
        assert abs(found[name].estimate - true) < 3 * found[name].se

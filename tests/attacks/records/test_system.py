"""The structured solve against the dense one, and its errors."""

import dataclasses

import jax
import numpy as np
import pytest
from answered import design, parts

from bayesrecon.attacks.records.system import halves_of, make_system, solved, units_of
from bayesrecon.divergence.score import feature_gradients
from bayesrecon.models import load
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws


@pytest.mark.slow
def test_structured_kernel_is_the_dense_one(loose):
    """Colours, products per coordinate and sweeps give what full gradients and Hessians give, with the metric that
    holds each group of parameters given all others: abilities one by one, slope and difficulty of an item together."""
    with x64():
        rows, metric, slots = parts(loose, design(4, 3))
        assert slots.width == 3
        system = make_system(loose, slots, rows.base(), rows.pairs())
        model, precision = loose.model, np.linalg.inv(metric @ metric.T)
        sigma = np.zeros((10, 10))
        for own in [[i] for i in range(4)] + [[4 + i, 7 + i] for i in range(3)]:
            sigma[np.ix_(own, own)] = np.linalg.inv(precision[np.ix_(own, own)])
        gradients = np.stack([np.asarray(feature_gradients(model, t, rows.pairs())) for t in loose.theta])  # (T, M, d)
        np.testing.assert_allclose(
            system.gram, np.einsum("tnd,de,tme->nm", gradients, sigma, gradients) / 60, rtol=1e-10, atol=1e-12
        )

        def feature(t, known, base, other):
            return model.log_lik(t, {**known, **other}) - model.log_lik(t, {**known, **base})

        def base_posterior(t):
            own = jax.vmap(model.log_lik, (None, 0))(t, rows.base())
            return own.sum() + model.log_prior(t) + model.log_det(t)

        hessian = jax.jit(jax.vmap(jax.hessian(feature), (None, 0, 0, 0)))
        score = jax.jit(jax.grad(base_posterior))
        target = np.zeros(12)
        for t, g in zip(loose.theta, gradients, strict=True):
            target -= np.einsum("de,mde->m", sigma, hessian(t, *rows.pairs())) + g @ sigma @ np.asarray(score(t))
        np.testing.assert_allclose(system.target, target / 60, rtol=1e-9, atol=1e-10)
        # The influence averages to nothing at the solution, row by row.
        influence = system.influence(np.eye(12))
        np.testing.assert_allclose(influence.mean(axis=0), 0, atol=1e-7 * np.abs(influence).max())


@pytest.mark.slow
def test_features_that_say_the_same_are_solved_for_once():
    """Items of two and three categories: the third value of a binary item, given an odds of nothing, has the gradient
    of its second. Solved for both of them, the two coordinates add up to the one of the row."""
    model = load("gpcm_latent_reg_irt", persons=5, covariates=0, steps=(1, 2, 1))
    rng = np.random.default_rng(5)
    theta = rng.normal(0, 0.3, (80, model.dimension))
    release = PosteriorDraws(theta, model, np.full(80, 1 / 80), np.zeros(80, int))
    person, item = np.meshgrid(np.arange(1, 6), np.arange(1, 4))
    with x64():
        rows, _, slots = parts(release, {"person": person.ravel(), "item": item.ravel()})
        assert rows.distinct.tolist() == [[True, bool(i == 2)] for i in item.ravel()]
        system = make_system(release, slots, rows.base(), rows.pairs())
        twice = dataclasses.replace(rows, distinct=np.ones_like(rows.distinct))
        first = np.repeat(np.flatnonzero(np.nonzero(rows.distinct)[1] == 0), 2)
        slots = dataclasses.replace(slots, index=slots.index[first])  # the same metric
        both = make_system(release, slots, rows.base(), twice.pairs()).solution.reshape(-1, 2)
    found, three = rows.padded(system.solution), item.ravel() == 2
    np.testing.assert_allclose(both[~three].sum(axis=1), found[~three, 0], rtol=1e-6)
    # Of three categories partial credit shows the score of a row and how often each was given, not which row's.
    np.testing.assert_allclose(both[three] @ [1, 2], found[three] @ [1, 2], rtol=1e-6)
    np.testing.assert_allclose(both[three].sum(axis=0), found[three].sum(axis=0), rtol=1e-6)


@pytest.mark.slow
def test_the_halves_of_the_draws_tell_the_noise(loose):
    """Their solutions differ by twice the noise of the whole."""
    with x64():
        rows, _, slots = parts(loose, design(4, 3))
        whole, first, second = (
            make_system(release, slots, rows.base(), rows.pairs())
            for release in (loose, loose.take(np.arange(30)), loose.take(np.arange(30, 60)))
        )
    np.testing.assert_allclose(whole.halves, [first.solution, second.solution], rtol=1e-6)
    np.testing.assert_allclose(whole.disagreement, (first.solution - second.solution) / 2, rtol=1e-6)


@pytest.mark.slow
def test_what_errors_of_the_solution_move(loose):
    """Against the product of all rows with all functions; the score that the pass for errors leaves is the score."""
    with x64():
        rows, _, slots = parts(loose, design(4, 3))
        system = make_system(loose, slots, rows.base(), rows.pairs())
        rng, into = np.random.default_rng(0), np.array([0, 2, 0, 1, 2])
        h, j = rng.normal(size=(60, 5)), np.array([0, 3, 3, 9, 1])
        score, found = system.scores(), system.moved(h, j, into)
        d = np.concatenate([d[:, :n] for d, _, _, n in system._again("checks", None)], axis=1)
        each = np.einsum("qtm,tp->qmp", d, h / 60) * (slots.index.T[:, :, None] == j)
        expected = system.influence(each.sum(axis=0) @ np.eye(3)[into])
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        np.testing.assert_allclose(system.scores(), score, rtol=1e-12)


def test_the_halves_where_the_kernel_has_low_rank():
    rng = np.random.default_rng(2)
    tall = rng.normal(size=(40, 5)) * 10.0 ** rng.uniform(-3, 3, (40, 1))
    first, second = (tall @ np.diag(rng.uniform(0.5, 1, 5)) @ tall.T for _ in range(2))
    at, rest = first @ rng.normal(size=40), second @ rng.normal(size=40)
    gram = first + second
    expected = gram @ (solved(first, at)[0] - solved(second, rest)[0]) / 2
    one, two = halves_of(gram, at + rest, solved(gram, at + rest)[1], first.copy(), at)
    np.testing.assert_allclose(gram @ (one - two) / 2, expected, atol=1e-8 * np.abs(expected).max())


def test_a_kernel_of_low_rank_is_solved_on_what_it_determines():
    rng = np.random.default_rng(2)
    tall = rng.normal(size=(40, 5)) * 10.0 ** rng.uniform(-3, 3, (40, 1))
    gram = tall @ tall.T
    target = gram @ rng.normal(size=40)
    solution, visible, solve = solved(gram, target)
    unit = units_of(gram)
    np.testing.assert_allclose(gram @ solution, target, atol=1e-8 * np.abs(target).max())
    np.testing.assert_allclose(visible.T @ visible, np.eye(5), atol=1e-12)
    span = np.linalg.qr(tall / unit[:, None])[0]
    np.testing.assert_allclose(visible @ visible.T, span @ span.T, atol=1e-9)
    # Of least norm in these units, and linear in the right-hand side.
    np.testing.assert_allclose(span @ (span.T @ (solution * unit)), solution * unit, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(solve(np.stack([target, 2 * target], axis=1))[:, 1], 2 * solution)

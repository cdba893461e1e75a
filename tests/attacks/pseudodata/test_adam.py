"""The sliced objective: right in expectation, and its slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parts import slow_then_large

import bayesrecon
from bayesrecon import WeightedRecords
from bayesrecon.attacks import Slicing
from bayesrecon.attacks.pseudodata.adam import along, directions, divergence_slopes
from bayesrecon.attacks.pseudodata.support import Chart, Features, Support, sweep_of, sweep_slopes
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.precision import x64
from bayesrecon.types import PseudoData


@pytest.fixture(scope="module")
def few(small):
    """Forty atoms, six records, a metric: what the sliced objective needs."""
    data, release = small
    rows = slice(0, 40)
    with x64():
        metric = solve_release(release).embedding.metric
    weights, records = np.linspace(0.5, 2, 6), {k: v[:6] for k, v in data.items()}
    return release.model, metric, np.asarray(release.theta)[rows], np.full(40, 1 / 40), weights, records


def sliced_divergence(
    model,
    temperature,
    reduced,
    metric,
    theta,
    atoms,
    epsilon,
    weights,
    records,
):
    """J(w, Z) for one set of directions, and the constant of the prior."""

    def log_p(t):
        fitted = weights @ jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)
        return fitted + model.log_prior(t) + temperature * model.log_det(t)

    def at_atom(t, e):
        curvature = jax.vmap(lambda v: along(log_p, t, v)[2])(e @ metric.T)
        score = metric.T @ jax.grad(log_p)(t)
        square = score @ score if reduced else jnp.mean((e @ score) ** 2)
        return temperature * curvature.mean() + 0.5 * square

    return atoms @ jax.vmap(at_atom)(theta, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "rademacher"])
@pytest.mark.parametrize("reduced", [False, True])
def test_sliced_agrees_with_exact_in_expectation(few, law, reduced):
    """Mean over 600 sets of slices within 4.5 standard errors: a false alarm in 1.5e5 runs of each case."""
    model, metric, theta, atoms, weights, records = few
    slicing = Slicing(3, law)
    k = metric.shape[1]
    with x64():
        run = jax.jit(lambda e: sliced_divergence(model, 1.0, reduced, metric, theta, atoms, e, weights, records))
        # k slices along sqrt(k) times the axes have the identity as their second moment: the exact divergence.
        exact = float(run(jnp.broadcast_to(np.sqrt(k) * jnp.eye(k), (len(theta), k, k))))
        keys = jax.random.split(jax.random.PRNGKey(3), 600)
        values = np.array([run(directions(key, slicing, len(theta), k)) for key in keys])
    assert values.std() > 0
    assert abs(values.mean() - exact) < 4.5 * values.std() / np.sqrt(len(values))


@pytest.mark.slow
@pytest.mark.parametrize("count, reduced", [(2, True), (10, False)])
def test_slopes_are_the_gradient_of_the_objective(few, count, reduced):
    """The sweep that avoids differentiating through all atoms, against plain automatic differentiation."""
    model, metric, theta, atoms, weights, records = few
    chart = Chart(tuple((k, model.fields[k].domain) for k in records), "free")
    support = Support(chart, PseudoData(weights, records), dict.fromkeys(records, 0.0), dict.fromkeys(records, 1.0))
    slicing = Slicing(count, reduced=reduced)
    with x64():
        x = {k: jnp.asarray(v) for k, v in support.pack().items()}
        epsilon = directions(jax.random.PRNGKey(1), slicing, len(theta), metric.shape[1])
        whiten = (support.centre, support.scale)

        def value(x):
            z = chart.records_at(x, {}, *whiten)
            return sliced_divergence(
                model, 1.0, reduced, metric, theta, atoms, epsilon, chart.weights_at(x, weights), z
            )

        expected = jax.jit(jax.grad(value))(x)
        found = jax.jit(
            lambda x: divergence_slopes(
                chart, model, 1.0, (metric, theta, atoms), slicing, epsilon, weights, {}, whiten, x
            )
        )(x)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("count, reduced", slow_then_large((5, False), (0, True), (2, True), slow=2))
def test_in_finite_rank_the_basis_takes_the_same_steps(small, count, reduced):
    """Slopes from the second derivatives of the basis, against the sweep through every record at every atom."""
    data, release = small
    with x64():
        problem = solve_release(release.take(np.arange(60)))
        features = Features(problem.embedding, problem.solved, problem.solved.target)
        sweep = sweep_of(features)
        assert sweep is not None
        atoms = (problem.embedding.metric, np.asarray(problem.release.theta), problem.embedding.weights)
        model, records = release.model, {k: v[:6] for k, v in data.items()}
        chart = Chart(tuple((k, model.fields[k].domain) for k in records), "free")
        start = PseudoData(np.linspace(0.5, 2, 6), records)
        support = Support(chart, start, dict.fromkeys(records, 0.0), dict.fromkeys(records, 1.0))
        x, whiten = {k: jnp.asarray(v) for k, v in support.pack().items()}, (support.centre, support.scale)
        slicing = Slicing(count, reduced=reduced)
        epsilon = directions(jax.random.PRNGKey(1), slicing, 60, atoms[0].shape[1]) if count else None
        rest = epsilon, start.weights, {}, whiten, x
        expected = divergence_slopes(chart, model, 1.0, atoms, slicing, *rest)
        found = sweep_slopes(chart, model, 1.0, sweep, reduced, *rest)
    for name in expected:
        scale = np.abs(expected[name]).max()
        assert scale > 0
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-7, atol=1e-8 * scale)


@pytest.mark.slow
def test_a_spectrum_that_decays_has_no_basis_to_sweep(logistic_case):
    _, release, _ = logistic_case
    with x64():
        problem = solve_release(release.take(np.arange(200)))
        assert sweep_of(Features(problem.embedding, problem.solved, problem.solved.target)) is None


@pytest.mark.slow
def test_many_fixed_slices_come_close_to_exact(small):
    _, release = small
    exact = bayesrecon.reconstruct(release, n=20).statistics()["n"]

    def sliced(count, key):
        attack = WeightedRecords(n=20, objective="sliced", slices=count)
        return bayesrecon.reconstruct(release, attack=attack, key=key)

    assert sliced(500, 0).relative_gap < 1e-6
    few = [abs(sliced(2, key).statistics()["n"] - exact) for key in range(6)]
    many = [abs(sliced(500, key).statistics()["n"] - exact) for key in range(6)]
    assert np.mean(many) < 0.3 * np.mean(few)

"""Regularised matching, and the equations that choose the penalty."""

import jax.numpy as jnp
import numpy as np
import pytest
from networks import problem_of, trained

import bayesrecon
from bayesrecon import GradientMatching
from bayesrecon.attacks.matching.descent import descend
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import x64
from bayesrecon.regularisers import Box
from benchmarks.networks.held_out import held_out_residual


def middle(weights, records):
    """A squared distance from a point, heavier for heavier records."""
    return 0.05 * jnp.sum(weights * jnp.sum((records["x"] - 0.1) ** 2, axis=1))


@pytest.mark.parametrize(("one", "total"), [(True, 4.0), (False, None), (False, 4.0)])
def test_a_regularised_descent_ends_at_a_stationary_point(one, total):
    """Where the slope of half the squared residual plus the penalty vanishes, or points out of the box."""
    release, _ = trained("events", 5)
    with x64():
        problem = problem_of(release, one=one, total=total)
        start = problem.start(np.random.default_rng(0), 4)
        end = descend(problem, start, 200, lambda _: None, middle)
        v, (low, high, _) = problem.flatten(end.x), problem.box(end.x)
        left = problem.residual(end.x, end.fixed)

        def value(v):
            x = problem.unflatten(v, end.x)
            half = 0.5 * np.sum(problem.residual(x, end.fixed) ** 2)
            return half + float(middle(problem.weights(x), problem.records(x, end.fixed)))

        assert end.residual == pytest.approx(np.linalg.norm(left))
        assert end.objective == pytest.approx(value(v))
        inner = (v > low + 1e-4) & (v < high - 1e-4)
        assert inner.any()
        steps = 1e-6 * np.eye(len(v))[inner]
        slopes = [(value(v + s) - value(v - s)) / 2e-6 for s in steps]
        assert np.abs(slopes).max() < 1e-4


def test_a_penalty_of_nothing_changes_nothing():
    release, _ = trained("events", 5)
    options = {"n": 5, "multipliers": "one", "steps": 200}
    plain = bayesrecon.reconstruct(release, attack=GradientMatching(**options))
    inside = bayesrecon.reconstruct(release, attack=GradientMatching(**options, regulariser=Box(-1.0, 1.0)))
    assert inside.penalty == 0
    assert inside.determined.all()
    assert inside.regulariser == "Box(low=-1.0, high=1.0, strength=1.0, field='x')"
    np.testing.assert_allclose(np.sort(inside.pseudo.records["x"], 0), np.sort(plain.pseudo.records["x"], 0), atol=1e-6)


def test_what_a_regulariser_holds_is_not_determined():
    release, _ = trained("events", 5)
    attack = GradientMatching(n=5, multipliers="one", steps=100, restarts=2, regulariser=Box(0.0, 0.1, 0.1))
    found = bayesrecon.reconstruct(release, attack=attack)
    assert found.penalty > 0
    assert not found.determined.any()
    assert "the regulariser keeps the residual" in found.warnings[-1]


@pytest.mark.slow
def test_equations_left_out_hold_at_a_solution_that_is_the_data():
    """And do not hold where the penalty forbids it; the same key leaves out the same ones."""
    release, _ = trained("events", 5)
    free = GradientMatching(n=5, multipliers="one", steps=200)
    held = [held_out_residual(release, free, share=0.2, key=1) for _ in range(2)]
    assert held[0] == held[1] < 1e-6
    far = GradientMatching(n=5, multipliers="one", steps=200, restarts=2, regulariser=Box(0.0, 0.1))
    assert held_out_residual(release, far, share=0.2, key=1) > 1e-2
    with pytest.raises(BayesreconError, match="expected a share that holds out some"):
        held_out_residual(release, free, share=0.0)

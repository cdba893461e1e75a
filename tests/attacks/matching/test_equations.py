"""The equations of a stationary point and their Jacobian."""

import numpy as np
import pytest
from networks import problem_of, trained

from bayesrecon.divergence.score import gradients
from bayesrecon.posteriors import dirac
from bayesrecon.precision import x64


@pytest.mark.slow
@pytest.mark.parametrize(("total", "strength_known"), [(None, True), (7.0, False)])
def test_the_jacobian_is_that_of_the_equations(total, strength_known):
    release, _ = trained("softmax", 12)
    with x64():
        problem = problem_of(release, total=total, strength_known=strength_known)
        x, fixed = problem.start(np.random.default_rng(3), 4)
        v = problem.flatten(x) + 0.1
        found = problem.jacobian(problem.unflatten(v, x), fixed)
        step = 1e-6 * np.eye(len(v))
        ends = [[problem.residual(problem.unflatten(v + s * e, x), fixed) for s in (1, -1)] for e in step]
        np.testing.assert_allclose(found, np.array([(a - b) / 2e-6 for a, b in ends]).T, atol=1e-6)


@pytest.mark.slow
def test_no_measure_falls_below_the_certificate():
    """Duality against random measures of the mass, on a domain where it is not trivial."""
    release, _ = trained("events", 25)
    moved = {k: 0.7 * np.asarray(v) for k, v in release.model.constrain(release.theta[0]).items()}
    release = dirac(release.model, moved)
    rng = np.random.default_rng(0)
    with x64():
        problem = problem_of(release, total=2.0)
        x, fixed = problem.start(rng, 4)
        least, mass, _ = problem.certify(problem.residual(x, fixed), problem.weights(x), rng)
        assert least > 0
        assert mass == 2
        for _ in range(200):
            records = {"x": rng.uniform(-1, 1, (3, 2))}
            weights = 2 * rng.dirichlet(np.ones(3))
            each = np.asarray(gradients(release.model, problem.theta, records))
            assert np.linalg.norm(weights @ each + problem.base) / np.linalg.norm(problem.base) >= least

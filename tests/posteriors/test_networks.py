"""Networks trained to a stationary point: what it determines, and points that are none."""

import jax.numpy as jnp
import numpy as np
import pytest
from networks import WIDTH, trained

import bayesrecon
from bayesrecon.divergence.score import scores
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_loss
from bayesrecon.posteriors import dirac, train_network
from bayesrecon.precision import x64


def test_training_reaches_the_closed_form():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = from_loss(
        lambda p, x: x @ p["w"],
        lambda out, y: 0.5 * (out - y) ** 2,
        lambda p: jnp.sum(p["w"] ** 2),
        params={"w": np.zeros(3)},
        record={"x": (3,), "y": ()},
    )
    found = train_network(model, {"w": np.ones(3)}, {"x": x, "y": y})
    np.testing.assert_allclose(found.release.theta[0], np.linalg.solve(x.T @ x + 2 * np.eye(3), x.T @ y), atol=1e-9)
    with pytest.raises(BayesreconError, match="lack field y"):
        train_network(model, {"w": np.ones(3)}, {"x": x})


@pytest.mark.slow
def test_a_network_too_wide_for_its_hessian_is_stationary_too():
    rng = np.random.default_rng(2)
    width, x = 801, rng.uniform(-1, 1, (20, 2))
    start = {"w": 2 * rng.normal(size=(2, width)), "b": rng.normal(size=width), "v": rng.normal(size=width) / 30}
    model = from_loss(
        lambda p, x: jnp.tanh(x @ p["w"] + p["b"]) @ p["v"],
        lambda out, y: jnp.logaddexp(0, out) - y * out,
        lambda p: 0.05 * sum(jnp.sum((p[k] - start[k]) ** 2) for k in p),
        params=start,
        record={"x": (2,), "y": ()},
    )
    assert model.dimension == 3204
    assert train_network(model, start, {"x": x, "y": np.arange(20) % 2}).gradient < 1e-12


@pytest.mark.slow
def test_reverse_sweeps_give_the_scores_of_forward_ones():
    release, data = trained("softmax", 12)
    with x64():
        metric = np.linalg.cholesky(np.eye(len(release.theta[0])) + 0.1)
        both = [scores(release.model, metric, release.theta, data, t) for t in (0.0, 1.0)]
    np.testing.assert_allclose(both[0], both[1], atol=1e-12)


@pytest.mark.slow
def test_events_are_counted():
    release, data = trained("events", 25)
    found = bayesrecon.recover(release)
    assert found["n"].visibility > 0.999999
    assert found["n"].verdict == "determined"
    assert found["n"].estimate == pytest.approx(25, abs=1e-6)
    assert found["n"].se is None
    assert not found.warnings
    # The mean is seen but for a little: the interval states how much.
    mean = found["mean(x[1])"]
    assert abs(mean.estimate - data["x"][:, 0].mean()) < 5 * (mean.upper - mean.estimate) + 1e-9


@pytest.mark.slow
def test_a_softmax_network_does_not_count_its_records():
    release, _ = trained("softmax", 12)
    found = bayesrecon.recover(release)
    assert found["n"].visibility < 0.99
    assert found["n"].verdict == "undetermined"
    assert found["n"].estimate is None
    # Scores of all classes add up to zero: once for every hidden unit, once for the bias.
    assert found.rank <= release.theta.shape[1] - (WIDTH + 1)
    assert not found.warnings


@pytest.mark.slow
def test_a_parameter_off_the_stationary_point_is_reported():
    release, _ = trained("softmax", 12)
    rng = np.random.default_rng(0)
    moved = {k: v * (1 + 0.01 * rng.normal(size=v.shape)) for k, v in release.model.constrain(release.theta[0]).items()}
    release = dirac(release.model, {k: np.asarray(v) for k, v in moved.items()})
    recovery = bayesrecon.recover(release)
    assert "not stationary" in recovery.failures[0]
    assert {row.verdict for row in recovery} == {"undetermined"}
    found = bayesrecon.reconstruct(release, attack=bayesrecon.GradientMatching(n=24, restarts=2, steps=100))
    assert 0 < found.residual_floor <= found.residual
    assert "not stationary: every data set of at most" in found.warnings[0]


@pytest.mark.slow
def test_diagnosis_says_how_many_features():
    found = bayesrecon.diagnose(trained("softmax", 12)[0], order=1)
    assert found.rank == bayesrecon.recover(trained("softmax", 12)[0]).rank
    assert {f.verdict for f in found.features} == {"undetermined"}
    assert bayesrecon.diagnose(trained("events", 25)[0], order=1)["1"].verdict == "determined"

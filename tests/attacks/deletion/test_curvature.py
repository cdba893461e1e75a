"""The Hessian of public records, by every way that it is taken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from predictors import CASES, X, make

from bayesrecon.attacks.deletion.curvature import curvature, sketched
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_loss
from bayesrecon.precision import x64

PENALTY = 0.3


@pytest.fixture(scope="module")
def network():
    """A small network with a softmax, its parameter, and records."""
    rng = np.random.default_rng(0)
    start = {"w": rng.normal(size=(2, 3)), "v": rng.normal(size=(3, 3))}
    model = from_loss(
        lambda p, x: jnp.tanh(x @ p["w"]) @ p["v"],
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda p: 0.5 * PENALTY * sum(jnp.sum(v**2) for v in p.values()),
        params=start,
        record={"x": (2,), "y": ()},
        domain={"y": [0, 1, 2]},
    )
    records = {"x": rng.normal(size=(12, 2)), "y": rng.integers(0, 3, 12)}
    with x64():
        yield model, np.asarray(model.unconstrain(start)), records


def hessian(model, theta, records, scale):
    def whole(t):
        return -scale * jax.vmap(lambda z: model.log_lik(t, z))(records).sum() - model.log_prior(t)

    return np.asarray(jax.jit(jax.hessian(whole))(jnp.asarray(theta)))


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_a_linear_predictor_has_one_curvature(loss):
    outputs, y, below, _ = CASES[loss]
    model, records = make(loss, outputs, intercept_penalty=below), {"x": X[:30], "y": y[:30]}
    theta = np.random.default_rng(1).normal(size=model.dimension)
    with x64():
        found = curvature(model, [theta], records, 2.0)
        np.testing.assert_allclose(found.matrix, hessian(model, theta, records, 2.0), rtol=1e-8, atol=1e-7)
    assert 0 < found.freedom < model.dimension


def test_of_a_prediction_it_is_the_information_of_its_law(network):
    """The mean of squared gradients over labels of the model's own law, plus the prior's part."""
    model, theta, records = network
    expected = PENALTY * np.eye(len(theta))
    for label in range(3):
        every = {**records, "y": np.full(12, label)}
        logs = jax.jit(jax.vmap(lambda z: model.log_lik(theta, z)))(every)
        each = np.asarray(jax.jit(jax.vmap(jax.grad(model.log_lik), in_axes=(None, 0)))(jnp.asarray(theta), every))
        expected += 5.0 * (each * np.exp(np.asarray(logs))[:, None]).T @ each
    found = curvature(model, [theta], records, 5.0)
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-9, atol=1e-10)
    held = np.trace(np.linalg.inv(expected)) * PENALTY
    assert found.freedom == pytest.approx(len(theta) - held)


def test_many_records_are_taken_in_parts(network, monkeypatch):
    model, theta, records = network
    whole = curvature(model, [theta], records, 1.0).matrix
    monkeypatch.setattr("bayesrecon.attacks.deletion.curvature._CHUNK", 5 * 3 * model.dimension)
    monkeypatch.setattr("bayesrecon.attacks.deletion.curvature._COLUMNS", 4)
    np.testing.assert_allclose(curvature(model, [theta], records, 1.0).matrix, whole, rtol=1e-12, atol=1e-12)


def test_an_exact_one_is_the_hessian_bent_upwards(network):
    model, theta, records = network
    values, vectors = np.linalg.eigh(hessian(model, theta, records, 5.0))
    assert values.min() < 0
    found = curvature(model, [theta], records, 5.0, exact=True)
    np.testing.assert_allclose(found.matrix, vectors * np.abs(values) @ vectors.T, atol=1e-9)


def test_two_points_are_averaged(network):
    model, theta, records = network
    one, two = (curvature(model, [t], records, 1.0).matrix for t in (theta, 2 * theta))
    np.testing.assert_allclose(curvature(model, [theta, 2 * theta], records, 1.0).matrix, (one + two) / 2, atol=1e-12)


def test_what_cannot_be(network, monkeypatch):
    model, theta, records = network
    with pytest.raises(BayesreconError, match="is zero or not finite"):
        curvature(model, [np.full_like(theta, np.nan)], records, 1.0)
    monkeypatch.setattr("bayesrecon.attacks.deletion.curvature.MOST", 3)
    with pytest.raises(BayesreconError, match="has 15 parameters"):
        curvature(model, [theta], records, 1.0)


@pytest.mark.parametrize("exact", [False, True])
def test_a_sketch_of_all_rows_is_the_whole_curvature(network, exact):
    """Products are those with the matrix, and the root is one of the inverse of Gauss and Newton's."""
    model, theta, records = network
    thetas = np.stack([theta, 0.5 * theta])
    whole = curvature(model, thetas, records, 2.5)
    found = sketched(model, thetas, records, 2.5, 3, exact=exact)
    v = np.random.default_rng(1).normal(size=model.dimension)
    products = np.mean([hessian(model, t, records, 2.5) @ v for t in thetas], axis=0) if exact else whole.times(v)
    np.testing.assert_allclose(found.times(v), products, atol=1e-9)
    at_one = curvature(model, thetas.mean(axis=0)[None], records, 2.5)
    root = found.root() @ np.eye(model.dimension)
    np.testing.assert_allclose(root.T @ root, np.linalg.inv(at_one.matrix), atol=1e-9)
    assert found.freedom == pytest.approx(at_one.freedom, rel=1e-6)


def test_of_few_rows_the_mean_curvature_is_kept(network, monkeypatch):
    model, theta, records = network
    monkeypatch.setattr("bayesrecon.attacks.deletion.curvature._ROWS", 18)
    found = sketched(model, theta[None], records, 2.5, 3)
    root = found.root() @ np.eye(model.dimension)
    trace = np.trace(np.linalg.inv(root.T @ root))
    assert trace == pytest.approx(np.trace(curvature(model, theta[None], records, 2.5).matrix), rel=0.5)
    monkeypatch.setattr("bayesrecon.attacks.deletion.curvature.LARGEST", 3)
    with pytest.raises(BayesreconError, match="parameters; at most 3 are supported"):
        sketched(model, theta[None], records, 2.5, 3)

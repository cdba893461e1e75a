"""Likelihoods through few linear predictors: the same derivatives as those of the program along every direction."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln, logsumexp
from quick import quick

from bayesrecon.divergence import score
from bayesrecon.divergence.score import derivatives_along, predictors_of, whitened
from bayesrecon.precision import x64

WIDTH = 8
D = 2 * WIDTH + 2


@pytest.fixture(autouse=True, scope="module")
def double():
    """As inside a verb."""
    with x64():
        yield


def normal(t, z):
    r = (z["y"] - z["x"] @ t[:WIDTH]) / jnp.exp(t[-1])
    return -0.5 * r**2 - t[-1]


def two_predictors(t, z):
    """A scale with a linear predictor of its own, inside a function that is compiled by itself."""
    scale = jax.jit(lambda x, b: jnp.sum(x * b, axis=-1) + 1.0)(z["x"], t[WIDTH : 2 * WIDTH])
    return jax.scipy.stats.norm.logpdf(z["y"], z["x"] @ t[:WIDTH], jnp.exp(scale / 3))


def zero_inflated(t, z):
    """Custom rules, a group's own intercept, an offset."""
    rate = t[z["g"]] + z["x"][1:] @ t[WIDTH : 2 * WIDTH - 1] + z["x"][0]
    count = jnp.abs(jnp.round(z["y"]))
    poisson = count * rate - jnp.exp(rate) - gammaln(count + 1)
    full = jax.nn.log_sigmoid(-t[-1]) + poisson
    return jnp.where(count == 0, jnp.logaddexp(full, jax.nn.log_sigmoid(t[-1])), full)


def classes(t, z):
    """Three classes: a matrix of parameters."""
    eta = jnp.concatenate([jnp.zeros(1), t[:D].reshape(2, -1)[:, :WIDTH] @ z["x"]])
    return eta[z["g"] % 3] - logsumexp(eta)


FOUND = {normal: 2, two_predictors: 2, zero_inflated: 2, classes: 3}


def directions(log_lik, metric, theta, records):
    """Along every direction, one at a time."""

    def one(t, z):
        f = partial(log_lik, z=z)
        return f(t), metric.T @ jax.grad(f)(t), jnp.trace(metric.T @ jax.hessian(f)(t) @ metric)

    value, phi, lap = jax.vmap(lambda t: jax.vmap(lambda z: one(t, z))(records))(theta)
    return value, phi.swapaxes(1, 2), lap


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    records = {"x": rng.normal(size=(6, WIDTH)), "y": rng.normal(size=6) * 2, "g": rng.integers(WIDTH, size=6)}
    return jax.tree.map(jnp.asarray, (rng.normal(size=(D, D)) / 5, rng.normal(size=(3, D)) / 3, records))


@pytest.mark.parametrize("log_lik", quick(FOUND, [two_predictors]), ids=lambda f: f.__name__)
def test_derivatives(given, log_lik):
    _, theta, records = given
    found = predictors_of(log_lik, theta[0], {k: v[0] for k, v in records.items()})
    assert found.size == FOUND[log_lik]
    expected = jax.jit(partial(directions, log_lik))
    value, slopes, lap = jax.jit(partial(derivatives_along, found))(*given)
    for one, other in zip((value, whitened(slopes), lap), expected(*given), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11 * np.abs(other).max())


@pytest.mark.parametrize(
    "log_lik",
    [
        lambda t, z: -jnp.sum(jnp.exp(t) * z["y"]),  # as many as parameters
        lambda t, z: -(z["y"] ** 2),  # none
        lambda t, z: jax.lax.fori_loop(0, 3, lambda i, s: s + jnp.sin(s @ z["x"]), t[:WIDTH]).sum(),
        lambda t, z: (jnp.prod(t[:WIDTH]) - z["y"]) ** 2,
    ],
    ids=["all", "none", "loop", "product"],
)
def test_other_likelihoods_have_no_linear_predictor(given, log_lik):
    _, theta, records = given
    assert predictors_of(log_lik, theta[0], {k: v[0] for k, v in records.items()}) is None


def test_slopes_leave_their_program_before_they_are_spread_over_directions(given):
    """Or XLA computes them again for every direction."""

    class Program:
        def log_lik(self, t, z):
            return normal(t, z)

    metric, theta, records = given
    value, (firsts, x), lap = score._swept(Program(), metric, theta, records, 1.0)
    assert {one.shape for one in (value, *firsts, lap)} == {(len(theta), 6)}
    assert x.shape == (6, len(firsts), D)
    assert score.taylor(Program(), metric, theta, records)[1].shape == (len(theta), D, 6)


def test_the_sweep_takes_them(given, monkeypatch):
    """`taylor` by either way."""

    class Program:
        def log_lik(self, t, z):
            return normal(t, z)

    found = jax.jit(lambda *given: score.taylor(Program(), *given))(*given)
    monkeypatch.setattr(score, "predictors_of", lambda *arguments: None)
    other = jax.jit(lambda *given: score.taylor(Program(), *given))(*given)
    for one, same in zip(found, other, strict=True):
        np.testing.assert_allclose(one, same, rtol=1e-11, atol=1e-11 * np.abs(same).max())

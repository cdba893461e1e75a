import jax
import jax.numpy as jnp
import numpy as np
import pytest
import summaries
from summaries import DATA, MODEL
from variational import optimum

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.approximated.normal import (
    MOST,
    by_another_rule,
    fitted_mean_field,
    laplace,
    order_of,
    pack,
    unpack,
    variational,
    whitening,
)
from bayesrecon.precision import in_float64
from bayesrecon.types import Field, Model, Parameter, PseudoData


def score(derived, phi, records):
    def total(phi):
        return jax.vmap(derived.log_lik, in_axes=(None, 0))(phi, records).sum() + derived.log_prior(phi)

    return np.asarray(jax.jit(jax.grad(total))(phi))


@pytest.mark.slow
@in_float64
def test_a_mode_is_stationary():
    at, covariance = summaries.mode(MODEL, DATA, summaries.start())
    phi = pack(MODEL, at, covariance)
    metric = whitening(MODEL, phi)
    assert np.abs(metric.T @ score(laplace(MODEL, True), phi, DATA)).max() < 1e-9
    assert np.abs(metric.T @ score(laplace(MODEL, False), phi, DATA)).max() > 1e-2


@in_float64
def test_packed_and_unpacked():
    root = np.random.default_rng(0).normal(size=(3, 3))
    mean, factor = unpack(MODEL, pack(MODEL, np.arange(3.0), root @ root.T))
    assert np.allclose(mean, np.arange(3.0))
    assert np.allclose(factor @ factor.T, root @ root.T)
    assert order_of(MODEL).tolist() == [0, 1, 2]


@in_float64
def test_expectations_of_a_normal_law():
    # y ~ N(a, exp(s)^2): E_q[l] = -E[s] - E[exp(-2 s) (y - a)^2] / 2 under independent a and s
    model = Model(
        name="normal",
        parameters=(Parameter("a"), Parameter("s")),
        fields={"y": Field()},
        log_lik_at=lambda p, z: -p["s"] - 0.5 * jnp.exp(-2 * p["s"]) * (z["y"] - p["a"]) ** 2,
        log_prior_at=lambda p: jnp.zeros(()),
    )
    phi = pack(model, [0.3, -0.2], np.diag([0.04, 0.01]))
    found = float(jax.jit(variational(model).log_lik)(phi, {"y": 1.0}))
    assert found == pytest.approx(0.2 - 0.5 * np.exp(0.4 + 0.02) * (0.49 + 0.04), rel=1e-12)
    assert float(jax.jit(by_another_rule(model).log_lik)(phi, {"y": 1.0})) == pytest.approx(found, rel=1e-12)


def test_too_many_parameters():
    wide = Model("wide", (Parameter("w", (MOST + 1,)),), {"y": Field()}, lambda p, z: 0.0, lambda p: 0.0)
    with pytest.raises(BayesreconError, match=f"more than {MOST}"):
        laplace(wide, True)


@pytest.mark.slow
@in_float64
def test_a_mean_field_that_is_fitted_is_the_optimum():
    """Newton's method in standard deviations against one in the entries of the factor, whose Hessian is another."""
    start = summaries.mode(MODEL, DATA, summaries.start())
    mean, covariance = optimum(MODEL, DATA, *start, full=False)
    pseudo = PseudoData(np.ones(80), DATA)
    near = start[0] + 0.5 * np.sqrt(np.diag(start[1])), 2 * np.sqrt(np.diag(start[1]))
    at, sd = fitted_mean_field(MODEL, variational(MODEL), *near, pseudo)
    np.testing.assert_allclose(at, mean, rtol=1e-9)
    np.testing.assert_allclose(sd**2, np.diag(covariance), rtol=1e-9)

"""Stan programs that are Gaussian linear regressions are found to be, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest
from quick import quick

import bayesrecon
from bayesrecon.models import from_stan
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64

pytestmark = pytest.mark.usefixtures("hardly_optimised")

pytest.importorskip("lark")

HEAD = "data { int N; vector[N] x; vector[N] y; int K; matrix[N, K] X; array[N] int<lower=1, upper=3> g; } "
PARAMETERS = "parameters { real a; vector[K] b; vector[3] u; real<lower=0> s; real m; } "
LINEAR = {
    "vectors": "y ~ normal(a + m * x, s);",
    "a matrix": "y ~ normal(X * b, s);",
    "a loop": "for (n in 1:N) y[n] ~ normal(a + u[g[n]], s);",
    "an increment": "target += normal_lpdf(y | a + x * m, 2 * s);",
    "a linear predictor": "target += normal_id_glm_lpdf(y | X, a, b, s);",
    "a precision": "y ~ normal(a, 1 / s);",
    "with priors": "b ~ normal(0, 1); s ~ exponential(1); y ~ normal(a + X * b, s);",
}
NOT = {
    "another law": "y ~ student_t(4, a + m * x, s);",
    "a product of parameters": "y ~ normal(a * m, s);",
    "a scale of the record": "for (n in 1:N) y[n] ~ normal(a, s + exp(x[n]));",
    "a mean that is a scale": "y ~ normal(s * x, s);",
    "two responses": "y ~ normal(a, s); x ~ normal(m, 1);",
    "truncated": "for (n in 1:N) y[n] ~ normal(a, s) T[0, ];",
    "a mixture": "for (n in 1:N) target += log_mix(0.3, normal_lpdf(y[n] | a, s), normal_lpdf(y[n] | m, s));",
}


def model_of(body):
    return from_stan(f"{HEAD}{PARAMETERS}model {{ {body} }}", constants={"K": 2})


@pytest.mark.parametrize("what", quick(LINEAR, ["vectors", "a linear predictor", "an increment"]))
def test_residuals_over_scales_give_the_log_likelihood(what):
    """Residuals over scales give the log likelihood, up to its constant."""
    model = model_of(LINEAR[what])
    form, rng = model.gaussian, np.random.default_rng(0)
    assert form is not None
    records = {k: rng.normal(size=(5, *f.shape)) for k, f in model.fields.items()}
    if "g" in records:
        records["g"] = np.array([1, 2, 3, 1, 2])
    theta = rng.normal(size=model.dimension)
    with x64():
        residual, design, factor = form.design(theta[list(form.coefficients)], records)
        assert design.shape == (5, len(form.coefficients))
        found = np.array([float(model.log_lik(theta, {k: v[i] for k, v in records.items()})) for i in range(5)])
    sigma = factor * np.exp(theta[form.scale]) ** form.power
    apart = found + 0.5 * (residual / sigma) ** 2 + np.log(sigma)
    np.testing.assert_allclose(apart, -0.5 * np.log(2 * np.pi), rtol=1e-9)


@pytest.mark.parametrize("what", quick(NOT, ["a product of parameters", "a scale of the record", "truncated"]))
def test_not_found(what):
    assert model_of(NOT[what]).gaussian is None


@pytest.mark.slow
def test_the_same_is_recovered():
    rng = np.random.default_rng(1)
    x = rng.normal(3, 2, 80)
    y = 1 + 0.5 * x + rng.normal(size=80)
    design = np.column_stack([np.ones(80), x])
    fit = np.linalg.lstsq(design, y, rcond=None)
    s = np.sqrt(fit[1][0] / rng.chisquare(78, 4000))
    noise = rng.normal(size=(4000, 2)) @ np.linalg.cholesky(np.linalg.inv(design.T @ design)).T
    beta = fit[0] + s[:, None] * noise
    text = "data { int N; vector[N] x; vector[N] y; } parameters { vector[2] b; real<lower=0> s; } "
    model = from_stan(text + "model { target += -log(s); y ~ normal(b[1] + b[2] * x, s); }")
    release = from_draws({"b": beta.reshape(4, 1000, 2), "s": s.reshape(4, 1000)}, model)
    found = bayesrecon.recover(release)
    plain = bayesrecon.recover(replace(release, model=replace(model, gaussian=None)))
    assert abs(found["n"].estimate - 80) < 4 * found["n"].se
    for one, other in zip(found.rows, plain.rows, strict=True):
        assert abs(one.estimate - other.estimate) < 1e-6 * one.se

"""Programs written in Stan and in NumPyro: the same draws give the same statistics of the data behind them."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from parts import slow_then_large

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

import bayesrecon
from bayesrecon.models import from_numpyro, from_stan
from bayesrecon.posteriors import nuts

pytestmark = pytest.mark.usefixtures("hardly_optimised")

N, GROUPS = 90, 4

LINEAR = """data { int<lower=0> N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> sigma; }
model { a ~ normal(0, 5); b ~ normal(0, 5); sigma ~ exponential(1); y ~ normal(a + b * x, sigma); }"""

LOGISTIC = """data { int<lower=0> N; int<lower=1> K; matrix[N, K] X; array[N] int<lower=0, upper=1> y; }
parameters { real a; vector[K] b; }
model { target += normal_lpdf(a | 0, 2); b ~ normal(0, 2); y ~ bernoulli_logit_glm(X, a, b); }"""

GROUPED = """data { int<lower=0> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; array[N] int<lower=0> y; }
parameters { real mu; real<lower=0> tau; vector[J] u; }
model { mu ~ normal(0, 2); tau ~ exponential(1); u ~ normal(mu, tau); for (n in 1:N) y[n] ~ poisson_log(u[g[n]]); }"""

WAITING = """data { int<lower=0> N; vector<lower=0>[N] wait; }
parameters { real<lower=0> shape; real<lower=0> rate; }
transformed parameters { real mean_wait = shape / rate; }
model { shape ~ exponential(0.5); rate ~ exponential(0.5); for (w in wait) target += gamma_lpdf(w | shape, rate); }"""

HEAVY = """data { int<lower=0> N; vector[N] x; vector[N] y; }
transformed data { vector[N] z = x / 2; }
parameters { real b; real<lower=0, upper=10> sigma; }
model { vector[N] m; for (n in 1:N) m[n] = b * z[n]; b ~ student_t(3, 0, 2); y ~ student_t(4, m, sigma); }"""


def linear(x, y=None):
    a, b = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("b", dist.Normal(0, 5))
    sigma = numpyro.sample("sigma", dist.Exponential(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(a + b * x, sigma), obs=y)


def logistic(X, y=None):
    a = numpyro.sample("a", dist.Normal(0, 2))
    b = numpyro.sample("b", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("records", X.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=a + X @ b), obs=y)


def grouped(g, y=None):
    mu, tau = numpyro.sample("mu", dist.Normal(0, 2)), numpyro.sample("tau", dist.Exponential(1))
    raw = numpyro.sample("u_raw", dist.Normal(0, 1).expand([GROUPS]).to_event(1))
    with numpyro.plate("records", g.shape[0]):
        numpyro.sample("y", dist.Poisson(jnp.exp(mu + tau * raw[g - 1])), obs=y)


def waiting(wait=None):
    shape, rate = (numpyro.sample(name, dist.Exponential(0.5)) for name in ("shape", "rate"))
    with numpyro.plate("records", wait.shape[0]):
        numpyro.sample("wait", dist.Gamma(shape, rate), obs=wait)


def heavy(x, y=None):
    b, sigma = numpyro.sample("b", dist.StudentT(3, 0, 2)), numpyro.sample("sigma", dist.Uniform(0, 10))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.StudentT(4, b * x / 2, sigma), obs=y)


def data_of(name):
    rng = np.random.default_rng(0)
    x = rng.normal(1, 2, N)
    g = rng.integers(1, GROUPS + 1, N)
    X = rng.normal(size=(N, 2))
    return {
        "linear": {"x": x, "y": 1 + 0.5 * x + rng.normal(size=N)},
        "logistic": {"X": X, "y": (rng.random(N) < 1 / (1 + np.exp(-X @ [1, -0.5]))).astype(int)},
        "grouped": {"g": g, "y": rng.poisson(np.exp(1 + 0.4 * (g - 2)))},
        "waiting": {"wait": rng.gamma(2, 1.5, N)},
        "heavy": {"x": x, "y": 0.4 * x + rng.standard_t(4, N)},
    }[name]


TWINS = {
    "linear": (LINEAR, linear, {"x": (), "y": ()}, {}, {}),
    "logistic": (LOGISTIC, logistic, {"X": (2,), "y": ()}, {}, {"K": 2}),
    "grouped": (GROUPED, grouped, {"g": (), "y": ()}, {"g": [1, 2, 3, 4]}, {"J": GROUPS}),
    "waiting": (WAITING, waiting, {"wait": ()}, {}, {}),
    "heavy": (HEAVY, heavy, {"x": (), "y": ()}, {}, {}),
}


@pytest.mark.parametrize(
    "name", slow_then_large("linear", "waiting", "grouped", "heavy", "logistic", slow=3)
)  # NUTS and two recoveries each
def test_twins_recover_the_same(name):
    program, twin, record, domain, constants = TWINS[name]
    # Where responses are drawn, twins look for the data on other records, and are compared with other likelihoods.
    other = replace(from_numpyro(twin, record, domain=domain), simulate=None)
    model = replace(from_stan(program, constants=constants, name=name), simulate=None)
    assert model.coordinates == other.coordinates
    release = nuts(other, data_of(name), key=1, chains=2, draws=500)
    values = {p.name: v for p, v in zip(other.parameters, _split(release, other), strict=True)}
    one, two = bayesrecon.recover(values, model=model), bayesrecon.recover(values, model=other)
    theirs = {row.name: row for row in two}
    assert len(theirs) == len(list(one))
    for row in one:
        same = theirs[row.name]
        if "determined" in (row.verdict, same.verdict):
            assert row.verdict == same.verdict
            assert row.estimate == pytest.approx(same.estimate, rel=1e-5, abs=1e-5 * (same.se or 0.0))
        elif row.lower is not None and same.lower is not None:
            # Where directions are cut off in a spectrum without a gap, rounding decides which: intervals still meet.
            assert max(row.lower, same.lower) <= min(row.upper, same.upper)


def _split(release, model):
    """Constrained draws `(chains, draws, *shape)` of each parameter."""
    import jax

    from bayesrecon.precision import x64

    with x64():
        params = jax.vmap(model.constrain)(np.asarray(release.theta))
    return [np.asarray(params[p.name]).reshape(2, -1, *p.shape) for p in model.parameters]


@pytest.mark.slow
def test_a_centred_prior_is_taken_non_centred_and_draws_are_mapped():
    model = from_stan(GROUPED, constants={"J": GROUPS})
    assert model.coordinates == ("mu", "tau", "u_raw[1]", "u_raw[2]", "u_raw[3]", "u_raw[4]")
    assert "u (line 3) is rewritten as non-centred" in " ".join(model.notes)
    rng = np.random.default_rng(0)
    mu, tau = rng.normal(size=(1, 7)), rng.gamma(2, size=(1, 7))
    u = rng.normal(size=(1, 7, GROUPS))
    mapped = model.prepare({"mu": mu, "tau": tau, "u": u})
    np.testing.assert_allclose(mapped["u_raw"], (u - mu[..., None]) / tau[..., None], rtol=1e-12)
    assert model.prepare(mapped) is mapped

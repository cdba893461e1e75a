"""Programs, and standardised data drawn for them, that variational fits are counted over."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist


def linear(x, y=None):
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1] + 1]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(beta[0] + x @ beta[1:], sigma), obs=y)


def poisson(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand([x.shape[1] + 1]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Poisson(jnp.exp(beta[0] + x @ beta[1:])), obs=y)


def simulated(kind, n, p, rng):
    if kind == "linear":
        x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
        y = x @ rng.normal(size=p) + rng.normal(size=n) * rng.gamma(3.0)
        return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
    x = (rng.random((n, p)) < rng.uniform(0.3, 0.7, size=p)).astype(float)
    return x, rng.poisson(np.exp(0.3 * rng.normal() + x @ (0.7 * rng.normal(size=p))))


PROGRAMS = {"linear": linear, "poisson": poisson}

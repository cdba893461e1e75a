"""Posteriors that can be sampled exactly: the oracle of the statistical tests."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws

PRIOR_SCALE, SHAPE, RATE = 10.0, 2.0, 1.5


@cache
def normal_mean_model():
    """`y ~ Normal(theta, 1)`, `theta ~ Normal(0, PRIOR_SCALE)`: N and the sum are determined, nothing else."""

    def normal_mean(y):
        theta = numpyro.sample("theta", dist.Normal(0, PRIOR_SCALE))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)

    return from_numpyro(normal_mean, {"y": ()})


def sample_normal_mean(y, draws, rng):
    precision = len(y) + PRIOR_SCALE**-2
    return {"theta": rng.normal(y.sum() / precision, precision**-0.5, (1, draws))}


@cache
def regression_model(covariates=1, known=False):
    """`y ~ Normal(X b, sqrt(v))`, `b | v ~ Normal(0, PRIOR_SCALE sqrt(v))`, `v` inverse gamma, or known to be one:
    conjugate."""

    def regression(x, y):
        variance = 1.0 if known else numpyro.sample("variance", dist.InverseGamma(SHAPE, RATE))
        scale = PRIOR_SCALE * jnp.sqrt(variance)
        beta = numpyro.sample("beta", dist.Normal(0, scale).expand((covariates + 1,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(beta[0] + x @ beta[1:], jnp.sqrt(variance)), obs=y)

    return from_numpyro(regression, {"x": (covariates,), "y": ()})


def sample_regression(x, y, draws, rng, weights=None, known=False):
    """Weights, of either sign, are those of a measure on the records in the place of their count."""
    weights = np.ones(len(y)) if weights is None else weights
    design = np.column_stack([np.ones(len(y)), x])
    precision = (design.T * weights) @ design + np.eye(design.shape[1]) / PRIOR_SCALE**2
    mean = np.linalg.solve(precision, design.T @ (weights * y))
    shape = SHAPE + weights.sum() / 2
    rate = RATE + 0.5 * (weights @ y**2 - mean @ precision @ mean)
    variance = np.ones(draws) if known else rate / rng.gamma(shape, size=draws)
    root = np.linalg.inv(np.linalg.cholesky(precision))
    beta = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(draws, len(mean))) @ root)
    return {"beta": beta[None]} if known else {"variance": variance[None], "beta": beta[None]}


def through_the_origin(x, y, draws, rng):
    """A release of a regression without an intercept, `v` inverse gamma with shape 2 and rate 1, of whose features all
    show."""
    (count, width), precision = x.shape, x.T @ x + np.eye(x.shape[1]) / PRIOR_SCALE**2

    def program(x, y):
        variance = numpyro.sample("variance", dist.InverseGamma(2.0, 1.0))
        beta = numpyro.sample("beta", dist.Normal(0, PRIOR_SCALE * variance**0.5).expand((width,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(x @ beta, variance**0.5), obs=y)

    mean = np.linalg.solve(precision, x.T @ y)
    variance = (1 + (y @ y - mean @ precision @ mean) / 2) / rng.gamma(2 + count / 2, size=draws)
    root = np.linalg.inv(np.linalg.cholesky(precision))
    beta = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(draws, width)) @ root)
    return from_draws({"variance": variance[None], "beta": beta[None]}, from_numpyro(program, {"x": (width,), "y": ()}))


@cache
def slopes_model(groups):
    """`y ~ Normal(b[group] x, 1)`, `b ~ Normal(0, PRIOR_SCALE)`, x 0 or 1: nothing is said of records with x = 0."""

    def slopes(group, x, y):
        b = numpyro.sample("b", dist.Normal(0, PRIOR_SCALE).expand((groups,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(b[group] * x, 1.0), obs=y)

    return from_numpyro(slopes, {"group": (), "x": (), "y": ()}, domain={"group": list(range(groups)), "x": "binary"})


def sample_slopes(group, x, y, groups, draws, rng):
    precision = np.bincount(group, x, groups) + PRIOR_SCALE**-2
    return {"b": rng.normal(np.bincount(group, x * y, groups) / precision, precision**-0.5, (1, draws, groups))}


@cache
def effects_model(groups):
    """`y ~ Normal(tau z[group], 1)`, `z ~ Normal(0, 1)`, `tau ~ HalfNormal(1)`: effects of groups counted from one."""

    def effects(group, y):
        tau = numpyro.sample("tau", dist.HalfNormal(1))
        z = numpyro.sample("z", dist.Normal(0, 1).expand((groups,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(tau * z[group - 1], 1.0), obs=y)

    return from_numpyro(effects, {"group": (), "y": ()}, domain={"group": list(range(1, groups + 1))})


def sample_effects(group, y, groups, draws, rng):
    """tau from a fine grid of its marginal law, z given tau."""
    n, total = np.bincount(group - 1, minlength=groups), np.bincount(group - 1, y, groups)
    grid = np.linspace(1e-3, 4, 4000)
    variance = 1 + n * grid[:, None] ** 2
    log_density = -(grid**2) / 2 - np.log(variance).sum(axis=1) / 2
    log_density += ((grid[:, None] * total) ** 2 / variance).sum(axis=1) / 2
    weights = np.exp(log_density - log_density.max())
    tau = np.abs(rng.choice(grid, draws, p=weights / weights.sum()) + rng.uniform(-5e-4, 5e-4, draws))
    variance = 1 + n * tau[:, None] ** 2
    z = tau[:, None] * total / variance + rng.normal(size=(draws, groups)) / np.sqrt(variance)
    return {"tau": tau[None], "z": z[None]}

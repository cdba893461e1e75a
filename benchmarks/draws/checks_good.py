"""Good releases of small, skewed and heavy-tailed posteriors, for the size of all checks of draws and model together.

A family makes a release of new data each time. Draws are independent and exact, or of a grid whose cells are too narrow
to be seen.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpyro
from numpyro import distributions as dist
from scipy import stats

from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.types import Model, Release
from benchmarks.draws import conjugates
from tests.support import untouched

CHAINS = 4
_CELLS = 400_000  # of a grid in one dimension
_ACROSS, _WIDE = (
    600,
    8.0,
)  # points of a grid in two dimensions, each way, and the prior's standard deviations that it spans


def in_chains(release: Release) -> Release:
    return dataclasses.replace(release, chain=np.repeat(np.arange(CHAINS), release.size // CHAINS))


def _inverted(log_density: Callable[[np.ndarray], np.ndarray], low: float, high: float, size: int, rng: Any) -> Any:
    """Draws of a density in one dimension by its distribution function, linear between the points of a grid."""
    x = np.linspace(low, high, _CELLS)
    values = log_density(x)
    rising = np.concatenate([[0.0], np.cumsum(np.exp(values - values.max())[1:])])
    return np.interp(rng.random(size), rising / rising[-1], x)


# Families that are attacked


@cache
def _program(name: str) -> Model:
    def mean(y: Any) -> None:
        mu = numpyro.sample("mu", dist.StudentT(3.0, 0.0, 1.0))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(mu, 4.0), obs=y)

    def waits(y: Any) -> None:
        rate = numpyro.sample("rate", dist.Gamma(1.0, 1.0))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Exponential(rate), obs=y)

    def groups(group: Any, y: Any) -> None:
        rate = numpyro.sample("rate", dist.Gamma(1.0, 1.0).expand((5,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Exponential(rate[group]), obs=y)

    def spread(y: Any) -> None:
        variance = numpyro.sample("variance", dist.InverseGamma(1.0, 1.0))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Normal(0.0, variance**0.5), obs=y)

    def share(y: Any) -> None:
        p = numpyro.sample("p", dist.Beta(0.5, 0.5))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Bernoulli(probs=p), obs=y)

    def counts(y: Any) -> None:
        rate = numpyro.sample("rate", dist.Gamma(0.5, 0.2))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Poisson(rate), obs=y)

    def logistic(x: Any, y: Any) -> None:
        b = numpyro.sample("b", dist.Normal(0.0, 2.5).expand((2,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=b[0] + b[1] * x), obs=y)

    fields: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "mean": (mean, {"y": ()}, {}),
        "waits": (waits, {"y": ()}, {"y": "positive"}),
        "groups": (groups, {"group": (), "y": ()}, {"group": list(range(5)), "y": "positive"}),
        "spread": (spread, {"y": ()}, {}),
        "share": (share, {"y": ()}, {"y": "binary"}),
        "counts": (counts, {"y": ()}, {"y": "count"}),
        "logistic": (logistic, {"x": (), "y": ()}, {"x": [-1.0, 0.0, 1.0], "y": "binary"}),
    }
    program, record, domain = fields[name]
    return from_numpyro(program, record, domain=domain, name=name)


def t_prior(rng: Any, draws: int) -> Release:
    y = rng.normal(2, 4, 4)
    value = lambda m: stats.t(3).logpdf(m) - ((y[:, None] - m) ** 2).sum(axis=0) / 32  # noqa: E731
    return from_draws({"mu": _inverted(value, -30, 30, draws, rng)[None]}, _program("mean"))


def waiting(rng: Any, draws: int) -> Release:
    y = rng.exponential(1, 3)
    return from_draws({"rate": rng.gamma(4, 1 / (1 + y.sum()), (1, draws))}, _program("waits"))


def waiting_by_group(rng: Any, draws: int) -> Release:
    y = rng.exponential(1, (5, 3))
    return from_draws({"rate": rng.gamma(4, 1 / (1 + y.sum(axis=1)), (1, draws, 5))}, _program("groups"))


def variance(rng: Any, draws: int) -> Release:
    y = rng.normal(0, 1, 4)
    values = (1 + (y**2).sum() / 2) / rng.gamma(3, 1, (1, draws))
    return from_draws({"variance": values}, _program("spread"))


def proportion(rng: Any, draws: int) -> Release:
    y = rng.random(6) < 0.3
    return from_draws({"p": rng.beta(0.5 + y.sum(), 0.5 + (~y).sum(), (1, draws))}, _program("share"))


def rate_of_counts(rng: Any, draws: int) -> Release:
    y = rng.poisson(1.5, 3)
    return from_draws({"rate": rng.gamma(0.5 + y.sum(), 1 / (0.2 + len(y)), (1, draws))}, _program("counts"))


def few_yes_or_no(rng: Any, draws: int) -> Release:
    """A logistic regression of sixteen records, whose posterior is skewed."""
    x = rng.integers(-1, 2, 16).astype(float)
    y = rng.random(16) < 1 / (1 + np.exp(-(0.5 + x)))
    grid = np.linspace(-2.5 * _WIDE / 2, 2.5 * _WIDE / 2, _ACROSS)
    log_density = -(grid[:, None] ** 2 + grid**2) / 12.5
    for level in (-1, 0, 1):
        eta, here = grid[:, None] + level * grid, y[x == level]
        log_density += here.sum() * eta - len(here) * np.logaddexp(0, eta)
    shares = np.exp(log_density - log_density.max()).ravel()
    cell = rng.choice(shares.size, draws, p=shares / shares.sum())
    step = grid[1] - grid[0]
    b = grid[np.stack(np.divmod(cell, _ACROSS), axis=-1)] + rng.uniform(-0.5, 0.5, (draws, 2)) * step
    return from_draws({"b": b[None]}, _program("logistic"))


def small_regression(rng: Any, draws: int) -> Release:
    return conjugates.regression(rng, draws, [0.5], records=8)[1]


def five_covariates(rng: Any, draws: int) -> Release:
    return conjugates.regression(rng, draws, [0.5, -1, 0, 0, 1], records=20, mean=0, sd=1)[1]


def effects(rng: Any, draws: int) -> Release:
    return conjugates.effects(rng, draws, each=4)[1]


FAMILIES: Mapping[str, tuple[Callable[[Any, int], Release], int]] = {
    "mean of 4 records, t prior": (t_prior, 4000), "rate of 3 waiting times": (waiting, 4000),
    "rates of 5 groups of 3 waiting times": (waiting_by_group, 1000), "variance of 4 records": (variance, 4000),
    "share of 6 records": (proportion, 4000), "rate of 3 counts": (rate_of_counts, 1000),
    "logistic regression on 16 records": (few_yes_or_no, 4000),
    "regression on 8 records": (small_regression, 4000),
    "regression on 20 records, 5 covariates": (five_covariates, 4000), "5 effects of 20 records": (effects, 1000),
}  # fmt: skip
"""Makers of releases, and their numbers of draws."""

LAWS: Mapping[str, Callable[[Any, int], tuple[np.ndarray, np.ndarray]]] = {
    "t law, 3 degrees": untouched.student,
    "log gamma": untouched.log_gamma,
    "logit beta": untouched.logit_beta,
    "funnel": untouched.funnel,
    "two modes": untouched.two_modes,
    "normal": untouched.normal,
}
"""Independent draws of distributions of three coordinates, with their scores: the checks alone."""

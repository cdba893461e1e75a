"""Regressions on several covariates whose spectrum decays: programs, data, and exact draws of their posteriors."""

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
from families import exact, release_of
from numpyro import distributions as dist

from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import Model, Release

RECORDS, DRAWS = (200, 500, 1000, 2000), (1000, 2000, 4000, 10_000)
REGRESSIONS = ("logistic", "Poisson", "ordered", "negative binomial")


def linear(x: Any, intercept: bool = True) -> Any:
    d = x.shape[-1]
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand((d + intercept,)).to_event(1))
    return beta[0] + x @ beta[1:] if intercept else x @ beta


def laws(family: str, x: Any) -> Any:
    if family == "logistic":
        return dist.Bernoulli(logits=linear(x))
    if family == "Poisson":
        return dist.Poisson(jnp.exp(linear(x)))
    if family == "negative binomial":
        return dist.NegativeBinomial2(jnp.exp(linear(x)), numpyro.sample("phi", dist.Gamma(2.0, 0.5)))
    cuts = dist.TransformedDistribution(dist.Normal(0, 3).expand((3,)).to_event(1), dist.transforms.OrderedTransform())
    return dist.OrderedLogistic(linear(x, False), numpyro.sample("cuts", cuts))


@cache  # its programs are compiled once, however many data sets there are
def model_of(family: str, covariates: int) -> Model:
    def program(x: Any, y: Any = None) -> None:
        law = laws(family, x)
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", law, obs=y)

    return from_numpyro(program, {"x": (covariates,), "y": ()}, name=f"{family}_{covariates}".replace(" ", "_"))


def data_of(family: str, covariates: int, records: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    x = rng.normal(size=(records, covariates))
    # As strong together whatever their number: counts of tens, and chances that are rarely near zero or one.
    slopes = rng.normal(0, (1.5 if family in ("logistic", "ordered") else 0.7) / np.sqrt(covariates), covariates)
    eta = 0.3 + x @ slopes
    if family == "logistic":
        y = rng.random(records) < 1 / (1 + np.exp(-eta))
    elif family == "ordered":
        y = np.searchsorted([-1.0, 0.5, 2.0], eta + rng.logistic(size=records))
    elif family == "Poisson":
        y = rng.poisson(np.exp(eta))
    else:
        y = rng.poisson(np.exp(eta) * rng.gamma(3, 1 / 3, records))
    return {"x": x, "y": y.astype(int)}


def simulated(family: str, covariates: int, key: int) -> tuple[Model, dict[str, np.ndarray], Release]:
    """A data set, and the release of its posterior."""
    rng, model = np.random.default_rng(1000 * covariates + key), model_of(family, covariates)
    data = data_of(family, covariates, RECORDS[key % 4], rng)
    with x64():
        theta = exact(model, {k: jnp.asarray(v) for k, v in data.items()}, DRAWS[key // 4 % 4], rng)
        return model, data, release_of(model, theta)

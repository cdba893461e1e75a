"""Regressions on several covariates whose spectrum decays: programs, data, and exact draws of their posteriors."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist

from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import Model, Release
from tests.support.families import exact, release_of

RECORDS, DRAWS = (200, 500, 1000, 2000), (1000, 2000, 4000, 10_000)
REGRESSIONS = ("logistic", "Poisson", "ordered", "negative binomial")
_LARGEST = 4.0  # linear predictor of a count on covariates with long tails: counts of hundreds are no regression


def _squared(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.column_stack([x[:, :1], (x[:, :1] ** 2 - 1) / np.sqrt(2), x[:, 2:]])


SHAPES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "normal": lambda x, rng: x,
    "correlated": lambda x, rng: 0.6 * x + 0.8 * rng.normal(size=(len(x), 1)),
    "uniform": lambda x, rng: rng.uniform(-1, 1, x.shape) * np.sqrt(3),
    "binary": lambda x, rng: np.where(x > 0.5, 1.5, -0.67),
    "two peaks": lambda x, rng: 0.4 * x + np.where(rng.random(x.shape) < 0.5, -0.9, 0.9),
    "a small group": lambda x, rng: np.column_stack([0.5 * x[:, 0] + 3 * (rng.random(len(x)) < 0.1), x[:, 1:]]),
    "a square": _squared,
    "lognormal": lambda x, rng: np.exp(0.8 * x) - np.exp(0.32),
    "t, 3 degrees": lambda x, rng: x * np.sqrt(1 / rng.chisquare(3, x.shape)),
    "outliers": lambda x, rng: np.where(rng.random((len(x), 1)) < 0.05, 6 * x, x),
}
"""What becomes of standard normal covariates: laws that the generic records do not have."""


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


def data_of(
    family: str, covariates: int, records: int, rng: np.random.Generator, shape: str = "normal"
) -> dict[str, np.ndarray]:
    x = SHAPES[shape](rng.normal(size=(records, covariates)), rng)
    # As strong together whatever their number: counts of tens, and chances that are rarely near zero or one.
    slopes = rng.normal(0, (1.5 if family in ("logistic", "ordered") else 0.7) / np.sqrt(covariates), covariates)
    eta = 0.3 + x @ slopes
    if shape != "normal" and family in ("Poisson", "negative binomial"):
        eta = np.minimum(eta, _LARGEST)
    if family == "logistic":
        y = rng.random(records) < 1 / (1 + np.exp(-eta))
    elif family == "ordered":
        y = np.searchsorted([-1.0, 0.5, 2.0], eta + rng.logistic(size=records))
    elif family == "Poisson":
        y = rng.poisson(np.exp(eta))
    else:
        y = rng.poisson(np.exp(eta) * rng.gamma(3, 1 / 3, records))
    return {"x": x, "y": y.astype(int)}


def draws_of(key: int) -> int:
    """Of a data set."""
    return DRAWS[key // 4 % 4]


def simulated(
    family: str, covariates: int, key: int, shape: str = "normal"
) -> tuple[Model, dict[str, np.ndarray], Release]:
    """A data set, and the release of its posterior."""
    rng, model = np.random.default_rng(1000 * covariates + key), model_of(family, covariates)
    data = data_of(family, covariates, RECORDS[key % 4], rng, shape)
    with x64():
        theta = exact(model, {k: jnp.asarray(v) for k, v in data.items()}, draws_of(key), rng)
        return model, data, release_of(model, theta)

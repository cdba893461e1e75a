"""Generalised linear models with one coefficient vector: logistic and Poisson regression."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.errors import BayesreconError
from bayesrecon.models.adapter import from_numpyro
from bayesrecon.models.linear import flat
from bayesrecon.models.registry import Shipped
from bayesrecon.types import Model, Records


def _wells_dist(dist_unit: float = 1.0, name: str = "wells_dist") -> Model:
    def program(**record: Any) -> None:
        if name == "wells_dist":
            beta: Any = numpyro.sample("beta", flat().expand((2,)).to_event(1))
            intercept, slope = beta[0], beta[1]
        else:
            intercept = numpyro.sample("alpha", flat())
            slopes: Any = numpyro.sample("beta", flat().expand((1,)).to_event(1))
            slope = slopes[0]
        eta = intercept + slope * record["dist"] / dist_unit
        with numpyro.plate("records", eta.shape[0]):
            numpyro.sample("switched", dist.Bernoulli(logits=eta), obs=record["switched"])

    domain = {"dist": "positive"}
    return from_numpyro(program, {"dist": (), "switched": ()}, domain=domain, name=name)


def _wells_records(data: Mapping[str, Any]) -> Records:
    return {"dist": np.asarray(data["dist"], float), "switched": np.asarray(data["switched"], np.int64)}


def _glm_poisson() -> Model:
    bounds = {"alpha": 20.0, "beta1": 10.0, "beta2": 10.0, "beta3": 10.0}

    def program(year: Any, C: Any = None) -> None:
        a, b1, b2, b3 = (numpyro.sample(k, dist.Uniform(-v, v)) for k, v in bounds.items())
        with numpyro.plate("records", year.shape[0]):
            numpyro.sample("C", dist.Poisson(jnp.exp(a + year * (b1 + year * (b2 + year * b3)))), obs=C)

    return from_numpyro(program, {"year": (), "C": ()}, name="GLM_Poisson_model")


def _glm_poisson_records(data: Mapping[str, Any]) -> Records:
    return {"year": np.asarray(data["year"], float), "C": np.asarray(data["C"], np.int64)}


def _regression(name: str, law: Any, covariates: Sequence[str], response: str, scale: float) -> Model:
    covariates = tuple(covariates)
    if not covariates or response in covariates or len(set(covariates)) < len(covariates):
        raise BayesreconError(f"{name} needs distinct covariates, and a response that is not one of them")

    def program(**record: Any) -> None:
        alpha = numpyro.sample("alpha", dist.Normal(0, scale))
        beta = numpyro.sample("beta", dist.Normal(0, scale).expand((len(covariates),)).to_event(1))
        eta = alpha + jnp.stack([record[c] for c in covariates], axis=-1) @ beta
        with numpyro.plate("records", eta.shape[0]):
            numpyro.sample(response, law(eta), obs=record[response])

    return from_numpyro(
        program,
        {**dict.fromkeys(covariates, ()), response: ()},
        name=name,
        settings={"covariates": covariates, "response": response, "coefficient_scale": scale},
    )


def logistic_regression(
    covariates: Sequence[str] = ("x",), response: str = "y", coefficient_scale: float = 10.0
) -> Model:
    """`response ~ Bernoulli(logit = alpha + sum_j beta_j covariate_j)` with normal priors, for tables."""
    law = lambda eta: dist.Bernoulli(logits=eta)  # noqa: E731
    return _regression("logistic_regression", law, covariates, response, coefficient_scale)


def poisson_regression(
    covariates: Sequence[str] = ("x",), response: str = "y", coefficient_scale: float = 10.0
) -> Model:
    """`response ~ Poisson(exp(alpha + sum_j beta_j covariate_j))` with normal priors, for tables."""
    law = lambda eta: dist.Poisson(jnp.exp(eta))  # noqa: E731
    return _regression("poisson_regression", law, covariates, response, coefficient_scale)


MODELS: tuple[Shipped, ...] = (
    Shipped(
        "wells_dist",
        _wells_dist,
        "logistic regression of switching on distance",
        _wells_records,
        ("wells_data-wells_dist",),
    ),
    Shipped(
        "wells_dist100_model",
        lambda: _wells_dist(100.0, "wells_dist100_model"),
        "logistic regression of switching on distance in 100 m",
        _wells_records,
        ("wells_data-wells_dist100_model",),
    ),
    Shipped(
        "GLM_Poisson_model",
        _glm_poisson,
        "Poisson regression of counts on a cubic in the year",
        _glm_poisson_records,
        ("GLM_Poisson_Data-GLM_Poisson_model",),
    ),
    Shipped("logistic_regression", logistic_regression, "logistic regression of a binary column on others"),
    Shipped("poisson_regression", poisson_regression, "Poisson regression of a count column on others"),
)

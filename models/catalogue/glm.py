"""Generalised linear models with one coefficient vector: Poisson, binomial, and generic regressions of tables."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import BinomialLogit, index, observe
from bayesrecon.models.catalogue.linear import array
from bayesrecon.models.entry import Shipped


def _glm_poisson() -> Model:
    bounds = {"alpha": 20.0, "beta1": 10.0, "beta2": 10.0, "beta3": 10.0}

    def program(year: Any, C: Any = None) -> None:
        a, b1, b2, b3 = (numpyro.sample(k, dist.Uniform(-v, v)) for k, v in bounds.items())
        observe("C", dist.Poisson(jnp.exp(a + year * (b1 + year * (b2 + year * b3)))), C, year.shape[0])

    return adapt(program, {"year": (), "C": ()}, name="GLM_Poisson_model")


def _glm_binomial() -> Model:
    def program(year: Any, N: Any, C: Any = None) -> None:
        a, b1, b2 = (numpyro.sample(k, dist.Normal(0, 100)) for k in ("alpha", "beta1", "beta2"))
        observe("C", BinomialLogit(a + year * (b1 + year * b2), N), C, year.shape[0])

    domain = {"N": "count", "C": "count"}
    return adapt(program, {"year": (), "N": (), "C": ()}, domain=domain, name="GLM_Binomial_model")


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

    return adapt(
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
        "GLM_Poisson_model",
        _glm_poisson,
        "Poisson regression of counts on a cubic in the year",
        lambda data: {"year": array(data, "year"), "C": index(data, "C")},
        ("GLM_Poisson_Data-GLM_Poisson_model",),
        design=("year",),
        response="C",
    ),
    Shipped(
        "GLM_Binomial_model",
        _glm_binomial,
        "binomial regression of counts on a quadratic in the year",
        lambda data: {"year": array(data, "year"), "N": index(data, "N"), "C": index(data, "C")},
        ("GLM_Binomial_data-GLM_Binomial_model",),
        design=("year", "N"),
        response="C",
    ),
    Shipped("logistic_regression", logistic_regression, "logistic regression of a binary column on others"),
    Shipped("poisson_regression", poisson_regression, "Poisson regression of a count column on others"),
)

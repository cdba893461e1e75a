"""Generalised linear models with one coefficient vector: Poisson, binomial, and generic regressions of tables."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import index, observe
from bayesrecon.models.catalogue.later import dist, laws, numpyro
from bayesrecon.models.catalogue.linear import array
from bayesrecon.models.catalogue.written import written
from bayesrecon.models.entry import Shipped


def glm_poisson_model(year: Any, C: Any = None) -> None:
    """`C ~ Poisson(exp(alpha + beta1 year + beta2 year^2 + beta3 year^3))`."""
    bounds = {"alpha": 20.0, "beta1": 10.0, "beta2": 10.0, "beta3": 10.0}
    a, b1, b2, b3 = (numpyro.sample(k, dist.Uniform(-v, v)) for k, v in bounds.items())
    observe("C", dist.Poisson(jnp.exp(a + year * (b1 + year * (b2 + year * b3)))), C, year.shape[0])


def glm_binomial_model(year: Array, N: Array, C: Array | None = None) -> None:
    """`C ~ Binomial(N, logit^-1(alpha + beta1 year + beta2 year^2))`."""
    a, b1, b2 = (numpyro.sample(k, dist.Normal(0, 100)) for k in ("alpha", "beta1", "beta2"))
    observe("C", laws.BinomialLogit(a + year * (b1 + year * b2), N), C, year.shape[0])


def _regression(name: str, law: Any, covariates: Sequence[str], response: str, scale: float) -> Model:
    covariates = tuple(covariates)
    if not covariates or response in covariates or len(set(covariates)) < len(covariates):
        raise BayesreconError(f"{name} needs distinct covariates that do not include the response")

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
    written(
        glm_poisson_model,
        "Poisson regression of counts on a cubic in the year",
        name="GLM_Poisson_model",
        records=lambda data: {"year": array(data, "year"), "C": index(data, "C")},
        posteriors=("GLM_Poisson_Data-GLM_Poisson_model",),
        design=("year",),
        response="C",
    ),
    written(
        glm_binomial_model,
        "binomial regression of counts on a quadratic in the year",
        name="GLM_Binomial_model",
        domain={"N": "count", "C": "count"},
        records=lambda data: {"year": array(data, "year"), "N": index(data, "N"), "C": index(data, "C")},
        posteriors=("GLM_Binomial_data-GLM_Binomial_model",),
        design=("year", "N"),
        response="C",
    ),
    Shipped("logistic_regression", logistic_regression, "logistic regression of a binary column on others"),
    Shipped("poisson_regression", poisson_regression, "Poisson regression of a count column on others"),
)

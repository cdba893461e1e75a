"""Generalised linear models with one coefficient vector: Poisson, binomial, and generic regressions of tables."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import index, latent, observe
from bayesrecon.models.catalogue.lazy_numpyro import dist, extra
from bayesrecon.models.catalogue.linear import array
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


def glm_poisson_model(year: Array, C: Array | None = None) -> None:
    """`C ~ Poisson(exp(alpha + beta1 year + beta2 year^2 + beta3 year^3))`."""
    bounds = {"alpha": 20.0, "beta1": 10.0, "beta2": 10.0, "beta3": 10.0}
    a, b1, b2, b3 = (latent(k, dist.Uniform(-v, v)) for k, v in bounds.items())
    observe("C", dist.Poisson(jnp.exp(a + year * (b1 + year * (b2 + year * b3)))), C, year.shape[0])


def glm_binomial_model(year: Array, N: Array, C: Array | None = None) -> None:
    """`C ~ Binomial(N, logit^-1(alpha + beta1 year + beta2 year^2))`."""
    a, b1, b2 = (latent(k, dist.Normal(0, 100)) for k in ("alpha", "beta1", "beta2"))
    observe("C", extra.BinomialLogit(a + year * (b1 + year * b2), N), C, year.shape[0])


def _regression(
    name: str,
    response_distribution: Callable[[jax.Array], "Distribution"],
    covariates: Sequence[str],
    response: str,
    scale: float,
) -> Model:
    covariates = tuple(covariates)
    if not covariates or response in covariates or len(set(covariates)) < len(covariates):
        raise BayesreconError(f"{name} needs distinct covariates that do not include the response")

    def program(**record: Array) -> None:
        alpha = latent("alpha", dist.Normal(0, scale))
        beta = latent("beta", dist.Normal(0, scale).expand((len(covariates),)).to_event(1))
        eta = alpha + jnp.stack([record[c] for c in covariates], axis=-1) @ beta
        observe(response, response_distribution(eta), record[response], eta.shape[0])

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
    distribution = lambda eta: dist.Bernoulli(logits=eta)  # noqa: E731
    return _regression("logistic_regression", distribution, covariates, response, coefficient_scale)


def poisson_regression(
    covariates: Sequence[str] = ("x",), response: str = "y", coefficient_scale: float = 10.0
) -> Model:
    """`response ~ Poisson(exp(alpha + sum_j beta_j covariate_j))` with normal priors, for tables."""
    distribution = lambda eta: dist.Poisson(jnp.exp(eta))  # noqa: E731
    return _regression("poisson_regression", distribution, covariates, response, coefficient_scale)


MODELS: tuple[Shipped, ...] = (
    from_program(
        glm_poisson_model,
        "Poisson regression of counts on a cubic in the year",
        name="GLM_Poisson_model",
        records=lambda data: {"year": array(data, "year"), "C": index(data, "C")},
        posteriors=("GLM_Poisson_Data-GLM_Poisson_model",),
        design=("year",),
        response="C",
    ),
    from_program(
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

"""Generalised linear models with one coefficient vector: Poisson, binomial, and generic regressions of tables."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import latent, observe
from bayesrecon.models.catalogue.lazy_numpyro import dist
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


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
    Shipped("logistic_regression", logistic_regression, "logistic regression of a binary column on others"),
    Shipped("poisson_regression", poisson_regression, "Poisson regression of a count column on others"),
)

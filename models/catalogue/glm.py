"""Generalised linear models with one coefficient vector: Poisson, binomial, and generic regressions of tables."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import by_row, given, latent, levels, observe, rebuild, standard, standardised
from bayesrecon.models.catalogue.lazy_numpyro import dist, extra
from bayesrecon.models.catalogue.linear import array
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


# Models with a parameter per group, written non-centred: a record names its group by an index field.


def eight_schools_noncentered(school: Array, sigma: Array, y: Array | None = None, *, schools: int = 8) -> None:
    """Effects of coaching in schools: `y_j ~ Normal(mu + tau * theta_trans_j, sigma_j)`; school counts from 1."""
    theta_trans = standard("theta_trans", schools)
    mu = latent("mu", dist.Normal(0, 5))
    tau = latent("tau", dist.HalfCauchy(5))
    observe("y", dist.Normal(mu + tau * theta_trans[school - 1], sigma), y, school.shape[0])


def seeds_centered_model(
    plate: Array, x1: Array, x2: Array, N: Array, n: Array | None = None, *, plates: int = 21
) -> None:
    """Germination on plates: `n_i ~ Binomial(N_i, logit^-1(alpha0 + alpha1 x1 + alpha2 x2 + alpha12 x1 x2 + b_i))`,
    effects b that sum to zero."""
    a0, a1, a2, a12 = (latent(k, dist.Normal(0, 1)) for k in ("alpha0", "alpha1", "alpha2", "alpha12"))
    b = latent("sigma", dist.HalfCauchy(1)) * standard("c_raw", plates)
    eta = a0 + a1 * x1 + a2 * x2 + a12 * x1 * x2 + (b - jnp.mean(b))[plate - 1]
    observe("n", extra.BinomialLogit(eta, N), n, eta.shape[0])


MODELS: tuple[Shipped, ...] = (
    Shipped("logistic_regression", logistic_regression, "logistic regression of a binary column on others"),
    Shipped("poisson_regression", poisson_regression, "Poisson regression of a count column on others"),
    from_program(
        eight_schools_noncentered,
        "effect per school with known standard error, non-centred",
        domain=lambda schools: {"school": levels(schools), "sigma": "positive"},
        # posteriordb publishes theta; the score of centred coordinates has infinite variance.
        prepare=rebuild(standardised("theta_trans", "theta", "mu", "tau")),
        posteriors=("eight_schools-eight_schools_noncentered", "eight_schools-eight_schools_centered"),
        constants=given(schools="J"),
        records=lambda data: {"school": np.arange(1, 1 + data["J"]), **{k: array(data, k) for k in ("sigma", "y")}},
        design=("school", "sigma"),
    ),
    from_program(
        seeds_centered_model,
        "seeds that germinated per plate, effects that sum to zero",
        domain=lambda plates: {"plate": levels(plates), "x1": "binary", "x2": "binary", "N": "count", "n": "count"},
        prepare=rebuild(standardised("c_raw", "c", None, "sigma")),
        posteriors=("seeds_data-seeds_centered_model",),
        constants=given(plates="I"),
        records=by_row("plate", "I", "x1", "x2", "N", "n")["records"],
        design=("plate", "x1", "x2", "N"),
    ),
)

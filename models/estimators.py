"""Regressions as estimators fit them: flat priors, one coefficient a column, and the scale as it is printed."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.domains import BINARY, COUNT, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Parameter
from bayesrecon.models.entry import Shipped


def _bernoulli(eta: Any, y: Any) -> Any:
    return jax.nn.log_sigmoid((2 * y - 1) * eta)


def _poisson(eta: Any, y: Any) -> Any:
    return y * eta - jnp.exp(eta)


_LAWS: dict[str, tuple[Callable[[Any, Any], Any], Domain]] = {
    "logit": (_bernoulli, BINARY),
    "poisson": (_poisson, COUNT),
}


_Factors = tuple[tuple[str, tuple[str, ...]], ...]


@cache  # releases of one model belong together by the model object
def _estimator(kind: str, covariates: tuple[str, ...], response: str, intercept: bool, factors: _Factors = ()) -> Model:
    if response in covariates or len(set(covariates)) < len(covariates) or not (covariates or intercept):
        raise BayesreconError(f"{kind} needs distinct covariates, and a response that is not one of them")
    width = len(covariates) + intercept

    def predictor(params: dict[str, Any], record: dict[str, Any]) -> Any:
        columns = [jnp.asarray(record[c], float) for c in covariates]
        return jnp.stack([jnp.ones(()), *columns] if intercept else columns) @ params["coefficient"]

    parameters = (Parameter("coefficient", (width,)),)
    fields = {c: Field() for c in covariates}
    settings: dict[str, Any] = {"covariates": covariates, "response": response, "intercept": intercept}
    if factors:
        settings["factors"] = {name: list(columns) for name, columns in factors}
    if kind == "ols":
        return Model(
            name=kind,
            parameters=(*parameters, Parameter("sigma", (), bounds=(0.0, float("inf")))),
            fields={**fields, response: Field()},
            log_lik_at=lambda p, z: (
                -jnp.log(p["sigma"]) - 0.5 * ((jnp.asarray(z[response], float) - predictor(p, z)) / p["sigma"]) ** 2
            ),
            # The scale divides by n - p, not by n.
            log_prior_at=lambda p: width * jnp.log(p["sigma"]),
            settings=settings,
        )
    law, domain = _LAWS[kind]
    return Model(
        name=kind,
        parameters=parameters,
        fields={**fields, response: Field((), domain)},
        log_lik_at=lambda p, z: law(predictor(p, z), jnp.asarray(z[response], float)),
        log_prior_at=lambda p: jnp.zeros(()),
        settings=settings,
    )


def ols(
    covariates: Sequence[str] = ("x",),
    response: str = "y",
    intercept: bool = True,
    factors: Mapping[str, Sequence[str]] | None = None,
) -> Model:
    """Ordinary least squares, `y = coefficient . (1, covariates) + error`, with `sigma^2 = RSS / (n - p)`.

    `coefficient` and `sigma` are the mode of `sum_n log N(y_n; mu_n, sigma) + p log sigma`, and `sigma^2 (X'X)^-1` is
    the inverse of minus its Hessian in the coefficients. `factors` are covariates that are exclusive dummies of one
    variable each: verbs count their levels.

    >>> ols(["age"]).coordinates
    ('coefficient[1]', 'coefficient[2]', 'sigma')
    """
    return _estimator("ols", tuple(covariates), response, intercept, _plain(factors))


def logit(
    covariates: Sequence[str] = ("x",),
    response: str = "y",
    intercept: bool = True,
    factors: Mapping[str, Sequence[str]] | None = None,
) -> Model:
    """Logistic regression by maximum likelihood; `factors` as in `ols`.

    >>> logit(["age"]).coordinates
    ('coefficient[1]', 'coefficient[2]')
    """
    return _estimator("logit", tuple(covariates), response, intercept, _plain(factors))


def poisson(
    covariates: Sequence[str] = ("x",),
    response: str = "y",
    intercept: bool = True,
    factors: Mapping[str, Sequence[str]] | None = None,
) -> Model:
    """Poisson regression with a log link by maximum likelihood; `factors` as in `ols`.

    >>> poisson(["age"]).fields["y"].domain.kind
    'integer'
    """
    return _estimator("poisson", tuple(covariates), response, intercept, _plain(factors))


def _plain(factors: Mapping[str, Sequence[str]] | None) -> _Factors:
    return tuple((name, tuple(columns)) for name, columns in (factors or {}).items())


ESTIMATORS: dict[str, Callable[..., Model]] = {"ols": ols, "logit": logit, "poisson": poisson}
"""By the names that a table is read with."""

MODELS: tuple[Shipped, ...] = (
    Shipped("ols", ols, "ordinary least squares as a table prints it (a trained parameter, not draws)"),
    Shipped("logit", logit, "logistic regression by maximum likelihood (a trained parameter, not draws)"),
    Shipped("poisson", poisson, "Poisson regression by maximum likelihood (a trained parameter, not draws)"),
)

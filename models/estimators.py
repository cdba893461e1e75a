"""Regressions as estimators fit them: flat priors, one coefficient per column, and the usual scale estimate."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.domains import BINARY, COUNT, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Parameter
from bayesrecon.models.entry import Shipped


def _bernoulli(eta: Array, y: Array) -> jax.Array:
    return jax.nn.log_sigmoid((2 * y - 1) * eta)


def _poisson(eta: jax.Array, y: jax.Array) -> jax.Array:
    return y * eta - jnp.exp(eta)


_RESPONSES: dict[str, tuple[Callable[[jax.Array, jax.Array], jax.Array], Domain]] = {
    "logit": (_bernoulli, BINARY),
    "poisson": (_poisson, COUNT),
}


_Factors = tuple[tuple[str, tuple[str, ...]], ...]
"""`(name, columns)` of each factor, in a form that can be hashed."""


OFFSET = "offset"
"""The field that enters the linear predictor with the coefficient one, if the fit had an offset."""


@cache  # releases of one model belong together by the model object
def _estimator(
    kind: str,
    covariates: tuple[str, ...],
    response: str,
    intercept: bool,
    factors: _Factors = (),
    weights: str | None = None,
    records: float | None = None,
    offset: bool = False,
) -> Model:
    if response in covariates or len(set(covariates)) < len(covariates) or not (covariates or intercept):
        raise BayesreconError(f"{kind} needs distinct covariates that do not include the response")
    if offset and OFFSET in (*covariates, response):
        raise BayesreconError(f"{kind}: {OFFSET!r} is the name of the fit's offset; rename the other column")
    width = len(covariates) + intercept

    def predictor(params: dict[str, Array], record: dict[str, Array]) -> jax.Array:
        columns = [jnp.asarray(record[c], float) for c in covariates]
        offsets = jnp.asarray(record[OFFSET], float) if offset else 0.0
        return jnp.stack([jnp.ones(()), *columns] if intercept else columns) @ params["coefficient"] + offsets

    parameters = (Parameter("coefficient", (width,)),)
    fields = {c: Field() for c in (*covariates, *([OFFSET] if offset else []))}
    settings: dict[str, object] = {"covariates": covariates, "response": response, "intercept": intercept}
    if factors:
        settings["factors"] = {name: list(columns) for name, columns in factors}
    analytic = weights == "analytic"
    if weights is not None:
        settings["fit_weights"] = weights
    if analytic and records is not None:
        settings["records"] = records
    if offset:
        settings["offset"] = True
    if kind == "ols":
        # The scale divides the sum of squares by n - p, not by n, nor by the sum of analytic weights.
        per_record = 0.0 if analytic else 1.0
        in_prior = width - (records or 0.0) if analytic else width
        return Model(
            name=kind,
            parameters=(*parameters, Parameter("sigma", (), bounds=(0.0, float("inf")))),
            fields={**fields, response: Field()},
            log_lik_at=lambda p, z: (
                -per_record * jnp.log(p["sigma"])
                - 0.5 * ((jnp.asarray(z[response], float) - predictor(p, z)) / p["sigma"]) ** 2
            ),
            log_prior_at=lambda p: in_prior * jnp.log(p["sigma"]),
            settings=settings,
        )
    log_density, domain = _RESPONSES[kind]
    return Model(
        name=kind,
        parameters=parameters,
        fields={**fields, response: Field((), domain)},
        log_lik_at=lambda p, z: log_density(predictor(p, z), jnp.asarray(z[response], float)),
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
    the inverse of minus its Hessian in the coefficients. `factors` are the covariates that are
    dummies of one categorical variable, `{variable: covariates}`; verbs count the records at each level.

    >>> ols(["age"]).coordinates
    ('coefficient[1]', 'coefficient[2]', 'sigma')
    """
    return _estimator("ols", tuple(covariates), response, intercept, _items(factors))


def logit(
    covariates: Sequence[str] = ("x",),
    response: str = "y",
    intercept: bool = True,
    factors: Mapping[str, Sequence[str]] | None = None,
) -> Model:
    """Logistic regression by maximum likelihood; `factors` as in `ols`."""
    return _estimator("logit", tuple(covariates), response, intercept, _items(factors))


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
    return _estimator("poisson", tuple(covariates), response, intercept, _items(factors))


def fitted_with(
    model: Model, *, weights: str | None = None, records: float | None = None, offset: bool = False
) -> Model:
    """The same regression fitted with weights, or by least squares with an unknown offset.

    With analytic weights `w_n`, the term of a record is `w_n log N(y_n; mu_n, sigma)`, the scale is
    `sum w r^2 / (n - p)`, and totals are sums of weights and weighted sums. An offset is a field of the record.

    Args:
        weights: "frequency" (a record with weight w counts w times), or "analytic" (precision or sampling weights).
        records: n, the number of records. With analytic weights, the scale has no equation without it.

    >>> fitted_with(ols(["age"]), offset=True).fields.keys()
    dict_keys(['age', 'offset', 'y'])
    """
    if offset and model.name != "ols":
        raise BayesreconError(
            f"the offset of a {model.name} fit is unknown and enters every record's equation, so the fit cannot be used"
        )
    settings = model.settings
    return _estimator(
        model.name,
        settings["covariates"],
        settings["response"],
        settings["intercept"],
        _items(settings.get("factors")),
        weights,
        records,
        offset,
    )


def _items(factors: Mapping[str, Sequence[str]] | None) -> _Factors:
    return tuple((name, tuple(columns)) for name, columns in (factors or {}).items())


ESTIMATORS: dict[str, Callable[..., Model]] = {"ols": ols, "logit": logit, "poisson": poisson}
"""Functions that return these models, by name."""

MODELS: tuple[Shipped, ...] = (
    Shipped("ols", ols, "ordinary least squares, as in a printed table (a trained parameter, not draws)"),
    Shipped("logit", logit, "logistic regression by maximum likelihood (a trained parameter, not draws)"),
    Shipped("poisson", poisson, "Poisson regression by maximum likelihood (a trained parameter, not draws)"),
)

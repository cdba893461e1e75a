"""The program of Gaussian linear regressions, its priors, and columns of its design matrix."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import Data, latent, observe
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


Fields = Mapping[str, Array]
"""Fields of records by name, each `(N, *shape)`."""

Design = Callable[[Fields], Sequence[Array]]
"""Function of the fields that returns the columns of the design, each `(N,)`."""

Prior = Callable[[], "Distribution"]

Identities = Mapping[str, tuple[Callable[[Fields], Array], float]]
"""By name: a function of the fields, and the known sum of its values over the records."""


def flat() -> "Distribution":
    return dist.ImproperUniform(constraints.real, (), ())


def flat_positive() -> "Distribution":
    return dist.ImproperUniform(constraints.positive, (), ())


def half_cauchy() -> "Distribution":
    return dist.HalfCauchy(2.5)


def gaussian_linear(
    name: str,
    *,
    fields: Mapping[str, tuple[int, ...]],
    response: str,
    design: Design,
    coefficients: Mapping[str, tuple[int | None, Prior]],
    scale: Prior = flat_positive,
    domain: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    identities: Identities | None = None,
) -> Model:
    """A linear regression as a `Model`.

    Args:
        fields: covariate fields and their shapes; the response is added.
        design: columns of the design from the covariate fields, each `(N,)`.
        coefficients: `{site: (length or None for a scalar, prior)}` in the order of the columns.
        scale: prior of the site `sigma`.
    """

    def program(**record: Array) -> None:
        parts = []
        for site, (length, prior) in coefficients.items():
            distribution = prior() if length is None else prior().expand((length,)).to_event(1)
            parts.append(jnp.atleast_1d(latent(site, distribution)))
        sigma = latent("sigma", scale())
        columns = jnp.stack([jnp.asarray(c, float) for c in design(record)], axis=-1)
        mean = columns @ jnp.concatenate(parts)
        observe(response, dist.Normal(mean, sigma), record[response], columns.shape[0])

    def predictor(beta: np.ndarray, record: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = np.stack([np.asarray(c, float) for c in design(record)], axis=-1)
        return np.asarray(record[response], float) - columns @ beta, columns, np.ones(len(columns))

    record, width = {**fields, response: ()}, sum(length or 1 for length, _ in coefficients.values())
    gaussian = (
        GaussianPredictor(tuple(range(width)), predictor, scale=width) if width <= GaussianPredictor.MOST else None
    )
    return adapt(program, record, domain=domain, name=name, settings=settings, identities=identities, gaussian=gaussian)


def array(data: Data, name: str) -> np.ndarray:
    """A column of numbers of posteriordb's data."""
    return np.asarray(data[name], float)


def ones(x: Array) -> Array:
    return np.ones_like(x, dtype=float) if isinstance(x, np.ndarray) else jnp.ones_like(x, dtype=float)


def linear(*names: str) -> Design:
    """An intercept and these fields."""
    return lambda z: [ones(z[names[0]]), *(z[n] for n in names)]


def interaction(a: str, b: str) -> Design:
    """An intercept, two fields and their product."""
    return lambda z: [ones(z[a]), z[a], z[b], z[a] * z[b]]


def log(name: str) -> Callable[[Data], np.ndarray]:
    return lambda data: np.log(array(data, name))


def standardised(name: str, deviations: float) -> Callable[[Data], np.ndarray]:
    def column(data: Data) -> np.ndarray:
        x = array(data, name)
        return (x - x.mean()) / (deviations * x.std(ddof=1))

    return column


def shifted(name: str, origin: float) -> Callable[[Data], np.ndarray]:
    return lambda data: array(data, name) - origin


def zero_mean(*names: str) -> Identities:
    """Identities of covariates that the program centres by their own mean."""
    return {f"sum({n})": (lambda z, n=n: z[n], 0.0) for n in names}


def unit_variance(deviations: float, *names: str) -> Identities:
    """Identities of covariates divided by a multiple of their own sample standard deviation (N - 1)."""
    square = deviations**2
    scaled = {f"sum({n}^2)": (lambda z, n=n: square * z[n] ** 2 - 1, -1.0) for n in names}
    return {**zero_mean(*names), **scaled}


def linear_regression(
    covariates: Sequence[str] = ("x",),
    response: str = "y",
    coefficient_scale: float = 1e3,
    sigma_scale: float = 1e3,
) -> Model:
    """`response ~ Normal(alpha + sum_j beta_j covariate_j, sigma)` with wide normal priors, for tables."""
    covariates = tuple(covariates)
    if not covariates or response in covariates or len(set(covariates)) < len(covariates):
        raise BayesreconError("linear_regression needs distinct covariates that do not include the response")
    return gaussian_linear(
        "linear_regression",
        fields=dict.fromkeys(covariates, ()),
        response=response,
        design=linear(*covariates),
        coefficients={
            "alpha": (None, lambda: dist.Normal(0, coefficient_scale)),
            "beta": (len(covariates), lambda: dist.Normal(0, coefficient_scale)),
        },
        scale=lambda: dist.HalfNormal(sigma_scale),
        settings={
            "covariates": covariates,
            "response": response,
            "coefficient_scale": coefficient_scale,
            "sigma_scale": sigma_scale,
        },
    )


# Gaussian linear regression: programs of posteriordb, and a generic one.
#
# Every program is `y ~ Normal(design(record) @ coefficients, sigma)`; the posteriors differ in the design, the
# transform of the response, the priors and the names of the coefficients. If the original program centres or scales
# a covariate by statistics of the private data, the field is the transformed covariate.

_SIZES = ("diam1", "diam2", "canopy_height", "total_height", "density")
_LOG_SIZES = tuple(f"log_{name}" for name in _SIZES)
_VOLUME, _AREA, _SHAPE = "log_canopy_volume", "log_canopy_area", "log_canopy_shape"

_COMPUTED: Mapping[str, Callable[[Data], np.ndarray]] = {
    **{f"log_{name}": log(name) for name in ("earn", "height", "weight", *_SIZES)},
    "log10_earn": lambda data: np.log10(array(data, "earn")),
    "z_height": standardised("height", 1),
    "c2_mom_hs": shifted("mom_hs", 0.5),
    "c2_mom_iq": shifted("mom_iq", 100.0),
    _VOLUME: lambda data: np.log(array(data, "diam1") * array(data, "diam2") * array(data, "canopy_height")),
    _AREA: lambda data: np.log(array(data, "diam1") * array(data, "diam2")),
    _SHAPE: lambda data: np.log(array(data, "diam1") / array(data, "diam2")),
}
"""Fields that the programs compute from the data."""

_DOMAINS: Mapping[str, object] = {
    **dict.fromkeys(("mom_hs", "male", "group"), "binary"),
    "c2_mom_hs": [-0.5, 0.5],
    "race_adj": [1, 1.5, 2],
    "age_discrete": [1, 2, 3, 4],
    "gender": [1, 2],
}


def _regression(
    posteriors: str | tuple[str, ...],
    response: str,
    *fields: str,
    design: Callable[..., Design] = linear,
    more: int = 0,
    scale: Prior = flat_positive,
) -> Shipped:
    """The entry of one program.

    Args:
        fields: names of the covariates.
        design: of these names.
        more: number of columns beside the intercept and the covariates.
        scale: prior of sigma.
    """
    names = (posteriors,) if isinstance(posteriors, str) else posteriors
    name, columns = names[0].partition("-")[2], (response, *fields)

    def build() -> Model:
        return gaussian_linear(
            name,
            fields=dict.fromkeys(fields, ()),
            response=response,
            design=design(*fields),
            coefficients={"beta": (len(fields) + 1 + more, flat)},
            scale=scale,
            domain={field: _DOMAINS[field] for field in fields if field in _DOMAINS},
            identities=unit_variance(1, "z_height") if "z_height" in fields else {},
        )

    def records(data: Data) -> Records:
        return {n: _COMPUTED[n](data) if n in _COMPUTED else array(data, n) for n in columns}

    return Shipped(name, build, f"linear regression of {response} on {', '.join(fields)}", records, names)


def _by_age(*fields: str) -> Design:
    """An intercept and these fields, of which the third is an age by its groups."""

    def design(z: Fields) -> list[Array]:
        first, second, age, *others = fields
        ages = [1.0 * (z[age] == k) for k in (2, 3, 4)]
        return [ones(z[first]), z[first], z[second], *ages, *(z[name] for name in others)]

    return design


def _ar(order: int = 5) -> Model:
    return gaussian_linear(
        "arK",
        fields={"lags": (order,)},
        response="y",
        design=lambda z: [ones(z["y"]), *(z["lags"][:, k] for k in range(order))],
        coefficients={
            "alpha": (None, lambda: dist.Normal(0, 10)),
            "beta": (order, lambda: dist.Normal(0, 10)),
        },
        scale=half_cauchy,
        settings={"order": order},
    )


def _ar_records(data: Data) -> Records:
    y, order = array(data, "y"), int(data["K"])
    lags = np.stack([y[order - k - 1 : len(y) - k - 1] for k in range(order)], axis=1)
    return {"lags": lags, "y": y[order:]}


_score = partial(_regression, scale=half_cauchy)
_product = partial(_regression, design=interaction, more=1)

MODELS: tuple[Shipped, ...] = (
    _score("kidiq-kidscore_momhs", "kid_score", "mom_hs"),
    _score("kidiq-kidscore_momiq", "kid_score", "mom_iq"),
    _score("kidiq-kidscore_momhsiq", "kid_score", "mom_hs", "mom_iq"),
    _product("kidiq-kidscore_interaction", "kid_score", "mom_hs", "mom_iq", scale=half_cauchy),
    _product("kidiq_with_mom_work-kidscore_interaction_c2", "kid_score", "c2_mom_hs", "c2_mom_iq"),
    _regression("earnings-log10earn_height", "log10_earn", "height"),
    _regression("earnings-logearn_height", "log_earn", "height"),
    _regression("earnings-logearn_height_male", "log_earn", "height", "male"),
    _product("earnings-logearn_interaction", "log_earn", "height", "male"),
    _product("earnings-logearn_interaction_z", "log_earn", "z_height", "male"),
    _regression("earnings-logearn_logheight_male", "log_earn", "log_height", "male"),
    _regression("mesquite-mesquite", "weight", *_SIZES, "group"),
    _regression("mesquite-logmesquite", "log_weight", *_LOG_SIZES, "group"),
    _regression("mesquite-logmesquite_logva", "log_weight", _VOLUME, _AREA, "group"),
    _regression(
        "mesquite-logmesquite_logvas", "log_weight", _VOLUME, _AREA, _SHAPE, "log_total_height", "log_density", "group"
    ),
    _regression("mesquite-logmesquite_logvash", "log_weight", _VOLUME, _AREA, _SHAPE, "log_total_height", "group"),
    _regression("mesquite-logmesquite_logvolume", "log_weight", _VOLUME),
    _regression(
        tuple(f"nes{year}-nes" for year in range(1972, 2001, 4)),
        "partyid7",
        *("real_ideo", "race_adj", "age_discrete", "educ1", "gender", "income"),
        design=_by_age,
        more=2,
    ),
    Shipped("arK", _ar, "autoregression of order 5: y on its lags", _ar_records, ("arK-arK",)),
    Shipped("linear_regression", linear_regression, "linear regression of one column of a table on others"),
)

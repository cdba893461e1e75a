"""The program of Gaussian linear regressions, its priors, and columns of its design matrix."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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


def pick(*names: str, **derived: Callable[[Data], np.ndarray]) -> Callable[[Data], Records]:
    """Records of columns of the data, and of columns that are computed from the data."""

    def records(data: Data) -> Records:
        return {**{n: array(data, n) for n in names}, **{n: f(data) for n, f in derived.items()}}

    return records


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


@dataclass(frozen=True)
class _Regression:
    """One posteriordb program.

    Attributes:
        fields: names of the covariates.
        design: columns of the design matrix.
        records: function from posteriordb's data to records.
        width: number of coefficients.
        scale: prior of sigma.
        identities: totals of covariates that the program standardises.
    """

    name: str
    posteriors: tuple[str, ...]
    response: str
    fields: tuple[str, ...]
    design: Design
    records: Callable[[Data], Records]
    domain: Mapping[str, object]
    width: int
    scale: Prior = flat_positive
    identities: Identities = field(default_factory=dict)

    def build(self) -> Model:
        return gaussian_linear(
            self.name,
            fields=dict.fromkeys(self.fields, ()),
            response=self.response,
            design=self.design,
            coefficients={"beta": (self.width, flat)},
            scale=self.scale,
            domain=self.domain,
            identities=self.identities,
        )

    def shipped(self) -> Shipped:
        summary = "linear regression of " + self.response + " on " + ", ".join(self.fields)
        return Shipped(self.name, self.build, summary, self.records, self.posteriors)


def _kidiq() -> list[_Regression]:
    def regression(name: str, fields: Sequence[str], design: Design, width: int) -> _Regression:
        domain = {"mom_hs": "binary"} if "mom_hs" in fields else {}
        records = pick("kid_score", *fields)
        return _Regression(
            name, (f"kidiq-{name}",), "kid_score", tuple(fields), design, records, domain, width, half_cauchy
        )

    return [
        regression("kidscore_momhs", ["mom_hs"], linear("mom_hs"), 2),
        regression("kidscore_momiq", ["mom_iq"], linear("mom_iq"), 2),
        regression("kidscore_momhsiq", ["mom_hs", "mom_iq"], linear("mom_hs", "mom_iq"), 3),
        regression("kidscore_interaction", ["mom_hs", "mom_iq"], interaction("mom_hs", "mom_iq"), 4),
        _Regression(
            "kidscore_interaction_c2",
            ("kidiq_with_mom_work-kidscore_interaction_c2",),
            "kid_score",
            ("c2_mom_hs", "c2_mom_iq"),
            interaction("c2_mom_hs", "c2_mom_iq"),
            pick("kid_score", c2_mom_hs=shifted("mom_hs", 0.5), c2_mom_iq=shifted("mom_iq", 100.0)),
            {"c2_mom_hs": [-0.5, 0.5]},
            4,
        ),
    ]


def _earnings() -> list[_Regression]:
    male = {"male": "binary"}

    def regression(
        name: str,
        response: str,
        fields: Sequence[str],
        design: Design,
        width: int,
        records: Callable[[Data], Records],
    ) -> _Regression:
        domain = male if "male" in fields else {}
        identities = unit_variance(1, "z_height") if "z_height" in fields else {}
        posterior = (f"earnings-{name}",)
        return _Regression(
            name, posterior, response, tuple(fields), design, records, domain, width, identities=identities
        )

    earn = log("earn")
    height, height_and_male = linear("height"), linear("height", "male")
    return [
        regression(
            "log10earn_height",
            "log10_earn",
            ["height"],
            height,
            2,
            pick("height", log10_earn=lambda d: np.log10(array(d, "earn"))),
        ),
        regression("logearn_height", "log_earn", ["height"], height, 2, pick("height", log_earn=earn)),
        regression(
            "logearn_height_male",
            "log_earn",
            ["height", "male"],
            height_and_male,
            3,
            pick("height", "male", log_earn=earn),
        ),
        regression(
            "logearn_interaction",
            "log_earn",
            ["height", "male"],
            interaction("height", "male"),
            4,
            pick("height", "male", log_earn=earn),
        ),
        regression(
            "logearn_interaction_z",
            "log_earn",
            ["z_height", "male"],
            interaction("z_height", "male"),
            4,
            pick("male", log_earn=earn, z_height=standardised("height", 1)),
        ),
        regression(
            "logearn_logheight_male",
            "log_earn",
            ["log_height", "male"],
            linear("log_height", "male"),
            3,
            pick("male", log_earn=earn, log_height=log("height")),
        ),
    ]


def _mesquite() -> list[_Regression]:
    raw = ("diam1", "diam2", "canopy_height", "total_height", "density")
    derived = {
        **{f"log_{n}": log(n) for n in ("weight", *raw)},
        "log_canopy_volume": lambda d: np.log(array(d, "diam1") * array(d, "diam2") * array(d, "canopy_height")),
        "log_canopy_area": lambda d: np.log(array(d, "diam1") * array(d, "diam2")),
        "log_canopy_shape": lambda d: np.log(array(d, "diam1") / array(d, "diam2")),
    }

    def regression(name: str, *fields: str, response: str = "log_weight") -> _Regression:
        names = (response, *fields)
        records = pick(*(n for n in names if n not in derived), **{n: derived[n] for n in names if n in derived})
        domain = {"group": "binary"} if "group" in fields else {}
        posterior = (f"mesquite-{name}",)
        return _Regression(name, posterior, response, fields, linear(*fields), records, domain, len(fields) + 1)

    volume, area, shape = "log_canopy_volume", "log_canopy_area", "log_canopy_shape"
    return [
        regression("mesquite", *raw, "group", response="weight"),
        regression("logmesquite", *(f"log_{n}" for n in raw), "group"),
        regression("logmesquite_logva", volume, area, "group"),
        regression("logmesquite_logvas", volume, area, shape, "log_total_height", "log_density", "group"),
        regression("logmesquite_logvash", volume, area, shape, "log_total_height", "group"),
        regression("logmesquite_logvolume", volume),
    ]


def _nes() -> _Regression:
    fields = ("real_ideo", "race_adj", "age_discrete", "educ1", "gender", "income")

    def design(z: Mapping[str, Array]) -> list[Array]:
        ages = [1.0 * (z["age_discrete"] == k) for k in (2, 3, 4)]
        constant = ones(z["real_ideo"])
        return [constant, z["real_ideo"], z["race_adj"], *ages, z["educ1"], z["gender"], z["income"]]

    domain = {"race_adj": [1, 1.5, 2], "age_discrete": [1, 2, 3, 4], "gender": [1, 2]}
    years = range(1972, 2001, 4)
    posteriors = tuple(f"nes{y}-nes" for y in years)
    return _Regression("nes", posteriors, "partyid7", fields, design, pick("partyid7", *fields), domain, 9)


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


MODELS: tuple[Shipped, ...] = (
    *(regression.shipped() for regression in (*_kidiq(), *_earnings(), *_mesquite(), _nes())),
    Shipped("arK", _ar, "autoregression of order 5: y on its lags", _ar_records, ("arK-arK",)),
    Shipped("linear_regression", linear_regression, "linear regression of one column of a table on others"),
)

"""Gaussian linear regression: programs of posteriordb, and a generic one.

Every program is `y ~ Normal(design(record) @ coefficients, sigma)`; the posteriors differ in the design, the
transform of the response, the priors and the names of the coefficients. If the original program
centres or scales a covariate by statistics of the private data, the field is the transformed covariate.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Model, Records
from bayesrecon.models.catalogue.latent import Data
from bayesrecon.models.catalogue.lazy_numpyro import dist
from bayesrecon.models.catalogue.linear import (
    Design,
    Identities,
    Prior,
    array,
    flat,
    flat_positive,
    gaussian_linear,
    half_cauchy,
    interaction,
    linear,
    linear_regression,
    log,
    ones,
    pick,
    shifted,
    standardised,
    unit_variance,
)
from bayesrecon.models.entry import Shipped


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

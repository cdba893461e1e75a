"""Logistic regressions with flat priors: wells that were switched, and votes by income.

If a program centres a covariate by its mean over the private data, the field is the centred covariate. If a program
changes units (to 100 m or four years), the field has the units of the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, index, latent, observe
from bayesrecon.models.catalogue.lazy_numpyro import dist
from bayesrecon.models.catalogue.linear import Design, Fields, centred, flat, pick, zero_mean
from bayesrecon.models.entry import Shipped


@dataclass(frozen=True)
class _Logit:
    """One program: intercept `alpha` and slopes `beta` for the columns of the design."""

    name: str
    summary: str
    fields: tuple[str, ...]
    design: Design
    response: str = "switched"
    data: str = "wells_data"
    domain: Mapping[str, object] = field(default_factory=dict)
    intercept_in_beta: bool = False  # the intercept is the first entry of beta

    def program(self, **record: Array) -> None:
        columns = self.design(record)
        if self.intercept_in_beta:
            coefficients = latent("beta", flat().expand((1 + len(columns),)).to_event(1))
            alpha, beta = coefficients[0], coefficients[1:]
        else:
            alpha = latent("alpha", flat())
            beta = latent("beta", flat().expand((len(columns),)).to_event(1))
        eta = alpha + jnp.stack(columns, axis=-1) @ beta
        observe(self.response, dist.Bernoulli(logits=eta), record[self.response], eta.shape[0])

    def records(self, data: Data) -> Records:
        derived = {f: centred(f[2:]) for f in self.fields if f.startswith("c_")}
        untransformed = [f for f in self.fields if f not in derived]
        return {**pick(*untransformed, **derived)(data), self.response: index(data, self.response)}

    def shipped(self) -> Shipped:
        return from_program(
            self.program,
            self.summary,
            name=self.name,
            fields=(*self.fields, self.response),
            domain=self.domain,
            identities=zero_mean(*(f for f in self.fields if f.startswith("c_"))),
            records=self.records,
            posteriors=(f"{self.data}-{self.name}",),
            response=self.response,
        )


_DOMAIN = {"dist": "positive", "arsenic": "positive", "assoc": "binary", "educ": "count"}


def _wells(name: str, fields: tuple[str, ...], design: Design, intercept_in_beta: bool = False) -> _Logit:
    domain = {k: v for k, v in _DOMAIN.items() if k in fields}
    covariates = ", ".join(f"centred {f[2:]}" if f.startswith("c_") else f for f in fields)
    return _Logit(
        name,
        f"logistic regression of switching on {covariates}",
        fields,
        design,
        domain=domain,
        intercept_in_beta=intercept_in_beta,
    )


def _centred_pair(z: Fields) -> list[Array]:
    distance, arsenic = z["c_dist"] / 100, z["c_arsenic"]
    return [distance, arsenic, distance * arsenic]


def _centred_triple(z: Fields) -> list[Array]:
    distance, arsenic, school = z["c_dist"] / 100, z["c_arsenic"], z["c_educ"] / 4
    return [distance, arsenic, school, distance * arsenic, distance * school, arsenic * school]


_C = ("c_dist", "c_arsenic")

PROGRAMS = (
    _wells("wells_dist", ("dist",), lambda z: [z["dist"]], intercept_in_beta=True),
    _wells("wells_dist100_model", ("dist",), lambda z: [z["dist"] / 100]),
    _wells("wells_dist100ars_model", ("dist", "arsenic"), lambda z: [z["dist"] / 100, z["arsenic"]]),
    _wells(
        "wells_interaction_model",
        ("dist", "arsenic"),
        lambda z: [z["dist"] / 100, z["arsenic"], z["dist"] / 100 * z["arsenic"]],
    ),
    _wells("wells_interaction_c_model", _C, _centred_pair),
    _wells(
        "wells_dae_model",
        ("dist", "arsenic", "educ"),
        lambda z: [z["dist"] / 100, z["arsenic"], z["educ"] / 4],
    ),
    _wells("wells_dae_c_model", (*_C, "educ"), lambda z: [*_centred_pair(z), z["educ"] / 4]),
    _wells("wells_daae_c_model", (*_C, "assoc", "educ"), lambda z: [*_centred_pair(z), z["assoc"], z["educ"] / 4]),
    _wells("wells_dae_inter_model", (*_C, "c_educ"), _centred_triple),
    _Logit(
        "nes_logit_model",
        "logistic regression of the vote on income class",
        ("income",),
        lambda z: [z["income"]],
        response="vote",
        data="nes_logit_data",
        domain={"income": [1, 2, 3, 4, 5]},
    ),
)

MODELS: tuple[Shipped, ...] = tuple(p.shipped() for p in PROGRAMS)

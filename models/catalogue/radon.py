"""Radon in houses by county: intercepts, slopes or both vary over counties, written non-centred.

The centred and the non-centred programs of posteriordb describe the same posterior. Both are written in non-centred
coordinates here, in which the score has finite variance.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, index, latent, levels, observe, rebuild, standard, standardised
from bayesrecon.models.catalogue.lazy_numpyro import dist
from bayesrecon.models.entry import Shipped

MINNESOTA = 85


@dataclass(frozen=True)
class _Radon:
    """One program.

    Attributes:
        intercept: "common" to all counties, "fixed" (independent for each county) or "varying" (hierarchical).
        slope: slope of the floor, "common" or "varying"; None without it.
        uranium: whether the log of the uranium level is a covariate.
    """

    name: str
    summary: str
    intercept: str
    slope: str | None = "common"
    uranium: bool = False
    posteriors: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        by_county = self.intercept != "common" or self.slope == "varying"
        return (
            *(("county",) if by_county else ()),
            *(("log_uppm",) if self.uranium else ()),
            *(("floor",) if self.slope else ()),
            "log_radon",
        )

    def program(self, *, counties: int = MINNESOTA, floors: int = 1, **record: Array) -> None:
        county = record["county"] - 1 if "county" in self.fields else None
        sigma_y = latent("sigma_y", dist.HalfNormal(1))
        mean = _coefficient("alpha", self.intercept, counties, county)
        if self.uranium:
            beta = latent("beta", dist.Normal(0, 10).expand((2,)).to_event(1))
            mean = mean + record["log_uppm"] * beta[0] + record["floor"] * beta[1]
        elif self.slope:
            mean = mean + record["floor"] * _coefficient("beta", self.slope, counties, county)
        count = record["log_radon"].shape[0]
        observe("log_radon", dist.Normal(jnp.broadcast_to(mean, (count,)), sigma_y), record["log_radon"], count)

    def domain(self, counties: int, floors: int) -> dict[str, list[int]]:
        indices = {"county": levels(counties), "floor": list(range(floors + 1))}
        return {k: v for k, v in indices.items() if k in self.fields}

    def constants(self, data: Data) -> dict[str, object]:
        # The code of the floor is in the codebook: basement or not in Minnesota, a number elsewhere.
        sizes: dict[str, object] = {"counties": int(data["J"])} if "county" in self.fields else {}
        return {**sizes, "floors": 1 if max(data["floor_measure"]) <= 1 else 9} if "floor" in self.fields else sizes

    def records(self, data: Data) -> Records:
        columns = {"county": "county_idx", "floor": "floor_measure"}
        return {k: np.asarray(data[columns.get(k, k)], np.int64 if k in columns else float) for k in self.fields}

    def shipped(self) -> Shipped:
        varying = [k for k, kind in (("alpha", self.intercept), ("beta", self.slope)) if kind == "varying"]
        return from_program(
            self.program,
            self.summary,
            name=self.name,
            fields=self.fields,
            domain=self.domain,
            prepare=rebuild(*(standardised(f"{k}_raw", k, f"mu_{k}", f"sigma_{k}") for k in varying)),
            records=self.records,
            posteriors=tuple(f"radon_{where}-{self.name}" for where in ("mn", "all")),
            constants=self.constants,
            response="log_radon",
        )


def _coefficient(name: str, kind: str, counties: int, county: Array | None) -> jax.Array:
    """One value for all records, or one per record by its county."""
    if kind == "common":
        return latent(name, dist.Normal(0, 10))
    if kind == "fixed":
        values = latent(name, dist.Normal(0, 10).expand((counties,)).to_event(1))
        return values[county]
    mean = latent(f"mu_{name}", dist.Normal(0, 10))
    scale = latent(f"sigma_{name}", dist.HalfNormal(1))
    return mean + scale * standard(f"{name}_raw", counties)[county]


def _both(stem: str, summary: str, *, intercept: str, slope: str | None, uranium: bool = False) -> list[_Radon]:
    return [
        _Radon(f"{stem}_{form}", f"{summary} ({form} in posteriordb)", intercept, slope, uranium)
        for form in ("centered", "noncentered")
    ]


PROGRAMS = (
    _Radon("radon_pooled", "radon on floor, one line for all counties", "common"),
    _Radon("radon_county_intercept", "radon on floor, an independent intercept per county", "fixed"),
    *_both("radon_partially_pooled", "radon by county", intercept="varying", slope=None),
    *_both("radon_variable_intercept", "radon on floor, intercept by county", intercept="varying", slope="common"),
    *_both("radon_variable_slope", "radon on floor, slope by county", intercept="common", slope="varying"),
    *_both("radon_variable_intercept_slope", "radon on floor, line by county", intercept="varying", slope="varying"),
    *_both(
        "radon_hierarchical_intercept",
        "radon on floor and uranium, intercept by county",
        intercept="varying",
        slope="common",
        uranium=True,
    ),
)


def radon_county(county: Array, y: Array | None = None, *, counties: int = 386) -> None:
    """Radon by county, with scales uniform on (0, 100)."""
    mu_a = latent("mu_a", dist.Normal(0, 1))
    sigma_a = latent("sigma_a", dist.Uniform(0, 100))
    sigma_y = latent("sigma_y", dist.Uniform(0, 100))
    mean = mu_a + sigma_a * standard("a_raw", counties)[county - 1]
    observe("y", dist.Normal(mean, sigma_y), y, mean.shape[0])


MODELS: tuple[Shipped, ...] = (
    *(p.shipped() for p in PROGRAMS),
    from_program(
        radon_county,
        "radon by county, scales uniform",
        domain=lambda counties: {"county": levels(counties)},
        prepare=rebuild(standardised("a_raw", "a", "mu_a", "sigma_a")),
        records=lambda data: {"county": index(data, "county"), "y": np.asarray(data["y"], float)},
        posteriors=("radon_mod-radon_county",),
        constants=lambda data: {"counties": int(data["J"])},
        response="y",
    ),
)

"""Occupancy of sites by species, augmented with species that were never seen."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, Draws, index, latent, levels, observe, standard
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, extra, numpyro
from bayesrecon.models.entry import Shipped


def multi_occupancy(
    species_id: Array, X: Array | None = None, *, species: int = 50, sites: int = 20, visits: int = 18
) -> None:
    """Detections of a species at sites in a number of visits, species effects on occupancy and detection."""
    alpha, beta = (latent(k, dist.Cauchy(0, 2.5)) for k in ("alpha", "beta"))
    omega = latent("Omega", dist.Beta(2, 2))
    rho = latent("rho_uv", dist.ImproperUniform(constraints.interval(-1.0, 1.0), (), ()))
    numpyro.sample("rho_prior", dist.Beta(2, 2), obs=(rho + 1) / 2)
    sigma = latent("sigma_uv", dist.HalfCauchy(2.5).expand((2,)).to_event(1))
    raw = standard("uv_raw", species, 2)[species_id - 1]
    occupied = (alpha + sigma[0] * raw[:, 0])[:, None]
    detected = (beta + sigma[1] * (rho * raw[:, 0] + jnp.sqrt(1 - rho**2) * raw[:, 1]))[:, None]

    def log_density(counts: jax.Array) -> jax.Array:
        log_choose = gammaln(visits + 1.0) - gammaln(counts + 1.0) - gammaln(visits - counts + 1.0)
        occupied_site = log_choose + counts * detected - visits * jax.nn.softplus(detected) - jax.nn.softplus(-occupied)
        site = jnp.where(counts > 0, occupied_site, jnp.logaddexp(occupied_site, -jax.nn.softplus(occupied)))
        available = jnp.log(omega) + jnp.sum(site, axis=1)
        seen = jnp.sum(counts, axis=1) > 0
        return jnp.where(seen, available, jnp.logaddexp(available, jnp.log1p(-omega)))

    distribution = extra.FromLogDensity(
        log_density, constraints.independent(constraints.nonnegative_integer, 1), (raw.shape[0],), (sites,)
    )
    observe("X", distribution, X, raw.shape[0])


def _standard_effects(draws: Draws) -> Draws:
    needs = {"uv1", "uv2", "sigma_uv", "rho_uv"}
    if "uv_raw" in draws or not needs <= draws.keys():
        return draws
    rho = draws["rho_uv"][..., None]
    first = draws["uv1"] / draws["sigma_uv"][..., :1]
    conditional = (draws["uv2"] / draws["sigma_uv"][..., 1:] - rho * first) / np.sqrt(1 - rho**2)
    return {
        **{k: v for k, v in draws.items() if k not in ("uv1", "uv2")},
        "uv_raw": np.stack([first, conditional], axis=-1),
    }


def _species(data: Data) -> Records:
    seen = index(data, "X")
    undetected = np.zeros((int(data["S"]) - len(seen), seen.shape[1]), np.int64)
    return {"species_id": np.arange(1, int(data["S"]) + 1), "X": np.concatenate([seen, undetected])}


MODELS: tuple[Shipped, ...] = (
    from_program(
        multi_occupancy,
        "detections of species at sites",
        shapes=lambda sites: {"X": (sites,)},
        domain=lambda species, visits: {"species_id": levels(species), "X": Domain("integer", 0, visits)},
        prepare=_standard_effects,
        records=_species,
        posteriors=("butterfly-multi_occupancy",),
        constants=lambda data: {"species": int(data["S"]), "sites": int(data["J"]), "visits": int(data["K"])},
        design=("species_id",),
    ),
)

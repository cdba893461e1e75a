"""Capture histories of animals, augmented with all-zero histories; and occupancy of sites by species.

A record is one animal's history. An animal with an all-zero history was never caught, or does not exist. The number of
histories is public, and the number of captured animals is not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from bayesrecon.models.catalogue._extra_distributions import FromLogDensity


def _histories_of(
    omega: Array, log_odds: Callable[[jax.Array], jax.Array], count: int, occasions: int
) -> "FromLogDensity":
    """Distribution of histories `(count, occasions)`: captured at each occasion with `log_odds(history)` if it
    exists."""

    def log_density(y: jax.Array) -> jax.Array:
        eta = log_odds(y)
        seen = jnp.log(omega) + jnp.sum(y * eta - jax.nn.softplus(eta), axis=1)
        return jnp.where(jnp.sum(y, axis=1) > 0, seen, jnp.logaddexp(seen, jnp.log1p(-omega)))

    def draw(key: jax.Array) -> jax.Array:
        exists, *keys = jax.random.split(key, occasions + 1)
        y = jnp.zeros((count, occasions), int)
        for j in range(occasions):  # behaviour may depend on what came before
            caught = jax.random.bernoulli(keys[j], jax.nn.sigmoid(log_odds(y)[:, j]))
            y = y.at[:, j].set(caught.astype(int))
        return y * jax.random.bernoulli(exists, omega, (count, 1))

    return extra.FromLogDensity(
        log_density, constraints.independent(constraints.boolean, 1), (count,), (occasions,), draw
    )


def _logit(p: Array) -> jax.Array:
    return jnp.log(p) - jnp.log1p(-p)


def _caught_before(y: Array) -> jax.Array:
    """Whether the animal was caught at the previous occasion, `(count, occasions)`."""
    return jnp.concatenate([jnp.zeros_like(y[:, :1]), y[:, :-1]], axis=1)


def _uniform(name: str, high: float = 1.0, *shape: int) -> jax.Array:
    distribution = dist.Uniform(0, high)
    return latent(name, distribution.expand(shape).to_event(len(shape)) if shape else distribution)


def m0_model(y: Array, *, occasions: int = 3) -> None:
    """One capture probability p, inclusion probability omega."""
    omega, p = _uniform("omega"), _uniform("p")
    distribution = _histories_of(omega, lambda h: jnp.broadcast_to(_logit(p), h.shape), y.shape[0], occasions)
    observe("y", distribution, y, y.shape[0])


def mb_model(y: Array, *, occasions: int = 5) -> None:
    """Capture probability p, or c right after a capture."""
    omega, p, c = _uniform("omega"), _uniform("p"), _uniform("c")

    def log_odds(h: jax.Array) -> jax.Array:
        return jnp.where(_caught_before(h) == 1, _logit(c), _logit(p))

    observe("y", _histories_of(omega, log_odds, y.shape[0], occasions), y, y.shape[0])


def mt_model(y: Array, *, occasions: int = 3) -> None:
    """A capture probability per occasion."""
    omega, p = _uniform("omega"), _uniform("p", 1.0, occasions)
    distribution = _histories_of(omega, lambda h: jnp.broadcast_to(_logit(p), h.shape), y.shape[0], occasions)
    observe("y", distribution, y, y.shape[0])


def mth_model(animal: Array, y: Array | None = None, *, animals: int = 387, occasions: int = 5) -> None:
    """Log odds of capture: an effect of the occasion plus a normal effect of the animal."""
    omega, mean_p, sigma = _uniform("omega"), _uniform("mean_p", 1.0, occasions), _uniform("sigma", 5.0)
    eps = sigma * standard("eps_raw", animals)[animal - 1]
    eta = _logit(mean_p) + eps[:, None]
    observe("y", _histories_of(omega, lambda h: eta, animal.shape[0], occasions), y, animal.shape[0])


def mtbh_model(animal: Array, y: Array | None = None, *, animals: int = 146, occasions: int = 5) -> None:
    """As `mth_model`, with `gamma` added right after a capture."""
    omega, mean_p, sigma = _uniform("omega"), _uniform("mean_p", 1.0, occasions), _uniform("sigma", 3.0)
    gamma = latent("gamma", dist.Normal(0, 10))
    eta = _logit(mean_p) + sigma * standard("eps_raw", animals)[animal - 1][:, None]
    distribution = _histories_of(omega, lambda h: eta + gamma * _caught_before(h), animal.shape[0], occasions)
    observe("y", distribution, y, animal.shape[0])


def mh_model(animal: Array, y: Array | None = None, *, animals: int = 385, occasions: int = 5) -> None:
    """Number of captures per animal, with a normal effect of the animal on the log odds."""
    omega, mean_p, sigma = _uniform("omega"), _uniform("mean_p"), _uniform("sigma", 5.0)
    eta = _logit(mean_p) + sigma * standard("eps_raw", animals)[animal - 1]

    def log_density(times: jax.Array) -> jax.Array:
        log_choose = gammaln(occasions + 1.0) - gammaln(times + 1.0) - gammaln(occasions - times + 1.0)
        seen = log_choose + jnp.log(omega) + times * eta - occasions * jax.nn.softplus(eta)
        return jnp.where(times > 0, seen, jnp.logaddexp(seen, jnp.log1p(-omega)))

    distribution = extra.FromLogDensity(log_density, constraints.integer_interval(0, occasions), (animal.shape[0],))
    observe("y", distribution, y, animal.shape[0])


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


def _histories(data: Data) -> Records:
    return {"y": index(data, "y")}


def _numbered_histories(data: Data) -> Records:
    y = index(data, "y")
    return {"animal": np.arange(1, len(y) + 1), "y": y}


def _species(data: Data) -> Records:
    seen = index(data, "X")
    undetected = np.zeros((int(data["S"]) - len(seen), seen.shape[1]), np.int64)
    return {"species_id": np.arange(1, int(data["S"]) + 1), "X": np.concatenate([seen, undetected])}


def _occasions(data: Data) -> dict[str, object]:
    return {"occasions": int(data["T"])}


def _animals(data: Data) -> dict[str, object]:
    return {"animals": int(data["M"]), **_occasions(data)}


def _animal_levels(animals: int) -> dict[str, list[int]]:
    return {"animal": levels(animals)}


def _history_shape(occasions: int) -> dict[str, tuple[int, ...]]:
    return {"y": (occasions,)}


def _capture(program: Callable[..., None], name: str, description: str) -> Shipped:
    """Entry of a model in which all animals have the same capture probabilities."""
    return from_program(
        program,
        f"capture histories, {description}",
        name=f"{name}_model",
        shapes=_history_shape,
        records=_histories,
        posteriors=(f"{name}_data-{name}_model",),
        constants=_occasions,
        response="y",
    )


def _capture_of_each(
    program: Callable[..., None],
    name: str,
    description: str,
    *,
    shapes: Callable[..., dict[str, tuple[int, ...]]] | None = None,
    domain: Callable[..., dict[str, list[int]]] = _animal_levels,
) -> Shipped:
    """Entry of a model with an effect of each animal."""
    return from_program(
        program,
        f"capture histories, {description}",
        name=f"{name}_model",
        shapes={} if shapes is None else shapes,
        domain=domain,
        records=_numbered_histories,
        posteriors=(f"{name}_data-{name}_model",),
        constants=_animals,
        design=("animal",),
        response="y",
    )


MODELS: tuple[Shipped, ...] = (
    _capture(m0_model, "M0", "one probability"),
    _capture(mb_model, "Mb", "behaviour after a capture"),
    _capture(mt_model, "Mt", "a probability per occasion"),
    _capture_of_each(
        mh_model,
        "Mh",
        "number of captures with an effect per animal",
        domain=lambda animals, occasions: {"animal": levels(animals), "y": list(range(occasions + 1))},
    ),
    _capture_of_each(mth_model, "Mth", "effects of occasion and animal", shapes=_history_shape),
    _capture_of_each(mtbh_model, "Mtbh", "effects of occasion, behaviour and animal", shapes=_history_shape),
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
        response="X",
    ),
)

"""Time series whose likelihood does not factorise, so that one record is an entire series."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, Draws, Table, given, index, latent, levels, observe, standard
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, extra, numpyro
from bayesrecon.models.catalogue.linear import array, flat, flat_positive, half_cauchy
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from bayesrecon.models.catalogue._extra_distributions import FromLogDensity


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _independent_series(
    log_density: Callable[[jax.Array], jax.Array], draw: Callable[[jax.Array], jax.Array], count: int, length: int
) -> "FromLogDensity":
    """Distribution of `count` independent series, from the log density of one and how one is drawn,
    `(key) -> (length,)`."""

    def draw_all(key: jax.Array) -> jax.Array:
        return jax.vmap(draw)(jax.random.split(key, count))

    return extra.FromLogDensity(jax.vmap(log_density), constraints.real_vector, (count,), (length,), draw_all)


def _normal(error: jax.Array, scale: jax.Array | float) -> jax.Array:
    """The log density of a normal error."""
    return -0.5 * (error / scale) ** 2 - jnp.log(scale) - _HALF_LOG_2PI


def arma11(y: Array, *, length: int = 200) -> None:
    """`y_t = mu + phi y_(t-1) + theta err_(t-1) + err_t`, `err_t ~ Normal(0, sigma)`, started at the mean."""
    mu = latent("mu", dist.Normal(0, 10))
    phi = latent("phi", dist.Normal(0, 2))
    theta = latent("theta", dist.Normal(0, 2))
    sigma = latent("sigma", half_cauchy())

    def log_density(series: jax.Array) -> jax.Array:
        before = jnp.concatenate([jnp.reshape(mu, (1,)), series[:-1]])
        deviation = series - mu - phi * before

        def step(error: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
            error = value - theta * error
            return error, error

        _, errors = jax.lax.scan(step, jnp.zeros(()), deviation)
        return _normal(errors, sigma).sum()

    def draw(key: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], error: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            value = mu + phi * state[0] + theta * state[1] + error
            return (value, error), value

        errors = sigma * jax.random.normal(key, (length,))
        return jax.lax.scan(step, (jnp.asarray(mu), jnp.zeros(())), errors)[1]

    observe("y", _independent_series(log_density, draw, y.shape[0], length), y, y.shape[0])


def garch11(y: Array, *, length: int = 200, sigma1: float = 0.5) -> None:
    """`y_t ~ Normal(mu, sigma_t)`, `sigma_t^2 = alpha0 + alpha1 (y_(t-1) - mu)^2 + beta1 sigma_(t-1)^2`.

    All priors are flat on `alpha1 + beta1 < 1`; `share = beta1 / (1 - alpha1)` has fixed bounds, and a flat
    distribution of beta1 makes `alpha1 ~ Beta(1, 2)`.
    """
    mu = latent("mu", flat())
    alpha0 = latent("alpha0", flat_positive())
    alpha1 = latent("alpha1", dist.Beta(1, 2))
    beta1 = (1 - alpha1) * latent("share", dist.Uniform(0, 1))

    def log_density(series: jax.Array) -> jax.Array:
        shock = alpha0 + alpha1 * (series[:-1] - mu) ** 2

        def step(variance: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
            variance = value + beta1 * variance
            return variance, variance

        first = jnp.full((), sigma1**2)
        _, later = jax.lax.scan(step, first, shock)
        return _normal(series - mu, jnp.sqrt(jnp.concatenate([first[None], later]))).sum()

    def draw(key: jax.Array) -> jax.Array:
        def step(variance: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
            error = jnp.sqrt(variance) * noise
            return alpha0 + alpha1 * error**2 + beta1 * variance, mu + error

        return jax.lax.scan(step, jnp.full((), sigma1**2), jax.random.normal(key, (length,)))[1]

    observe("y", _independent_series(log_density, draw, y.shape[0], length), y, y.shape[0])


def _share(draws: Draws) -> Draws:
    if "share" in draws or not {"alpha1", "beta1"} <= draws.keys():
        return draws
    others = {k: v for k, v in draws.items() if k != "beta1"}
    return {**others, "share": draws["beta1"] / (1 - draws["alpha1"])}


# Hidden Markov models with two states: the first state of the chain has no distribution of its own.


def _forward(emission: jax.Array, transition: jax.Array) -> jax.Array:
    """Log likelihood of a series by the forward algorithm.

    Args:
        emission: `(T, K)` log densities of the observations by state.
        transition: `(K, K)` probabilities, from row to column.
    """
    log_transition = jnp.log(transition)

    def step(gamma: jax.Array, at: jax.Array) -> tuple[jax.Array, None]:
        return jax.scipy.special.logsumexp(gamma[:, None] + log_transition, axis=0) + at, None

    last, _ = jax.lax.scan(step, emission[0], emission[1:])
    return jax.scipy.special.logsumexp(last)


def _states(key: Array, first: Array, transition: Array, length: int) -> jax.Array:
    """States of a chain, `(length,)`, the first with probabilities in proportion to `first`."""
    start_key, *later = jax.random.split(key, length)

    def step(state: jax.Array, at: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jax.random.categorical(at, jnp.log(transition[state]))
        return state, state

    start = jax.random.categorical(start_key, jnp.log(first))
    return jnp.concatenate([start[None], jax.lax.scan(step, start, jnp.stack(later))[1]])


def _increasing(name: str, means: tuple[float, ...], positive: bool) -> jax.Array:
    """An increasing vector whose entries have unit normal densities around `means`, not normalised."""
    support = constraints.positive_ordered_vector if positive else constraints.ordered_vector
    values = latent(name, dist.ImproperUniform(support, (), (len(means),)))
    numpyro.sample(f"{name}_prior", dist.Normal(values, 1).to_event(1), obs=np.array(means))
    return values


def hmm_example(y: Array, *, length: int = 100) -> None:
    """Two states with unit normal emissions around increasing means; flat transition rows."""
    rows = [latent(f"theta{k}", dist.Dirichlet(jnp.ones(2))) for k in (1, 2)]
    mu = _increasing("mu", (3.0, 10.0), positive=True)

    def log_density(series: jax.Array) -> jax.Array:
        return _forward(_normal(series[:, None] - mu, 1.0), jnp.stack(rows))

    def draw(key: jax.Array) -> jax.Array:
        first_key, second_key = jax.random.split(key)
        return mu[_states(first_key, jnp.ones(2), jnp.stack(rows), length)] + jax.random.normal(second_key, (length,))

    observe("y", _independent_series(log_density, draw, y.shape[0], length), y, y.shape[0])


_ROWS = ((4.0, 2.0), (2.0, 4.0))


def _drive(u: Array, v: Array, length: int, rows: Table, scales: tuple[float, float] | None) -> None:
    """Speed and hoop distance of a basketball player, driving or not."""
    prior = np.asarray(rows, float)
    transition = [latent(f"theta{k + 1}", dist.Dirichlet(prior[k])) for k in (0, 1)]
    phi, lam = (_increasing(k, (0.0, 3.0), positive=scales is None) for k in ("phi", "lambda"))

    def log_density(speed: jax.Array, distance: jax.Array) -> jax.Array:
        if scales is None:  # exponential distributions with these rates
            emission = jnp.log(phi) - phi * speed[:, None] + jnp.log(lam) - lam * distance[:, None]
        else:
            emission = _normal(speed[:, None] - phi, scales[0]) + _normal(distance[:, None] - lam, scales[1])
        return _forward(emission, jnp.stack(transition))

    def log_density_of_all(values: jax.Array) -> jax.Array:
        return jax.vmap(log_density)(values, jnp.asarray(v))

    observe(
        "u", extra.FromLogDensity(log_density_of_all, constraints.real_vector, (u.shape[0],), (length,)), u, u.shape[0]
    )


def _simulated_drive(
    params: Mapping[str, Array],
    batch: Mapping[str, Array],
    key: jax.Array,
    length: int,
    scales: tuple[float, float] | None,
) -> dict[str, Array]:
    """Simulated speed and distance. The program observes both at one site, so that it cannot be simulated itself."""

    def event(key: jax.Array) -> dict[str, jax.Array]:
        states, *keys = jax.random.split(key, 3)
        at = _states(states, jnp.ones(2), jnp.stack([params["theta1"], params["theta2"]]), length)
        means = params["phi"][at], params["lambda"][at]
        if scales is None:
            result = [jax.random.exponential(k, (length,)) / m for k, m in zip(keys, means, strict=True)]
        else:
            result = [m + s * jax.random.normal(k, (length,)) for k, m, s in zip(keys, means, scales, strict=True)]
        return dict(zip(("u", "v"), result, strict=True))

    return {**batch, **jax.vmap(event)(jax.random.split(key, len(batch["u"])))}


def hmm_drive_0(u: Array, v: Array, *, length: int = 416, rows: Table = _ROWS) -> None:
    """Exponential emissions of speed and distance."""
    _drive(u, v, length, rows, None)


def hmm_drive_1(
    u: Array, v: Array, *, length: int = 416, rows: Table = _ROWS, tau: float = 0.1, rho: float = 0.1
) -> None:
    """Normal emissions of log speed and log distance with known scales."""
    _drive(u, v, length, rows, (tau, rho))


def hmm_gaussian(y: Array, *, length: int = 500, states: int = 3) -> None:
    """Normal emissions with increasing means, all priors flat; the first state has its own distribution."""
    flat_simplex = dist.Dirichlet(jnp.ones(states))
    first = latent("pi1", flat_simplex)
    transition = latent("A", flat_simplex.expand((states,)).to_event(1))
    mu = latent("mu", dist.ImproperUniform(constraints.ordered_vector, (), (states,)))
    sigma = latent("sigma", flat_positive().expand((states,)).to_event(1))

    def log_density(series: jax.Array) -> jax.Array:
        emission = _normal(series[:, None] - mu, sigma)
        return _forward(emission.at[0].add(jnp.log(first)), transition)

    def draw(key: jax.Array) -> jax.Array:
        first_key, second_key = jax.random.split(key)
        at = _states(first_key, first, transition, length)
        return mu[at] + sigma[at] * jax.random.normal(second_key, (length,))

    observe("y", _independent_series(log_density, draw, y.shape[0], length), y, y.shape[0])


def _one_record(*names: str) -> Callable[[Data], Records]:
    """One record: whole columns of the data."""
    return lambda data: {k: array(data, k)[None] for k in names}


def _series(length: int) -> dict[str, tuple[int, ...]]:
    """One record is a series."""
    return {"y": (length,)}


def _event(length: int) -> dict[str, tuple[int, ...]]:
    return {"u": (length,), "v": (length,)}


# Occupancy of sites by species, augmented with species that were never seen.


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
        hmm_gaussian,
        "hidden Markov model with three states; one record is the series",
        shapes=_series,
        records=_one_record("y"),
        posteriors=("hmm_gaussian_simulated-hmm_gaussian",),
        constants=given(length="T", states="K"),
    ),
    from_program(
        arma11,
        "ARMA(1, 1); one record is the series",
        shapes=_series,
        records=_one_record("y"),
        posteriors=("arma-arma11",),
        constants=given(length="T"),
    ),
    from_program(
        garch11,
        "GARCH(1, 1); one record is the series",
        shapes=_series,
        prepare=_share,
        records=_one_record("y"),
        posteriors=("garch-garch11",),
        constants=given("sigma1", length="T"),
    ),
    from_program(
        hmm_example,
        "hidden Markov model, normal emissions; one record is the series",
        shapes=_series,
        records=_one_record("y"),
        posteriors=("hmm_example-hmm_example",),
        constants=given(length="N"),
    ),
    from_program(
        hmm_drive_0,
        "hidden Markov model, exponential emissions; one record is the event",
        shapes=_event,
        domain={"u": "positive", "v": "positive"},
        simulate=lambda params, batch, key, *, length: _simulated_drive(params, batch, key, length, None),
        records=_one_record("u", "v"),
        posteriors=("bball_drive_event_0-hmm_drive_0",),
        constants=given(length="N", rows="alpha"),
    ),
    from_program(
        hmm_drive_1,
        "hidden Markov model, normal emissions; one record is the event",
        shapes=_event,
        domain={"u": "real", "v": "real"},
        simulate=lambda params, batch, key, *, length, tau, rho: _simulated_drive(
            params, batch, key, length, (tau, rho)
        ),
        records=_one_record("u", "v"),
        posteriors=("bball_drive_event_1-hmm_drive_1",),
        constants=given("tau", "rho", length="N", rows="alpha"),
    ),
    from_program(
        multi_occupancy,
        "detections of species at sites",
        shapes=lambda sites: {"X": (sites,)},
        domain=lambda species, visits: {"species_id": levels(species), "X": Domain("integer", 0, visits)},
        prepare=_standard_effects,
        records=_species,
        posteriors=("butterfly-multi_occupancy",),
        constants=given(species="S", sites="J", visits="K"),
        design=("species_id",),
    ),
)

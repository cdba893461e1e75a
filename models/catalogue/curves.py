"""Curves at public points: Gaussian processes and differential equations, observed at known places or times."""

from collections.abc import Callable, Sequence
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Records
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, Draws, by_row, given, latent, levels, observe, standard
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, extra, numpyro
from bayesrecon.models.catalogue.linear import array
from bayesrecon.models.entry import Shipped

_PLACES = (-10.0, -8.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0, 10.0)


def cholesky(matrix: Array) -> jax.Array:
    """Lower factor of a small positive definite matrix, column by column.

    It replaces LAPACK's batched factorisation, which can deadlock on CPU under nested forward-mode derivatives.
    """
    size = matrix.shape[0]
    factor = jnp.zeros_like(matrix)
    for j in range(size):
        column = matrix[:, j] - factor[:, :j] @ factor[j, :j]
        factor = factor.at[:, j].set(jnp.where(np.arange(size) >= j, column / jnp.sqrt(column[j]), 0.0))
    return factor


def forward_substitution(factor: Array, vector: Array) -> jax.Array:
    """`factor^-1 right` for a lower factor `(n, n)` and a vector `(n,)`."""
    result: list[jax.Array] = []
    for j in range(factor.shape[0]):
        known_part = sum((factor[j, i] * result[i] for i in range(j)), start=jnp.zeros(()))
        result.append((vector[j] - known_part) / factor[j, j])
    return jnp.stack(result)


def smooth_covariance(x: Array, alpha: Array, rho: Array, nugget: Array | float, xp: ModuleType = jnp) -> Array:
    """Squared exponential covariance with amplitude alpha and length scale rho."""
    difference = x[:, None] - x[None, :]
    return alpha**2 * xp.exp(-0.5 * (difference / rho) ** 2) + nugget * np.eye(len(x))


def _kernel_parameters() -> tuple[jax.Array, jax.Array]:
    return latent("rho", dist.Gamma(25, 4)), latent("alpha", dist.HalfNormal(2))


def gp_pois_regr(place: Array, k: Array | None = None, *, x: Sequence[float] = _PLACES) -> None:
    """Counts at known places: `k_i ~ Poisson(exp(f_i))`, `f = L f_tilde` a Gaussian process."""
    places = np.asarray(x, float)
    rho, alpha = _kernel_parameters()
    f = cholesky(smooth_covariance(places, alpha, rho, _NUGGET)) @ standard("f_tilde", len(places))
    observe("k", dist.Poisson(jnp.exp(f[place - 1])), k, place.shape[0])


def _standard_normal_values(draws: Draws, *, x: Sequence[float]) -> Draws:
    if "f_tilde" in draws or not {"f", "rho", "alpha"} <= draws.keys():
        return draws
    alpha, rho = (draws[k][..., None, None] for k in ("alpha", "rho"))
    factor = np.linalg.cholesky(smooth_covariance(np.asarray(x, float), alpha, rho, _NUGGET, np))
    other_draws = {k: v for k, v in draws.items() if k != "f"}
    return {**other_draws, "f_tilde": np.linalg.solve(factor, draws["f"][..., None])[..., 0]}


_NUGGET = 1e-10  # as in the original program


def gp_regr(y: Array, *, x: Sequence[float] = _PLACES) -> None:
    """`y ~ MultiNormal(0, K + sigma I)` at known places (sigma is a variance); one record is all of y."""
    places = np.asarray(x, float)
    rho, alpha = _kernel_parameters()
    sigma = latent("sigma", dist.HalfNormal(1))
    factor = cholesky(smooth_covariance(places, alpha, rho, sigma))

    def log_density(values: jax.Array) -> jax.Array:
        white = forward_substitution(factor, values)
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diagonal(factor)))

    def draw(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, (y.shape[0], len(places))) @ factor.T

    distribution = extra.FromLogDensity(
        jax.vmap(log_density), constraints.real_vector, (y.shape[0],), (len(places),), draw
    )
    observe("y", distribution, y, y.shape[0])


def runge_kutta(
    slope: Callable[[jax.Array, jax.Array], jax.Array], start: jax.Array, times: np.ndarray, step: float
) -> jax.Array:
    """States at increasing `times` from time 0, by the classical method with steps of at most `step`.

    Fixed steps can be differentiated in every mode; `slope(t, state)` gives the derivative.
    """
    edges = np.concatenate([[0.0], times])
    counts = np.ceil(np.diff(edges) / step - 1e-9).astype(int).clip(1)
    sizes = np.repeat(np.diff(edges) / counts, counts)
    starts = np.concatenate(
        [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)]
    )

    def advance(state: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        t, h = at
        k1 = slope(t, state)
        k2 = slope(t + h / 2, state + h / 2 * k1)
        k3 = slope(t + h / 2, state + h / 2 * k2)
        k4 = slope(t + h, state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return state, state

    _, path = jax.lax.scan(advance, start, (jnp.asarray(starts), jnp.asarray(sizes)))
    return path[np.cumsum(counts) - 1]


_YEARS = tuple(float(t) for t in range(1, 21))


def lotka_volterra(occasion: Array, pelts: Array | None = None, *, times: Sequence[float] = _YEARS) -> None:
    """Pelts of hares and lynxes, log-normal around predator-prey equations; occasion 1 is time 0."""
    later = np.asarray(times, float)
    centre, spread = np.array([1.0, 0.05, 1.0, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
    rates = latent("theta", dist.TruncatedNormal(centre, spread, low=0.0).to_event(1))
    a, b, c, d = rates
    initial = latent("z_init", dist.LogNormal(np.log(10), 1).expand((2,)).to_event(1))
    sigma = latent("sigma", dist.LogNormal(-1, 1).expand((2,)).to_event(1))

    def slope(_: jax.Array, log_z: jax.Array) -> jax.Array:  # of log z, which stays finite
        return jnp.stack([a - b * jnp.exp(log_z[1]), d * jnp.exp(log_z[0]) - c])

    start = jnp.log(initial)
    path = jnp.concatenate([start[None], runge_kutta(slope, start, later, 0.05)])
    distribution = dist.LogNormal(path[occasion - 1], sigma).to_event(1)
    observe("pelts", distribution, pelts, occasion.shape[0])


def _lotka_records(data: Data) -> Records:
    pelts = np.concatenate([array(data, "y_init")[None], array(data, "y")])
    return {"occasion": np.arange(1, len(pelts) + 1), "pelts": pelts}


_DAYS = tuple(0.5 * k for k in range(1, 21))


def one_comp_mm_elim_abs(
    occasion: Array, C_hat: Array | None = None, *, times: Sequence[float] = _DAYS, D: float = 30.0, V: float = 2.0
) -> None:
    """Concentration of a drug: first-order absorption, Michaelis-Menten elimination, log-normal errors."""
    days = np.asarray(times, float)
    distribution = dist.HalfCauchy(1)
    k_a, K_m, V_m, sigma = (latent(k, distribution) for k in ("k_a", "K_m", "V_m", "sigma"))

    def slope(t: jax.Array, amount: jax.Array) -> jax.Array:
        return jnp.exp(-k_a * t) * D * k_a / V - V_m / V * amount / (K_m + amount)

    path = runge_kutta(slope, jnp.zeros(()), days, 0.02)
    observe("C_hat", dist.LogNormal(jnp.log(path)[occasion - 1], sigma), C_hat, occasion.shape[0])


_WEEKS = tuple(7.0 * k for k in range(1, 21))


def sir(
    occasion: Array,
    stoi: Array | None = None,
    B: Array | None = None,
    *,
    t: Sequence[float] = _WEEKS,
    y0: Sequence[float] = (1e4, 0.0, 0.0, 1e4),
) -> None:
    """Cholera: new infections per interval (Poisson) and bacteria in the water (log-normal, scale 0.15)."""
    days, start = np.asarray(t, float), np.asarray(y0, float)
    scales = {"beta": 2.5, "gamma": 1.0, "xi": 25.0, "delta": 1.0}
    beta, gamma, xi, delta = (latent(k, dist.HalfCauchy(v)) for k, v in scales.items())

    def slope(_: jax.Array, y: jax.Array) -> jax.Array:
        infected = beta * y[3] / (y[3] + _KAPPA) * y[0]
        recovered = gamma * y[1]
        return jnp.stack([-infected, infected - recovered, recovered, xi * y[1] - delta * y[3]])

    path = runge_kutta(slope, jnp.asarray(start), days, 0.1)
    susceptible = jnp.concatenate([start[:1], path[:, 0]])
    # Rounding may make the difference negative if nobody is susceptible any more.
    infections = jnp.maximum(susceptible[:-1] - susceptible[1:], 1e-9)[occasion - 1]
    with numpyro.plate("records", occasion.shape[0]):
        numpyro.sample("stoi", dist.Poisson(infections), obs=stoi)
        numpyro.sample("B", dist.LogNormal(jnp.log(path[occasion - 1, 3]), 0.15), obs=B)


_KAPPA = 1e6  # as in the original program


def soil_incubation(
    occasion: Array, eCO2: Array | None = None, *, ts: Sequence[float] = _DAYS, total: float = 7.7
) -> None:
    """Carbon evolved from soil: two pools that feed each other, normal errors."""
    days = np.asarray(ts, float)
    names = ("k1", "k2", "alpha21", "alpha12")
    k1, k2, alpha21, alpha12 = (latent(k, dist.HalfNormal(1)) for k in names)
    gamma = latent("gamma", dist.Beta(10, 1))
    sigma = latent("sigma", dist.HalfCauchy(1))

    # The equations are linear: with A the matrix of rates, m half its trace and s^2 = m^2 - det A,
    # exp(A t) = exp(m t) (cosh(s t) + sinh(s t) / s (A - m)).
    m = -(k1 + k2) / 2
    s = jnp.sqrt((k1 - k2) ** 2 / 4 + alpha12 * alpha21 * k1 * k2)
    slow, fast = jnp.exp((m + s) * days), jnp.exp((m - s) * days)
    start = total * jnp.stack([gamma, 1 - gamma])
    slope = jnp.stack([alpha12 * k2 * start[1] - k1 * start[0], alpha21 * k1 * start[0] - k2 * start[1]])
    remaining = jnp.sum(start) * (slow + fast) / 2 + jnp.sum(slope - m * start) * (slow - fast) / (2 * s)
    observe("eCO2", dist.Normal((total - remaining)[occasion - 1], sigma), eCO2, occasion.shape[0])


MODELS: tuple[Shipped, ...] = (
    from_program(
        sir,
        "cholera cases and bacteria around an epidemic model",
        domain=lambda t: {"occasion": levels(len(t))},
        forward=True,
        posteriors=("sir-sir",),
        constants=given("t", "y0"),
        **by_row("occasion", "N_t", stoi="stoi_hat", B="B_hat"),
    ),
    from_program(
        soil_incubation,
        "carbon evolved from soil with two pools",
        domain=lambda ts: {"occasion": levels(len(ts)), "eCO2": "positive"},
        posteriors=("soil_carbon-soil_incubation",),
        constants=given("ts", total="totalC_t0"),
        **by_row("occasion", "N_t", eCO2="eCO2mean"),
    ),
    from_program(
        gp_pois_regr,
        "Poisson counts around a Gaussian process at known places",
        domain=lambda x: {"place": levels(len(x))},
        prepare=_standard_normal_values,
        posteriors=("gp_pois_regr-gp_pois_regr",),
        constants=given("x"),
        **by_row("place", "N", "k"),
    ),
    from_program(
        gp_regr,
        "Gaussian process regression at known places; one record is all values",
        shapes=lambda x: {"y": (len(x),)},
        records=lambda data: {"y": array(data, "y")[None]},
        posteriors=("gp_pois_regr-gp_regr",),
        constants=given("x"),
    ),
    from_program(
        lotka_volterra,
        "pelts of hares and lynxes around predator-prey equations",
        shapes={"pelts": (2,)},
        domain=lambda times: {"occasion": levels(len(times) + 1)},
        forward=True,
        records=_lotka_records,
        posteriors=("hudson_lynx_hare-lotka_volterra",),
        constants=given(times="ts"),
        design=("occasion",),
    ),
    from_program(
        one_comp_mm_elim_abs,
        "drug concentration, absorption and saturable elimination",
        domain=lambda times: {"occasion": levels(len(times))},
        forward=True,
        posteriors=("one_comp_mm_elim_abs-one_comp_mm_elim_abs",),
        constants=given("times", "D", "V"),
        **by_row("occasion", "N_t", "C_hat"),
    ),
)

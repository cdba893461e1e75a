"""Regressions on known bases with many weights: splines, trends with changepoints, growth curves, a map.

The basis is public, like times and maps. A record has the number of its row, and its response is private.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, Table, by_row, given, latent, levels, observe, standard
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, extra, numpyro
from bayesrecon.models.catalogue.linear import array, flat
from bayesrecon.models.entry import Shipped

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

    from bayesrecon.models.catalogue._extra_distributions import FromLogDensity


def _half_t() -> "Distribution":
    return dist.FoldedDistribution(dist.StudentT(3, 0, 36))


def _motorcycle(row: Array, Y: Array | None, mean: Callable[[str], jax.Array]) -> None:
    """Acceleration of a head in a crash: `Y ~ Normal(mu, exp(eta))`, two smooth functions of time."""
    intercept = latent("Intercept", dist.StudentT(3, -13, 36))
    intercept_sigma = latent("Intercept_sigma", dist.StudentT(3, 0, 10))
    mu, eta = intercept + mean(""), intercept_sigma + mean("_sigma")
    observe("Y", dist.Normal(mu[row - 1], jnp.exp(eta[row - 1])), Y, row.shape[0])


_LINE = ((0.0,), (1.0,))


def accel_gp(
    row: Array,
    Y: Array | None = None,
    *,
    X: Table = _LINE,
    slambda: Table = ((1.0,),),
    X_sigma: Table = _LINE,
    slambda_sigma: Table = ((1.0,),),
) -> None:
    """Two approximate Gaussian processes: eigenfunctions `X`, roots of the eigenvalues `slambda`."""
    bases = {"": (np.asarray(X), np.asarray(slambda)), "_sigma": (np.asarray(X_sigma), np.asarray(slambda_sigma))}

    def mean(part: str) -> jax.Array:
        basis, roots = bases[part]
        scale = latent(f"sdgp{part}_1", _half_t())
        length = latent(f"lscale{part}_1", dist.InverseGamma(1.124909, 0.0177))
        # Square root of the spectral density of the squared exponential kernel in one dimension.
        spread = scale * jnp.sqrt(np.sqrt(2 * np.pi) * length) * jnp.exp(-0.25 * length**2 * roots[:, 0] ** 2)
        return jnp.asarray(basis) @ (spread * standard(f"zgp{part}_1", basis.shape[1]))

    _motorcycle(row, Y, mean)


def accel_splines(
    row: Array,
    Y: Array | None = None,
    *,
    Xs: Table = _LINE,
    Zs: Table = _LINE,
    Xs_sigma: Table = _LINE,
    Zs_sigma: Table = _LINE,
) -> None:
    """Two penalised splines: flat weights of `Xs`, normal weights of `Zs`."""
    bases = {"": (np.asarray(Xs), np.asarray(Zs)), "_sigma": (np.asarray(Xs_sigma), np.asarray(Zs_sigma))}

    def mean(part: str) -> jax.Array:
        fixed, smooth = bases[part]
        flat = dist.ImproperUniform(constraints.real_vector, (), (fixed.shape[1],))
        weights = latent(f"bs{part}", flat)
        scale = latent(f"sds{part}_1_1", _half_t())
        return jnp.asarray(fixed) @ weights + jnp.asarray(smooth) @ (scale * standard(f"zs{part}_1_1", smooth.shape[1]))

    _motorcycle(row, Y, mean)


def prophet(
    row: Array,
    y: Array | None = None,
    *,
    t: Sequence[float] = (0.0, 1.0),
    t_change: Sequence[float] = (0.5,),
    X: Table = _LINE,
    scales: Sequence[float] = (10.0,),
    tau: float = 0.05,
) -> None:
    """A linear trend with changepoints plus seasonal regressors, normal noise."""
    day, change, design = np.asarray(t, float), np.asarray(t_change, float), np.asarray(X, float)
    hinges = np.where(day[:, None] >= change, day[:, None] - change, 0.0)
    k, m = (latent(name, dist.Normal(0, 5)) for name in ("k", "m"))
    delta = latent("delta", dist.Laplace(0, tau).expand((len(change),)).to_event(1))
    sigma = latent("sigma_obs", dist.HalfNormal(0.5))
    beta = latent("beta", dist.Normal(0, np.asarray(scales, float)).to_event(1))
    mean = m + k * day + jnp.asarray(hinges) @ delta + jnp.asarray(design) @ beta
    observe("y", dist.Normal(mean[row - 1], sigma), y, row.shape[0])


# A mixture of regressions: a record does not say which component it came from.


def _normals(log_weights: Array, mean: Array, sigma: Array, count: int) -> "FromLogDensity":
    """Distribution of `count` values, each of one of K normal distributions; weights and means for all, `(K,)`, or
    each, `(count, K)`."""

    def log_density(values: jax.Array) -> jax.Array:
        z = (values[..., None] - mean) / sigma
        return jax.scipy.special.logsumexp(log_weights - 0.5 * z**2 - jnp.log(sigma), axis=-1) - _HALF_LOG_2PI

    def draw(key: jax.Array) -> jax.Array:
        component_key, noise_key = jax.random.split(key)
        k = jax.random.categorical(component_key, log_weights, shape=(count,))
        means = jnp.broadcast_to(mean, (count, len(sigma)))[jnp.arange(count), k]
        return means + sigma[k] * jax.random.normal(noise_key, (count,))

    return extra.FromLogDensity(log_density, constraints.real, (count,), draw=draw)


def iohmm_reg(
    step: Array,
    y: Array | None = None,
    *,
    u: Table = ((1.0, 0.0), (1.0, 1.0), (1.0, 2.0)),
    states: int = 2,
) -> None:
    """Regressions on public inputs `u (T, M)`, one per hidden state, whose chain follows the inputs.

    In posteriordb's program a state's weight after step t depends on the inputs of step t + 1 alone, not on the state
    that follows: the forward sum is a product over steps. `y_t ~ sum_k v_k Normal(u_t b_k, sigma_k)` with weights
    `v = softmax(w u_(t+1))`, times `pi1` at the first step and one at the last.
    """
    inputs = np.asarray(u, float)
    width = inputs.shape[1]
    first = latent("pi1", dist.Dirichlet(jnp.ones(states)))
    slopes = dist.Normal(0, 5).expand((states, width)).to_event(2)
    w = latent("w", slopes)
    b = latent("b", slopes)
    sigma = latent("sigma", dist.HalfNormal(3).expand((states,)).to_event(1))
    log_weights_later = jax.nn.log_softmax(jnp.asarray(inputs[1:]) @ w.T, axis=1)
    weights = jnp.concatenate([log_weights_later, jnp.zeros((1, states))]).at[0].add(jnp.log(first))[step - 1]
    mean = (jnp.asarray(inputs) @ b.T)[step - 1]

    observe("y", _normals(weights, mean, sigma, step.shape[0]), y, step.shape[0])


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


# A path in time with a latent value at every step: drivers killed by month.


_SEASONS = 12


def state_space_stochastic_level_stochastic_seasonal(
    month: Array,
    y: Array | None = None,
    *,
    x: Sequence[float] = tuple(range(24)),
    w: Sequence[float] = (0.0,) * 24,
    low: float = 6.0,
    high: float = 9.0,
) -> None:
    """Monthly counts on the log scale: a random walk, a seasonal pattern that drifts, two public regressors.

    Args:
        x, w: the regressors by month.
        low, high: bounds of the walk; in posteriordb's program, three standard deviations from the mean of the data.
    """
    x_values, w_values = np.asarray(x, float), np.asarray(w, float)
    months = len(x_values)
    mu = latent("mu", dist.Uniform(low, high).expand((months,)).to_event(1))
    seasonal = latent("seasonal", flat().expand((months,)).to_event(1))
    beta, lam = latent("beta", flat()), latent("lambda", flat())
    ordered = dist.ImproperUniform(constraints.positive_ordered_vector, (), (3,))
    sigma = latent("sigma", ordered)
    previous = sum(seasonal[_SEASONS - 1 - k : months - k] for k in range(1, _SEASONS))
    drift = dist.Normal(seasonal[_SEASONS - 1 :] + previous, sigma[0]).to_event(1)
    numpyro.sample("season_prior", drift, obs=np.zeros(months - _SEASONS + 1))
    walk = dist.Normal(mu[1:] - mu[:-1], sigma[1]).to_event(1)
    numpyro.sample("walk_prior", walk, obs=np.zeros(months - 1))
    numpyro.sample("sigma_prior", dist.StudentT(4, sigma, 1).to_event(1), obs=np.zeros(3))
    mean = mu + beta * x_values + lam * w_values + seasonal
    observe("y", dist.Normal(mean[month - 1], sigma[2]), y, month.shape[0])


def _bounded(data: Data) -> dict[str, object]:
    y = array(data, "y")
    low, high = (float(y.mean() + side * 3 * y.std(ddof=1)) for side in (-1, 1))
    return {**given("x", "w")(data), "low": low, "high": high}


MODELS: tuple[Shipped, ...] = (
    from_program(
        accel_gp,
        "acceleration by time, mean and scale approximate Gaussian processes",
        domain=lambda X: {"row": levels(len(X))},
        posteriors=("mcycle_gp-accel_gp",),
        constants=given(X="Xgp_1", X_sigma="Xgp_sigma_1", slambda="slambda_1", slambda_sigma="slambda_sigma_1"),
        **by_row("row", "N", "Y"),
    ),
    from_program(
        accel_splines,
        "acceleration by time, mean and scale penalised splines",
        domain=lambda Xs: {"row": levels(len(Xs))},
        posteriors=("mcycle_splines-accel_splines",),
        constants=given("Xs", "Xs_sigma", Zs="Zs_1_1", Zs_sigma="Zs_sigma_1_1"),
        **by_row("row", "N", "Y"),
    ),
    from_program(
        prophet,
        "trend with changepoints and seasonal regressors",
        domain=lambda t: {"row": levels(len(t))},
        posteriors=("rstan_downloads-prophet",),
        constants=given("t", "t_change", "X", "tau", scales="sigmas"),
        **by_row("row", "T", "y"),
    ),
    from_program(
        iohmm_reg,
        "regressions on public inputs, mixed by hidden states that follow them",
        domain=lambda u: {"step": levels(len(u))},
        posteriors=("iohmm_reg_simulated-iohmm_reg",),
        constants=given("u", states="K"),
        **by_row("step", "T", "y"),
    ),
    from_program(
        state_space_stochastic_level_stochastic_seasonal,
        "monthly series with a drifting level and season",
        domain=lambda x: {"month": levels(len(x))},
        posteriors=("uk_drivers-state_space_stochastic_level_stochastic_seasonal",),
        constants=_bounded,
        **by_row("month", "n", "y"),
    ),
)

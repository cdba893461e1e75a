"""Paths in time with a latent value at every step: votes by state and year, drivers killed by month.

Times and regressors are public. A record has the number of its time step, and its response is private.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Records
from bayesrecon.models.catalogue.curves import cholesky, smooth_covariance
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import Data, floats, index, latent, levels, observe, standard
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist, numpyro
from bayesrecon.models.catalogue.linear import array, flat
from bayesrecon.models.entry import Shipped

_STATE_VARIANCES = 10
_NUGGET = 1e-6  # as in the original program, half of it for each length scale


def hierarchical_gp(
    state: Array,
    year: Array,
    y: Array | None = None,
    *,
    regions: Sequence[int] = (1, 1, 2),
    years: int = 4,
    observed: int = 3,
) -> None:
    """Share of votes: effects of year, state and region, and Gaussian processes of states and of regions in time.

    Args:
        regions: region of each state, from one.
        years: number of years of the processes.
        observed: number of years with votes, which come first.
    """
    region = np.asarray(regions, int) - 1
    times = np.arange(years)
    components = _STATE_VARIANCES + 7
    total = latent("tot_var", dist.Gamma(3, 3))
    shares = latent("prop_var", dist.Dirichlet(2 * jnp.ones(components)))
    sd = jnp.sqrt(components * shares * total)
    year_sd, region_sd, state_sd = sd[0], sd[1], sd[2 : 2 + _STATE_VARIANCES]
    *process_sd, noise = sd[2 + _STATE_VARIANCES :]
    mu = latent("mu", dist.Normal(0.5, 0.5))

    def process(name: str, units: int, scales: Sequence[jax.Array]) -> jax.Array:
        covariance = jnp.zeros((years, years))
        for kind, middle, scale in zip(("long", "short"), (8, 3), scales, strict=True):
            length = latent(f"length_GP_{name}_{kind}", dist.Weibull(middle, 30))
            covariance = covariance + smooth_covariance(times, scale, length, _NUGGET / 2)
        return cholesky(covariance) @ standard(f"GP_{name}_std", years, units)

    by_region = process("region", int(region.max()) + 1, process_sd[::2])
    by_state = process("state", len(region), process_sd[1::2])
    path = by_state + by_region[:, region] + region_sd * standard("region_std", int(region.max()) + 1)[region]
    path = path + state_sd[region] * standard("state_std", len(region))
    path = path[:observed] + year_sd * standard("year_std", observed)[:, None]
    observe("y", dist.Normal(mu + path[year - 1, state - 1], noise), y, state.shape[0])


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


def _votes(data: Data) -> Records:
    return {"state": index(data, "state_ind"), "year": index(data, "year_ind"), "y": array(data, "y")}


def _bounded(data: Data) -> dict[str, object]:
    y = array(data, "y")
    low, high = (float(y.mean() + side * 3 * y.std(ddof=1)) for side in (-1, 1))
    return {"x": floats(data["x"]), "w": floats(data["w"]), "low": low, "high": high}


MODELS: tuple[Shipped, ...] = (
    from_program(
        hierarchical_gp,
        "share of votes by state and year, Gaussian processes in time",
        domain=lambda regions, observed: {
            "state": levels(len(regions)),
            "year": levels(observed),
            "y": (0.0, 1.0),
        },
        records=_votes,
        posteriors=("state_wide_presidential_votes-hierarchical_gp",),
        constants=lambda data: {
            "regions": tuple(map(int, data["state_region_ind"])),
            "years": int(data["N_years"]),
            "observed": int(data["N_years_obs"]),
        },
        design=("state", "year"),
    ),
    from_program(
        state_space_stochastic_level_stochastic_seasonal,
        "monthly series with a drifting level and season",
        domain=lambda x: {"month": levels(len(x))},
        records=lambda data: {"month": np.arange(1, int(data["n"]) + 1), "y": array(data, "y")},
        posteriors=("uk_drivers-state_space_stochastic_level_stochastic_seasonal",),
        constants=_bounded,
        design=("month",),
    ),
)

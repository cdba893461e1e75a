"""Models with a parameter per group, written non-centred: a record names its group by an index field."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.from_program import from_program
from bayesrecon.models.catalogue.latent import (
    Data,
    Draws,
    Rebuilt,
    index,
    latent,
    levels,
    observe,
    rebuild,
    standard,
    standardised,
)
from bayesrecon.models.catalogue.lazy_numpyro import dist, extra
from bayesrecon.models.catalogue.linear import array, flat_positive
from bayesrecon.models.entry import Shipped

COUNT = "count"


def eight_schools_noncentered(school: Array, sigma: Array, y: Array | None = None, *, schools: int = 8) -> None:
    """Effects of coaching in schools: `y_j ~ Normal(mu + tau * theta_trans_j, sigma_j)`; school counts from 1."""
    theta_trans = standard("theta_trans", schools)
    mu = latent("mu", dist.Normal(0, 5))
    tau = latent("tau", dist.HalfCauchy(5))
    observe("y", dist.Normal(mu + tau * theta_trans[school - 1], sigma), y, school.shape[0])


def _eight_schools_records(data: Data) -> Records:
    y = array(data, "y")
    return {"school": np.arange(1, len(y) + 1), "sigma": array(data, "sigma"), "y": y}


def surgical_model(hospital: Array, n: Array, r: Array | None = None, *, hospitals: int = 12) -> None:
    """Deaths in hospitals: `r_i ~ Binomial(n_i, logit^-1(b_i))`, `b_i ~ Normal(mu, sigma)`."""
    mu = latent("mu", dist.Normal(0, 1000))
    sigmasq = latent("sigmasq", dist.InverseGamma(0.001, 0.001))
    b = mu + jnp.sqrt(sigmasq) * standard("b_raw", hospitals)[hospital - 1]
    observe("r", extra.BinomialLogit(b, n), r, b.shape[0])


def _surgical_records(data: Data) -> Records:
    return {"hospital": np.arange(1, int(data["N"]) + 1), "n": index(data, "n"), "r": index(data, "r")}


def _seeds(
    description: str,
    scale: Callable[[], jax.Array],
    prior: float,
    name: str,
    prepare: Callable[[Draws], Draws],
    centre: bool = False,
) -> Shipped:
    """Germination on plates: `n_i ~ Binomial(N_i, logit^-1(alpha0 + alpha1 x1 + alpha2 x2 + alpha12 x1 x2 + b_i))`."""

    def program(plate: Array, x1: Array, x2: Array, N: Array, n: Array | None = None, *, plates: int = 21) -> None:
        wide = dist.Normal(0, prior)
        a0, a1, a2, a12 = (latent(k, wide) for k in ("alpha0", "alpha1", "alpha2", "alpha12"))
        b = scale() * standard("c_raw" if centre else "b_raw", plates)
        if centre:
            b = b - jnp.mean(b)
        eta = a0 + a1 * x1 + a2 * x2 + a12 * x1 * x2 + b[plate - 1]
        observe("n", extra.BinomialLogit(eta, N), n, eta.shape[0])

    return from_program(
        program,
        f"seeds that germinated per plate ({description})",
        name=name,
        domain=lambda plates: {"plate": levels(plates), "x1": "binary", "x2": "binary", "N": COUNT, "n": COUNT},
        prepare=prepare,
        records=_seeds_records,
        posteriors=(f"seeds_data-{name}",),
        constants=lambda data: {"plates": int(data["I"])},
        design=("plate", "x1", "x2", "N"),
        response="n",
    )


def _half_cauchy_scale() -> jax.Array:
    return latent("sigma", dist.HalfCauchy(1))


def _precision_scale() -> jax.Array:
    tau = latent("tau", dist.Gamma(1e-3, 1e-3))
    return 1 / jnp.sqrt(tau)


def _seeds_records(data: Data) -> Records:
    return {"plate": np.arange(1, int(data["I"]) + 1), **{k: index(data, k) for k in ("x1", "x2", "N", "n")}}


def rats_model(rat: Array, x: Array, y: Array | None = None, *, rats: int = 30, xbar: float = 22.0) -> None:
    """Growth of rats: `y ~ Normal(alpha_rat + beta_rat (x - xbar), sigma_y)`, flat priors on the scales."""
    lines = []
    for k in ("alpha", "beta"):
        mean = latent(f"mu_{k}", dist.Normal(0, 100))
        scale = latent(f"sigma_{k}", flat_positive())
        lines.append(mean + scale * standard(f"{k}_raw", rats)[rat - 1])
    sigma_y = latent("sigma_y", flat_positive())
    observe("y", dist.Normal(lines[0] + lines[1] * (x - xbar), sigma_y), y, rat.shape[0])


def pilots(group: Array, scenario: Array, y: Array | None = None, *, groups: int = 5, scenarios: int = 8) -> None:
    """Recoveries of pilots in a flight simulator: `y ~ Normal(a_group + b_scenario, sigma_y)`."""
    mean = 0.0
    for k, unit, count in (("a", group, groups), ("b", scenario, scenarios)):
        centre = latent(f"mu_{k}", dist.Normal(0, 1))
        scale = latent(f"sigma_{k}", dist.Uniform(0, 100))
        mean = mean + 10 * centre + scale * standard(f"{k}_raw", count)[unit - 1]
    sigma_y = latent("sigma_y", dist.Uniform(0, 100))
    observe("y", dist.Normal(mean, sigma_y), y, mean.shape[0])


def glmm1_model(site: Array, obs: Array | None = None, *, sites: int = 235) -> None:
    """Counts of birds at sites: `obs ~ Poisson(exp(alpha_site))`, `alpha ~ Normal(mu_alpha, sd_alpha)`."""
    mu = latent("mu_alpha", dist.Normal(0, 10))
    scale = latent("sd_alpha", dist.Uniform(0, 5))
    rate = jnp.exp(mu + scale * standard("alpha_raw", sites)[site - 1])
    observe("obs", dist.Poisson(rate), obs, rate.shape[0])


def glmm_poisson_model(occasion: Array, year: Array, C: Array | None = None, *, occasions: int = 40) -> None:
    """Counts of falcons: Poisson with a cubic trend in the year and a normal effect of each year."""
    # beta2 may go up to 20 in the original, whose prior vanishes beyond 10.
    bounds = {"alpha": 20.0, "beta1": 10.0, "beta2": 10.0, "beta3": 10.0}
    a, b1, b2, b3 = (latent(k, dist.Uniform(-v, v)) for k, v in bounds.items())
    sigma = latent("sigma", dist.Uniform(0, 5))
    eps = sigma * standard("eps_raw", occasions)[occasion - 1]
    rate = jnp.exp(a + year * (b1 + year * (b2 + year * b3)) + eps)
    observe("C", dist.Poisson(rate), C, rate.shape[0])


def _glmm_poisson_records(data: Data) -> Records:
    return {"occasion": np.arange(1, int(data["n"]) + 1), "year": array(data, "year"), "C": index(data, "C")}


_CROSSED = {"a": "age", "b": "edu", "c": "age_edu", "d": "state", "e": "region_full"}


def election88_full(age: int = 4, edu: int = 4, age_edu: int = 16, state: int = 51, region_full: int = 5) -> Model:
    """Votes in 1988: logistic regression with five crossed random effects."""
    # A field and the constant that counts its levels have one name: the program cannot take both.
    sizes = {"age": age, "edu": edu, "age_edu": age_edu, "state": state, "region_full": region_full}

    def program(black: Array, female: Array, v_prev_full: Array, y: Array | None = None, **unit: Array) -> None:
        beta = latent("beta", dist.Normal(0, 100).expand((5,)).to_event(1))
        eta = beta[0] + beta[1] * black + beta[2] * female + beta[4] * female * black + beta[3] * v_prev_full
        for k, field in _CROSSED.items():
            scale = latent(f"sigma_{k}", dist.Uniform(0, 100))
            eta = eta + scale * standard(f"{k}_raw", sizes[field])[unit[field] - 1]
        observe("y", dist.Bernoulli(logits=eta), y, eta.shape[0])

    indices = {field: levels(count) for field, count in sizes.items()}
    return adapt(
        program,
        dict.fromkeys((*sizes, "black", "female", "v_prev_full", "y"), ()),
        domain={**indices, "black": "binary", "female": "binary", "v_prev_full": "unit"},
        name="election88_full",
        prepare=rebuild(*(standardised(f"{k}_raw", k, None, f"sigma_{k}") for k in _CROSSED)),
        settings=sizes,
    )


def _election_records(data: Data) -> Records:
    integer_fields = (*_CROSSED.values(), "black", "female", "y")
    return {**{k: index(data, k) for k in integer_fields}, "v_prev_full": array(data, "v_prev_full")}


MODELS: tuple[Shipped, ...] = (
    from_program(
        eight_schools_noncentered,
        "effect per school with known standard error, non-centred",
        domain=lambda schools: {"school": levels(schools), "sigma": "positive"},
        # posteriordb publishes theta; the score of centred coordinates has infinite variance.
        prepare=rebuild(standardised("theta_trans", "theta", "mu", "tau")),
        records=_eight_schools_records,
        posteriors=("eight_schools-eight_schools_noncentered", "eight_schools-eight_schools_centered"),
        constants=lambda data: {"schools": int(data["J"])},
        design=("school", "sigma"),
        response="y",
    ),
    from_program(
        surgical_model,
        "deaths among operations per hospital",
        domain=lambda hospitals: {"hospital": levels(hospitals), "n": COUNT, "r": COUNT},
        prepare=rebuild(Rebuilt("b_raw", "b", ("mu", "sigmasq"), lambda b, mu, s: (b - mu) / np.sqrt(s))),
        records=_surgical_records,
        posteriors=("surgical_data-surgical_model",),
        constants=lambda data: {"hospitals": int(data["N"])},
        design=("hospital", "n"),
        response="r",
    ),
    _seeds(
        "vague priors",
        _precision_scale,
        1e3,
        "seeds_model",
        rebuild(Rebuilt("b_raw", "b", ("tau",), lambda b, tau: b * np.sqrt(tau))),
    ),
    _seeds(
        "narrow priors",
        _half_cauchy_scale,
        1.0,
        "seeds_stanified_model",
        rebuild(standardised("b_raw", "b", None, "sigma")),
    ),
    _seeds(
        "narrow priors, effects that sum to zero",
        _half_cauchy_scale,
        1.0,
        "seeds_centered_model",
        rebuild(standardised("c_raw", "c", None, "sigma")),
        centre=True,
    ),
    from_program(
        rats_model,
        "growth lines of rats",
        domain=lambda rats: {"rat": levels(rats), "x": "positive", "y": "positive"},
        prepare=rebuild(*(standardised(f"{k}_raw", k, f"mu_{k}", f"sigma_{k}") for k in ("alpha", "beta"))),
        records=lambda data: {"rat": index(data, "rat"), "x": array(data, "x"), "y": array(data, "y")},
        posteriors=("rats_data-rats_model",),
        constants=lambda data: {"rats": int(data["N"]), "xbar": float(data["xbar"])},
        design=("rat", "x"),
        response="y",
    ),
    from_program(
        pilots,
        "recovery rate by group and scenario, crossed effects",
        domain=lambda groups, scenarios: {"group": levels(groups), "scenario": levels(scenarios), "y": "unit"},
        prepare=rebuild(
            *(Rebuilt(f"{k}_raw", k, (f"mu_{k}", f"sigma_{k}"), lambda x, m, s: (x - 10 * m) / s) for k in ("a", "b"))
        ),
        records=lambda data: {
            "group": index(data, "group_id"),
            "scenario": index(data, "scenario_id"),
            "y": array(data, "y"),
        },
        posteriors=("pilots-pilots",),
        constants=lambda data: {"groups": int(data["n_groups"]), "scenarios": int(data["n_scenarios"])},
        design=("group", "scenario"),
        response="y",
    ),
    from_program(
        glmm1_model,
        "Poisson counts with an effect per site",
        name="GLMM1_model",
        domain=lambda sites: {"site": levels(sites)},
        prepare=rebuild(standardised("alpha_raw", "alpha", "mu_alpha", "sd_alpha")),
        records=lambda data: {"site": index(data, "obssite"), "obs": index(data, "obs")},
        posteriors=("GLMM_data-GLMM1_model",),
        constants=lambda data: {"sites": int(data["nsite"])},
        design=("site",),
        response="obs",
    ),
    from_program(
        glmm_poisson_model,
        "Poisson counts on a cubic in the year with an effect per year",
        name="GLMM_Poisson_model",
        domain=lambda occasions: {"occasion": levels(occasions)},
        prepare=rebuild(standardised("eps_raw", "eps", None, "sigma")),
        records=_glmm_poisson_records,
        posteriors=("GLMM_Poisson_data-GLMM_Poisson_model",),
        constants=lambda data: {"occasions": int(data["n"])},
        design=("occasion", "year"),
        response="C",
    ),
    Shipped(
        "election88_full",
        election88_full,
        "vote by age, education, state and region, crossed effects",
        _election_records,
        ("election88-election88_full",),
        constants=lambda data: {field: int(data[f"n_{field}"]) for field in _CROSSED.values()},
        response="y",
    ),
)

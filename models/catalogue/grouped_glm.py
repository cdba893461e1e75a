"""Models with a parameter per group, written non-centred: a record names its group by an index field."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.model import Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import (
    BinomialLogit,
    Rebuilt,
    index,
    levels,
    observe,
    rebuild,
    standard,
    standardised,
)
from bayesrecon.models.catalogue.linear import array, flat_positive
from bayesrecon.models.entry import Shipped

WHOLE = "count"


def eight_schools_noncentered(schools: int = 8) -> Model:
    """Effects of coaching in schools: `y_j ~ Normal(mu + tau * theta_trans_j, sigma_j)`; school counts from 1."""

    def program(school: Any, sigma: Any, y: Any = None) -> None:
        theta_trans = standard("theta_trans", schools)
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        observe("y", dist.Normal(mu + tau * theta_trans[school - 1], sigma), y, school.shape[0])

    return adapt(
        program,
        {"school": (), "sigma": (), "y": ()},
        domain={"school": levels(schools), "sigma": "positive"},
        name="eight_schools_noncentered",
        # posteriordb publishes theta; the score of centred coordinates has infinite variance.
        prepare=rebuild(standardised("theta_trans", "theta", "mu", "tau")),
        settings={"schools": schools},
    )


def _eight_schools_records(data: Mapping[str, Any]) -> Records:
    y = array(data, "y")
    return {"school": np.arange(1, len(y) + 1), "sigma": array(data, "sigma"), "y": y}


def surgical_model(hospitals: int = 12) -> Model:
    """Deaths in hospitals: `r_i ~ Binomial(n_i, logit^-1(b_i))`, `b_i ~ Normal(mu, sigma)`."""

    def program(hospital: Any, n: Any, r: Any = None) -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 1000))
        sigmasq: Any = numpyro.sample("sigmasq", dist.InverseGamma(0.001, 0.001))
        b = mu + jnp.sqrt(sigmasq) * standard("b_raw", hospitals)[hospital - 1]
        observe("r", BinomialLogit(b, n), r, b.shape[0])

    return adapt(
        program,
        {"hospital": (), "n": (), "r": ()},
        domain={"hospital": levels(hospitals), "n": WHOLE, "r": WHOLE},
        name="surgical_model",
        prepare=rebuild(Rebuilt("b_raw", "b", ("mu", "sigmasq"), lambda b, mu, s: (b - mu) / np.sqrt(s))),
        settings={"hospitals": hospitals},
    )


def _surgical_records(data: Mapping[str, Any]) -> Records:
    return {"hospital": np.arange(1, int(data["N"]) + 1), "n": index(data, "n"), "r": index(data, "r")}


def _seeds(name: str, scale: Callable[[], Any], prior: float, prepare: Any, centre: bool = False) -> Any:
    """Germination on plates: `n_i ~ Binomial(N_i, logit^-1(alpha0 + alpha1 x1 + alpha2 x2 + alpha12 x1 x2 + b_i))`."""

    def build(plates: int = 21) -> Model:
        def program(plate: Any, x1: Any, x2: Any, N: Any, n: Any = None) -> None:
            wide = dist.Normal(0, prior)
            a0, a1, a2, a12 = (numpyro.sample(k, wide) for k in ("alpha0", "alpha1", "alpha2", "alpha12"))
            b = scale() * standard("c_raw" if centre else "b_raw", plates)
            if centre:
                b = b - jnp.mean(b)
            eta = a0 + a1 * x1 + a2 * x2 + a12 * x1 * x2 + b[plate - 1]
            observe("n", BinomialLogit(eta, N), n, eta.shape[0])

        return adapt(
            program,
            {"plate": (), "x1": (), "x2": (), "N": (), "n": ()},
            domain={"plate": levels(plates), "x1": "binary", "x2": "binary", "N": WHOLE, "n": WHOLE},
            name=name,
            prepare=prepare,
            settings={"plates": plates},
        )

    return build


def _half_cauchy_scale() -> Any:
    return numpyro.sample("sigma", dist.HalfCauchy(1))


def _precision_scale() -> Any:
    tau: Any = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    return 1 / jnp.sqrt(tau)


SEEDS = (
    _seeds(
        "seeds_model",
        _precision_scale,
        1e3,
        rebuild(Rebuilt("b_raw", "b", ("tau",), lambda b, tau: b * np.sqrt(tau))),
    ),
    _seeds("seeds_stanified_model", _half_cauchy_scale, 1.0, rebuild(standardised("b_raw", "b", None, "sigma"))),
    _seeds(
        "seeds_centered_model",
        _half_cauchy_scale,
        1.0,
        rebuild(standardised("c_raw", "c", None, "sigma")),
        centre=True,
    ),
)


def _seeds_records(data: Mapping[str, Any]) -> Records:
    return {"plate": np.arange(1, int(data["I"]) + 1), **{k: index(data, k) for k in ("x1", "x2", "N", "n")}}


def rats_model(rats: int = 30, xbar: float = 22.0) -> Model:
    """Growth of rats: `y ~ Normal(alpha_rat + beta_rat (x - xbar), sigma_y)`, flat priors on the scales."""

    def program(rat: Any, x: Any, y: Any = None) -> None:
        lines = []
        for k in ("alpha", "beta"):
            mean = numpyro.sample(f"mu_{k}", dist.Normal(0, 100))
            scale = numpyro.sample(f"sigma_{k}", flat_positive())
            lines.append(mean + scale * standard(f"{k}_raw", rats)[rat - 1])
        sigma_y = numpyro.sample("sigma_y", flat_positive())
        observe("y", dist.Normal(lines[0] + lines[1] * (x - xbar), sigma_y), y, rat.shape[0])

    return adapt(
        program,
        {"rat": (), "x": (), "y": ()},
        domain={"rat": levels(rats), "x": "positive", "y": "positive"},
        name="rats_model",
        prepare=rebuild(*(standardised(f"{k}_raw", k, f"mu_{k}", f"sigma_{k}") for k in ("alpha", "beta"))),
        settings={"rats": rats, "xbar": xbar},
    )


def pilots(groups: int = 5, scenarios: int = 8) -> Model:
    """Recoveries of pilots in a flight simulator: `y ~ Normal(a_group + b_scenario, sigma_y)`."""
    sizes = {"a": ("group", groups), "b": ("scenario", scenarios)}

    def program(y: Any = None, **unit: Any) -> None:
        mean: Any = 0.0
        for k, (field, count) in sizes.items():
            centre: Any = numpyro.sample(f"mu_{k}", dist.Normal(0, 1))
            scale = numpyro.sample(f"sigma_{k}", dist.Uniform(0, 100))
            mean = mean + 10 * centre + scale * standard(f"{k}_raw", count)[unit[field] - 1]
        sigma_y = numpyro.sample("sigma_y", dist.Uniform(0, 100))
        observe("y", dist.Normal(mean, sigma_y), y, mean.shape[0])

    return adapt(
        program,
        {"group": (), "scenario": (), "y": ()},
        domain={field: levels(count) for field, count in sizes.values()} | {"y": "unit"},
        name="pilots",
        prepare=rebuild(
            *(Rebuilt(f"{k}_raw", k, (f"mu_{k}", f"sigma_{k}"), lambda x, m, s: (x - 10 * m) / s) for k in sizes)
        ),
        settings={"groups": groups, "scenarios": scenarios},
    )


def glmm1_model(sites: int = 235) -> Model:
    """Counts of birds at sites: `obs ~ Poisson(exp(alpha_site))`, `alpha ~ Normal(mu_alpha, sd_alpha)`."""

    def program(site: Any, obs: Any = None) -> None:
        mu = numpyro.sample("mu_alpha", dist.Normal(0, 10))
        scale = numpyro.sample("sd_alpha", dist.Uniform(0, 5))
        rate = jnp.exp(mu + scale * standard("alpha_raw", sites)[site - 1])
        observe("obs", dist.Poisson(rate), obs, rate.shape[0])

    return adapt(
        program,
        {"site": (), "obs": ()},
        domain={"site": levels(sites)},
        name="GLMM1_model",
        prepare=rebuild(standardised("alpha_raw", "alpha", "mu_alpha", "sd_alpha")),
        settings={"sites": sites},
    )


def glmm_poisson_model(occasions: int = 40) -> Model:
    """Counts of falcons: Poisson with a cubic trend in the year and a normal effect of each year."""

    def program(occasion: Any, year: Any, C: Any = None) -> None:
        # beta2 may go up to 20 in the original, whose prior vanishes beyond 10.
        bounds = {"alpha": 20.0, "beta1": 10.0, "beta2": 10.0, "beta3": 10.0}
        a, b1, b2, b3 = (numpyro.sample(k, dist.Uniform(-v, v)) for k, v in bounds.items())
        sigma = numpyro.sample("sigma", dist.Uniform(0, 5))
        eps = sigma * standard("eps_raw", occasions)[occasion - 1]
        rate = jnp.exp(a + year * (b1 + year * (b2 + year * b3)) + eps)
        observe("C", dist.Poisson(rate), C, rate.shape[0])

    return adapt(
        program,
        {"occasion": (), "year": (), "C": ()},
        domain={"occasion": levels(occasions)},
        name="GLMM_Poisson_model",
        prepare=rebuild(standardised("eps_raw", "eps", None, "sigma")),
        settings={"occasions": occasions},
    )


def _glmm_poisson_records(data: Mapping[str, Any]) -> Records:
    return {"occasion": np.arange(1, int(data["n"]) + 1), "year": array(data, "year"), "C": index(data, "C")}


_CROSSED = {"a": "age", "b": "edu", "c": "age_edu", "d": "state", "e": "region_full"}


def election88_full(age: int = 4, edu: int = 4, age_edu: int = 16, state: int = 51, region_full: int = 5) -> Model:
    """Votes in 1988: logistic regression with five crossed random effects."""
    sizes = {"age": age, "edu": edu, "age_edu": age_edu, "state": state, "region_full": region_full}

    def program(black: Any, female: Any, v_prev_full: Any, y: Any = None, **unit: Any) -> None:
        beta: Any = numpyro.sample("beta", dist.Normal(0, 100).expand((5,)).to_event(1))
        eta = beta[0] + beta[1] * black + beta[2] * female + beta[4] * female * black + beta[3] * v_prev_full
        for k, field in _CROSSED.items():
            scale = numpyro.sample(f"sigma_{k}", dist.Uniform(0, 100))
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


def _election_records(data: Mapping[str, Any]) -> Records:
    whole = (*_CROSSED.values(), "black", "female", "y")
    return {**{k: index(data, k) for k in whole}, "v_prev_full": array(data, "v_prev_full")}


MODELS: tuple[Shipped, ...] = (
    Shipped(
        "eight_schools_noncentered",
        eight_schools_noncentered,
        "effect per school with known standard error, non-centred",
        _eight_schools_records,
        ("eight_schools-eight_schools_noncentered", "eight_schools-eight_schools_centered"),
        constants=lambda data: {"schools": int(data["J"])},
        design=("school", "sigma"),
        response="y",
    ),
    Shipped(
        "surgical_model",
        surgical_model,
        "deaths among operations per hospital",
        _surgical_records,
        ("surgical_data-surgical_model",),
        constants=lambda data: {"hospitals": int(data["N"])},
        design=("hospital", "n"),
        response="r",
    ),
    *(
        Shipped(
            name,
            build,
            f"seeds that germinated per plate ({what})",
            _seeds_records,
            (f"seeds_data-{name}",),
            constants=lambda data: {"plates": int(data["I"])},
            design=("plate", "x1", "x2", "N"),
            response="n",
        )
        for name, what, build in zip(
            ("seeds_model", "seeds_stanified_model", "seeds_centered_model"),
            ("vague priors", "narrow priors", "narrow priors, effects that sum to zero"),
            SEEDS,
            strict=True,
        )
    ),
    Shipped(
        "rats_model",
        rats_model,
        "growth lines of rats",
        lambda data: {"rat": index(data, "rat"), "x": array(data, "x"), "y": array(data, "y")},
        ("rats_data-rats_model",),
        constants=lambda data: {"rats": int(data["N"]), "xbar": float(data["xbar"])},
        design=("rat", "x"),
        response="y",
    ),
    Shipped(
        "pilots",
        pilots,
        "recovery rate by group and scenario, crossed effects",
        lambda data: {
            "group": index(data, "group_id"),
            "scenario": index(data, "scenario_id"),
            "y": array(data, "y"),
        },
        ("pilots-pilots",),
        constants=lambda data: {"groups": int(data["n_groups"]), "scenarios": int(data["n_scenarios"])},
        design=("group", "scenario"),
        response="y",
    ),
    Shipped(
        "GLMM1_model",
        glmm1_model,
        "Poisson counts with an effect per site",
        lambda data: {"site": index(data, "obssite"), "obs": index(data, "obs")},
        ("GLMM_data-GLMM1_model",),
        constants=lambda data: {"sites": int(data["nsite"])},
        design=("site",),
        response="obs",
    ),
    Shipped(
        "GLMM_Poisson_model",
        glmm_poisson_model,
        "Poisson counts on a cubic in the year with an effect per year",
        _glmm_poisson_records,
        ("GLMM_Poisson_data-GLMM_Poisson_model",),
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

"""Mixtures, regressions on public bases and paths in time: the published programs' densities by SciPy."""

import numpy as np
import pytest
from densities import check_density
from scipy import special, stats

from bayesrecon.models import load
from bayesrecon.models.catalogue import smooth

pytestmark = pytest.mark.usefixtures("hardly_optimised")

N = stats.norm.logpdf
RNG = np.random.default_rng(5)


def table(*shape):
    return tuple(map(tuple, RNG.normal(size=shape).round(3)))


GP = {"X": table(9, 3), "slambda": ((0.5,), (1.0,), (1.7,)), "X_sigma": table(9, 2), "slambda_sigma": ((0.5,), (1.2,))}
SPLINES = {"Xs": table(9, 1), "Zs": table(9, 3), "Xs_sigma": table(9, 1), "Zs_sigma": table(9, 2)}


def motorcycle(mean):
    def oracle(p, z):
        density = stats.t.logpdf(p["Intercept"], 3, -13, 36) + stats.t.logpdf(p["Intercept_sigma"], 3, 0, 10)
        mu, prior = mean(p, "")
        eta, prior_sigma = mean(p, "_sigma")
        row = z["row"] - 1
        density += N(z["Y"], (p["Intercept"] + mu)[row], np.exp((p["Intercept_sigma"] + eta)[row])).sum()
        return {}, density + prior + prior_sigma, 0.0

    return oracle


def gp_mean(p, part):
    """Weights of the eigenfunctions have the spectral density of the kernel as their variance."""
    scale, length, raw = p[f"sdgp{part}_1"], p[f"lscale{part}_1"], p[f"zgp{part}_1"]
    roots = np.array(GP[f"slambda{part}"])
    density = scale**2 * np.sqrt(2 * np.pi) * length * np.exp(-0.5 * length**2 * (roots**2).sum(axis=1))
    prior = N(raw).sum() + stats.t.logpdf(scale, 3, 0, 36) + stats.invgamma.logpdf(length, 1.124909, scale=0.0177)
    return np.array(GP[f"X{part}"]) @ (np.sqrt(density) * raw), prior


def spline_mean(p, part):
    scale, raw = p[f"sds{part}_1_1"], p[f"zs{part}_1_1"]
    prior = N(raw).sum() + stats.t.logpdf(scale, 3, 0, 36)
    return np.array(SPLINES[f"Xs{part}"]) @ p[f"bs{part}"] + np.array(SPLINES[f"Zs{part}"]) @ (scale * raw), prior


TREND = {
    "t": tuple(np.linspace(0, 1, 7)),
    "t_change": (0.3, 0.65),
    "X": table(7, 2),
    "scales": (10.0, 3.0),
    "tau": 0.05,
}


def prophet(p, z):
    t, change = np.array(TREND["t"]), np.array(TREND["t_change"])
    on = t[:, None] >= change
    trend = (p["k"] + on @ p["delta"]) * t + p["m"] + on @ (-change * p["delta"])
    density = N(p["k"], 0, 5) + N(p["m"], 0, 5) + stats.laplace.logpdf(p["delta"], 0, 0.05).sum()
    density += N(p["sigma_obs"], 0, 0.5) + N(p["beta"], 0, TREND["scales"]).sum()
    mean = trend + np.array(TREND["X"]) @ p["beta"]
    return {}, density + N(z["y"], mean[z["row"] - 1], p["sigma_obs"]).sum(), 0.0


INPUTS = {"u": table(8, 2), "states": 3}


def iohmm(p, z):
    """The forward algorithm of the published program, state by state and step by step."""
    order = np.argsort(z["step"])
    u, y, states = np.array(INPUTS["u"]), z["y"][order], 3
    emission = N(y[:, None], u @ p["b"].T, p["sigma"])
    moves = np.exp(u @ p["w"].T)
    moves = np.log(moves / moves.sum(axis=1, keepdims=True))
    alpha = np.log(p["pi1"]) + emission[0]
    for t in range(1, len(y)):
        alpha = np.array([special.logsumexp(alpha + moves[t]) + emission[t, j] for j in range(states)])
    prior = N(p["w"], 0, 5).sum() + N(p["b"], 0, 5).sum() + N(p["sigma"], 0, 3).sum()
    return {}, prior + special.logsumexp(alpha), 0.0


MONTHS = {"x": tuple(RNG.normal(size=24)), "w": (0.0,) * 14 + (1.0,) * 10, "low": 5.0, "high": 8.0}


def months(p, z):
    seasonal, mu, sigma = p["seasonal"], p["mu"], p["sigma"]
    mean = mu + p["beta"] * np.array(MONTHS["x"]) + p["lambda"] * np.array(MONTHS["w"]) + seasonal
    at = z["month"] - 1
    density = N(z["y"], mean[at], sigma[2]).sum() + stats.t.logpdf(sigma, 4).sum()
    density += sum(N(seasonal[t], -seasonal[t - 11 : t].sum(), sigma[0]) for t in range(11, 24))
    density += sum(N(mu[t], mu[t - 1], sigma[1]) for t in range(1, 24))
    return {}, density, 0.0


ORACLES = {
    "iohmm_reg": (iohmm, INPUTS),
    "state_space_stochastic_level_stochastic_seasonal": (months, MONTHS),
    "accel_gp": (motorcycle(gp_mean), GP),
    "accel_splines": (motorcycle(spline_mean), SPLINES),
    "prophet": (prophet, TREND),
}
QUICK = {"prophet"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ORACLES])
def test_density_of_the_published_program_and_map_of_its_draws(name):
    oracle, settings = ORACLES[name]
    model = load(name, **settings)
    rng = np.random.default_rng(1)
    records = {k: f.domain.draw(rng, (8, *f.shape), 2.0, 1.0) for k, f in model.fields.items()}
    check_density(model, oracle, records, spread=0.5)


def test_every_model_of_these_families_has_an_oracle():
    assert {e.name for e in smooth.MODELS} == set(ORACLES)

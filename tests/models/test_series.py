"""Series, curves and detections: densities by SciPy, and every posterior that has reference draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from densities import check_density
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import expit

from bayesrecon.divergence.score import gradients
from bayesrecon.models import load
from bayesrecon.models.catalogue import curves, series
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.database import has_reference_draws, posterior_names
from bayesrecon.posteriors.fitting.programs import entry_of
from bayesrecon.precision import x64
from bayesrecon.types import simulated

pytestmark = pytest.mark.usefixtures("hardly_optimised")

N, HC = stats.norm.logpdf, stats.halfcauchy.logpdf


def arma11(p, z):
    density = N(p["mu"], 0, 10) + N(p["phi"], 0, 2) + N(p["theta"], 0, 2) + HC(p["sigma"], 0, 2.5)
    for y in z["y"]:
        error = np.zeros(len(y))
        error[0] = y[0] - (p["mu"] + p["phi"] * p["mu"])
        for t in range(1, len(y)):
            error[t] = y[t] - (p["mu"] + p["phi"] * y[t - 1] + p["theta"] * error[t - 1])
        density += N(error, 0, p["sigma"]).sum()
    return {}, density, 0.0


def garch11(p, z):
    beta1, density = (1 - p["alpha1"]) * p["share"], 0.0
    for y in z["y"]:
        sigma = np.full(len(y), 0.5)
        for t in range(1, len(y)):
            sigma[t] = np.sqrt(p["alpha0"] + p["alpha1"] * (y[t - 1] - p["mu"]) ** 2 + beta1 * sigma[t - 1] ** 2)
        density += N(y, p["mu"], sigma).sum()
    return {"beta1": beta1}, density, np.log(1 - p["alpha1"])


def markov(emission, p):
    """Log likelihood by products of matrices; the first state has weight one whichever it is."""
    transition = np.stack([p["theta1"], p["theta2"]])
    weights, total = np.exp(emission[0]), 0.0
    for at in emission[1:]:
        weights = (weights @ transition) * np.exp(at)
        total += np.log(weights.sum())
        weights = weights / weights.sum()
    return total + np.log(weights.sum())


def hmm_example(p, z):
    density = N(p["mu"][0], 3, 1) + N(p["mu"][1], 10, 1)
    return {}, density + sum(markov(N(y[:, None], p["mu"]), p) for y in z["y"]), 0.0


def hmm_drive(exponential):
    def oracle(p, z):
        density = sum(N(p[k][0], 0, 1) + N(p[k][1], 3, 1) for k in ("phi", "lambda"))
        density += stats.dirichlet.logpdf(p["theta1"], [4, 2]) + stats.dirichlet.logpdf(p["theta2"], [2, 4])
        for u, v in zip(z["u"], z["v"], strict=True):
            if exponential:
                e = stats.expon.logpdf(u[:, None], scale=1 / p["phi"]) + stats.expon.logpdf(
                    v[:, None], scale=1 / p["lambda"]
                )
            else:
                e = N(u[:, None], p["phi"], 0.5) + N(v[:, None], p["lambda"], 0.7)
            density += markov(e, p)
        return {}, density, 0.0

    return oracle


PLACES = (-3.0, -1.0, 0.5, 2.0)


def covariance(p, nugget):
    x = np.array(PLACES)
    return p["alpha"] ** 2 * np.exp(-((x[:, None] - x) ** 2) / (2 * p["rho"] ** 2)) + nugget * np.eye(len(x))


def scales(p):
    return stats.gamma.logpdf(p["rho"], 25, scale=1 / 4) + N(p["alpha"], 0, 2)


def gp_pois_regr(p, z):
    law = stats.multivariate_normal(np.zeros(len(PLACES)), covariance(p, 1e-10))
    factor = np.linalg.cholesky(covariance(p, 1e-10))
    f = factor @ p["f_tilde"]
    density = scales(p) + law.logpdf(f) + stats.poisson.logpmf(z["k"], np.exp(f[z["place"] - 1])).sum()
    return {"f": f}, density, np.log(np.diag(factor)).sum()


def gp_regr(p, z):
    law = stats.multivariate_normal(np.zeros(len(PLACES)), covariance(p, p["sigma"]))
    return {}, scales(p) + N(p["sigma"]) + law.logpdf(z["y"]).sum(), 0.0


def solved(slope, start, times):
    found = solve_ivp(slope, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-12, method="DOP853")
    return found.y.T


def lotka_volterra(p, z):
    a, b, c, d = p["theta"]
    path = solved(lambda t, s: [(a - b * s[1]) * s[0], (d * s[0] - c) * s[1]], p["z_init"], [1.0, 2.0, 3.5])
    path = np.concatenate([p["z_init"][None], path])[z["occasion"] - 1]
    density = N(p["theta"], [1, 0.05, 1, 0.05], [0.5, 0.05, 0.5, 0.05]).sum()
    density += stats.lognorm.logpdf(p["sigma"], 1, scale=np.exp(-1)).sum()
    density += stats.lognorm.logpdf(p["z_init"], 1, scale=10).sum()
    return {}, density + stats.lognorm.logpdf(z["pelts"], p["sigma"], scale=path).sum(), 0.0


def one_comp(p, z):
    def slope(t, s):
        return 30 * p["k_a"] / 2 * np.exp(-p["k_a"] * t) - p["V_m"] / 2 * s / (p["K_m"] + s)

    path = solved(slope, [0.0], [0.5, 1.0, 3.0])[:, 0]
    density = sum(HC(p[k]) for k in ("k_a", "K_m", "V_m", "sigma"))
    return {}, density + stats.lognorm.logpdf(z["C_hat"], p["sigma"], scale=path[z["occasion"] - 1]).sum(), 0.0


def sir(p, z):
    b, g, x, d = (p[k] for k in ("beta", "gamma", "xi", "delta"))

    def slope(t, s):
        infected = b * s[3] / (s[3] + 1e6) * s[0]
        return [-infected, infected - g * s[1], g * s[1], x * s[1] - d * s[3]]

    start = [1e4, 0.0, 0.0, 1e4]
    path = np.concatenate([[start], solved(slope, start, [2.0, 4.0, 7.0])])
    i = z["occasion"]
    density = HC([b, g, x, d], 0, [2.5, 1, 25, 1]).sum()
    density += stats.poisson.logpmf(z["stoi"], path[i - 1, 0] - path[i, 0]).sum()
    return {}, density + stats.lognorm.logpdf(z["B"], 0.15, scale=path[i, 3]).sum(), 0.0


def soil(p, z):
    k1, k2 = p["k1"], p["k2"]
    flow = np.array([[-k1, p["alpha12"] * k2], [p["alpha21"] * k1, -k2]])
    start = 7.7 * np.array([p["gamma"], 1 - p["gamma"]])
    evolved = np.array([7.7 - (expm(flow * t) @ start).sum() for t in (0.5, 1.0, 3.0)])
    density = N([k1, k2, p["alpha21"], p["alpha12"]]).sum() + stats.beta.logpdf(p["gamma"], 10, 1) + HC(p["sigma"])
    return {}, density + N(z["eCO2"], evolved[z["occasion"] - 1], p["sigma"]).sum(), 0.0


def hmm_gaussian(p, z):
    density = 0.0
    for y in z["y"]:
        emission = np.exp(N(y[:, None], p["mu"], p["sigma"]))
        weights = p["pi1"] * emission[0]
        for at in emission[1:]:
            weights = (weights @ p["A"]) * at
        density += np.log(weights.sum())
    return {}, density, 0.0


def multi_occupancy(p, z):
    s1, s2 = p["sigma_uv"]
    sigma = np.array([[s1**2, s1 * s2 * p["rho_uv"]], [s1 * s2 * p["rho_uv"], s2**2]])
    factor = np.linalg.cholesky(sigma)
    uv = p["uv_raw"] @ factor.T
    density = stats.multivariate_normal([0, 0], sigma).logpdf(uv).sum() + HC(p["sigma_uv"], 0, 2.5).sum()
    density += stats.cauchy.logpdf([p["alpha"], p["beta"]], 0, 2.5).sum() + stats.beta.logpdf(p["Omega"], 2, 2)
    density += stats.beta.logpdf((p["rho_uv"] + 1) / 2, 2, 2)
    i = z["species_id"] - 1
    psi, theta = expit(uv[i, 0] + p["alpha"])[:, None], expit(uv[i, 1] + p["beta"])[:, None]
    site = psi * stats.binom.pmf(z["X"], 6, theta) + (1 - psi) * (z["X"] == 0)
    density += np.log(p["Omega"] * site.prod(axis=1) + (1 - p["Omega"]) * (z["X"].sum(axis=1) == 0)).sum()
    return {"uv1": uv[:, 0], "uv2": uv[:, 1]}, density, len(uv) * np.log(np.diag(factor)).sum()


ORACLES = {
    "hmm_gaussian": (hmm_gaussian, {"length": 9}),
    "sir": (sir, {"t": (2.0, 4.0, 7.0)}),
    "soil_incubation": (soil, {"ts": (0.5, 1.0, 3.0)}),
    "arma11": (arma11, {"length": 12}),
    "garch11": (garch11, {"length": 12}),
    "hmm_example": (hmm_example, {"length": 9}),
    "hmm_drive_0": (hmm_drive(True), {"length": 9}),
    "hmm_drive_1": (hmm_drive(False), {"length": 9, "tau": 0.5, "rho": 0.7}),
    "gp_pois_regr": (gp_pois_regr, {"x": PLACES}),
    "gp_regr": (gp_regr, {"x": PLACES}),
    "lotka_volterra": (lotka_volterra, {"times": (1.0, 2.0, 3.5)}),
    "one_comp_mm_elim_abs": (one_comp, {"times": (0.5, 1.0, 3.0)}),
    "multi_occupancy": (multi_occupancy, {"species": 5, "sites": 4, "visits": 6}),
}
# The nugget of 1e-10 leaves four digits of the smallest pivot; integrators have their steps.
TOLERANCE = {
    "gp_pois_regr": 1e-5,
    "lotka_volterra": 1e-7,
    "one_comp_mm_elim_abs": 1e-6,
    "sir": 5e-6,
}
QUICK = {"arma11", "garch11", "hmm_example"}


def draw_records(model, size):
    rng = np.random.default_rng(1)
    z = {k: f.domain.draw(rng, (size, *f.shape), 1.0, 1.0) for k, f in model.fields.items()}
    if "X" in z:
        z["X"][:3] = 0  # species without a detection
    return z


DRAWN = ("arma11", "garch11", "gp_regr", "hmm_drive_0", "hmm_drive_1", "hmm_example", "hmm_gaussian")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ORACLES])
def test_density_of_the_published_program_and_map_of_its_draws(name):
    oracle, settings = ORACLES[name]
    model = load(name, **settings)
    check_density(model, oracle, draw_records(model, 8), spread=0.5, atol=TOLERANCE.get(name, 1e-8))


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_series_are_drawn_from_the_law_whose_density_is_given(name):
    """The score of records drawn at theta has mean zero at theta."""
    model = load(name, **ORACLES[name][1])
    with x64():
        rng = np.random.default_rng(4)
        theta = np.tile(0.3 * rng.standard_normal(model.dimension), (600, 1))
        blank = {k: np.ones((1, *f.shape)) for k, f in model.fields.items()}
        drawn = simulated(model, theta, blank, jax.random.split(jax.random.key(1), 600))
        scores = np.asarray(gradients(model, theta[0], {k: v[:, 0] for k, v in drawn.items()}))
    z = scores.mean(axis=0) / (scores.std(axis=0) / np.sqrt(600) + 1e-12)
    assert np.abs(z).max() < 4.5
    assert (scores.std(axis=0) > 1e-6).all()


def test_every_model_of_these_families_has_an_oracle():
    assert {e.name for family in (curves, series) for e in family.MODELS} == set(ORACLES)


def test_the_integrator_is_of_fourth_order():
    times = np.arange(1.0, 6.0)
    exact = np.exp(np.sin(times))
    with x64():
        paths = [curves.runge_kutta(lambda t, s: jnp.cos(t) * s, jnp.ones(()), times, h) for h in (0.1, 0.05)]
    coarse, fine = (np.abs(np.asarray(path) / exact - 1).max() for path in paths)
    assert fine < 1e-7
    assert 12 < coarse / fine < 20


def with_draws(database):
    return [name for name in posterior_names(database) if has_reference_draws(database, name)]


@pytest.mark.slow
def test_every_posterior_with_reference_draws_loads(database):
    names = with_draws(database)
    assert len(names) >= 30
    for name in names:
        lines = []
        release = from_posteriordb(name, say=lines.append)
        assert release.theta.shape == (10_000, release.model.dimension)
        assert release.notes == () or entry_of(name) is None  # notes of its own program
        assert lines == []  # read, not built
        assert np.isfinite(np.asarray(release.theta)).all()

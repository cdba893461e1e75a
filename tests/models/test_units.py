"""Models whose parameters belong to units: the original programs' densities by SciPy, and maps from their draws.

Each oracle is the centred density of the published program. Ours is in non-centred coordinates: the two differ
by the Jacobian of the map between them and a constant that does not depend on the parameters.
"""

import json

import numpy as np
import pytest
from densities import check_density
from scipy import stats
from scipy.special import expit, log_expit, logsumexp

from bayesrecon.models import load
from bayesrecon.posteriors.fitting.nuts import check_records
from bayesrecon.posteriors.fitting.programs import served_by

pytestmark = pytest.mark.usefixtures("hardly_optimised")

N, HC = stats.norm.logpdf, stats.halfcauchy.logpdf


def bernoulli(y, eta):
    return np.where(y == 1, log_expit(eta), log_expit(-eta)).sum()


def correlated(p, count):
    """`diag(tau) L`, and the normal log density of rows `xi` around `mu` with that factor."""
    factor = p["tau"][:, None] * p["L_Omega"]
    return stats.multivariate_normal(p["mu"], factor @ factor.T)


def lkj(factor, eta):
    """Log density of a Cholesky factor of a 2 x 2 correlation matrix up to a constant."""
    return 2 * (eta - 1) * np.log(factor[1, 1])


# Each oracle takes our parameters and the records; it returns the published program's parameters, its log
# density at them, and the log Jacobian of ours -> theirs.


def irt_2pl(p, z):
    theta = p["sigma_theta"] * p["theta_raw"]
    a = np.exp(p["sigma_a"] * p["a_raw"])
    b = p["mu_b"] + p["sigma_b"] * p["b_raw"]
    i, j = z["item"] - 1, z["person"] - 1
    density = HC(p["sigma_theta"], 0, 2) + HC(p["sigma_a"], 0, 2) + HC(p["sigma_b"], 0, 2) + N(p["mu_b"], 0, 5)
    density += N(theta, 0, p["sigma_theta"]).sum() + stats.lognorm.logpdf(a, p["sigma_a"]).sum()
    density += N(b, p["mu_b"], p["sigma_b"]).sum() + bernoulli(z["y"], a[i] * (theta[j] - b[i]))
    jacobian = len(theta) * np.log(p["sigma_theta"]) + np.log(a * p["sigma_a"]).sum() + len(b) * np.log(p["sigma_b"])
    return {"theta": theta, "a": a, "b": b}, density, jacobian


def lsat_model(p, z):
    eta = p["beta"] * p["theta"][z["person"] - 1] - p["alpha"][z["item"] - 1]
    density = N(p["alpha"], 0, 100).sum() + N(p["theta"]).sum() + N(p["beta"], 0, 100) + bernoulli(z["y"], eta)
    return {}, density, 0.0


def hier_2pl(p, z):
    xi = p["mu"] + p["xi_raw"] @ (p["tau"][:, None] * p["L_Omega"]).T
    i, j = z["item"] - 1, z["person"] - 1
    density = correlated(p, len(xi)).logpdf(xi).sum() + N(p["theta"]).sum() + lkj(p["L_Omega"], 4)
    density += N(p["mu"][0]) + N(p["mu"][1], 0, 5) + stats.expon.logpdf(p["tau"], scale=10).sum()
    density += bernoulli(z["y"], np.exp(xi[i, 0]) * (p["theta"][j] - xi[i, 1]))
    jacobian = len(xi) * (np.log(p["tau"]).sum() + np.log(p["L_Omega"][1, 1]))
    return {"xi1": xi[:, 0], "xi2": xi[:, 1]}, density, jacobian


def closed(free):
    return np.append(free, -free.sum())


def ability(p, z):
    """Log density of the abilities and their regression, and the ability of each record."""
    adj = p["lambda_adj"]
    persons = len(p["theta_raw"])
    w = np.ones((persons, len(adj)))
    if "W" in z:
        w[z["person"] - 1, 1:] = z["W"]
    theta = w @ adj + p["theta_raw"]
    return N(theta, w @ adj, 1).sum() + stats.t.logpdf(adj, 3).sum(), theta[z["person"] - 1]


def latent_2pl(p, z):
    beta = closed(p["beta_free"])
    density, theta = ability(p, z)
    density += stats.lognorm.logpdf(p["alpha"], 1, scale=np.e).sum() + N(beta, 0, 3).sum()
    i = z["item"] - 1
    return {}, density + bernoulli(z["y"], p["alpha"][i] * theta - beta[i]), 0.0


def credit(y, above):
    """Log probability of category y from the log odds of each category against the one below."""
    sums = np.concatenate([[0.0], np.cumsum(above)])
    return sums[y] - np.log(np.exp(sums).sum())


def grsm(p, z):
    beta, kappa = closed(p["beta_free"]), closed(p["kappa_free"])
    density, theta = ability(p, z)
    density += stats.lognorm.logpdf(p["alpha"], 1, scale=np.e).sum() + N(beta, 0, 3).sum() + N(kappa, 0, 3).sum()
    for y, t, i in zip(z["y"], theta, z["item"] - 1, strict=True):
        density += credit(y, t * p["alpha"][i] - beta[i] - kappa)
    return {"theta": p["theta_raw"] + p["lambda_adj"][0]}, density, 0.0


STEPS = (1, 2, 1)


def gpcm(p, z):
    beta = closed(p["beta_free"])
    pieces = np.split(beta, np.cumsum(STEPS)[:-1])
    density, theta = ability(p, z)
    density += stats.lognorm.logpdf(p["alpha"], 1, scale=np.e).sum() + N(beta, 0, 3).sum()
    for y, t, i in zip(z["y"], theta, z["item"] - 1, strict=True):
        density += credit(y, t * p["alpha"][i] - pieces[i])
    return {}, density, 0.0


BONES = {"delta": (2.0, 0.7, 1.1), "gamma": ((0.5, -1.0, -1.0), (0.2, 1.4, -1.0), (-0.5, 0.3, 2.0))}


def bones(p, z):
    density = N(p["theta"], 0, 36).sum()
    for child, j, grade in zip(z["child"] - 1, z["indicator"] - 1, z["grade"], strict=True):
        exceed = expit(BONES["delta"][j] * (p["theta"][child] - np.array(BONES["gamma"][j][: j + 1])))
        exceed = np.concatenate([[1.0], exceed, [0.0]])
        density += np.log(exceed[grade - 1] - exceed[grade])
    return {}, density, 0.0


def eight_schools(p, z):
    theta = p["mu"] + p["tau"] * p["theta_trans"]
    density = N(theta, p["mu"], p["tau"]).sum() + N(p["mu"], 0, 5) + HC(p["tau"], 0, 5)
    density += N(z["y"], theta[z["school"] - 1], z["sigma"]).sum()
    return {"theta": theta}, density, len(theta) * np.log(p["tau"])


def seeds(p, z):
    b = p["sigma"] * p["c_raw"]
    density = sum(N(p[k]) for k in ("alpha0", "alpha1", "alpha2", "alpha12")) + N(b, 0, p["sigma"]).sum()
    x1, x2 = z["x1"], z["x2"]
    eta = p["alpha0"] + p["alpha1"] * x1 + p["alpha2"] * x2 + p["alpha12"] * x1 * x2 + (b - b.mean())[z["plate"] - 1]
    density += HC(p["sigma"], 0, 1) + stats.binom.logpmf(z["n"], z["N"], expit(eta)).sum()
    return {"c": b}, density, len(b) * np.log(p["sigma"])


def shocked(y, log_p):
    return np.log(np.where(y == 1, np.exp(log_p), 1 - np.exp(log_p))).sum()


def survey(p, z):
    sizes = np.arange(1, 31)[:, None]
    prior = np.log(1 / 30) * len(z["k"])
    return {}, prior + sum(logsumexp(stats.binom.logpmf(k, sizes, p["theta"]).sum(axis=1)) for k in z["k"]), 0.0


def dogs(p, z):
    eta = p["beta"][0] + p["beta"][1] * z["avoid"] + p["beta"][2] * z["shock"]
    return {}, N(p["beta"], 0, 100).sum() + bernoulli(z["y"], eta), 0.0


def dogs_log(p, z):
    return {}, bernoulli(z["y"], p["beta"][0] * z["avoid"] + p["beta"][1] * z["shock"]), 0.0


def dogs_hierarchical(p, z):
    return {}, shocked(z["y"], z["shock"] * np.log(p["a"]) + z["avoid"] * np.log(p["b"])), 0.0


def dogs_nonhierarchical(p, z):
    sigma, factor = p["sigma_logit_ab"], p["L_logit_ab"]
    logit = p["mu_logit_ab"] + p["z"] @ (np.diag(sigma) @ factor)
    a, b = expit(logit[z["dog"] - 1]).T
    density = stats.logistic.logpdf(p["mu_logit_ab"]).sum() + stats.halfnorm.logpdf(sigma).sum()
    density += lkj(factor, 2) + N(p["z"]).sum()
    return {}, density + shocked(z["y"], z["shock"] * np.log(a) + z["avoid"] * np.log(b)), 0.0


def rate(*names):
    def oracle(p, z):
        theta = np.array([p[k] for k in names])[z["sample"] - 1 if "sample" in z else 0]
        return {}, stats.binom.logpmf(z["k"], z["n"], theta).sum(), 0.0

    return oracle


IRT = {"persons": 4, "items": 3}
ORACLES = {
    "irt_2pl": (irt_2pl, IRT),
    "lsat_model": (lsat_model, IRT),
    "hier_2pl": (hier_2pl, IRT),
    "2pl_latent_reg_irt": (latent_2pl, {**IRT, "covariates": 2}),
    "grsm_latent_reg_irt": (grsm, {**IRT, "steps": 3}),
    "gpcm_latent_reg_irt": (gpcm, {"persons": 4, "covariates": 2, "steps": STEPS}),
    "bones_model": (bones, {"children": 3, "categories": (2, 3, 4), **BONES}),
    "eight_schools_noncentered": (eight_schools, {}),
    "seeds_centered_model": (seeds, {"plates": 5}),
    "Survey_model": (survey, {"nmax": 30, "surveys": 3}),
    "dogs": (dogs, {}),
    "dogs_log": (dogs_log, {}),
    "dogs_hierarchical": (dogs_hierarchical, {}),
    "dogs_nonhierarchical": (dogs_nonhierarchical, {"dogs": 4}),
    "Rate_1_model": (rate("theta"), {}),
    "Rate_2_model": (rate("theta1", "theta2"), {}),
    "Rate_3_model": (rate("theta"), {}),
    "Rate_4_model": (rate("theta"), {}),
    "Rate_5_model": (rate("theta"), {}),
}


def draw_records(model, size, seed):
    """Records inside the domains in which trials exceed successes and items offer the category."""
    rng = np.random.default_rng(seed)
    z = {k: f.domain.draw(rng, (size, *f.shape), 2.0, 1.0) for k, f in model.fields.items()}
    for trials, successes in (("N", "n"), ("n", "k")):
        if {trials, successes} <= z.keys():
            z[trials] = z[trials] + z[successes]
    if model.name == "gpcm_latent_reg_irt":
        z["y"] = np.minimum(z["y"], np.array(STEPS)[z["item"] - 1])
    if model.name == "bones_model":
        z["grade"] = np.minimum(z["grade"], z["indicator"] + 1)
    if "W" in z:  # a person's covariates are the same in all answers
        z["W"] = rng.normal(size=(model.settings["persons"], *z["W"].shape[1:]))[z["person"] - 1]
    return z


QUICK = {"irt_2pl", "bones_model", "seeds_centered_model", "dogs_hierarchical"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ORACLES])
def test_density_of_the_published_program_and_map_of_its_draws(name):
    oracle, settings = ORACLES[name]
    model = load(name, **settings)
    check_density(model, oracle, draw_records(model, 12, 1))


def test_every_model_with_units_has_an_oracle():
    from bayesrecon.models.catalogue import glm, item_response, rates

    families = (glm, item_response, rates)
    assert {e.name for f in families for e in f.MODELS if e.posteriors} == set(ORACLES)


def test_settings_of_nested_tables_survive_json():
    settings = ORACLES["bones_model"][1]
    assert load("bones_model", **json.loads(json.dumps(settings))) is load("bones_model", **settings)


EXPECTED = {
    "irt_2pl-irt_2pl": (2000, 144),
    "lsat_data-lsat_model": (5000, 1006),
    "sat-hier_2pl": (19200, 669),
    "fims_Aus_Jpn_irt-2pl_latent_reg_irt": (7000, 531),
    "science_irt-grsm_latent_reg_irt": (2744, 408),
    "timssAusTwn_irt-gpcm_latent_reg_irt": (5500, 530),
    "surgical_data-surgical_model": (12, 14),
    "rats_data-rats_model": (150, 65),
    "GLMM_data-GLMM1_model": (2072, 237),
    "election88-election88_full": (11566, 90),
    "wells_data-wells_dae_inter_model": (3020, 7),
    "nes_logit_data-nes_logit_model": (1179, 2),
    "loss_curves-losscurve_sislob": (55, 15),
    "state_wide_presidential_votes-hierarchical_gp": (550, 933),
    "traffic_accident_nyc-bym2_offset_only": (1921, 3845),
    "dogs-dogs": (750, 3),
    "dogs-dogs_nonhierarchical": (720, 65),
    "radon_mn-radon_variable_intercept_slope_noncentered": (919, 175),
    "radon_all-radon_hierarchical_intercept_centered": (12573, 391),
    "radon_mod-radon_county": (12573, 389),
}


@pytest.mark.slow
@pytest.mark.parametrize("posterior", EXPECTED)
def test_sizes_are_those_that_posteriordb_states(database, posterior):
    """Number of records and of coordinates; the dimensions of the posterior are public."""
    served = served_by(database, posterior)
    assert set(served.design) <= set(served.model.fields)
    records = check_records(served.model, served.records())
    assert (len(next(iter(records.values()))), served.model.dimension) == EXPECTED[posterior]

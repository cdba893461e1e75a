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


def surgical(p, z):
    sigma = np.sqrt(p["sigmasq"])
    b = p["mu"] + sigma * p["b_raw"]
    density = N(p["mu"], 0, 1000) + stats.invgamma.logpdf(p["sigmasq"], 0.001, scale=0.001) + N(b, p["mu"], sigma).sum()
    density += stats.binom.logpmf(z["r"], z["n"], expit(b[z["hospital"] - 1])).sum()
    return {"b": b}, density, len(b) * np.log(sigma)


def seeds(prior, scale, centre=False):
    def oracle(p, z):
        sigma = 1 / np.sqrt(p["tau"]) if scale == "tau" else p["sigma"]
        published = sigma * p["c_raw" if centre else "b_raw"]
        b = published - published.mean() if centre else published
        density = (
            sum(N(p[k], 0, prior) for k in ("alpha0", "alpha1", "alpha2", "alpha12")) + N(published, 0, sigma).sum()
        )
        hyper = stats.gamma.logpdf(p["tau"], 1e-3, scale=1e3) if scale == "tau" else HC(sigma, 0, 1)
        x1, x2 = z["x1"], z["x2"]
        eta = p["alpha0"] + p["alpha1"] * x1 + p["alpha2"] * x2 + p["alpha12"] * x1 * x2 + b[z["plate"] - 1]
        density += hyper + stats.binom.logpmf(z["n"], z["N"], expit(eta)).sum()
        return {"c" if centre else "b": published}, density, len(b) * np.log(sigma)

    return oracle


def rats(p, z):
    alpha, beta = (p[f"mu_{k}"] + p[f"sigma_{k}"] * p[f"{k}_raw"] for k in ("alpha", "beta"))
    density = N(p["mu_alpha"], 0, 100) + N(p["mu_beta"], 0, 100)
    density += N(alpha, p["mu_alpha"], p["sigma_alpha"]).sum() + N(beta, p["mu_beta"], p["sigma_beta"]).sum()
    i = z["rat"] - 1
    density += N(z["y"], alpha[i] + beta[i] * (z["x"] - 22), p["sigma_y"]).sum()
    jacobian = len(alpha) * np.log(p["sigma_alpha"] * p["sigma_beta"])
    return {"alpha": alpha, "beta": beta}, density, jacobian


def pilots(p, z):
    a, b = (10 * p[f"mu_{k}"] + p[f"sigma_{k}"] * p[f"{k}_raw"] for k in ("a", "b"))
    density = N(p["mu_a"]) + N(p["mu_b"]) + N(a, 10 * p["mu_a"], p["sigma_a"]).sum()
    density += N(b, 10 * p["mu_b"], p["sigma_b"]).sum()
    density += N(z["y"], a[z["group"] - 1] + b[z["scenario"] - 1], p["sigma_y"]).sum()
    return {"a": a, "b": b}, density, len(a) * np.log(p["sigma_a"]) + len(b) * np.log(p["sigma_b"])


def glmm1(p, z):
    alpha = p["mu_alpha"] + p["sd_alpha"] * p["alpha_raw"]
    density = N(alpha, p["mu_alpha"], p["sd_alpha"]).sum() + N(p["mu_alpha"], 0, 10)
    density += stats.poisson.logpmf(z["obs"], np.exp(alpha[z["site"] - 1])).sum()
    return {"alpha": alpha}, density, len(alpha) * np.log(p["sd_alpha"])


def glmm_poisson(p, z):
    eps = p["sigma"] * p["eps_raw"]
    year = z["year"]
    rate = np.exp(p["alpha"] + p["beta1"] * year + p["beta2"] * year**2 + p["beta3"] * year**3 + eps[z["occasion"] - 1])
    density = N(eps, 0, p["sigma"]).sum() + stats.poisson.logpmf(z["C"], rate).sum()
    return {"eps": eps}, density, len(eps) * np.log(p["sigma"])


def election(p, z):
    groups = {"a": "age", "b": "edu", "c": "age_edu", "d": "state", "e": "region_full"}
    published = {k: p[f"sigma_{k}"] * p[f"{k}_raw"] for k in groups}
    beta, density, jacobian = p["beta"], N(p["beta"], 0, 100).sum(), 0.0
    black, female = z["black"], z["female"]
    eta = beta[0] + beta[1] * black + beta[2] * female + beta[4] * female * black + beta[3] * z["v_prev_full"]
    for k, field in groups.items():
        density += N(published[k], 0, p[f"sigma_{k}"]).sum()
        jacobian += len(published[k]) * np.log(p[f"sigma_{k}"])
        eta = eta + published[k][z[field] - 1]
    return published, density + bernoulli(z["y"], eta), jacobian


def radon(intercept, slope, uranium=False):
    def oracle(p, z):
        published, density, jacobian, mean = {}, stats.halfnorm.logpdf(p["sigma_y"]), 0.0, 0.0
        for name, kind, x in (("alpha", intercept, 1.0), ("beta", slope, z.get("floor"))):
            if kind == "varying":
                mu, sigma = p[f"mu_{name}"], p[f"sigma_{name}"]
                value = published[name] = mu + sigma * p[f"{name}_raw"]
                density += N(value, mu, sigma).sum() + N(mu, 0, 10) + stats.halfnorm.logpdf(sigma)
                jacobian += len(value) * np.log(sigma)
                mean = mean + value[z["county"] - 1] * x
            elif kind == "fixed":
                density += N(p[name], 0, 10).sum()
                mean = mean + p[name][z["county"] - 1] * x
            elif kind == "common":
                density += N(p[name], 0, 10).sum()
                mean = mean + (p[name][0] * z["log_uppm"] + p[name][1] * x if uranium else p[name] * x)
        return published, density + N(z["log_radon"], mean, p["sigma_y"]).sum(), jacobian

    return oracle


def radon_county(p, z):
    a = p["mu_a"] + p["sigma_a"] * p["a_raw"]
    density = N(p["mu_a"]) + N(a, p["mu_a"], p["sigma_a"]).sum() + N(z["y"], a[z["county"] - 1], p["sigma_y"]).sum()
    return {"a": a}, density, len(a) * np.log(p["sigma_a"])


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


def glm_binomial(p, z):
    year = z["year"]
    density = sum(N(p[k], 0, 100) for k in ("alpha", "beta1", "beta2"))
    eta = p["alpha"] + p["beta1"] * year + p["beta2"] * year**2
    return {}, density + stats.binom.logpmf(z["C"], z["N"], expit(eta)).sum(), 0.0


def glm_poisson(p, z):
    year = z["year"]
    log_rate = p["alpha"] + p["beta1"] * year + p["beta2"] * year**2 + p["beta3"] * year**3
    return {}, stats.poisson.logpmf(z["C"], np.exp(log_rate)).sum(), 0.0


def logit(*columns, response="switched", one_vector=False):
    def oracle(p, z):
        beta = p["beta"] if one_vector else np.append(p["alpha"], p["beta"])
        names = {"dist100": ("dist", 100), "c_dist100": ("c_dist", 100), "educ4": ("educ", 4), "c_educ4": ("c_educ", 4)}
        value = lambda c: z[names[c][0]] / names[c][1] if c in names else z[c]  # noqa: E731
        x = np.array([np.ones(len(z[response])), *(np.prod([value(f) for f in c.split("*")], axis=0) for c in columns)])
        return {}, bernoulli(z[response], beta @ x), 0.0

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
    "surgical_model": (surgical, {"hospitals": 5}),
    "seeds_model": (seeds(1e3, "tau"), {"plates": 5}),
    "seeds_stanified_model": (seeds(1.0, "sigma"), {"plates": 5}),
    "seeds_centered_model": (seeds(1.0, "sigma", centre=True), {"plates": 5}),
    "rats_model": (rats, {"rats": 4}),
    "pilots": (pilots, {"groups": 3, "scenarios": 4}),
    "GLMM1_model": (glmm1, {"sites": 5}),
    "GLMM_Poisson_model": (glmm_poisson, {"occasions": 6}),
    "election88_full": (election, {"state": 6, "region_full": 3}),
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
    "GLM_Binomial_model": (glm_binomial, {}),
    "GLM_Poisson_model": (glm_poisson, {}),
    "wells_dist": (logit("dist", one_vector=True), {}),
    "wells_dist100_model": (logit("dist100"), {}),
    "wells_dist100ars_model": (logit("dist100", "arsenic"), {}),
    "wells_interaction_model": (logit("dist100", "arsenic", "dist100*arsenic"), {}),
    "wells_interaction_c_model": (logit("c_dist100", "c_arsenic", "c_dist100*c_arsenic"), {}),
    "wells_dae_model": (logit("dist100", "arsenic", "educ4"), {}),
    "wells_dae_c_model": (logit("c_dist100", "c_arsenic", "c_dist100*c_arsenic", "educ4"), {}),
    "wells_daae_c_model": (logit("c_dist100", "c_arsenic", "c_dist100*c_arsenic", "assoc", "educ4"), {}),
    "wells_dae_inter_model": (
        logit("c_dist100", "c_arsenic", "c_educ4", "c_dist100*c_arsenic", "c_dist100*c_educ4", "c_arsenic*c_educ4"),
        {},
    ),
    "nes_logit_model": (logit("income", response="vote"), {}),
    "radon_pooled": (radon("common", "common"), {}),
    "radon_county_intercept": (radon("fixed", "common"), {"counties": 4}),
    "radon_county": (radon_county, {"counties": 4}),
    **{
        f"radon_{stem}_{form}": (radon(*kinds), {"counties": 4})
        for form in ("centered", "noncentered")
        for stem, kinds in {
            "partially_pooled": ("varying", None),
            "variable_intercept": ("varying", "common"),
            "variable_slope": ("common", "varying"),
            "variable_intercept_slope": ("varying", "varying"),
            "hierarchical_intercept": ("varying", "common", True),
        }.items()
    },
}


def draw_records(model, size, seed):
    """Records inside the domains in which trials exceed successes and items offer the category."""
    rng = np.random.default_rng(seed)
    z = {k: f.domain.draw(rng, (size, *f.shape), 2.0, 1.0) for k, f in model.fields.items()}
    for trials, successes in (("n", "r"), ("N", "n"), ("n", "k"), ("N", "C")):
        if {trials, successes} <= z.keys():
            z[trials] = z[trials] + z[successes]
    if model.name == "gpcm_latent_reg_irt":
        z["y"] = np.minimum(z["y"], np.array(STEPS)[z["item"] - 1])
    if model.name == "bones_model":
        z["grade"] = np.minimum(z["grade"], z["indicator"] + 1)
    if "W" in z:  # a person's covariates are the same in all answers
        z["W"] = rng.normal(size=(model.settings["persons"], *z["W"].shape[1:]))[z["person"] - 1]
    return z


QUICK = {"irt_2pl", "bones_model", "surgical_model", "dogs_hierarchical", "radon_variable_intercept_slope_noncentered"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ORACLES])
def test_density_of_the_published_program_and_map_of_its_draws(name):
    oracle, settings = ORACLES[name]
    model = load(name, **settings)
    check_density(model, oracle, draw_records(model, 12, 1))


def test_every_model_with_units_has_an_oracle():
    from bayesrecon.models.catalogue import glm, graded, grouped_glm, item_response, logistic, radon, rates

    families = (glm, graded, grouped_glm, item_response, logistic, radon, rates)
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
    records = check_records(served.model, served.records())
    assert (len(next(iter(records.values()))), served.model.dimension) == EXPECTED[posterior]

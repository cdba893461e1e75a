"""Models: NumPyro's own densities, the private data's score at zero, and what is refused."""

import json
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints, transforms
from numpyro.infer.util import log_density, potential_energy
from scipy import stats

from bayesrecon.errors import BayesreconError
from bayesrecon.models import find, from_numpyro, gaussian_linear, glm, load, logistic, mixtures, shipped
from bayesrecon.posteriors.database import posterior_info, posteriordb_model, read_data, read_reference_draws
from bayesrecon.posteriors.nuts import check_records
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.precision import x64

POSTERIORS = [(name, entry.name) for entry in shipped().values() for name in entry.posteriors]
FAMILIES = (gaussian_linear, glm, logistic, mixtures)
SIMPLE = {e.name for family in FAMILIES for e in family.MODELS}
REFERENCE = {  # models with units or series of which posteriordb has draws
    "arma11",
    "eight_schools_noncentered",
    "garch11",
    "gp_pois_regr",
    "gp_regr",
    "hmm_drive_0",
    "hmm_drive_1",
    "hmm_example",
    "lotka_volterra",
    "one_comp_mm_elim_abs",
}
# Models with many units or long recursions take seconds to compile: they are checked with the slow tests.
QUICK = {e.name for family in (gaussian_linear, glm) for e in family.MODELS}
QUICK |= {"wells_dist", "wells_dist100_model", "low_dim_gauss_mix", "eight_schools_noncentered"}
SHIPPED = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in shipped()]
CHECKED = [
    (p, n) if n in QUICK else pytest.param(p, n, marks=pytest.mark.slow)
    for p, n in POSTERIORS
    if n in SIMPLE | REFERENCE
]


def draw_records(model, size, seed=0):
    rng = np.random.default_rng(seed)
    return {k: f.domain.draw(rng, (size, *f.shape), 1.0, 0.5) for k, f in model.fields.items()}


def agrees_with_numpyro(model, seed=0):
    """The terms of the records, the prior and the Jacobian add up to what NumPyro makes of all records at once."""
    with x64():
        records = draw_records(model, 5, seed)
        theta = 0.5 * np.random.default_rng(seed + 1).standard_normal(model.dimension)

        @jax.jit
        def both(theta, records):
            params = model.constrain(theta)
            terms = jax.vmap(model.log_lik, (None, 0))(theta, records)
            ours = terms.sum() + model.log_prior(theta)
            theirs, _ = log_density(model.program, (), records, params)
            energy = potential_energy(model.program, (), records, model.split(theta))
            return ours, theirs, ours + model.log_det(theta), -energy, model.unconstrain(params), params

        ours, theirs, free, energy, back, params = jax.tree.map(np.asarray, both(theta, records))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(free, energy, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(back, theta, rtol=1e-10, atol=1e-10)
    for p in model.parameters:
        assert params[p.name].shape == p.shape
        if p.bounds is not None:
            assert ((params[p.name] >= p.bounds[0]) & (params[p.name] <= p.bounds[1])).all()


# The models that are shipped


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped(name):
    model = load(name)
    assert model.name == name
    assert len(set(model.coordinates)) == len(model.coordinates) == model.dimension
    if name != "linear_predictor":  # given as a loss: there is no NumPyro program
        agrees_with_numpyro(model)
    # A file of draws keeps the settings as JSON: they have to bring back the same model.
    again = load(name, **json.loads(json.dumps(dict(model.settings))))
    assert again.coordinates == model.coordinates
    assert again.fields == model.fields


@pytest.mark.parametrize(
    "name, coordinates",
    [
        ("kidscore_momiq", ("beta[1]", "beta[2]", "sigma")),
        ("arK", ("alpha", *(f"beta[{k}]" for k in range(1, 6)), "sigma")),
        ("GLM_Poisson_model", ("alpha", "beta1", "beta2", "beta3")),
        ("eight_schools_noncentered", (*(f"theta_trans[{k}]" for k in range(1, 9)), "mu", "tau")),
    ],
)
def test_coordinates(name, coordinates):
    assert load(name).coordinates == coordinates


PARAMS = {
    "kidscore_momiq": {"beta": [20.0, 0.6], "sigma": 18.0},
    "kidscore_mom_work": {"beta": [80.0, 5.0, 10.0, 15.0], "sigma": 20.0},
    "blr": {"beta": [1.0, 2.0, 3.0, 4.0, 5.0], "sigma": 0.5},
    "arK": {"alpha": 1.0, "beta": [0.5, 0.25, 0.0, 0.0, -0.5], "sigma": 0.5},
    "diamonds": {"b": np.linspace(-1, 1, 24), "Intercept": 7.0, "sigma": 2.0},
    "kilpisjarvi": {"alpha": 9.0, "beta": 0.02, "sigma": 1.5},
    "wells_dist": {"beta": [0.6, -0.5]},
    "wells_dist100_model": {"alpha": 0.6, "beta": [-0.5]},
    "GLM_Poisson_model": {"alpha": 1.0, "beta1": 0.5, "beta2": -0.2, "beta3": 0.1},
    "eight_schools_noncentered": {"theta_trans": np.arange(8.0), "mu": 1.0, "tau": 2.0},
}
NORMAL, HALF_CAUCHY = stats.norm.logpdf, stats.halfcauchy.logpdf


@pytest.mark.parametrize(
    "name, record, expected",
    [
        ("kidscore_momiq", {"mom_iq": 110.0, "kid_score": 92.0}, NORMAL(92.0, 86.0, 18.0)),
        ("kidscore_mom_work", {"mom_work": 1, "kid_score": 92.0}, NORMAL(92.0, 80.0, 20.0)),
        ("kidscore_mom_work", {"mom_work": 3, "kid_score": 92.0}, NORMAL(92.0, 90.0, 20.0)),
        ("blr", {"X": [1.0, 0.0, 2.0, 0.0, -1.0], "y": 2.5}, NORMAL(2.5, 2.0, 0.5)),
        ("arK", {"lags": [2.0, 4.0, 9.0, 9.0, 6.0], "y": 0.5}, NORMAL(0.5, 0.0, 0.5)),
        ("diamonds", {"Xc": [1.0, *[0.0] * 22, 4.0], "Y": 9.0}, NORMAL(9.0, 10.0, 2.0)),
        ("wells_dist", {"dist": 2.0, "switched": 0}, -math.log1p(math.exp(-0.4))),
        ("wells_dist100_model", {"dist": 50.0, "switched": 1}, -math.log1p(math.exp(-0.35))),
        ("GLM_Poisson_model", {"year": 2.0, "C": 4}, stats.poisson.logpmf(4, math.exp(1.0 + 1.0 - 0.8 + 0.8))),
        ("eight_schools_noncentered", {"school": 3, "sigma": 10.0, "y": 7.0}, NORMAL(7.0, 5.0, 10.0)),
    ],
)
def test_log_lik_of_one_record(name, record, expected):
    """SciPy's density of the programs that posteriordb documents."""
    with x64():
        params = {k: jnp.asarray(v, float) for k, v in PARAMS[name].items()}
        record = {k: jnp.asarray(v) for k, v in record.items()}
        assert float(jax.jit(load(name).log_lik_at)(params, record)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("kidscore_momiq", HALF_CAUCHY(18.0, 0, 2.5)),
        ("kidscore_mom_work", 0.0),
        ("blr", NORMAL([1, 2, 3, 4, 5], 0, 10).sum() + stats.halfnorm.logpdf(0.5, 0, 10)),
        ("arK", NORMAL([1, 0.5, 0.25, 0, 0, -0.5], 0, 10).sum() + HALF_CAUCHY(0.5, 0, 2.5)),
        (
            "diamonds",
            NORMAL(np.linspace(-1, 1, 24)).sum()
            + stats.t.logpdf(7.0, 3, 8, 10)
            + math.log(2)
            + stats.t.logpdf(2.0, 3, 0, 10),
        ),
        ("kilpisjarvi", NORMAL(9.0, 9.31290322580645, 100) + NORMAL(0.02, 0, 1 / 30)),
        ("wells_dist", 0.0),
        ("GLM_Poisson_model", -math.log(40) - 3 * math.log(20)),
        ("eight_schools_noncentered", NORMAL(np.arange(8)).sum() + NORMAL(1, 0, 5) + HALF_CAUCHY(2, 0, 5)),
    ],
)
def test_log_prior(name, expected):
    with x64():
        params = {k: jnp.asarray(v, float) for k, v in PARAMS[name].items()}
        assert float(jax.jit(load(name).log_prior_at)(params)) == pytest.approx(expected, rel=1e-12)


def test_load_reuses_models_and_refuses_what_it_does_not_know():
    assert load("linear_regression", covariates=["a", "b"]) is load("linear_regression", covariates=("a", "b"))
    assert load("linear_regression", covariates=["a"]) is not load("linear_regression", covariates=["b"])
    for name, match in (("kidscore_momi", "did you mean kidscore_momiq"), ("zzz", "bayesrecon models lists them")):
        with pytest.raises(BayesreconError, match=match):
            find(name)
        with pytest.raises(BayesreconError, match=match):
            load(name)
    with pytest.raises(BayesreconError, match="settings of model 'kidscore_momiq'"):
        load("kidscore_momiq", depth=3)
    for name in ("linear_regression", "logistic_regression", "poisson_regression"):
        for covariates in (["y"], ["a", "a"], []):
            with pytest.raises(BayesreconError, match="distinct covariates"):
                load(name, covariates=covariates)


# posteriordb: the data behind the draws


def records_of(database, posterior, name):
    data = read_data(database, posterior)
    model = posteriordb_model(posterior_info(database, posterior), lambda: data)
    return data, model, check_records(model, find(name).records(data))


@pytest.mark.parametrize("posterior, name", CHECKED)
def test_records(database, posterior, name):
    try:
        data, model, records = records_of(database, posterior, name)
    except BayesreconError as error:
        pytest.skip(str(error)) if "not in this copy" in str(error) else pytest.fail(str(error))
    assert len({len(v) for v in records.values()}) == 1
    if name in SIMPLE:
        expected = {"arK": lambda: data["T"] - data["K"], "GLM_Binomial_model": lambda: data["nyears"]}
        expected |= {"iohmm_reg": lambda: data["T"]}
        assert len(next(iter(records.values()))) == expected.get(name, lambda: data.get("N", data.get("n")))()
    with x64():
        for f, total in model.identities.values():
            values = jax.vmap(f)(records)
            assert abs(values.sum() - total) <= 1e-9 * (1 + jnp.abs(values).sum())


@pytest.mark.parametrize("posterior, name", CHECKED)
def test_score_of_the_private_data_is_zero(database, posterior, name):
    """Integration by parts at the truth, within 5 standard errors: about one false alarm in 10,000 sets of draws."""
    try:
        draws = read_reference_draws(database, posterior)
    except BayesreconError as error:
        assert "bayesrecon fit" in str(error)
        pytest.skip(str(error))
    _, model, records = records_of(database, posterior, name)
    release = from_draws(draws, model)
    assert release.notes == ()

    def log_posterior(theta):
        terms = jax.vmap(model.log_lik, (None, 0))(theta, records)
        return terms.sum() + model.log_prior(theta) + model.log_det(theta)

    with x64():
        atoms = release.theta[::10]
        scores = np.asarray(jax.jit(lambda t: jax.lax.map(jax.grad(log_posterior), t, batch_size=25))(atoms))
    error = scores.std(axis=0, ddof=1) / np.sqrt(len(atoms))
    assert (error > 0).all()
    assert np.abs(scores.mean(axis=0) / error).max() < 5


def test_most_shipped_models_have_reference_draws_here(database):
    """The check above says nothing where there are none."""
    names = [p for p, _ in POSTERIORS if posterior_info(database, p).get("reference_posterior_name")]
    assert len(names) >= 36
    files = [Path(f"{database.get_reference_draws_path(p)}.zip") for p in names]
    assert sum(file.is_file() for file in files) >= 30


# Programs of one's own

XY = {"x": (), "y": ()}


def observe(mean, y, scale=1.0):
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


def slope(law=None):
    return numpyro.sample("b", dist.Normal(0, 1) if law is None else law)


def plain(x, y):
    observe(slope() * x, y)


def latent_per_record(x, y):
    observe(numpyro.sample("z", dist.Normal(0, 1).expand([x.shape[0]]).to_event(1)), y)


def latent_in_the_plate(x, y):
    with numpyro.plate("records", x.shape[0]):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y)


def size_from_the_data(x, y):
    observe(slope(dist.Normal(0, 1).expand([int(x.max()) + 1]).to_event(1))[0], y)


def plate_from_the_data(x, y):
    with numpyro.plate("groups", len(jnp.unique(x))):
        b = slope()
    observe(b[0], y)


def branch_on_the_data(x, y):
    observe(slope() * (x if x.sum() > 0 else -x), y)


def rows_by_a_condition(x, y):
    observe(slope(), y[x > 0])


def numpy_call(x, y):
    observe(slope() * np.exp(x), y)


def discrete_latent(x, y):
    observe(numpyro.sample("k", dist.Bernoulli(0.5)) * x, y)


def param_site(x, y):
    observe(numpyro.param("w", 0.3) * x, y, numpyro.sample("s", dist.HalfNormal(1)))


def factor_of_all_records(x, y):
    numpyro.factor("fit", -jnp.sum((y - slope() * x) ** 2))


def subsample(x, y):
    with numpyro.plate("records", x.shape[0], subsample_size=1) as i:
        numpyro.sample("y", dist.Normal(slope(), 1), obs=y[i])


def centred_by_the_batch(x, y):
    observe(slope() * (x - x.mean()), y)


def lagged(x, y):
    numpyro.sample("y", dist.Normal(slope() * y[:-1], 1), obs=y[1:])


def indexed_by_position(x, y):
    observe(slope(dist.Normal(0, 1).expand([5]).to_event(1))[jnp.arange(x.shape[0])], y)


def mean_log_likelihood(x, y):
    b = slope()
    with handlers.scale(scale=1 / x.shape[0]):
        observe(b * x, y)


def outside_the_support_and_scaled_by_the_batch(x, y):
    b = slope(dist.HalfNormal(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Uniform(0, 0.1 * b * x.std()), obs=y)


def prior_from_the_data(x, y):
    observe(slope(dist.Normal(0, 1 + x.std())) * x, y)


def observed_mean(x, y):
    b = slope()
    observe(b * x, y)
    numpyro.sample("average", dist.Normal(b, 1), obs=y.mean())


def nothing_observed(x, y):
    slope()


def one_joint_observation(x, y):
    numpyro.sample("y", dist.Normal(slope() * x, 1).to_event(1), obs=y)


def nothing_latent(x, y):
    observe(x, y)


def site_per_record(x, y):
    b = slope()
    for n in range(x.shape[0]):
        numpyro.sample(f"y{n}", dist.Normal(b * x[n], 1), obs=y[n])


def bound_from_a_latent(x, y):
    observe(numpyro.sample("c", dist.Uniform(0, slope(dist.HalfNormal(1)))) * x, y)


def raises(x, y):
    raise RuntimeError("first line\nsecond line")


@pytest.mark.parametrize(
    "program, options, problem, remedy",
    [
        (latent_per_record, {}, "'z' has one value per record", "index them by a known field"),
        (latent_in_the_plate, {}, "'z' has one value per record", "fixed number of units as a constant"),
        (size_from_the_data, {}, "depends on the data's values", "fix the number of units as a constant"),
        (plate_from_the_data, {}, "depends on the data's values", "fix the number of units as a constant"),
        (branch_on_the_data, {}, "a branch", "use jax.numpy on the fields"),
        (rows_by_a_condition, {}, "a size", "use jax.numpy on the fields"),
        (numpy_call, {}, "plain NumPy call", "use jax.numpy on the fields"),
        (discrete_latent, {}, "'k' is discrete", "sum it out of the likelihood"),
        (param_site, {}, "'w' is a numpyro.param", "make it a numpyro.sample site"),
        (factor_of_all_records, {}, "'fit' is one number for all records", "one term per record inside the plate"),
        (subsample, {}, "'records' subsamples", "no subsample_size"),
        (centred_by_the_batch, {}, "not a product over records", "belongs into the record itself"),
        (lagged, {}, "not a product over records", "belongs into the record itself"),
        (indexed_by_position, {}, "not a product over records", "belongs into the record itself"),
        (mean_log_likelihood, {}, "not a product over records", "belongs into the record itself"),
        (outside_the_support_and_scaled_by_the_batch, {}, "not finite at any of the points tried", "domain="),
        (prior_from_the_data, {}, "prior of 'b' depends on the records", "pass what it needs as a constant"),
        (observed_mean, {}, "'average' depends on the records", "pass what it needs as a constant"),
        (nothing_observed, {}, "no observed site follows the records", r"numpyro\.sample\(.*obs=y\) inside a plate"),
        (one_joint_observation, {}, "no observed site follows the records", "inside a plate over the records"),
        (nothing_latent, {}, "no latent site", "nothing to release"),
        (site_per_record, {}, "y2 appear", "some numbers of records only"),
        (bound_from_a_latent, {}, "bounds of 'c'", "must be plain numbers"),
        (raises, {}, "raises fails on a few records of the declared shapes and domains", "RuntimeError: first line$"),
        (plain, {"record": {"x": (), "z": ()}}, "cannot be called with the fields x, z", "'y'"),
        (plain, {"record": {"x": ()}}, "cannot be called with the fields x", "'y'"),
        (plain, {"constants": {"units": 3}}, "fields x, y and constants units", "'units'"),
        (plain, {"domain": {"xx": "real"}}, "'xx' is not a field of the record", "did you mean x"),
        (plain, {"domain": {"x": "reel"}}, "'reel' is not one of", r"real, positive.*\(low, high\) or \[values\]"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused(program, options, problem, remedy):
    with pytest.raises(BayesreconError, match=problem) as caught:
        from_numpyro(program, **{"record": XY, **options})
    assert re.search(remedy, str(caught.value))
    assert "\n" not in str(caught.value)


def units_by_a_field(unit, y, units):
    b = slope(dist.Normal(0, 1).expand([units]).to_event(1))
    observe(b[unit - 1], y)


def units_in_a_plate(unit, y):
    with numpyro.plate("units", 3):
        b = slope()
    observe(b[unit], y)


def factor_per_record(x, y):
    b = slope()
    with numpyro.plate("records", x.shape[0]):
        numpyro.factor("fit", -((y - b * x) ** 4))


def soft_constraint(x, y):
    b = slope(dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("zero", dist.Normal(b.sum(), 0.01), obs=0.0)
    observe(b[0] + b[1] * x + b[2] * x**2, y)


def scaled_and_masked(x, y):
    b = slope()
    with handlers.scale(scale=0.5), handlers.mask(mask=x > 1):
        observe(b * x, y)


def two_observed_fields(x, y):
    b = slope()
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Normal(b, 2), obs=x)
        numpyro.sample("y", dist.Poisson(jnp.exp(b * x)), obs=y)


def binomial(trials, y):
    b = slope()
    with numpyro.plate("records", trials.shape[0]):
        numpyro.sample("y", dist.Binomial(trials, logits=b), obs=y)


def vector_field(x, y):
    b = slope(dist.Normal(0, 1).expand([2, 3]).to_event(2))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ b, 1).to_event(1), obs=y)


def prior_of(law):
    def program(x, y):
        observe(jnp.sum(jnp.arange(1.0, 1 + b.size) * b) * x if jnp.ndim(b := slope(law())) else b * x, y)

    return program


FLAT = dist.ImproperUniform


@pytest.mark.parametrize(
    "program, options, coordinates, bounds",
    [
        (
            units_by_a_field,
            {"record": {"unit": (), "y": ()}, "domain": {"unit": [1, 2, 3, 4]}, "constants": {"units": 4}},
            ("b[1]", "b[2]", "b[3]", "b[4]"),
            (-math.inf, math.inf),
        ),
        (
            units_in_a_plate,
            {"record": {"unit": (), "y": ()}, "domain": {"unit": [0, 1, 2]}},
            ("b[1]", "b[2]", "b[3]"),
            (-math.inf, math.inf),
        ),
        (factor_per_record, {}, ("b",), (-math.inf, math.inf)),
        (soft_constraint, {}, ("b[1]", "b[2]", "b[3]"), (-math.inf, math.inf)),
        (scaled_and_masked, {}, ("b",), (-math.inf, math.inf)),
        (two_observed_fields, {}, ("b",), (-math.inf, math.inf)),
        (
            binomial,
            {"record": {"trials": (), "y": ()}, "domain": {"trials": list(range(9, 13))}},
            ("b",),
            (-math.inf, math.inf),
        ),
        (
            vector_field,
            {"record": {"x": (2,), "y": (3,)}},
            ("b[1,1]", "b[1,2]", "b[1,3]", "b[2,1]", "b[2,2]", "b[2,3]"),
            (-math.inf, math.inf),
        ),
        (prior_of(lambda: FLAT(constraints.real, (), ())), {}, ("b",), (-math.inf, math.inf)),
        (prior_of(lambda: FLAT(constraints.positive, (), ())), {}, ("b",), (0.0, math.inf)),
        (prior_of(lambda: dist.HalfCauchy(1.0)), {}, ("b",), (0.0, math.inf)),
        (prior_of(lambda: dist.Uniform(-2.0, 3.0)), {}, ("b",), (-2.0, 3.0)),
        (prior_of(lambda: dist.TruncatedNormal(0.0, 1.0, high=1.0)), {}, ("b",), (-math.inf, 1.0)),
        (prior_of(lambda: dist.Beta(2.0, 3.0)), {}, ("b",), (0.0, 1.0)),
        (prior_of(lambda: dist.Dirichlet(jnp.array([1.0, 2.0, 3.0]))), {}, ("b[1]", "b[2]"), None),
        (prior_of(lambda: FLAT(constraints.ordered_vector, (), (3,))), {}, ("b[1]", "b[2]", "b[3]"), None),
        (
            prior_of(
                lambda: dist.TransformedDistribution(
                    dist.Normal(0, 1).expand([2]).to_event(1), transforms.OrderedTransform()
                )
            ),
            {},
            ("b[1]", "b[2]"),
            None,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_accepted(program, options, coordinates, bounds):
    model = from_numpyro(program, **{"record": XY, **options})
    assert model.coordinates == coordinates
    assert model.parameters[0].bounds == bounds
    agrees_with_numpyro(model)
    if bounds is None:
        with pytest.raises(BayesreconError, match="support of b is not a box; use coordinates='unconstrained'"):
            _ = model.in_constrained_coordinates


def family(law):
    def program(x, y):
        b = slope()
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", law(b + 0 * x), obs=y)

    return program


@pytest.mark.parametrize(
    "law, inside, outside",
    [
        (lambda b: dist.Normal(b, 1), [-3.5, 2.0], [math.inf]),
        (lambda b: dist.Gamma(jnp.exp(b), 1), [0.5, 40.0], [-0.1]),
        (lambda b: dist.Beta(jnp.exp(b), 1), [0.25, 0.75], [-0.1, 1.1]),
        (lambda b: dist.Bernoulli(logits=b), [0, 1], [0.5, 2, -1]),
        (lambda b: dist.Poisson(jnp.exp(b)), [0, 3, 99], [-1, 0.5]),
        (lambda b: dist.Binomial(5, logits=b), [0, 5], [-1, 0.5, 6]),
        (lambda b: dist.Categorical(logits=b[..., None] * jnp.arange(3)), [0, 1, 2], [-1, 0.5, 3]),
    ],
    ids=["normal", "gamma", "beta", "bernoulli", "poisson", "binomial", "categorical"],
)
def test_observed_fields_default_to_the_support(law, inside, outside):
    model = from_numpyro(family(law), XY)
    assert model.fields["y"].domain.contains(np.array(inside, float)).all()
    assert not model.fields["y"].domain.contains(np.array(outside, float)).any()
    assert model.fields["x"].domain.contains(np.array([-7.5, 7.5])).all()
    agrees_with_numpyro(model)


def test_from_numpyro_leaves_the_users_precision():
    before = jax.config.jax_enable_x64
    model = from_numpyro(plain, XY)
    assert jax.config.jax_enable_x64 is before
    assert model.name == "plain"
    assert from_numpyro(plain, XY, name="other").name == "other"

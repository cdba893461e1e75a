"""The models that are shipped: NumPyro's own densities, and the private data's score at zero."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import agrees_with_numpyro
from scipy import stats

from bayesrecon.errors import BayesreconError
from bayesrecon.models import find, from_numpyro, load, shipped
from bayesrecon.models.catalogue import glm, linear
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.posteriors.fitting.database import posterior_info, read_data, read_reference_draws
from bayesrecon.posteriors.fitting.nuts import check_records
from bayesrecon.posteriors.fitting.programs import served_by
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.precision import x64

pytestmark = pytest.mark.usefixtures("hardly_optimised")

POSTERIORS = [(name, entry.name) for entry in shipped().values() for name in entry.posteriors]
FAMILIES = (linear, glm)
SIMPLE = {e.name for family in FAMILIES for e in family.MODELS if not e.design}
REFERENCE = {  # models with units or series of which posteriordb has draws
    "arma11",
    "eight_schools_noncentered",
    "garch11",
    "gp_pois_regr",
    "gp_regr",
    "hmm_drive_0",
    "hmm_drive_1",
    "hmm_example",
    "iohmm_reg",
    "lotka_volterra",
    "one_comp_mm_elim_abs",
}


# One or two of a family, quick to compile: all others are checked with the slow tests.
QUICK = {"kidscore_momiq", "linear_regression", "arK", "poisson_regression"}
QUICK |= {"logistic_regression", "eight_schools_noncentered"}


SHIPPED = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in shipped()]
CHECKED = [
    (p, n) if n in QUICK else pytest.param(p, n, marks=pytest.mark.slow)
    for p, n in POSTERIORS
    if n in SIMPLE | REFERENCE
]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_agrees_with_numpyro_and_reloads_from_its_settings(name):
    model = load(name)
    assert model.name == name
    assert len(set(model.coordinates)) == len(model.coordinates) == model.dimension
    if name not in {"linear_predictor", *ESTIMATORS}:  # given as a loss: there is no NumPyro program
        agrees_with_numpyro(model)
    # A file of draws keeps the settings as JSON: they have to bring back the same model.
    again = load(name, **json.loads(json.dumps(dict(model.settings))))
    assert again.coordinates == model.coordinates
    assert again.fields == model.fields


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_likelihoods_are_products_over_records(name):
    """What `from_numpyro` checks of a program of one's own, and takes for granted of a shipped one."""
    model = load(name)
    if model.program is not None:
        record = {k: field.shape for k, field in model.fields.items()}
        domain = {k: field.domain for k, field in model.fields.items()}
        assert from_numpyro(model.program, record, domain=domain, name=name).fields == model.fields


@pytest.mark.parametrize(
    "name, coordinates",
    [
        ("kidscore_momiq", ("beta[1]", "beta[2]", "sigma")),
        ("arK", ("alpha", *(f"beta[{k}]" for k in range(1, 6)), "sigma")),
        ("eight_schools_noncentered", (*(f"theta_trans[{k}]" for k in range(1, 9)), "mu", "tau")),
    ],
)
def test_coordinates(name, coordinates):
    assert load(name).coordinates == coordinates


PARAMS = {
    "kidscore_momiq": {"beta": [20.0, 0.6], "sigma": 18.0},
    "arK": {"alpha": 1.0, "beta": [0.5, 0.25, 0.0, 0.0, -0.5], "sigma": 0.5},
    "logistic_regression": {"alpha": 0.6, "beta": [-0.5]},
    "poisson_regression": {"alpha": 1.0, "beta": [0.5]},
    "eight_schools_noncentered": {"theta_trans": np.arange(8.0), "mu": 1.0, "tau": 2.0},
}


NORMAL, HALF_CAUCHY = stats.norm.logpdf, stats.halfcauchy.logpdf


@pytest.mark.parametrize(
    "name, record, expected",
    [
        ("kidscore_momiq", {"mom_iq": 110.0, "kid_score": 92.0}, NORMAL(92.0, 86.0, 18.0)),
        ("arK", {"lags": [2.0, 4.0, 9.0, 9.0, 6.0], "y": 0.5}, NORMAL(0.5, 0.0, 0.5)),
        ("logistic_regression", {"x": 0.5, "y": 1}, -math.log1p(math.exp(-0.35))),
        ("poisson_regression", {"x": 2.0, "y": 4}, stats.poisson.logpmf(4, math.exp(2.0))),
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
        ("arK", NORMAL([1, 0.5, 0.25, 0, 0, -0.5], 0, 10).sum() + HALF_CAUCHY(0.5, 0, 2.5)),
        ("logistic_regression", NORMAL([0.6, -0.5], 0, 10).sum()),
        ("poisson_regression", NORMAL([1.0, 0.5], 0, 10).sum()),
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


def records_of(database, posterior, name):
    served = served_by(database, posterior)
    assert served.model.name == name
    return read_data(database, posterior), served.model, check_records(served.model, served.records())


@pytest.mark.parametrize("posterior, name", CHECKED)
def test_published_data_become_records_of_equal_length(database, posterior, name):
    try:
        data, model, records = records_of(database, posterior, name)
    except BayesreconError as error:
        pytest.skip(str(error)) if "not in this copy" in str(error) else pytest.fail(str(error))
    assert len({len(v) for v in records.values()}) == 1
    if name in SIMPLE:
        expected = {"arK": lambda: data["T"] - data["K"]}
        assert len(next(iter(records.values()))) == expected.get(name, lambda: data.get("N", data.get("n")))()
    with x64():
        for f, total in model.identities.values():
            values = jax.vmap(f)(records)
            assert abs(values.sum() - total) <= 1e-9 * (1 + jnp.abs(values).sum())


@pytest.mark.slow
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
    assert len(names) >= 29
    files = [Path(f"{database.get_reference_draws_path(p)}.zip") for p in names]
    assert sum(file.is_file() for file in files) >= 23

"""Models: NumPyro's own densities, the private data's score at zero, and what is refused."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import scipy.stats
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints, transforms
from numpyro.infer.util import log_density, potential_energy

from bayesrecon.errors import BayesreconError
from bayesrecon.models import find, from_numpyro, load, shipped
from bayesrecon.posteriors.database import posterior_info, read_data, read_reference_draws
from bayesrecon.posteriors.nuts import check_records
from bayesrecon.posteriors.sources import from_draws, posteriordb_model
from bayesrecon.precision import x64

POSTERIORS = [(name, entry.name) for entry in shipped().values() for name in entry.posteriors]


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


@pytest.mark.parametrize("name", shipped())
def test_shipped(name):
    model = load(name)
    assert model.name == name
    assert len(set(model.coordinates)) == len(model.coordinates) == model.dimension
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


@pytest.mark.parametrize(
    "name, params, record, expected",
    [
        (
            "kidscore_momiq",
            {"beta": [20.0, 0.6], "sigma": 18.0},
            {"mom_iq": 110.0, "kid_score": 92.0},
            scipy.stats.norm.logpdf(92.0, 86.0, 18.0),
        ),
        (
            "kidscore_mom_work",
            {"beta": [80.0, 5.0, 10.0, 15.0], "sigma": 20.0},
            {"mom_work": 3, "kid_score": 92.0},
            scipy.stats.norm.logpdf(92.0, 90.0, 20.0),
        ),
        (
            "wells_dist100_model",
            {"alpha": 0.6, "beta": [-0.5]},
            {"dist": 50.0, "switched": 1},
            -math.log1p(math.exp(-0.35)),
        ),
        (
            "GLM_Poisson_model",
            {"alpha": 1.0, "beta1": 0.5, "beta2": -0.2, "beta3": 0.1},
            {"year": 2.0, "C": 4},
            scipy.stats.poisson.logpmf(4, math.exp(1.0 + 1.0 - 0.8 + 0.8)),
        ),
        (
            "eight_schools_noncentered",
            {"theta_trans": np.arange(8.0), "mu": 1.0, "tau": 2.0},
            {"school": 3, "sigma": 10.0, "y": 7.0},
            scipy.stats.norm.logpdf(7.0, 1.0 + 2.0 * 2.0, 10.0),
        ),
    ],
)
def test_log_lik_of_one_record(name, params, record, expected):
    with x64():
        params = {k: jnp.asarray(v, float) for k, v in params.items()}
        assert float(load(name).log_lik_at(params, record)) == pytest.approx(expected, rel=1e-12)


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


def records_of(database, posterior, entry):
    data = read_data(database, posterior)
    model = posteriordb_model(posterior_info(database, posterior), lambda: data)
    return data, model, check_records(model, entry.records(data))


@pytest.mark.parametrize("posterior, name", POSTERIORS)
def test_score_of_the_private_data_is_zero(database, posterior, name):
    """Integration by parts at the truth, within 5 standard errors: about one false alarm in 10,000 runs."""
    data, model, records = records_of(database, posterior, find(name))
    count = {"arK": lambda: data["T"] - data["K"], "eight_schools_noncentered": lambda: data["J"]}
    expected = count.get(name, lambda: data["N"] if "N" in data else data["n"])()
    assert {len(v) for v in records.values()} == {expected}
    with x64():
        for f, total in model.identities.values():
            values = jax.vmap(f)(records)
            assert abs(values.sum() - total) <= 1e-9 * (1 + jnp.abs(values).sum())
    try:
        draws = read_reference_draws(database, posterior)
    except BayesreconError:
        return  # posteriordb has no draws for some
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


def test_reference_draws_cover_the_shipped_models(database):
    """The check above says nothing where there are no draws."""
    ready = [p for p, _ in POSTERIORS if posterior_info(database, p).get("reference_posterior_name")]
    assert len(ready) >= 36

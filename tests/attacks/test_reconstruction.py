"""`reconstruct`: certificates, constraints, what an attacker knows, and bad input."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesrecon
from bayesrecon import Metric, ScoreMatching, WeightedRecords
from bayesrecon.attacks.pseudodata.refits import fitted
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.evaluate import true_statistics
from bayesrecon.models import load
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.database import open_database, read_data
from bayesrecon.posteriors.sources import dirac
from bayesrecon.precision import x64
from bayesrecon.types import Field, Model, Parameter, PseudoData

FEW = 10
"""Weighted records, one number in all tests: programs are compiled for it once."""


def check_sizes(release, sizes, start):
    """Gap, positive weights, and the statistics that `recover` finds from the same draws."""
    expected = bayesrecon.recover(release)
    for n in sizes:
        found = bayesrecon.reconstruct(release, attack=WeightedRecords(n=n, start=start))
        assert found.relative_gap < 1e-6
        assert found.certificate == "signed measures"
        assert len(found.pseudo.weights) == n
        assert found.pseudo.weights.min() > 0
        for name, value in found.statistics().items():
            assert value == pytest.approx(expected[name].estimate, rel=1e-3), (n, name)
        assert found.trace[-1][3] <= found.trace[0][3]


@pytest.mark.slow
def test_default_from_the_published_start(database):
    check_sizes(from_posteriordb("kidiq-kidscore_momiq", draws=1000), (50,), "published")


@pytest.mark.slow
def test_default_from_the_published_start_for_every_size(database):
    check_sizes(from_posteriordb("kidiq-kidscore_momiq", draws=1000), (50, 100, 200, 400, 800, 1600), "published")


def normal(design, response="y"):
    """A refit: a normal regression on some functions of x."""

    def log_lik(params, record):
        mean = params["beta"] @ jnp.stack([jnp.asarray(f, float) for f in design(record["x"][0])])
        residual = (jnp.sum(record[response]) - mean) * jnp.exp(-params["log_scale"])
        return -0.5 * residual**2 - params["log_scale"]

    parameters = (Parameter("beta", (len(design(0.0)),)), Parameter("log_scale"))
    return Model("refit", parameters, {"x": Field((1,)), "y": Field()}, log_lik, lambda params: jnp.zeros(()))


REFITS = {
    "of the release's form": (normal(lambda x: (1.0, x)), True),
    "of the covariate": (normal(lambda x: (1.0,), "x"), True),
    "on a square": (normal(lambda x: (1.0, x, x**2)), False),
}


@pytest.mark.slow
def test_a_perfect_match_needs_few_records_and_supports_the_refits_that_need_no_more(small):
    """Four features: a handful of weighted records has the whole posterior's score. Refits to them are those to the
    data where their scores lie in these features, and others are not called determined."""
    data, release = small
    found = bayesrecon.reconstruct(release, n=FEW)
    assert found.relative_gap < 1e-6
    for name, (refit, supported) in REFITS.items():
        rows = found.supports(refit)
        with x64():
            truth = fitted(refit, np.ones(len(data["y"])), data)[0]
        assert {row.verdict == "determined" for row in rows} == {supported}, (name, rows)
        if supported:
            halves = np.array([row.upper - row.estimate for row in rows])
            assert (np.abs(truth - [row.estimate for row in rows]) < 1.5 * halves).all(), (name, rows, truth)
    refit = normal(lambda x: (1.0, 1.0))
    with pytest.raises(BayesreconError, match="do not determine the refit"):
        found.supports(refit)
    with pytest.raises(BayesreconError, match="needs the field 'z'"):
        found.supports(dataclasses.replace(refit, fields={"z": Field()}))
    with pytest.raises(BayesreconError, match="run reconstruct again"):
        pickle.loads(pickle.dumps(found)).supports(refit)


@pytest.mark.slow
def test_the_objective_is_the_divergence_over_all_draws(small):
    """In features of a few draws, against `w'Kw/2 - w'b` accumulated over all of them."""
    _, release = small
    found = bayesrecon.reconstruct(release, attack=WeightedRecords(n=FEW, tolerance=1e-3))
    with x64():
        embedding = solve_release(release).embedding
        moments = embedding.moments(Basis(found.pseudo.records, np.eye(FEW)))
    w = found.pseudo.weights
    value = 0.5 * w @ moments.gram @ w - w @ moments.target
    assert found.objective_value == pytest.approx(value, rel=1e-8)
    assert found.bound <= value


@pytest.mark.slow
def test_weights_sum_to_a_known_total(small):
    _, release = small
    found = bayesrecon.reconstruct(release, n=FEW, total=60)
    assert found.pseudo.weights.sum() == pytest.approx(60, rel=1e-9)
    assert found.certificate == "measures of bounded mass"
    assert found.mass == pytest.approx(60)
    free = bayesrecon.recover(release, total=60)
    assert found.statistics()["mean(y)"] == pytest.approx(free["mean(y)"].estimate, abs=0.1)
    # What is left above the unconstrained optimum is what the constraint costs.
    assert found.gap_in_noise < 0.05


@pytest.mark.slow
def test_one_record_per_known_row(database):
    """Eight schools: school and standard error known, the effect private; as weighted records, one a row."""
    release = from_posteriordb("eight_schools-eight_schools_noncentered")
    data = read_data(open_database(), "eight_schools")
    known = {"school": np.arange(1, 9), "sigma": np.asarray(data["sigma"], float)}
    found = bayesrecon.reconstruct(release, known=known)
    table = found.to_dataframe()
    assert (table.weight == 1).all()
    assert found.certificate == "one record a row"
    error = table.y.to_numpy() - np.asarray(data["y"], float)
    assert np.sqrt(np.mean(error**2)) < 1.0  # naive posterior means: about 8


@pytest.mark.slow
def test_candidates_of_a_binary_field():
    """A known design with a private answer: weights decide between the two answers of every row."""
    rng = np.random.default_rng(8)
    count, draws = 40, 3000
    x = rng.normal(size=count)
    model = load("logistic_regression")
    from bayesrecon.posteriors import nuts

    y = (rng.random(count) < 1 / (1 + np.exp(-x))).astype(int)
    release = nuts(model, {"x": x, "y": y}, draws=draws // 4, warmup=300)
    found = bayesrecon.reconstruct(release, known={"x": x})
    share = found.pseudo.weights.reshape(count, 2)
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-9)
    # Only the totals of y and x y are determined, and those come out.
    answers = share @ [0, 1]
    assert answers.sum() == pytest.approx(y.sum(), abs=1.5)
    assert (answers * x).sum() == pytest.approx((y * x).sum(), abs=1.5)


@pytest.mark.slow
def test_records_stay_in_their_domain(small):
    _, release = small
    found = bayesrecon.reconstruct(release, n=FEW, domain={"y": (-4.0, 9.0)})
    assert found.pseudo.records["y"].min() >= -4
    assert found.pseudo.records["y"].max() <= 9
    assert found.relative_gap < 1e-6


@pytest.mark.slow
def test_a_regulariser_chooses_among_equals(small):
    """Many measures have the smallest divergence; a penalty picks the one it likes, at next to no cost."""
    _, release = small

    def third(weights, records):
        return jnp.sum(weights * (records["y"] - 2.5) ** 3)

    attack = WeightedRecords(n=FEW, regulariser=lambda w, z: 1e-6 * (third(w, z) - 300) ** 2)
    found = bayesrecon.reconstruct(release, attack=attack)
    plain = bayesrecon.reconstruct(release, n=FEW)
    assert found.relative_gap < 1e-3
    assert abs(third(**vars(found.pseudo)) - 300) < 30
    assert abs(third(**vars(plain.pseudo)) - 300) > 100


@pytest.mark.slow
def test_a_given_start(small):
    data, release = small
    start = PseudoData(np.ones(60), data)
    found = bayesrecon.reconstruct(release, attack=WeightedRecords(start=start))
    assert found.n == 60
    assert found.relative_gap < 1e-6
    # From the truth it is not far: the records hardly move.
    assert np.abs(found.pseudo.records["y"] - data["y"]).max() < 2


def trained(small):
    """The mode of the small regression, found by Newton on its own log posterior."""
    data, release = small
    model = release.model
    with x64():

        def loss(theta):
            fitted = jax.vmap(model.log_lik, in_axes=(None, 0))(theta, {k: jnp.asarray(v) for k, v in data.items()})
            return -(fitted.sum() + model.log_prior(theta))

        step = jax.jit(lambda t: t - jnp.linalg.solve(jax.hessian(loss)(t), jax.grad(loss)(t)))
        theta = jnp.asarray(np.asarray(release.theta).mean(axis=0))
        for _ in range(20):
            theta = step(theta)
        params = {k: np.asarray(v) for k, v in model.constrain(theta).items()}
    return dirac(model, params)


@pytest.mark.slow
def test_gradient_norm_matching(small):
    release = trained(small)
    found = bayesrecon.reconstruct(release, n=30, total=60)
    assert found.gap_in_noise is None
    with x64():
        problem = solve_release(release, total=60)
        theta = np.asarray(release.theta)[0]
        model = release.model

        def log_p(t):
            fitted = jax.vmap(model.log_lik, in_axes=(None, 0))(t, found.pseudo.records)
            return found.pseudo.weights @ fitted + model.log_prior(t)

        left = np.linalg.norm(jax.jit(jax.grad(log_p))(theta))
        scale = np.linalg.norm(np.asarray(problem.embedding.scores(found.pseudo.records, np.array([0]))).sum(axis=1))
    assert left < 1e-3 * max(scale, 1.0)


def test_result_in_all_its_forms(small, tmp_path):
    _, release = small
    found = bayesrecon.reconstruct(release, n=FEW)
    assert list(found.to_dataframe().columns) == ["weight", "x[1]", "y"]
    assert list(found.trace_dataframe().columns[:5]) == ["iteration", "seconds", "objective", "gap", "n"]
    assert found.to_dict()["statistics"]["n"] == pytest.approx(found.pseudo.weights.sum())
    assert f"{FEW} weighted records" in found._repr_html_()
    import xarray as xr

    with xr.open_dataset(found.save(tmp_path / "pseudo.nc"), engine="h5netcdf") as stored:
        np.testing.assert_allclose(stored["weight"], found.pseudo.weights)


@pytest.mark.parametrize(
    "attack, options, match",
    [
        (WeightedRecords, {"n": 0}, "n=0"),
        (WeightedRecords, {"objective": "best"}, "objective"),
        (WeightedRecords, {"start": "anywhere"}, "start"),
        (WeightedRecords, {"tolerance": 0.0}, "tolerance"),
        (ScoreMatching, {"rate": -1.0}, "rate"),
        (ScoreMatching, {"steps": 0}, "steps"),
        (WeightedRecords, {"slices": 0, "objective": "sliced"}, "slices"),
        (WeightedRecords, {"slices": 3}, "sliced objective"),
        (ScoreMatching, {"slice_law": "normal", "objective": "exact"}, "sliced objective"),
        (WeightedRecords, {"start": PseudoData(np.ones(2), {"x": np.zeros((2, 1))})}, "fields"),
        (WeightedRecords, {"start": PseudoData(-np.ones(2), {"x": np.zeros((2, 1)), "y": np.zeros(2)})}, "weights"),
        (Metric, {"sigma": "euclid"}, "metric='euclid'"),
    ],
)
def test_bad_options(small, attack, options, match):
    with pytest.raises(bayesrecon.BayesreconError, match=match):
        bayesrecon.reconstruct(small[1], attack=attack(**options))


@pytest.mark.parametrize(
    "options, match",
    [
        ({"n": 0}, "n=0"),
        ({"method": "magic"}, "no option method="),
        ({"rate": 1.0}, r"attack=ScoreMatching\(rate=...\)"),
        ({"metric": "identity"}, r"attack=\w+\(metric=...\)"),
        ({"attack": WeightedRecords(), "n": 5}, r"WeightedRecords\(n=5\)"),
        ({"attack": WeightedRecords(), "unit": "x"}, "no use for unit="),
        ({"known": {"colour": [1]}}, "colour"),
    ],
)
def test_bad_input(small, options, match):
    with pytest.raises(bayesrecon.BayesreconError, match=match):
        bayesrecon.reconstruct(small[1], **options)


@pytest.mark.slow
def test_a_mixture_gives_its_size_mean_and_variance(database):
    """No finite sufficient statistic: n within 2 %, mean and variance within 0.5 %, and a certificate on a domain."""
    release = from_posteriordb("low_dim_gauss_mix-low_dim_gauss_mix")
    truth = true_statistics(release.model, {"y": np.asarray(read_data(open_database(), "low_dim_gauss_mix")["y"])})
    found = bayesrecon.reconstruct(release, n=50)
    statistics = found.statistics()
    assert statistics["n"] == pytest.approx(truth["n"], rel=0.02)
    assert statistics["mean(y)"] == pytest.approx(truth["mean(y)"], rel=0.005)
    assert statistics["var(y)"] == pytest.approx(truth["var(y)"], rel=0.005)
    assert found.pseudo.weights.min() >= 0
    assert found.certificate == "measures of bounded mass"
    assert found.gap_in_noise < 0.1
    assert set(found.domain) == {"y"}


@pytest.mark.slow
def test_every_tenth_draw_gives_nearly_the_same(small):
    """The pseudo-data belong to the release, not to the seed: only the draws move the statistics."""
    _, release = small
    a, b = (bayesrecon.reconstruct(release, n=FEW, key=key).statistics() for key in (0, 1))
    for name in a:
        assert a[name] == pytest.approx(b[name], rel=1e-4)
    thin = dataclasses.replace(release, theta=release.theta[::10], weights=np.full(40, 1 / 40), chain=np.ones(40, int))
    assert bayesrecon.reconstruct(thin, n=FEW).statistics()["n"] != pytest.approx(a["n"], rel=1e-4)


def test_what_ended_a_descent_is_said(small):
    _, release = small
    assert (
        bayesrecon.reconstruct(release, attack=WeightedRecords(n=FEW, steps=2, start="published")).stopped
        == "all steps taken"
    )
    assert bayesrecon.reconstruct(release, n=FEW).stopped == "converged"

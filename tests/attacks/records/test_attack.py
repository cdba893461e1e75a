"""Individual records, from draws alone: what is determined, what it is worth, and real posteriors."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from answered import answers, design, drawn
from flags import optimisations

import bayesrecon
from bayesrecon import BayesreconError
from bayesrecon.evaluate import score_records
from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import from_draws, from_posteriordb, nuts
from bayesrecon.posteriors.fitting.database import open_database, read_data
from bayesrecon.posteriors.fitting.programs import served_by
from bayesrecon.types import PosteriorDraws, TrainedParameter


@pytest.mark.slow
def test_errors_wider_than_the_guess_determine_nothing():
    """y_j ~ Normal(effect_j, 1) with effects of sd 0.1: a draw tells y_j to ten standard deviations, 4,000 to 0.16."""

    def program(unit, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 0.1).expand((8,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit - 1], 1), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": list(range(1, 9))})
    rng, known = np.random.default_rng(6), {"unit": np.arange(1, 9)}
    y = rng.normal(size=8)
    for size, seen in ((40, False), (4000, True)):
        draws = y / 101 + rng.normal(size=(size, 8)) / np.sqrt(101)
        release = PosteriorDraws(draws, model, np.full(size, 1 / size), np.zeros(size, int))
        table = bayesrecon.reconstruct(release, known=known, unit="unit")
        column = table["y"]
        assert np.isfinite(column.estimate).all() == seen
        assert set(column.verdict) == {"determined" if seen else "undetermined"}
        assert any("own spread" in w for w in table.warnings) != seen
        if seen:
            assert score_records(table, {"y": y})["y"]["rmse"] < 0.3
            # The mean of independent draws is normal: nothing better is possible.
            np.testing.assert_allclose(column.floor, np.sqrt(101 / size), rtol=0.05)
            np.testing.assert_allclose(column.se, column.floor, rtol=0.05)
            gained = np.log2(np.hypot(1, column.se) / column.se)  # and what the guess is off, in its own spread
            np.testing.assert_allclose(column.bits(), gained + 0.72 * (column.estimate - column.naive) ** 2, rtol=0.3)


@pytest.mark.slow
def test_a_record_that_stands_out_is_shown():
    """25 where the model says 0 +- 1, from draws that tell a record to +- 1.2; others are not told from the guess."""

    def program(unit, y=None):
        effect = numpyro.sample("effect", dist.Normal(0, 0.1).expand((8,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit - 1], 1), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": list(range(1, 9))})
    y = np.array([25.0, -1, 0, 1, 0, -1, 2, 0])
    draws = y / 101 + np.random.default_rng(0).normal(size=(40, 8)) / np.sqrt(101)
    release = PosteriorDraws(draws, model, np.full(40, 1 / 40), np.zeros(40, int))
    table = bayesrecon.reconstruct(release, known={"unit": np.arange(1, 9)}, unit="unit")
    assert table["y"].se[0] > table["y"].naive_sd[0]
    assert (np.isfinite(table["y"].estimate) == (y == 25)).all()
    assert table.exposure().index[0] == 1
    # Records that are not shown are not right.
    assert score_records(table, {"y": y})["y"]["exact"] <= 1 / 8


@pytest.mark.slow
def test_a_category_that_an_item_lacks_hides_nothing():
    model = load("gpcm_latent_reg_irt", persons=5, covariates=0, steps=(1, 2, 1))
    theta = np.random.default_rng(5).normal(0, 0.3, (80, model.dimension))
    release = PosteriorDraws(theta, model, np.full(80, 1 / 80), np.zeros(80, int))
    person, item = np.meshgrid(np.arange(1, 6), np.arange(1, 4))
    known = {"person": person.ravel(), "item": item.ravel()}
    table = bayesrecon.reconstruct(release, known=known, unit=("person", "item"))
    np.testing.assert_allclose(table["y"].visibility, 1)
    assert not any("one by one" in w for w in table.warnings)
    assert table.unknowns == 20


@pytest.fixture(scope="module")
def counted():
    """Counts with rates from a thousandth to 30, and one whose rate does not move with its parameter."""

    def program(unit, expected, exponent, y=None):
        a = numpyro.sample("a", dist.Normal(0, 1).expand((6,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Poisson(expected * jax.numpy.exp(exponent * a[unit - 1])), obs=y)

    record = {"unit": (), "expected": (), "exponent": (), "y": ()}
    model = from_numpyro(program, record, domain={"unit": list(range(1, 7))})
    known = {
        "unit": np.arange(1, 7),
        "expected": np.array([0.001, 0.001, 0.3, 3, 30, 5]),
        "exponent": np.array([1.0, 1, 1, 1, 1, 0]),
    }
    y = np.array([0, 1, 1, 4, 25, 11])
    # Parameters are independent, so that each is drawn from its posterior on a fine grid.
    rng, grid = np.random.default_rng(0), np.linspace(-8, 8, 8001)
    log_density = (
        np.multiply.outer(y * known["exponent"], grid)
        - known["expected"][:, None] * np.exp(np.multiply.outer(known["exponent"], grid))
        - grid**2 / 2
    )
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    a = [rng.choice(grid, 4000, p=p / p.sum()) + rng.uniform(-1e-3, 1e-3, 4000) for p in density]
    release = from_draws({"a": np.transpose(a)[None]}, model)
    return known, y, bayesrecon.reconstruct(release, known=known, unit="unit")["y"]


@pytest.mark.slow
def test_a_count_that_the_model_does_not_expect_is_determined(counted):
    _, y, column = counted
    assert (column.verdict[:5] == "determined").all()
    assert (column.value[:5] == y[:5]).all()
    assert column.bits()[1] > 6  # a case where a thousandth was expected
    # The guess is the law of the count over the draws, not what is left of it in the values that are looked at.
    log_rate = np.linspace(2, 5, 3001)
    density = scipy.stats.norm.pdf(log_rate, np.log(30)) * scipy.stats.poisson.pmf(25, np.exp(log_rate))
    expected = density @ scipy.stats.poisson.pmf(25, np.exp(log_rate)) / density.sum()
    assert column.prior[4] == pytest.approx(expected, rel=0.06)  # over a thousand draws


@pytest.mark.slow
def test_a_count_of_which_nothing_is_seen_has_the_law_of_the_model(counted):
    _, _, column = counted
    assert column.verdict[5] == "undetermined"
    assert column.value[5] in (4, 5)
    assert column.probability[5] == pytest.approx(scipy.stats.poisson.pmf(5, 5), abs=0.01)
    assert column.bits()[5] == pytest.approx(0, abs=0.05)


@pytest.mark.slow
def test_eight_schools(database):
    release = from_posteriordb("eight_schools-eight_schools_noncentered")
    data = read_data(open_database(), "eight_schools")
    known = {"school": np.arange(1, 9), "sigma": np.asarray(data["sigma"], float)}
    table = bayesrecon.reconstruct(release, known=known, unit="school")
    truth = {"y": np.asarray(data["y"], float)}
    score = score_records(table, truth)["y"]
    assert score["rmse"] <= 0.45
    assert score["exact"] >= 7 / 8
    assert score["chance"] <= 1 / 2**7
    assert score["z_sd"] < 1.5
    assert score["naive_rmse"] > 8
    drawn = jax.vmap(release.model.constrain)(release.theta)
    effects = drawn["mu"][:, None] + drawn["tau"][:, None] * drawn["theta_trans"]
    assert (np.abs(table["y"].naive - effects.mean(axis=0)) < 0.04 * table["y"].naive_sd).all()
    assert (np.abs(table["y"].estimate - truth["y"]) < 3 * table["y"].se).all()
    # The two schools that the model expects least, in units of their own spread, are the most exposed ones.
    assert set(table.exposure().index[:2]) == {1, 7}
    assert table.to_dict()["records"][0]["verdict"] == "determined"
    whole = bayesrecon.reconstruct(release, known=known, unit="school", domain={"y": "integer"})
    # Two schools lie half-way between whole numbers for their error, and their probabilities say so.
    right = whole["y"].value == truth["y"]
    assert right.mean() >= 6 / 8
    assert whole["y"].probability[~right].max() < 0.7
    assert whole["y"].probability[right].max() > 0.8
    axes = whole.plot(truth=truth)
    assert axes.shape == (1, 2)
    assert axes[0, 1].get_xlabel() == "stated probability"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known": {"person": [1, 1], "item": [1, 1]}, "unit": ("person", "item")}, "its known values repeat"),
        ({"known": {"person": [1, 2]}, "unit": ("person", "item")}, "must be one of the known fields"),
        ({"known": {"person": [1], "item": [1], "y": [1]}, "unit": "person"}, "there is nothing to recover"),
        ({"known": {"person": [1], "item": [1]}, "unit": "person", "n": 3}, "n= is not an option"),
    ],
)
def test_bad_input(loose, options, message):
    with pytest.raises(BayesreconError, match=message):
        bayesrecon.reconstruct(loose, **options)


def test_units_that_several_fields_name_belong_to_reconstruct(loose):
    with pytest.raises(BayesreconError, match="several fields together name a record in `reconstruct`"):
        bayesrecon.recover(loose, known=design(4, 3), unit=("person", "item"))


def test_a_trained_parameter_has_no_records(loose):
    point = TrainedParameter(np.asarray(loose.theta)[:1], loose.model)
    with pytest.raises(BayesreconError, match="SingleRecords takes posterior draws"):
        bayesrecon.reconstruct(point, known=design(4, 3), unit=("person", "item"))


@pytest.fixture(scope="module")
def answered():
    """40 persons, 12 items: a posterior of their answers, and answers that it has never seen."""
    model, rng = answers(40, 12), np.random.default_rng(7)
    known = design(40, 12)
    y, other = drawn(model, known, rng), drawn(model, known, rng)
    with optimisations(True):
        release = nuts(model, {**known, "y": y}, chains=2, draws=1000, warmup=300, key=2)
        return known, y, other, bayesrecon.reconstruct(release, known=known, unit=("person", "item"))


@pytest.mark.slow
def test_answers_of_persons(answered):
    known, y, _, table = answered
    score = score_records(table, {"y": y})["y"]
    assert score["exact"] > 0.99
    assert score["exact"] > score["naive_exact"] + 0.1
    assert score["calibration"] < 0.03
    assert 0.85 < score["z_sd"] < 1.15
    assert score["coverage"] > 0.9
    assert len(table) == len(known["person"]) == table.unknowns
    assert table.exposure("person").index.nunique() == 40


@pytest.mark.slow
def test_draws_of_other_data_say_nothing(answered):
    """Null: against answers that the posterior has never seen, agreement is that of two unrelated tables."""
    _, y, other, table = answered
    value = table["y"].value
    chance = np.mean(value) * np.mean(other) + (1 - np.mean(value)) * (1 - np.mean(other))
    # Two-sided, one in 100,000 under chance; unrelated persons and items leave some dependence between answers.
    width = scipy.stats.norm.isf(5e-6) * np.sqrt(0.25 / len(other)) * 2
    assert abs(np.mean(value == other) - chance) < width
    assert abs(np.mean(value == other) - np.mean(y == other)) < 0.02


@pytest.mark.slow
@pytest.mark.large
def test_surgical_deaths(database):
    """Twelve hospitals: all deaths exact with the operations known; with their number unknown, both recovered."""
    served = served_by(open_database(), "surgical_data-surgical_model")
    data = served.records()
    release = nuts(served.model, data, chains=4, draws=2500, thinning=3, target_accept=0.9, key=1)
    table = bayesrecon.reconstruct(release, known={"unit": data["unit"], "n": data["n"]}, unit="unit")
    score = score_records(table, data)["r"]
    assert score["exact"] == 1
    assert table["r"].probability.min() > 0.9
    free = bayesrecon.reconstruct(release, known={"unit": data["unit"]}, unit="unit")
    found = score_records(free, data)
    # Without the number of operations the model says nothing of deaths by itself.
    assert free["r"].naive is None
    assert np.isfinite(free["r"].estimate).all()
    assert found["r"]["z_sd"] < 2
    assert found["n"]["z_sd"] < 2


@pytest.mark.slow
@pytest.mark.large
def test_counties_are_counted(database):
    """Radon in 85 counties, nothing known but their number: records per county from the draws alone."""
    served = served_by(open_database(), "radon_mn-radon_variable_intercept_noncentered")
    records = served.records()
    release = nuts(served.model, records, chains=4, draws=2500, target_accept=0.9, key=0)
    table = bayesrecon.recover(release, unit="county_idx").units()
    true = np.array([(records["county_idx"] == c).sum() for c in table.index])
    assert (table["n_rounded"] == true).mean() >= 0.85
    assert scipy.stats.spearmanr(table["n_rounded"], true).statistic >= 0.995
    assert ((table["n"] - true) / table["n_se"]).std() < 1.3
    sums = np.array([records["log_radon"][records["county_idx"] == c].sum() for c in table.index])
    assert ((table["sum(log_radon)"] - sums) / table["sum(log_radon)_se"]).std() < 1.4


@pytest.mark.slow
def test_draws_that_are_none_of_the_model_determine_no_record():
    """Effects around a mean of their own: exactly normal, as a mean-field fit has them, and shuffled by column."""

    def program(unit, y=None):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        effect = numpyro.sample("effect", dist.Normal(mu, 0.5).expand((8,)).to_event(1))
        with numpyro.plate("records", unit.shape[0]):
            numpyro.sample("y", dist.Normal(effect[unit], 1), obs=y)

    model = from_numpyro(program, {"unit": (), "y": ()}, domain={"unit": list(range(8))})
    rng, known = np.random.default_rng(7), {"unit": np.arange(8)}
    precision = np.diag([33.0, *[5.0] * 8])
    precision[0, 1:] = precision[1:, 0] = -4
    y = rng.normal(1, 1, 8)
    mean = np.linalg.solve(precision, np.append(0, y))
    noise = rng.normal(size=(4000, 9))
    exact = mean + noise @ np.linalg.inv(np.linalg.cholesky(precision))
    narrow, shuffled = mean + noise / np.sqrt(np.diag(precision)), rng.permuted(exact, axis=0)

    def found(draws, **options):
        release = from_draws({"mu": draws[None, :, 0], "effect": draws[None, :, 1:]}, model)
        return bayesrecon.reconstruct(release, known=known, unit="unit", **options)

    table = found(exact)
    assert table.consistent
    assert (np.abs(table["y"].estimate - y) < 4.5 * table["y"].se).all()
    for draws in (narrow, shuffled):
        table = found(draws)
        assert not table.consistent
        assert (table["y"].verdict == "undetermined").all()
        assert np.isnan(table["y"].estimate).all()
        assert np.isfinite(found(draws, force=True)["y"].estimate).any()
        assert repr(table).startswith("draws and model do not belong together")

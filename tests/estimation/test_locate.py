"""The data are found wherever they lie, whatever the first generic records."""

import re
from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import statsmodels.api as sm
from families import model_of, simulated
from gridded import logistic, poisson, switching
from parts import slow_then_large

import bayesrecon
from bayesrecon.divergence.adaptive import embedding_of
from bayesrecon.estimation import anchors, basis, locate, record_weights, solve
from bayesrecon.estimation.solve import fit
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import from_draws, from_posteriordb
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws


@pytest.mark.slow
def test_data_far_from_the_first_records_are_found_whatever_the_seed(database):
    """Years near 4,000, seen from standardised records: a feature there is of the size of rounding."""
    release = from_posteriordb("kilpisjarvi_mod-kilpisjarvi")
    found = [bayesrecon.recover(release, key=key)["n"] for key in range(12)]
    assert abs(found[0].estimate - 62) < 4 * found[0].se
    assert np.ptp([n.estimate for n in found]) < 1e-6


def exact(x, y, release):
    """A fit, or draws of its posterior under a flat prior."""
    design = np.column_stack([np.ones(len(x)), x])
    if release == "fit":
        return sm.OLS(y, design).fit()
    rng, covariance = np.random.default_rng(0), np.linalg.inv(design.T @ design)
    best = covariance @ design.T @ y
    sigma = np.sqrt(((y - design @ best) ** 2).sum() / rng.chisquare(len(x) - 2, 4000))
    beta = best + rng.normal(size=(4000, 2)) @ np.linalg.cholesky(covariance).T * sigma[:, None]
    values = {"alpha": beta[:, 0].reshape(4, -1), "beta": beta[:, 1].reshape(4, -1, 1), "sigma": sigma.reshape(4, -1)}
    wide = 1000 * np.abs(best).max()
    return from_draws(values, load("linear_regression", coefficient_scale=wide, sigma_scale=wide))


@pytest.mark.parametrize(
    ("release", "x_unit", "y_unit"),
    [
        ("fit", 1e-6, 1e4),
        ("fit", 1e9, 1e7),
        pytest.param("draws", 1.0, 1e5, marks=pytest.mark.slow),
        pytest.param("draws", 1e4, 1e8, marks=pytest.mark.slow),
    ],
)
def test_units_do_not_matter(release, x_unit, y_unit):
    """Dollars, inhabitants, micrograms: neither a fit nor draws say in which units their records are."""
    rng = np.random.default_rng(3)
    x = rng.uniform(20, 80, 111)
    y = 20 + 0.5 * x + rng.normal(0, 10, 111)
    found = bayesrecon.recover(exact(x * x_unit, y * y_unit, release))
    assert not found.failures
    assert found["n"].lower - 1e-3 <= 111 <= found["n"].upper + 1e-3
    assert found["n"].upper - found["n"].lower < 40


@pytest.mark.slow
def test_units_far_from_one_are_found_whatever_the_seed(database):
    """Incomes of tens of thousands, seen from standardised records: their squares are below rounding."""
    release = from_posteriordb("earnings-earn_height").take(np.arange(0, 10_000, 10))
    found = [bayesrecon.recover(release, key=key)["n"] for key in (0, 1, 4)]  # the last two: 32 and 0.07 once
    assert abs(found[0].estimate - 1192) < 4 * found[0].se
    assert np.ptp([n.estimate for n in found]) < 1e-6
    assert all(n.verdict == "determined" for n in found)


@pytest.mark.slow
def test_records_that_do_not_show_all_features_are_no_answer(database, monkeypatch):
    monkeypatch.setattr(locate, "PASSES", 1)
    for module in (basis, solve):
        monkeypatch.setattr(module, "LARGER_POOL", 0)
    release = from_posteriordb("earnings-earn_height").take(np.arange(0, 10_000, 10))
    found = bayesrecon.recover(release, key=4)
    assert any(re.search(r"show only (5 of 6|6 of 7) features", failure) for failure in found.failures)  # by rounding
    assert found["n"].verdict != "determined"


@pytest.mark.slow
def test_finitely_many_values_need_no_search(monkeypatch):
    """Their generic records are the same wherever the data lie."""

    def program(group, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand((4,)).to_event(1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=b[group]), obs=y)

    passes = []
    monkeypatch.setattr(locate, "fit", lambda *a, **k: passes.append(1) or fit(*a, **k))
    model = from_numpyro(program, {"group": (), "y": ()}, domain={"group": [0, 1, 2, 3], "y": "binary"})
    rng = np.random.default_rng(0)
    draws = rng.normal([-2, -1, 0, 3], 0.3, (1, 1000, 4))
    assert bayesrecon.recover(from_draws({"b": draws}, model)).gap
    assert not passes


@pytest.mark.parametrize("seed", slow_then_large(102, 101, 100))
def test_data_are_found_in_a_domain_much_wider_than_they_are(seed):
    """Most of the domain is more informative than the data: the generic records must not settle there."""
    data, release, domain = poisson(np.random.default_rng(seed))
    found = bayesrecon.recover(release, domain=domain)
    assert abs(found["n"].estimate - 300) < 4 * found["n"].se
    assert found["n"].se < 10
    assert abs(found["mean(y)"].estimate - data["y"].mean()) < 4 * found["mean(y)"].se


@pytest.mark.parametrize("seed", slow_then_large(102, 101, 100))
def test_data_are_found_without_a_domain(seed):
    """Records far away that hardly any draw can see must not stand in for the data."""
    _, release, _ = logistic(np.random.default_rng(seed))
    n = bayesrecon.recover(release)["n"]
    assert n.lower < 600 < n.upper
    assert n.upper - n.lower < 80


@pytest.mark.slow
def test_few_records_that_show_an_end_are_asked_more(monkeypatch):
    """Over many orders of magnitude 64 records show 16 features of a censored normal law and then rounding, and others
    show others."""
    monkeypatch.setattr(locate, "follow_measure", lambda embedding, reference, *rest: reference)
    _, release = simulated("censored normal", model_of("censored normal"), 70, 400)
    with x64():
        embedding = embedding_of(release, "covariance")
        _, rank = locate.locate(embedding, check_knowledge(release.model), np.random.default_rng(70))
    assert rank is None


@pytest.mark.slow
@pytest.mark.large
def test_noise_that_no_weights_explain_does_not_narrow_the_search():
    """Draws whose noise is more than the stated one: even weights are taken, not those on a few records."""
    rng = np.random.default_rng(3)
    _, release, domain = [poisson(rng) for _ in range(8)][7]
    for key in range(3):
        recovery = bayesrecon.recover(release, key=key, domain=domain)
        assert recovery.consistent
        assert abs(recovery["n"].estimate - 300) < 4 * recovery["n"].se


@pytest.mark.parametrize("weights", [np.full(2000, 1 / 2000), np.random.default_rng(0).dirichlet(np.full(2000, 0.1))])
def test_records_whose_information_is_at_few_draws_are_not_plausible(weights):
    """Far out the draws that predict another choice have all of it, and any other draws see remnants of any size."""
    rng, model = np.random.default_rng(0), switching()
    theta = rng.normal([0.6, -0.02], [0.1, 0.01], (2000, 2))
    release = PosteriorDraws(theta, model, weights, np.zeros(2000, int))
    distance = np.concatenate([rng.uniform(0, 250, 200), rng.uniform(3e4, 1e5, 200)])
    records = {"dist": distance, "switched": np.resize([0, 1], 400)}
    with x64():
        judge = record_weights.judge_of(embedding_of(release, "covariance"))
        accepted = record_weights.plausible(judge, 1e-9, 1e12)(records)
        informations = judge.informations(records)[1]
    assert accepted[:200].all()
    assert (informations[:, 200::2].sum(axis=0) > 1e-9).all()  # no choice in spite of a slope that is rarely positive
    assert not accepted[200::2].any()
    assert judge.information(records) == pytest.approx(informations.sum(axis=0))


@pytest.mark.slow
def test_a_pass_that_accepts_no_record_is_undone(monkeypatch):
    data, release, _ = poisson(np.random.default_rng(0), draws=500)
    knowledge, calls = check_knowledge(release.model), []
    reference, moderate = anchors.Reference(knowledge.fields), solve.moderate

    def follow(embedding, accepting):
        """As it goes where only the first calls accept records."""
        calls.clear()
        monkeypatch.setattr(solve, "moderate", lambda x: moderate(x) & (calls.append(1) or len(calls) <= accepting))
        return locate.follow_measure(embedding, reference, knowledge, np.random.default_rng(0), np.arange(500))

    with x64():
        embedding = embedding_of(release, "covariance")
        with pytest.raises(bayesrecon.BayesreconError, match="hardly any random record has a usable score"):
            follow(embedding, 0)
        assert not follow(embedding, 1).centre  # where the first pass went cannot be used
        found = follow(embedding, 3)
    assert abs(found.centre["x"] - data["x"].mean()) < data["x"].std()


@pytest.mark.slow
def test_no_records_and_records_without_information_have_no_weight():
    _, release, _ = poisson(np.random.default_rng(0), draws=200)
    near = {"x": np.array(1.0), "y": np.array(2.0)}
    with x64():
        embedding, reference = embedding_of(release, "covariance"), anchors.Reference(release.model.fields, most=64)
        solved = fit(embedding, reference.recentred(near, near), np.random.default_rng(0), finite=False, shrink=False)
        assert record_weights.nonnegative_weights(embedding, solved, embedding.information(solved.probes)).sum() > 0
        for count in (0, 5):
            part = replace(solved, probes={k: v[:count] for k, v in solved.probes.items()}, cross=solved.cross[:count])
            assert record_weights.nonnegative_weights(embedding, part, np.zeros(count)).tolist() == [0.0] * count


def test_records_on_which_a_field_does_not_matter_do_not_tell_where_it_lies():
    """The rate of counts that are zero for another reason has no part in them."""
    model = model_of("hurdle Poisson")
    theta = 0.1 * np.random.default_rng(0).normal(size=(100, model.dimension))
    release = PosteriorDraws(theta, model, np.full(100, 0.01), np.zeros(100, int))
    records = {"x": np.array([0.3, 1e4, -0.5, -1e3]), "y": np.array([2, 0, 1, 0])}
    with x64():
        embedding, knowledge = embedding_of(release, "covariance"), check_knowledge(model)
        matters = record_weights.matters_on(embedding, records, knowledge, np.random.default_rng(3))
        mean, sd = record_weights.weighted_moments(records, np.ones(4), knowledge, matters)
    assert matters["x"].tolist() == [True, False, True, False]
    assert abs(mean["x"]) < 1
    assert sd["x"] < 1


def test_a_share_of_records_at_huge_scales_does_not_carry_the_rest_away():
    """Where a predictor saturates they are as good as any."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(2, 1, 600), 1e5 * rng.normal(size=200)])
    knowledge = check_knowledge(model_of("von Mises"))
    matters = dict.fromkeys(["x", "y"], np.ones(800, bool))
    mean, sd = record_weights.weighted_moments({"x": x, "y": x}, np.ones(800), knowledge, matters)
    assert abs(mean["x"] - 2) < 0.5
    assert 1 < sd["x"] < 10
    mean, sd = record_weights.weighted_moments(
        {"x": np.exp(x[:600]), "y": x[:600]}, np.ones(600), knowledge, {k: v[:600] for k, v in matters.items()}
    )
    assert sd["x"] > np.exp(2)

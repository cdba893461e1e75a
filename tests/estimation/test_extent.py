"""The likelihood of a release tells where its records lie and how far they spread; a line tells a decay."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from covariates import simulated

import bayesrecon
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.adaptive import embedding_of
from bayesrecon.estimation import locate, record_weights
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.decay import decays
from bayesrecon.estimation.extent import RecordLikelihood, located_fields
from bayesrecon.estimation.predictive import responses
from bayesrecon.estimation.solve import fit
from bayesrecon.knowledge import check_knowledge
from bayesrecon.precision import x64


@pytest.fixture(scope="module")
def logistic():
    """200 records with three covariates, standard normal, and 1,000 draws."""
    _, data, release = simulated("logistic", 3, 0)
    with x64():
        yield data, release, embedding_of(release, "covariance")


@pytest.mark.slow
def test_a_law_too_wide_and_beside_the_data_is_moved_to_them(logistic):
    data, release, embedding = logistic
    knowledge, rng = check_knowledge(release.model), np.random.default_rng(1)
    law = Reference(knowledge.fields, most=128, predict=responses(release, ()))
    beside = {"x": np.full(3, 0.7), "y": np.array(0.5)}
    law = law.recentred(beside, {"x": np.full(3, 2.5), "y": np.array(0.5)})
    assert located_fields(law) == ("x",)
    atoms = evenly(release.size, release.size)
    judge = record_weights.judge_of(embedding)
    for number in range(2):
        solved = fit(embedding, law, rng, finite=False, atoms=atoms, shrink=False)
        likelihood = RecordLikelihood(embedding, atoms, solved.basis, solved.target, judge, 0.3, 5, ("x",))
        law = likelihood.located(law, close=number > 0)
    mean, sd = data["x"].mean(axis=0), data["x"].std(axis=0)
    assert np.abs(law.centre["x"] - mean).max() < 0.35  # five standard errors of a mean of 200
    assert np.abs(np.log(law.scale["x"] / sd)).max() < 0.35
    np.testing.assert_array_equal(law.scale["y"], 0.5)  # responses are predicted, wherever their domain is drawn


@pytest.mark.slow
def test_a_line_tells_a_decay(logistic):
    _, release, embedding = logistic
    knowledge = check_knowledge(release.model)
    law = Reference(knowledge.fields, accept=lambda z: np.isfinite(embedding.information(z)))
    domains = {name: spec.domain for name, spec in knowledge.fields.items()}
    assert decays(embedding, law, domains, np.random.default_rng(0))
    assert not decays(embedding, law, {"y": domains["y"]}, np.random.default_rng(0))  # of two values
    assert locate.rank_of(embedding, law, knowledge, np.random.default_rng(0))[0] is None


def test_a_line_of_a_polynomial_ends():
    rng = np.random.default_rng(0)
    values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    release = bayesrecon.posteriors.from_draws(values, bayesrecon.models.load("linear_predictor"))
    with x64():
        embedding, knowledge = embedding_of(release, "covariance"), check_knowledge(release.model)
        domains = {name: spec.domain for name, spec in knowledge.fields.items()}
        assert not decays(embedding, Reference(knowledge.fields), domains, rng)


@pytest.mark.slow
@pytest.mark.large
def test_twelve_covariates_and_a_thousand_draws_are_no_failure():
    """Of normal covariates that nobody knows; a law found too wide hides half of what the score is made of."""
    _, data, release = simulated("logistic", 12, 2)
    found = bayesrecon.recover(release)
    assert not found.failures
    row = found["n"]
    assert row.lower <= len(data["y"]) <= row.upper


@pytest.mark.slow
def test_a_law_of_impossible_records_stays_where_it_is(logistic):
    _, release, embedding = logistic
    knowledge, rng = check_knowledge(release.model), np.random.default_rng(1)
    law = Reference(knowledge.fields, most=64).recentred(
        {"x": np.zeros(3), "y": np.array(0.5)}, {"x": np.ones(3), "y": np.array(0.5)}
    )
    atoms = evenly(release.size, 200)
    solved = fit(embedding, law, rng, finite=False, atoms=atoms, shrink=False)
    impossible = replace(record_weights.judge_of(embedding), metric=np.full_like(embedding.metric, np.nan))
    likelihood = RecordLikelihood(embedding, atoms, solved.basis, solved.target, impossible, 0.3, 5, ("x",))
    unusable = replace(law, accept=lambda records: np.zeros(len(records["y"]), bool))
    for near, start in itertools.product((True, False), (law, unusable)):
        found = likelihood.located(start, near)
        np.testing.assert_array_equal(found.centre["x"], 0.0)

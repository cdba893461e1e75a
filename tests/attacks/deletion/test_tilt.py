"""Posteriors before and after a deletion."""

import numpy as np
import pytest
from conjugate import regression_model, sample_regression

import bayesrecon
from bayesrecon.attacks.deletion.tilt import profile
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import clopper_pearson
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64


def play(seed, draws=4000, count=50):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    y = 1 + x @ rng.normal(size=3) + rng.normal(size=count)
    k = int(rng.integers(count))
    model = regression_model(3)
    before = from_draws(sample_regression(x, y, draws, rng), model)
    after = from_draws(sample_regression(np.delete(x, k, 0), np.delete(y, k), draws, rng), model)
    return {"x": x, "y": y}, k, bayesrecon.deletion(before, after)


def test_the_profile_likelihood_is_logistic_regression():
    """Its constant against scikit-learn's intercept, with the tilt as an offset that a tiny penalty leaves alone."""
    rng = np.random.default_rng(0)
    u, side = rng.normal(size=(60, 1)), rng.integers(0, 2, 60).astype(float)
    with x64():
        value, c = profile(u, side, np.ones(60))
    grid = np.linspace(-5, 5, 20001)
    values = [np.sum(side * (u[:, 0] - g) - np.logaddexp(0, u[:, 0] - g)) for g in grid]
    assert float(c[0]) == pytest.approx(grid[np.argmax(values)], abs=1e-3)
    assert float(value[0]) == pytest.approx(max(values), abs=1e-6)


@pytest.mark.slow
def test_the_deleted_record_is_likely_and_its_premise_is_weighed_against_others():
    members, k, pair = play(2, draws=1000)
    found = bayesrecon.infer_deletion(pair, members)
    assert found.ranking[0] == k
    assert found.hypotheses["premise"] > 0.5
    assert sum(found.hypotheses.values()) == pytest.approx(1)
    assert found.hypotheses["premise"] * 0.9 < found.probability[k] < 1
    (n,) = found.deleted
    assert n.lower < 1 < n.upper
    told = bayesrecon.infer_deletion(pair, members, premise=1)
    assert told.probability.sum() == pytest.approx(1)
    assert found.probability[k] < told.probability[k]
    swapped = bayesrecon.infer_deletion(bayesrecon.deletion(pair.after, pair.before), members)
    assert max(swapped.hypotheses, key=swapped.hypotheses.get) == "exchanged"
    assert swapped.probability.max() < 0.1
    absent = bayesrecon.infer_deletion(pair, {name: np.delete(v, k, 0)[:8] for name, v in members.items()})
    assert absent.hypotheses["premise"] < 0.1
    assert found.to_dict()["ranking"][0] == k
    assert found.to_dataframe().index[0] == k


@pytest.mark.slow
def test_the_deleted_record_is_found_among_the_members():
    """Games as in benchmarks/deletion/bayesian_deletion.py: at its rate, 0.91, fewer than 31 hits once in three
    hundred."""
    hits, called, chance = 0, [], 0
    for seed in range(40):
        members, k, pair = play(seed)
        found = bayesrecon.infer_deletion(pair, members, premise=1)
        hits += found.ranking[0] == k
        called.append(found.probability[k])
        chance += np.random.default_rng(seed).integers(50) == k
    assert hits >= 31
    assert chance <= 6
    assert np.mean(called) > 0.6


@pytest.mark.slow
def test_the_record_itself_within_its_errors():
    members, k, pair = play(2, draws=1500)
    found = bayesrecon.reconstruct(pair)
    assert found.evidence > 50
    z = (found.record["x"] - members["x"][k]) / found.se["x"]
    assert np.abs(z).max() < 4
    assert abs(found.record["y"] - members["y"][k]) < 4 * found.se["y"]


@pytest.mark.slow
@pytest.mark.large
def test_probabilities_are_calibrated():
    """Of the deletions called with probability p a share p is right: sixty games, mean p against hits."""
    called, right = [], 0
    for seed in range(60):
        members, k, pair = play(seed + 100)
        found = bayesrecon.infer_deletion(pair, members, premise=1)
        called.append(found.probability.max())
        right += found.ranking[0] == k
    interval = clopper_pearson(right, 60, level=0.999)
    assert interval.lower < np.mean(called) < interval.upper


def test_bad_candidates():
    members, _, pair = play(1, draws=200)
    with pytest.raises(BayesreconError, match="lack field y"):
        bayesrecon.infer_deletion(pair, {"x": members["x"]})
    with pytest.raises(BayesreconError, match="contain the curvature"):
        bayesrecon.infer_deletion(pair, members, public=members)
    with pytest.raises(BayesreconError, match="expected a probability"):
        bayesrecon.infer_deletion(pair, members, premise=2)

"""Candidates of trained parameters by the angle between the move and what each would have done."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine

import bayesrecon
from bayesrecon.models import load
from bayesrecon.posteriors import retrain_without, train


def games(loss, penalty, load_data, share, rows, seed=0, **settings):
    """`(pair, candidates with the deleted record first, public records, n)` of some deletions."""
    x, y = load_data(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    y = (y - y.mean()) / y.std() if loss == "squared" else y
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    public, private = np.split(order, [int(share * len(x))])
    data = {"x": x[private], "y": y[private]}
    model = load("linear_predictor", features=x.shape[1], loss=loss, penalty=penalty, **settings)
    before = train(model, data).release
    chosen = rng.choice(len(private), rows, replace=False)
    for row, after in zip(chosen, retrain_without(before, data, list(chosen)), strict=True):
        others = np.setdiff1d(rng.choice(len(private), 20, replace=False), row)[:19]
        table = {k: v[np.append(row, others)] for k, v in data.items()}
        pair = bayesrecon.deletion(before, after.release)
        yield pair, table, {"x": x[public], "y": y[public]}, len(private)


def test_a_tenth_that_is_public_tells_which_of_twenty_it_was():
    found = [
        bayesrecon.infer_deletion(pair, table, public=public, total=n).probability
        for pair, table, public, n in games("squared", 0.0, load_diabetes, 0.1, 30)
    ]
    hits = sum(int(p.argmax() == 0) for p in found)
    assert hits >= 28  # all of 480 in other splits; by H Delta beside g, 46 % of them at 72 % stated


def test_many_outputs_are_taken_one_by_one(monkeypatch):
    cases = list(games("softmax", 1.0, load_wine, 0.5, 10, outputs=3))

    def ranked():
        return [
            int(bayesrecon.infer_deletion(p, table, public=public, total=n).ranking[0] == 0)
            for p, table, public, n in cases
        ]

    assert sum(ranked()) >= 9
    monkeypatch.setattr("bayesrecon.attacks.deletion.angle._LARGEST", 10)
    assert sum(ranked()) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.1])
def test_stated_probabilities_are_not_too_large(share):
    """Over 20 splits of wine: as often right as stated, but for 3.5 standard errors (1 in 4,000)."""
    stated, right = [], []
    for seed in range(20):
        for pair, table, public, n in games("softmax", 1.0, load_wine, share, 8, seed, outputs=3):
            found = bayesrecon.infer_deletion(pair, table, public=public, total=n).probability
            stated.append(found.max())
            right.append(found.argmax() == 0)
    assert np.mean(right) > 0.95
    spread = np.sqrt(np.mean(np.multiply(stated, 1 - np.array(stated))) / len(stated))
    assert np.mean(stated) - np.mean(right) < 3.5 * spread

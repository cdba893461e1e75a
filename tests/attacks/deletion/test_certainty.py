"""Stated probabilities of labels and signs against how often they are right."""

import numpy as np
import pytest
from predictors import make
from sklearn.datasets import load_breast_cancer

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks.deletion.certainty import certainty
from bayesrecon.posteriors import retrain_without, train


def played(x, y, rows, penalty):
    """Probabilities, whether the label was right, and results, of half of the records against the other half."""
    half = len(x) // 2
    data, public = ({"x": x[part], "y": y[part]} for part in (slice(half), slice(half, None)))
    before = train(make("logistic", features=x.shape[1], penalty=penalty), data).release
    attack, found = HRec(public=public), []
    right = []
    for row, trained in zip(rows, retrain_without(before, data, rows), strict=True):
        if not np.array_equal(before.theta, trained.release.theta):  # else the record left no trace
            pair = bayesrecon.deletion(before, trained.release)
            found.append(bayesrecon.reconstruct(pair, attack=attack, total=half))
            right.append(bool(found[-1].record["y"] == y[row]))
    right = np.array(right)
    return np.array([f.probability for f in found]), right, found


def cancer(seed):
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    x = x[order, :8]
    return (x - x.mean(0)) / x.std(0), y[order]


@pytest.mark.slow
def test_a_result_says_how_probable_its_label_is(tmp_path):
    stated, right, found = played(*cancer(0), range(12), 0.01)
    assert stated[right].mean() > stated[~right].mean()
    assert stated.min() < 0.7 < 0.85 < stated.max()
    for one, p in zip(found, stated, strict=True):
        assert any(f"probability {p:.2f}" in w for w in one.warnings) == (p < 0.9)
        assert f"label right with probability {p:.2f}" in one.headline
        assert one.to_dict()["probability"] == p
    found[0].save(tmp_path / "found.npz")
    assert bayesrecon.load_result(tmp_path / "found.npz").probability == stated[0]


def test_without_labels_nothing_is_stated():
    x, y = cancer(0)
    before = train(make("logistic", features=8), {"x": x[:200], "y": y[:200]}).release
    after = retrain_without(before, {"x": x[:200], "y": y[:200]}, [3])[0].release
    found = bayesrecon.reconstruct(bayesrecon.deletion(before, after), attack=HRec(public={"x": x[200:]}))
    assert found.probability is None
    assert "probability" not in found.headline


def test_a_label_without_public_records_is_a_doubt():
    """Among records of one label the other one was never probable."""
    x, y = cancer(0)
    before = train(make("logistic", features=8), {"x": x[:200], "y": y[:200]}).release
    after = retrain_without(before, {"x": x[:200], "y": y[:200]}, [3])[0].release
    public = {"x": x[200:][y[200:] == 1], "y": y[200:][y[200:] == 1]}
    found = bayesrecon.reconstruct(bayesrecon.deletion(before, after), attack=HRec(public=public))
    assert found.probability is None
    assert any("no public record has label 0" in w for w in found.warnings)


def test_probabilities_of_all_labels_sum_to_one_and_mirror_images_share():
    """Where the intercept says nothing, a symmetrical law leaves both signs as probable as each other."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 4))
    z = np.column_stack([np.vstack([z, -z]), np.ones(600)])
    y = np.repeat([0, 1], 300)
    model, at, kappa = make("logistic", features=4), np.array([[0.5, -0.2, 0.1, 0.0, 0.0]]), rng.normal(size=(600, 1))
    gradient = np.array([[0.3, 0.1, 0.2, -0.4, 0.0]])
    arguments = model.linear, z, y, at, gradient, 0.01 * np.abs(kappa)
    labels, both, directions = certainty(*arguments, other=gradient, count=600.0, direction=np.ones(1))
    assert labels.tolist() == [0, 1]
    assert both.sum() == pytest.approx(1)
    assert both[0] == pytest.approx(0.5, abs=0.05)
    assert directions[:, 0].tolist() == [-1, 1]


@pytest.mark.slow
def test_labels_are_right_as_often_as_stated():
    """Probabilities of 0.8 and more. Deletions of one split share the error of its public half, so splits are what is
    independent: of calibrated statements one run in a thousand falls three and a half errors short."""
    short, low, high = [], [], []
    for seed in range(300, 312):
        stated, right, _ = played(*cancer(seed), range(0, 280, 8), 0.01)
        own = stated >= 0.8
        short.append((right[own] - stated[own]).sum())
        low.extend(right[stated < 0.7])
        high.extend(right[own])
    assert np.mean(short) > -3.5 * np.std(short, ddof=1) / np.sqrt(len(short)) - 0.1
    assert len(high) > 200
    assert np.mean(low) < np.mean(high) - 0.1

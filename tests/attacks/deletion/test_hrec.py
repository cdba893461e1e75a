"""HRec: the deleted record from two trained parameters and public data."""

import numpy as np
import pytest
from predictors import CASES, X, make
from sklearn.datasets import load_diabetes, load_digits

import bayesrecon
from bayesrecon import HRec
from bayesrecon.attacks import Improvements
from bayesrecon.divergence.outer_products import split_gradient
from bayesrecon.divergence.score import total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import cosine_similarity
from bayesrecon.posteriors import dirac, retrain_without, train
from bayesrecon.precision import x64


@pytest.mark.parametrize("loss", CASES)
def test_with_the_private_data_as_public_the_gradient_is_exact(loss):
    """The path's Hessian of the data without the record gives the record's gradient at theta+ itself."""
    outputs, y, below, _ = CASES[loss]
    if loss == "squared_hinge":
        pytest.skip("its Hessian jumps along the path")
    model = make(loss, outputs, intercept_penalty=below)
    before = train(model, {"x": X, "y": y}, tolerance=1e-11)
    for row in (3, 17):
        after = retrain_without(before.release, {"x": X, "y": y}, [row], tolerance=1e-10)[0].release
        rest = {"x": np.delete(X, row, 0), "y": np.delete(y, row)}
        use = Improvements(shrinkage=False, scale=False, prior=False)
        found = HRec(public=rest, improvements=use).prepare(model, 299)(bayesrecon.deletion(before.release, after))
        with x64():
            one = {"x": X[row : row + 1], "y": np.asarray(y)[row : row + 1]}
            gradient = total_score(model, before.release.theta[0], one, np.ones(1))
            prior = total_score(model, before.release.theta[0], one, np.zeros(1))
            exact = split_gradient(model, np.asarray(gradient - prior))
        np.testing.assert_allclose(found.gradient, exact, rtol=1e-4, atol=1e-7 * np.abs(exact).max())
        np.testing.assert_allclose(found.x, X[row], rtol=1e-3, atol=1e-3)
        assert found.label is None or found.label == y[row]


@pytest.fixture(scope="module")
def diabetes():
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    order = np.random.default_rng(1).permutation(len(x))
    private, public = order[:221], order[221:]
    model = make("squared", features=10, penalty=1e-6)
    before = train(model, {"x": x[private], "y": y[private]}).release
    rows = range(0, 221, 3)
    after = [t.release for t in retrain_without(before, {"x": x[private], "y": y[private]}, rows)]
    return x[private][list(rows)], [bayesrecon.deletion(before, a) for a in after], {"x": x[public], "y": y[public]}


@pytest.mark.parametrize("use", [Improvements.none(), Improvements()])
def test_hrec_on_diabetes_is_what_theory_predicts(diabetes, use):
    """Sampling error of the public Hessian alone: `1 - (d / 2) (1 / n_private + 1 / n_public)`."""
    truth, pairs, public = diabetes
    attack = HRec(public=public, improvements=use).prepare(pairs[0].before.model)
    found = [cosine_similarity(attack(p).x, t) for p, t in zip(pairs, truth, strict=True)]
    assert np.median(found) == pytest.approx(1 - 5 * (2 / 221), abs=0.015)
    assert (
        np.mean([cosine_similarity(attack.baselines(p)["maxdiff"], t) for p, t in zip(pairs, truth, strict=True)]) < 0.9
    )


def test_temperature_is_that_of_the_public_labels():
    rng = np.random.default_rng(5)
    x, at = rng.standard_normal((4000, 6)), 2 * rng.standard_normal((3, 7))
    eta = np.hstack([x, np.ones((4000, 1))]) @ at.T
    y = (eta / 2 + rng.gumbel(size=eta.shape)).argmax(1)
    attack = HRec(public={"x": x, "y": y}).prepare(make("softmax", 3, 6, 1.0), 900)
    assert attack.trained_on(at).temperature == pytest.approx(2, rel=0.1)
    y = (eta + rng.gumbel(size=eta.shape)).argmax(1)
    attack = HRec(public={"x": x, "y": y}).prepare(make("softmax", 3, 6, 1.0), 900)
    assert attack.trained_on(at).temperature == pytest.approx(1, rel=0.1)


@pytest.mark.slow
def test_improvements_are_worth_it_on_digits():
    x, y = load_digits(return_X_y=True)
    x = x / 8 - 1
    order = np.random.default_rng(2).permutation(len(x))
    private, public = order[:900], order[900:]
    model = make("softmax", 10, 64, 1.0)
    data = {"x": x[private], "y": y[private]}
    before = train(model, data).release
    rows = np.random.default_rng(3).choice(900, 60, replace=False)
    pairs = [bayesrecon.deletion(before, t.release) for t in retrain_without(before, data, rows)]
    scores = {}
    for name, use in (("plain", Improvements.none()), ("improved", Improvements())):
        attack = HRec(public={"x": x[public], "y": y[public]}, improvements=use).prepare(model, 900)
        scores[name] = [cosine_similarity(attack(p).x, x[private][r]) for p, r in zip(pairs, rows, strict=True)]
    gain = np.subtract(scores["improved"], scores["plain"])
    assert np.median(scores["improved"]) > np.median(scores["plain"]) + 0.01
    assert (gain > 0).mean() > 0.75


def test_reconstruct_takes_the_pair(diabetes):
    truth, pairs, public = diabetes
    found = bayesrecon.reconstruct(pairs[0], attack=HRec(public=public))
    assert found.method == "HRec"
    assert cosine_similarity(found.record["x"], truth[0]) > 0.8
    assert found.to_dict()["record"]["x"] == found.record["x"].tolist()
    assert list(found.to_dataframe().index)[:2] == ["x[1]", "x[2]"]
    assert "HRec" in found._repr_html_()


@pytest.mark.slow
def test_candidates_of_a_trained_pair(diabetes):
    truth, pairs, public = diabetes
    model, rows = pairs[0].before.model, list(range(0, 221, 3))
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    private = np.random.default_rng(1).permutation(len(x))[:221]
    members = {"x": x[private], "y": y[private]}
    hits = sum(
        bayesrecon.infer_deletion(p, members, public=public).ranking[0] == r for p, r in zip(pairs, rows, strict=True)
    )
    assert model.linear is not None
    assert len(truth) == len(rows)
    assert hits > 0.8 * len(rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"public": None}, "attack=HRec\\(public="),
        ({"public": {"x": np.ones((5, 3))}}, "public data have 3 columns, the model 10"),
        ({"public": {"z": np.ones((5, 10))}}, "lack field 'x'"),
        ({"public": {"x": np.full((5, 10), np.nan)}}, "missing or infinite"),
        ({"public": {"x": np.ones((1, 10))}}, "at least two records"),
        ({"total": -1.0}, "total"),
        ({"known": {"y": [1.0]}}, "no use for known="),
    ],
)
def test_bad_public_data(diabetes, change, message):
    _, pairs, public = diabetes
    attack = HRec(public=change.get("public", public))
    knows = {k: v for k, v in change.items() if k != "public"}
    with pytest.raises(BayesreconError, match=message):
        bayesrecon.reconstruct(pairs[0], attack=attack, **knows)


def test_pairs_that_cannot_be(diabetes):
    _, pairs, public = diabetes
    with pytest.raises(BayesreconError, match="identical"):
        bayesrecon.deletion(pairs[0].before, pairs[0].before)
    with pytest.raises(BayesreconError, match="HRec takes trained parameters around a deletion"):
        bayesrecon.reconstruct(pairs[0].before, attack=HRec(public=public))
    model = pairs[0].before.model
    one, two = (dirac(model, {"coef": np.full((1, 10), v), "intercept": [0.0]}) for v in (0.0, 1.0))
    with pytest.raises(BayesreconError, match="singular along the change"):
        HRec(public={"x": np.zeros((5, 10))}).prepare(model)(bayesrecon.deletion(one, two))


def test_the_slope_is_read_off_about_the_mean_record():
    """An error that is a multiple of the mean record, however large, leaves the slope's direction alone."""
    rng = np.random.default_rng(6)
    public = {"x": rng.normal(1, 1, (500, 5)), "y": rng.integers(0, 3, 500)}
    attack = HRec(public=public).prepare(make("softmax", 3))
    centre, x, slope = public["x"].mean(axis=0), rng.normal(1, 1, 5), np.array([0.9, -0.7, -0.2])
    gradient = np.outer(slope, np.append(x, 1)) + np.outer([0.3, -0.5, 0.2], np.append(centre, 1))
    found = attack._direction(gradient, centre)
    np.testing.assert_allclose(found, slope / np.linalg.norm(slope), atol=1e-12)


def test_doubts_are_spoken(diabetes):
    _, pairs, public = diabetes
    before, after = pairs[0].before, pairs[0].after
    far = bayesrecon.deletion(before, dirac(before.model, before.model.split(after.theta[0] + 1)))
    assert any("more than one record" in w for w in bayesrecon.reconstruct(far, attack=HRec(public=public)).warnings)
    assert not bayesrecon.reconstruct(pairs[0], attack=HRec(public=public)).warnings
    model = make("squared", features=10, penalty=0.0)
    one, two = (dirac(model, model.split(r.theta[0])) for r in (before, after))
    few = {k: v[:6] for k, v in public.items()}
    assert any(
        "Hessian is singular: 6" in w
        for w in bayesrecon.reconstruct(bayesrecon.deletion(one, two), attack=HRec(public=few)).warnings
    )
    other = make("squared", features=4)
    with pytest.raises(BayesreconError, match="11 parameters and after 5"):
        bayesrecon.deletion(before, dirac(other, {"coef": np.ones((1, 4)), "intercept": [0.0]}))
    with pytest.raises(BayesreconError, match="trained differently"):
        bayesrecon.deletion(before, two)

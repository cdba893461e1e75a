"""Learners: shortcuts are refits, seeds decide, and what users bring is taken or refused in one line."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC

from bayesrecon.errors import BayesreconError, version
from bayesrecon.games import Functions, LeastSquares, Logistic, Neighbours, ScikitLearner, table
from bayesrecon.games.data import Records
from bayesrecon.games.learner import as_learner
from bayesrecon.games.named_games import named_learner, named_learners

pytestmark = pytest.mark.small

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4)) * [1, 10, 0.1, 3]
NUMBERS = Records(X, X @ [1.0, 0.2, -3.0, 0.5] + RNG.normal(size=60))
CLASSES = Records(X, np.argmax(X[:, :3] / [1, 10, 0.1] + RNG.normal(size=(60, 3)), axis=1))
NEW = RNG.normal(size=(20, 4)) * [1, 10, 0.1, 3]
ROWS = [np.array([7]), np.array([0, 13, 59])]


@pytest.mark.parametrize("rows", ROWS, ids=["one", "three"])
@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_least_squares_without_records_are_refits(penalty, rows):
    learner = LeastSquares(penalty)
    fitted = learner.fit(NUMBERS, 0, 0)
    oracle = Ridge(penalty) if penalty else LinearRegression()
    np.testing.assert_allclose(fitted(NEW), oracle.fit(*NUMBERS).predict(NEW), rtol=1e-10)
    quick = learner.without(fitted, NUMBERS, rows, 0, 0)
    np.testing.assert_allclose(quick(NEW), oracle.fit(*NUMBERS.without(rows)).predict(NEW), rtol=1e-10)


def test_a_record_that_alone_holds_a_coefficient_is_refitted():
    x = np.concatenate([X, np.eye(60)[:, :1]], axis=1)
    with pytest.raises(BayesreconError, match="collinear"):
        LeastSquares().without(
            LeastSquares().fit(Records(x, NUMBERS.y), 0, 0), Records(x, NUMBERS.y), ROWS[0] * 0, 0, 0
        )


@pytest.mark.parametrize("rows", ROWS, ids=["one", "three"])
@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_without_records_is_a_refit(classes, rows):
    records = Records(X, CLASSES.y if classes == 3 else (CLASSES.y > 0).astype(int))
    learner = Logistic(C=0.7)
    quick = learner.without(learner.fit(records, classes, 0), records, rows, classes, 0)
    kept = records.without(rows)
    oracle = LogisticRegression(C=0.7, tol=1e-12, max_iter=5000).fit(kept.x, kept.y)
    np.testing.assert_allclose(quick(NEW), oracle.predict_proba(NEW), atol=1e-6)
    anew = learner.fit(kept, classes, 0)
    np.testing.assert_allclose(quick(NEW), anew(NEW), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_wide_logistic_regression_is_as_exact():
    """Of more parameters than a Hessian is factorised for."""
    x = RNG.normal(size=(60, 700))
    records, learner = Records(x, CLASSES.y), Logistic()
    fitted = learner.fit(records, 3, 0)
    for found, kept in ((fitted, records), (learner.without(fitted, records, ROWS[0], 3, 0), records.without(ROWS[0]))):
        own = found(kept.x) - np.eye(3)[kept.y]
        assert np.abs(own.T @ kept.x + found.model.coef_).max() < 60 * 1e-10
    solver = "newton-cholesky" if version("scikit-learn") >= (1, 6) else "newton-cg"  # before, no softmax
    oracle = LogisticRegression(tol=1e-11, solver=solver).fit(x, CLASSES.y)
    np.testing.assert_allclose(fitted(x), oracle.predict_proba(x), rtol=0, atol=1e-9)


def test_retrained_logistic_regression_is_stationary():
    """The gradient of the objective, relative to a record's, is at most 1e-8."""
    from bayesrecon.divergence.score import total_score

    records, learner = Records(X / X.std(axis=0), CLASSES.y), Logistic()
    release = learner.release(learner.without(learner.fit(records, 3, 0), records, ROWS[0], 3, 0))
    kept = records.without(ROWS[0])
    from bayesrecon.precision import x64

    with x64():
        theta = np.asarray(release.theta)[0]
        left = total_score(release.model, theta, {"x": kept.x, "y": kept.y}, np.ones(59))
        one = total_score(release.model, theta, {"x": kept.x[:1], "y": kept.y[:1]}, np.ones(1))
        penalty = np.abs(theta).max()
    assert np.linalg.norm(left) < 1e-8 * max(np.linalg.norm(one), penalty)


def test_a_class_that_is_deleted_gets_probability_zero():
    records = Records(X[:10], np.array([2, *([0, 1] * 4), 0]))
    for learner in (Logistic(), named_learner("tree", 3), Neighbours(2)):
        found = learner.without(learner.fit(records, 3, 0), records, np.array([0]), 3, 0)(NEW)
        assert found.shape == (20, 3)
        assert not found[:, 2].any()
        np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize("rows", ROWS, ids=["one", "three"])
@pytest.mark.parametrize("k", [1, 5])
def test_neighbours_without_records_are_refits(k, rows):
    for answers, records, classes, oracle in (
        ("probabilities", CLASSES, 3, KNeighborsClassifier(k)),
        ("values", NUMBERS, 0, KNeighborsRegressor(k)),
    ):
        learner = Neighbours(k, answers)
        quick = learner.without(learner.fit(records, classes, 0), records, rows, classes, 0)
        oracle.fit(*records.without(rows))
        expected = oracle.predict_proba(NEW) if classes else oracle.predict(NEW)
        np.testing.assert_allclose(quick(NEW), expected)


@pytest.mark.parametrize("k", [1, 3])
def test_ties_go_to_the_first_record_before_and_after(k):
    """On binary records many are as far away: an answer changes only where the deleted record had a vote."""
    rng = np.random.default_rng(0)
    records, asked = Records(rng.integers(0, 2, (40, 4)), rng.integers(0, 3, 40)), rng.integers(0, 2, (30, 4))
    far = np.abs(asked[:, None] - records.x).sum(axis=2)
    first = np.argsort(far, axis=1, kind="stable")[:, :k]
    learner = Neighbours(k, "probabilities")
    fitted = learner.fit(records, 3, 0)
    np.testing.assert_allclose(fitted(asked), np.eye(3)[records.y[first]].mean(axis=1))
    for row in range(0, 40, 5):
        after = learner.without(fitted, records, np.array([row]), 3, 0)(asked)
        voted = (first == row).any(axis=1)
        np.testing.assert_array_equal(after[~voted], fitted(asked)[~voted])


def test_answers_do_not_depend_on_how_many_distances_are_held(monkeypatch):
    fitted = Neighbours(5, "probabilities").fit(CLASSES, 3, 0)
    whole = fitted(NEW)
    monkeypatch.setattr("bayesrecon.games.learners._LARGEST", 100)
    np.testing.assert_array_equal(fitted(NEW), whole)


def test_seeds_decide():
    learner = named_learner("forest", 3)
    one, same, other = (learner.fit(CLASSES, 3, seed)(NEW) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "mlp")) for name in named_learners()]
)
def test_every_named_learner_answers(name):
    made = named_learners()[name][1]
    for classes, records in ((0, NUMBERS), (3, CLASSES)):
        learner = made(classes)
        try:
            learner.check(classes)
        except BayesreconError:
            continue
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that does not converge
            found = learner.without(learner.fit(records, classes, 0), records, ROWS[0], classes, 0)(NEW)
        assert found.shape == ((20, 3) if classes else (20,))
        assert np.isfinite(found).all()


def test_what_users_bring():
    assert as_learner(LinearSVC(), 3).answers == "decisions"
    binary = Records(X, (CLASSES.y > 0).astype(int))
    decisions = as_learner(LinearSVC(), 2).fit(binary, 2, 0)
    np.testing.assert_allclose(decisions(NEW)[:, 1] - decisions(NEW)[:, 0], decisions.model.decision_function(NEW))
    pair = as_learner((lambda x, y, seed: y.mean(), lambda mean, x: np.full(len(x), mean)), 0)
    assert isinstance(pair, Functions)
    assert pair.fit(NUMBERS, 0, 0)(NEW)[0] == pytest.approx(NUMBERS.y.mean())
    with pytest.raises(BayesreconError, match=r"predict returned shape \(20,\), expected \(20, 3\)"):
        Functions("mine", lambda x, y, seed: 0, lambda model, x: x[:, 0], "probabilities").fit(CLASSES, 3, 0)(NEW)
    for wrong, message in (
        (3.0, "an object with fit and predict, or two functions"),
        (LinearSVC, "an object with fit and predict"),
        (LinearRegression(), "neither predict_proba nor decision_function"),
    ):
        with pytest.raises(BayesreconError, match=message):
            as_learner(wrong, 3)
    with pytest.raises(BayesreconError, match="answers with values, and the response is classes"):
        ScikitLearner("line", LinearRegression(), "values").check(3)
    with pytest.raises(BayesreconError, match=r"there is no learner 'linera'; did you mean linear"):
        named_learner("linera", 0)


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ([["a"], ["b"]], [0, 1], {}, "features must be numbers"),
        ([[np.nan], [1.0]], [0, 1], {}, "without missing values"),
        ([[0.0], [1.0]], [0, 1, 1], {}, "2 records need as many responses"),
        ([[0.0], [1.0]], ["a", "a"], {}, "all responses are a"),
        ([[0.0], [1.0]], ["a", "b"], {"classification": False}, "responses of a regression must be numbers"),
        ([[0.0], [1.0]], [0.0, np.nan], {"classification": False}, "responses are missing"),
        ([[0.0], [1.0]], [0.0, 1.0], {"share": 1.5}, "at least two records must be private"),
    ],
)
def test_tables_are_checked(x, y, options, message):
    with pytest.raises(BayesreconError, match=message):
        table(x, y, **options)

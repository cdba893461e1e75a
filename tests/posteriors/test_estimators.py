"""Trained parameters: scikit-learn's conventions, models from losses, the informed adversary."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from conjugate import regression_model, sample_regression
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.linear import design, join, penalty_of, slopes, split_gradient
from bayesrecon.kernels.score import gradients, total_score
from bayesrecon.models import from_loss, load
from bayesrecon.posteriors import dirac, from_draws, from_sklearn
from bayesrecon.precision import x64

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (80, 3))
LINE = X @ [1.0, -0.5, 0.2] + RNG.normal(size=80)
SIDE = (LINE.mean() < LINE).astype(int)
THREE = np.digitize(LINE, np.quantile(LINE, [0.3, 0.7]))
TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def logistic(**options):
    return LogisticRegression(solver="newton-cg", **TIGHT, **options)


ESTIMATORS = {
    "linear": (LinearRegression(), LINE),
    "linear, no intercept": (LinearRegression(fit_intercept=False), LINE),
    "ridge": (Ridge(3.0), LINE),
    "ridge, two targets": (Ridge(0.5), np.column_stack([LINE, SIDE])),
    "logistic": (logistic(C=0.3), SIDE),
    "logistic, no intercept": (logistic(fit_intercept=False), SIDE),
    "logistic, no penalty": (logistic(C=np.inf), (LINE + 3 * RNG.normal(size=80) > 0).astype(int)),
    "logistic, liblinear": (LogisticRegression(solver="liblinear", C=2.0, intercept_scaling=3.0, **TIGHT), SIDE),
    "softmax": (logistic(C=0.7), THREE),
    "svm": (LinearSVC(C=0.4, dual=False, **TIGHT), SIDE),
    "svm, scaled intercept": (LinearSVC(C=0.4, intercept_scaling=5.0, dual=False, **TIGHT), SIDE),
    "svm, three classes": (LinearSVC(C=0.4, dual=False, **TIGHT), THREE),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request):
    estimator, y = ESTIMATORS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_sklearn(estimator.fit(X, y)), {"x": X, "y": y}, estimator


def test_scikit_learns_parameters_are_stationary(fitted):
    release, records, _ = fitted
    with x64():
        theta = release.theta[0]
        total = np.asarray(total_score(release.model, theta, records, np.ones(80)))
        each = np.asarray(gradients(release.model, theta, records))
    assert np.linalg.norm(total) < 2e-6 * np.linalg.norm(each, axis=1).sum()


def test_gradients_are_outer_products(fitted):
    release, records, _ = fitted
    model, linear = release.model, release.model.linear
    with x64():
        params = model.constrain(release.theta[0])
        eta = X @ params["coef"].T + (params["intercept"] if linear.intercept else 0)
        y = records["y"].reshape(80, -1) if linear.loss == "squared" else records["y"]
        outer = np.asarray(slopes(linear, eta, y))[:, :, None] * design(model, X)[:, None]
        found = np.asarray(gradients(model, release.theta[0], records))
        np.testing.assert_allclose([join(model, o) for o in outer], found, atol=1e-12)
        np.testing.assert_allclose(split_gradient(model, found[3]), outer[3], atol=1e-12)
        v = RNG.normal(size=model.dimension)
        empty = {k: np.asarray(r)[:1] for k, r in records.items()}
        pull = total_score(model, v, empty, np.zeros(1))
        np.testing.assert_allclose(pull, -v * join(model, penalty_of(model)), atol=1e-12)


def test_predictions_are_scikit_learns(fitted):
    """Through the likelihood alone: the label of largest likelihood, or the response of no slope."""
    release, _, estimator = fitted
    model, linear = release.model, release.model.linear
    with x64():
        if linear.loss == "squared":
            y = estimator.predict(X[:5])
            each = gradients(model, release.theta[0], {"x": X[:5], "y": y})
            np.testing.assert_allclose(each, 0, atol=1e-9)
        else:
            values = [
                jax.vmap(lambda x, k=k: model.log_lik(release.theta[0], {"x": x, "y": k}))(X) for k in linear.labels
            ]
            np.testing.assert_array_equal(np.argmax(values, axis=0), estimator.predict(X))


def test_classes_are_counted_from_zero():
    names = np.array(["no", "yes"])[SIDE]
    assert from_sklearn(logistic().fit(X, names)).notes == ("classes are counted from zero: 0 is no, 1 is yes",)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lasso().fit(X, LINE), "Lasso is not read"),
        (lambda: Ridge(), "not fitted"),
        (lambda: make_pipeline(StandardScaler(), Ridge()).fit(X, LINE), "last step"),
        (lambda: Ridge(positive=True).fit(X, LINE), "positive"),
        (lambda: Ridge([1.0, 2.0]).fit(X, np.column_stack([LINE, LINE])), "one alpha per target"),
        (lambda: LogisticRegression(solver="liblinear", l1_ratio=1.0).fit(X, SIDE), "l1 penalty"),
        (lambda: LogisticRegression(class_weight="balanced").fit(X, SIDE), "class weights"),
        (lambda: LinearSVC(loss="hinge", max_iter=100_000).fit(X, SIDE), "squared_hinge"),
    ],
)
def test_what_is_not_read_is_refused(make, message):
    with pytest.raises(BayesreconError, match=message):
        from_sklearn(make())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "expected squared"),
        ({"features": 0}, "positive whole number"),
        ({"loss": "logistic", "outputs": 2}, "one output"),
        ({"loss": "softmax"}, "one per class"),
        ({"penalty": -1.0}, "not negative"),
    ],
)
def test_settings_of_linear_predictor(settings, message):
    with pytest.raises(BayesreconError, match=message):
        load("linear_predictor", **settings)


# --- models from losses ---------------------------------------------------------------------------------------


def network():
    params = {"hidden": [{"w": np.zeros((3, 4)), "b": np.zeros(4)}], "out": np.zeros(4)}

    def apply(p, x):
        return jnp.tanh(x @ p["hidden"][0]["w"] + p["hidden"][0]["b"]) @ p["out"]

    return params, from_loss(
        apply,
        lambda out, y: 0.5 * (out - y) ** 2,
        lambda p: 0.05 * sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(p)),
        params=params,
        record={"x": (3,), "y": ()},
    )


def test_a_network_from_its_loss():
    params, model = network()
    assert [p.name for p in model.parameters] == ["hidden/0/b", "hidden/0/w", "out"]
    moved = jax.tree_util.tree_map(lambda v: v + 0.3, params)
    release = dirac(model, moved)
    with x64():
        h = np.tanh(X[0] @ moved["hidden"][0]["w"] + moved["hidden"][0]["b"])
        expected = -0.5 * (h @ moved["out"] - 2.0) ** 2
        found = model.log_lik(release.theta[0], {"x": X[0], "y": 2.0})
        assert float(found) == pytest.approx(expected, rel=1e-12)
        assert float(model.log_prior(release.theta[0])) == pytest.approx(-0.05 * 0.09 * 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": lambda out, y: jnp.stack([out, y])}, "it must be one number"),
        ({"regulariser": lambda p: p["w"]}, "regulariser has shape"),
        ({"apply": lambda p, x: x @ p["w"][:2]}, "loss of one record cannot be evaluated"),
        ({"response": "z"}, "not a field"),
        ({"params": {}}, "no arrays"),
        ({"domain": {"u": "real"}}, "'u' is not a field"),
    ],
)
def test_losses_that_cannot_be_used(change, message):
    given = {"apply": lambda p, x: x @ p["w"], "loss": lambda out, y: (out - y) ** 2, "params": {"w": np.zeros(3)}}
    with pytest.raises(BayesreconError, match=message):
        from_loss(**({**given, "record": {"x": (3,), "y": ()}} | change))


def test_what_a_trained_parameter_determines():
    """The normal equations `X'y - X'X b = penalty b`: as many features as parameters, and the totals they fix."""
    release = from_sklearn(Ridge(3.0).fit(X, LINE))
    assert bayesrecon.diagnose(release).rank == 4


# --- the informed adversary -----------------------------------------------------------------------------------


@pytest.mark.parametrize("i", [0, 17])
def test_the_missing_record_comes_back(fitted, i):
    release, records, _ = fitted
    others = {k: np.delete(v, i, axis=0) for k, v in records.items()}
    linear = release.model.linear
    if linear.intercept is None:
        with pytest.raises(BayesreconError, match="direction alone"):
            bayesrecon.missing_record(release, others)
        return
    with x64():
        invisible = not np.any(
            gradients(release.model, release.theta[0], {k: v[i : i + 1] for k, v in records.items()})
        )
    if invisible:  # beyond the margin
        return
    found = bayesrecon.missing_record(release, others, tolerance=1e-7)
    tight = 30 * found.error + 1e-9
    np.testing.assert_allclose(found.record["x"], X[i], atol=tight)
    np.testing.assert_allclose(found.record["y"], records["y"][i], atol=tight * 10)
    assert found.disagreement is None or found.disagreement < 1e-3
    assert found.to_dict()["record"]["x"] == found.record["x"].tolist()
    assert list(found.to_dataframe().columns)[:2] == ["x[1]", "x[2]"]


def test_breast_cancer():
    """Thirty features; the conditioning reported bounds the error."""
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    release = from_sklearn(LogisticRegression(tol=1e-10, solver="newton-cg", max_iter=1000).fit(x, y))
    errors, bounds = [], []
    for i in range(0, len(x), 10):
        found = bayesrecon.missing_record(release, {"x": np.delete(x, i, 0), "y": np.delete(y, i)}, tolerance=1e-9)
        errors.append(np.linalg.norm(found.record["x"] - x[i]))
        bounds.append(found.error)
    assert np.median(errors) / np.sqrt(30) < 1e-4
    assert np.mean(np.array(errors) <= 3 * np.array(bounds)) > 0.9


def test_a_parameter_that_is_not_stationary_is_reported():
    x, y = load_iris(return_X_y=True)
    release = from_sklearn(LogisticRegression(tol=0.1, solver="newton-cg").fit(x, y))
    found = bayesrecon.missing_record(release, {"x": x[1:], "y": y[1:]})
    assert found.disagreement > 1e-3
    assert "not stationary" in found.warnings[0]


def test_conditioning_is_the_informed_adversary_of_any_model():
    """Posterior draws: with all records but one known, what is left determines that record."""
    x, y = X[:, :1], LINE
    release = from_draws(sample_regression(x, y, 4000, np.random.default_rng(1)), regression_model())
    left = bayesrecon.condition(release, {"x": x[1:], "y": y[1:]})
    found = bayesrecon.recover(left)
    assert found["n"].estimate == pytest.approx(1, abs=5 * found["n"].se)
    with pytest.raises(BayesreconError, match="condition"):
        bayesrecon.missing_record(release, {"x": x, "y": y})
    with pytest.raises(BayesreconError, match="lack field y"):
        bayesrecon.condition(release, {"x": x})


def test_conditioning_agrees_with_the_closed_form():
    release = from_sklearn(logistic(C=1.0).fit(X, SIDE))
    others = {"x": X[1:], "y": SIDE[1:]}
    found = bayesrecon.missing_record(release, others)
    left = bayesrecon.condition(release, others)
    with x64():
        record = {"x": found.record["x"][None], "y": np.array([found.record["y"]])}
        total = np.asarray(total_score(left.model, left.theta[0], record, np.ones(1)))
    assert np.linalg.norm(total) < 1e-8


def test_a_network_has_no_closed_form():
    params, model = network()
    with pytest.raises(BayesreconError, match="no linear predictor"):
        bayesrecon.missing_record(dirac(model, params), {"x": X, "y": LINE})


def test_ridge_by_hand():
    """The stationarity equation itself, solved by SciPy for the missing record."""
    estimator = Ridge(2.0).fit(X, LINE)
    found = bayesrecon.missing_record(from_sklearn(estimator), {"x": X[1:], "y": LINE[1:]})
    w, b = estimator.coef_, estimator.intercept_
    left = 2.0 * w - X[1:].T @ (LINE[1:] - X[1:] @ w - b), -np.sum(LINE[1:] - X[1:] @ w - b)

    def equations(u):
        x, y = u[:3], u[3]
        r = y - x @ w - b
        return np.r_[r * x - left[0], r - left[1]]

    expected = scipy.optimize.fsolve(equations, np.ones(4), xtol=1e-14)
    np.testing.assert_allclose(np.r_[found.record["x"], found.record["y"]], expected, rtol=1e-6)

"""scikit-learn's estimators as releases: stationary in its own conventions."""

import jax
import numpy as np
import pandas as pd
import pytest
from estimators import ESTIMATORS, LINE, RNG, SIDE, X, fitted, logistic
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import bayesrecon
from bayesrecon.divergence.outer_products import design, join, penalty_of, slopes, split_gradient
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.domains import records_in
from bayesrecon.errors import BayesreconError, version
from bayesrecon.posteriors import from_sklearn
from bayesrecon.precision import x64

pytestmark = pytest.mark.small


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scikit_learns_parameters_are_stationary(kind):
    release, records, _ = fitted(kind)
    with x64():
        theta = release.theta[0]
        total = np.asarray(total_score(release.model, theta, records, np.ones(80)))
        each = np.asarray(gradients(release.model, theta, records))
    assert np.linalg.norm(total) < 2e-6 * np.linalg.norm(each, axis=1).sum()


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_gradients_are_outer_products(kind):
    release, records, _ = fitted(kind)
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


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_predictions_are_scikit_learns(kind):
    """Through the likelihood alone: the label of largest likelihood, or the response of no slope."""
    release, _, estimator = fitted(kind)
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
    assert from_sklearn(logistic().fit(X, names)).notes == ("classes are numbered from zero: 0 is no, 1 is yes",)


def test_a_search_over_a_pipeline_is_its_last_step():
    steps = make_pipeline(StandardScaler(), Ridge())
    search = GridSearchCV(steps, {"ridge__alpha": [0.5, 5.0]}, cv=3).fit(X, LINE)
    release = from_sklearn(search)
    assert release.notes == ("records are the input of the last pipeline step, after StandardScaler",)
    assert release.model.settings["penalty"] == search.best_params_["ridge__alpha"]
    scaled = search.best_estimator_[0].transform(X)
    with x64():
        total = np.asarray(total_score(release.model, release.theta[0], {"x": scaled, "y": LINE}, np.ones(80)))
    assert np.abs(total).max() < 1e-8


L1 = {"l1_ratio": 1.0} if version("scikit-learn") >= (1, 8) else {"penalty": "l1"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lasso().fit(X, LINE), "Lasso is not supported: an l1 penalty"),
        (lambda: SVC().fit(X, SIDE), "SVC is not supported: it stores training rows"),
        (lambda: make_pipeline(StandardScaler(), SVC()).fit(X, SIDE), "SVC is not supported"),
        (lambda: Ridge(), "not fitted"),
        (lambda: Ridge(positive=True).fit(X, LINE), "positive"),
        (lambda: Ridge(np.array([1.0, 2.0])).fit(X, np.column_stack([LINE, LINE])), "one alpha per target"),
        (lambda: LogisticRegression(solver="liblinear", **L1).fit(X, SIDE), "l1 penalty"),
        (lambda: LogisticRegression(class_weight="balanced").fit(X, SIDE), "class weights"),
        (lambda: LinearSVC(loss="hinge", max_iter=100_000).fit(X, SIDE), "squared_hinge"),
    ],
)
def test_what_is_not_read_is_refused(make, message):
    with pytest.raises(BayesreconError, match=message):
        from_sklearn(make())


def test_several_classes_are_read_where_they_are_fitted_together():
    """Before scikit-learn 1.6 this solver fitted one class against the rest, whatever it was told."""
    classes = np.digitize(LINE, np.quantile(LINE, [0.3, 0.6]))
    fitted = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(X, classes)
    if version("scikit-learn") < (1, 6):
        with pytest.raises(BayesreconError, match="one-vs-rest"):
            from_sklearn(fitted)
        return
    slopes = np.asarray(fitted.predict_proba(X) - np.eye(3)[classes]).T @ X + fitted.coef_
    assert np.abs(slopes).max() < 1e-6
    assert from_sklearn(fitted).model.name == "linear_predictor"


def test_features_have_the_names_of_a_data_frame():
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    release = from_sklearn(Ridge(1.0).fit(frame, LINE))
    assert release.model is from_sklearn(Ridge(1.0).fit(frame, LINE)).model
    assert bayesrecon.recover(release, total=80)["mean(x1)"].name == "mean(x1)"
    held = records_in(release.model.fields, {"y": LINE, **{name: frame[name] for name in reversed(list(frame))}})
    np.testing.assert_array_equal(held["x"], X)
    ambiguous = Ridge(1.0).fit(frame.set_axis(["y", *frame.columns[1:]], axis=1), LINE)
    assert not from_sklearn(ambiguous).model.fields["x"].columns

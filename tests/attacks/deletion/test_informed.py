"""The informed adversary, who knows all records but one."""

import numpy as np
import pytest
import scipy.optimize
from conjugate import regression_model, sample_regression
from estimators import ESTIMATORS, LINE, SIDE, X, fitted, logistic, network
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

import bayesrecon
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import dirac, from_draws, from_sklearn
from bayesrecon.precision import x64


@pytest.mark.parametrize("i", [0, 17])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_missing_record_comes_back(kind, i):
    release, records, _ = fitted(kind)
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


@pytest.mark.parametrize("tolerance", [1e-10, 1e-6], ids=["to the end", "short of it"])
def test_the_error_is_what_the_check_says(tolerance):
    """No tolerance is stated: records far inside their class have a smaller gradient than training left over."""
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    release = from_sklearn(LogisticRegression(tol=tolerance, solver="newton-cg", max_iter=1000).fit(x, y))
    lost = (82, 108, 122, 180, 339, 368)
    errors, bounds = [], []
    for i in (*lost, *range(0, len(x), 12)):
        found = bayesrecon.missing_record(release, {"x": np.delete(x, i, 0), "y": np.delete(y, i)})
        errors.append(np.linalg.norm(found.record["x"] - x[i]))
        bounds.append(found.error)
        assert np.isfinite(found.error) or (
            "not determined" in found.headline and "the record is not determined" in found.warnings[-1]
        )
        assert found.error <= 1 or found.warnings
    errors, bounds = np.array(errors), np.array(bounds)
    assert (errors[: len(lost)] > 1).all()
    assert not np.isfinite(bounds[: len(lost)]).any()
    finite = np.isfinite(bounds)
    assert finite.mean() > 0.6
    assert np.mean(errors[finite] <= bounds[finite]) >= 0.9
    assert (errors[bounds < 1] < 1).all()


def test_a_parameter_that_is_not_stationary_is_reported():
    """The error is then not that of rounding: it has none."""
    x, y = load_iris(return_X_y=True)
    release = from_sklearn(LogisticRegression(tol=0.1, solver="newton-cg").fit(x, y))
    for tolerance in (None, 1e-9):
        found = bayesrecon.missing_record(release, {"x": x[1:], "y": y[1:]}, tolerance=tolerance)
        assert found.disagreement > 1e-3
        assert "not stationary" in found.warnings[0]
        assert found.error > np.linalg.norm(found.record["x"] - x[0])
        assert found.to_dict()["error"] is None or found.to_dict()["error"] == found.error


def test_an_error_that_nothing_checks_is_conditional():
    """Least squares with one output: any slope is implied by some response."""
    found = bayesrecon.missing_record(
        from_sklearn(Ridge(2.0).fit(X, LINE)), {"x": X[1:], "y": LINE[1:]}, tolerance=1e-6
    )
    assert found.disagreement is None
    assert found.remaining_gradient == 1e-6
    assert "if training left a gradient of 1e-06 or less" in found.headline


@pytest.mark.parametrize("fit", [LinearRegression(), logistic(C=1.0)], ids=["least squares", "logistic"])
def test_where_nobody_is_missing_no_record_is_named(fit):
    """Known records in another order: what is left of the gradient is rounding, or what training left."""
    y = SIDE if isinstance(fit, LogisticRegression) else LINE
    release = from_sklearn(fit.fit(X, y))
    try:
        found = bayesrecon.missing_record(release, {"x": X[::-1], "y": y[::-1]})
    except BayesreconError as refused:
        assert "nothing can be said" in str(refused)
    else:
        assert "not determined" in found.headline


@pytest.mark.slow
def test_conditioning_is_the_informed_adversary_of_any_model():
    """Posterior draws: with all records but one known, what is left determines that record."""
    x, y = X[:, :1], LINE
    release = from_draws(sample_regression(x, y, 4000, np.random.default_rng(1)), regression_model())
    left = bayesrecon.condition(release, {"x": x[1:], "y": y[1:]})
    found = bayesrecon.recover(left)
    assert found["n"].lower < 1 < found["n"].upper
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

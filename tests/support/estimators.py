"""scikit-learn's estimators of each kind, fitted."""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.svm import LinearSVC

from bayesrecon.models import from_loss
from bayesrecon.posteriors import from_sklearn

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
    "ridge, chosen strength": (RidgeCV([0.5, 3.0, 20.0]), LINE),
    "logistic": (logistic(C=0.3), SIDE),
    "logistic, chosen strength": (LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, solver="newton-cg", **TIGHT), SIDE),
    "logistic, no intercept": (logistic(fit_intercept=False), SIDE),
    "logistic, no penalty": (logistic(C=np.inf), (LINE + 3 * RNG.normal(size=80) > 0).astype(int)),
    "logistic, liblinear": (LogisticRegression(solver="liblinear", C=2.0, intercept_scaling=3.0, **TIGHT), SIDE),
    "softmax": (logistic(C=0.7), THREE),
    "svm": (LinearSVC(C=0.4, dual=False, **TIGHT), SIDE),
    "svm, scaled intercept": (LinearSVC(C=0.4, intercept_scaling=5.0, dual=False, **TIGHT), SIDE),
    "svm, three classes": (LinearSVC(C=0.4, dual=False, **TIGHT), THREE),
}


@cache
def fitted(kind):
    """A release, its records and scikit-learn's own estimator."""
    estimator, y = ESTIMATORS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_sklearn(estimator.fit(X, y)), {"x": X, "y": y}, estimator


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

"""Fitted scikit-learn estimators as releases, with scikit-learn's conventions for penalty and intercept."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, Note, version
from bayesrecon.files import write_whole
from bayesrecon.model import Model
from bayesrecon.models.linear_losses import linear_predictor
from bayesrecon.models.registry import find
from bayesrecon.posteriors.formats.npz import ATTRIBUTES
from bayesrecon.posteriors.sources import dirac
from bayesrecon.releases import Release, TrainedParameter, refuse_others


def from_sklearn(estimator: object, *, name: str | None = None) -> Release:
    """A release from a fitted linear estimator: a trained parameter of `models.load("linear_predictor")`.

    | estimator | loss | penalty of `coef`, of `intercept` |
    |---|---|---|
    | `LinearRegression` | squared | 0, 0 |
    | `Ridge` | squared | alpha, 0 (the intercept comes from centring, which is the same) |
    | `LogisticRegression` | logistic; softmax for several classes | 1 / C, 0 (with liblinear 1 / (C s^2)) |
    | `LinearSVC(loss="squared_hinge")` | squared_hinge | 1 / C, 1 / (C s^2) |
    | `RidgeCV`, `LogisticRegressionCV(refit=True)` | as without CV, with the chosen strength | |
    | a pipeline, a search over settings | those of its last step, of its best estimator | |

    Here s is the `intercept_scaling`. scikit-learn's own objectives are these times a constant. Records are the input
    of the estimator itself: after a scaler, the scaled features. Classes are numbered from zero in the order of
    `classes_`.

    Args:
        estimator: an estimator fitted to unweighted records.

    Raises:
        BayesreconError: the estimator is not fitted or not supported, or a setting makes the parameters non-stationary
            for a smooth objective (an l1 penalty, sign constraints, balanced class weights, hinge loss).

    >>> from sklearn.linear_model import Ridge
    >>> release = from_sklearn(Ridge(2.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0]))
    >>> release.temperature, release.model.settings["penalty"]
    (0.0, 2.0)
    """
    inner, before = _last_step(estimator)
    release = of_linear(type(inner).__name__, inner, name)
    if not before:
        return release
    note = Note(f"records are the input of the last pipeline step, after {', '.join(before)}")
    return replace(release, notes=(*release.notes, note))


def _last_step(estimator: Any) -> tuple[Any, list[str]]:
    """The last step of a pipeline or the best estimator of a search, and the names of the steps before it."""
    before: list[str] = []
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif type(estimator).__name__ == "Pipeline" and getattr(estimator, "steps", None):
            before += [type(step).__name__ for _, step in estimator.steps[:-1] if step not in (None, "passthrough")]
            estimator = estimator.steps[-1][1]
        else:
            return estimator, before


def of_linear(kind: str, estimator: Any, name: str | None = None) -> Release:
    """The release of a linear estimator of a class of this name, from any object with its attributes.

    >>> from types import SimpleNamespace
    >>> of_linear("Ridge", SimpleNamespace(coef_=[0.5], intercept_=0.1, fit_intercept=True, alpha=2.0)).name
    'Ridge'
    """
    if kind not in LINEAR:
        reason = next((f": {text}" for names, text in _UNSUPPORTED.items() if kind in names), "")
        raise BayesreconError(
            f"{kind} is not supported{reason}; expected {', '.join(LINEAR)}, "
            "or your own model with models.from_loss and posteriors.dirac"
        )
    if not hasattr(estimator, "coef_"):
        raise BayesreconError(f"this {kind} is not fitted")
    coef = np.atleast_2d(np.asarray(estimator.coef_, float))
    model = _named(LINEAR[kind](estimator, coef.shape), tuple(map(str, getattr(estimator, "feature_names_in_", ()))))
    params = {"coef": coef}
    if estimator.fit_intercept:
        params["intercept"] = np.broadcast_to(np.asarray(estimator.intercept_, float), coef.shape[:1]).copy()
    release = dirac(model, params, name=name or kind, tolerance=_tolerance(estimator))
    classes = getattr(estimator, "classes_", None)
    if classes is not None and list(classes) != list(range(len(classes))):
        listed = ", ".join(f"{i} is {c}" for i, c in enumerate(classes[:12]))
        return replace(release, notes=(Note(f"classes are numbered from zero: {listed}"),))
    return release


@cache  # releases of one model belong together by the model object
def _named(model: Model, columns: tuple[str, ...]) -> Model:
    """The model with features that have the names of a DataFrame's columns, where these are unambiguous words."""
    x, plain = model.fields["x"], all(re.fullmatch(r"[\w .-]+", name) for name in columns)
    if not plain or len({*columns, "x", "y"}) != len(columns) + 2 or x.shape != (len(columns),):
        return model
    return replace(model, fields={**model.fields, "x": replace(x, columns=columns)})


def _tolerance(estimator: Any) -> float:
    """Largest entry of the mean gradient at which the solver may have stopped; infinite at its limit of iterations."""
    unnamed = "liblinear" if hasattr(estimator, "loss") else _DIRECT[0]
    solver = str(getattr(estimator, "solver_", getattr(estimator, "solver", unnamed)))
    if not hasattr(estimator, "tol") or solver in _DIRECT:
        return 0.0
    steps, most = getattr(estimator, "n_iter_", None), getattr(estimator, "max_iter", None)
    if steps is not None and most is not None and np.max(np.asarray(steps, float)) >= float(most):
        return math.inf
    return max(float(estimator.tol), _LEAST.get(solver, 0.0))


def save_trained(release: Release, path: str | Path) -> Path:
    """Write a trained parameter of a shipped model to an `.npz` file, which the command line reads.

    The file holds the parameters and the name and settings of the model, but nothing of the records.

    Raises:
        BayesreconError: the release consists of draws, its model is not shipped, the path does not end in .npz, or its
            folder does not exist.

    >>> from sklearn.linear_model import Ridge
    >>> release = from_sklearn(Ridge(2.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0]))
    >>> save_trained(release, "ridge.npz").name
    'ridge.npz'
    """
    path = Path(path)
    refuse_others(release, (TrainedParameter,), "save_trained", "use save_draws for draws")
    if path.suffix != ".npz":
        raise BayesreconError(f"{path}: the name must end in .npz")
    find(release.model.name)
    parts = release.model.split(np.asarray(release.theta)[0])
    arrays: dict[str, Any] = {k: np.asarray(v)[None, None] for k, v in parts.items()}
    attributes = {
        "bayesrecon_temperature": "0",
        "bayesrecon_tolerance": repr(min(getattr(release, "tolerance", 0.0), 1e300)),
        "bayesrecon_model": release.model.name,
        "bayesrecon_model_settings": json.dumps(dict(release.model.settings)),
    }
    arrays[ATTRIBUTES] = np.array(json.dumps(attributes))
    write_whole(path, lambda temporary: np.savez(temporary, **arrays))
    return path


def _least_squares(estimator: Any, shape: tuple[int, int]) -> Model:
    if getattr(estimator, "positive", False):
        raise BayesreconError("coefficients constrained to be positive are not stationary; fit with positive=False")
    penalty = np.unique(np.asarray(getattr(estimator, "alpha", 0.0), float))
    if penalty.size > 1:
        raise BayesreconError("one alpha per target is not supported; fit the targets one by one")
    return linear_predictor("squared", shape[1], shape[0], float(penalty[0]), bool(estimator.fit_intercept))


def _ridge_cv(estimator: Any, shape: tuple[int, int]) -> Model:
    penalty = np.unique(np.asarray(estimator.alpha_, float))
    if penalty.size > 1:
        raise BayesreconError("one alpha per target is not supported; fit the targets one by one")
    return linear_predictor("squared", shape[1], shape[0], float(penalty[0]), bool(estimator.fit_intercept))


def _logistic_regression_cv(estimator: Any, shape: tuple[int, int]) -> Model:
    """The model of the final fit: all records, with the chosen strength."""
    if not estimator.refit:
        raise BayesreconError(
            "with refit=False coefficients are averages over folds, which are not stationary for any data"
        )
    chosen = {name: np.unique(np.asarray(getattr(estimator, name, None) or 0.0, float)) for name in ("C_", "l1_ratio_")}
    if any(values.size > 1 for values in chosen.values()):
        raise BayesreconError("one strength per class is not supported; fit a multinomial model")
    settings = {name: getattr(estimator, name) for name in _SETTINGS if hasattr(estimator, name)}
    strength, ratio = (float(values[0]) for values in chosen.values())
    return _logistic_regression(SimpleNamespace(**settings, C=strength, l1_ratio=ratio), shape)


def _logistic_regression(estimator: Any, shape: tuple[int, int]) -> Model:
    _refuse_weights(estimator)
    penalty = getattr(estimator, "penalty", "l2")
    ratio = 1.0 if penalty == "l1" else 0.0 if penalty in ("l2", None) else estimator.l1_ratio or 0.0
    if ratio:
        raise BayesreconError("an l1 penalty is not differentiable; the closed forms need an l2 penalty or none")
    strength = 0.0 if penalty is None or np.isinf(estimator.C) else 1.0 / float(estimator.C)
    intercept_penalty = 0.0
    if estimator.solver == "liblinear":
        intercept_penalty = strength / float(estimator.intercept_scaling) ** 2
    classes = len(estimator.classes_)
    one_vs_rest = ("liblinear", "newton-cholesky") if _version_of(estimator) < (1, 6) else ("liblinear",)
    if classes > 2 and (estimator.solver in one_vs_rest or getattr(estimator, "multi_class", "auto") == "ovr"):
        raise BayesreconError("one-vs-rest logistic regression is not supported; fit a multinomial model")
    loss = "softmax" if shape[0] > 1 else "logistic"
    return linear_predictor(loss, shape[1], shape[0], strength, bool(estimator.fit_intercept), intercept_penalty)


def _linear_svc(estimator: Any, shape: tuple[int, int]) -> Model:
    _refuse_weights(estimator)
    if estimator.loss != "squared_hinge" or estimator.penalty != "l2":
        raise BayesreconError("only LinearSVC(loss='squared_hinge', penalty='l2') is differentiable")
    if getattr(estimator, "multi_class", "ovr") != "ovr":
        raise BayesreconError("only one-vs-rest LinearSVC is supported")
    strength = 1.0 / float(estimator.C)
    intercept_penalty = strength / float(estimator.intercept_scaling) ** 2
    return linear_predictor(
        "squared_hinge", shape[1], shape[0], strength, bool(estimator.fit_intercept), intercept_penalty
    )


def _version_of(estimator: object) -> tuple[int, int]:
    """Version of scikit-learn that fitted the estimator: the installed one, unless it comes from a file."""
    match = re.match(r"(\d+)\.(\d+)", str(getattr(estimator, "_sklearn_version", "")))
    return (int(match[1]), int(match[2])) if match else version("scikit-learn")


def _refuse_weights(estimator: Any) -> None:
    if estimator.class_weight is not None:
        raise BayesreconError("class weights are not supported; define the weighted loss with models.from_loss")


_SETTINGS = (
    "class_weight", "penalty", "solver", "intercept_scaling", "classes_", "multi_class", "fit_intercept",
    "_sklearn_version",
)  # fmt: skip
"""Attributes that a search over penalties shares with its final fit."""

_DIRECT = ("auto", "svd", "cholesky")
"""Solvers that factorise a matrix, which leaves rounding errors only."""
_LEAST = {"lbfgs": 1e-6}
"""Mean gradient that a solver may leave when the objective no longer decreases, whatever its tolerance is."""

_SPARSE = "an l1 penalty is not differentiable, so coefficients that are zero have no stationary equation"
_KEEPS = "it stores training rows unchanged; `bayesrecon audit` of the saved model lists them"
_STOPS = "it stops before the optimum, so its coefficients are not stationary"
_UNSUPPORTED: Mapping[tuple[str, ...], str] = {
    ("Lasso", "LassoCV", "LassoLars", "LassoLarsCV", "ElasticNet", "ElasticNetCV", "MultiTaskLasso"): _SPARSE,
    ("SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"): _KEEPS,
    ("KNeighborsClassifier", "KNeighborsRegressor", "GaussianProcessRegressor", "GaussianProcessClassifier"): _KEEPS,
    (
        "SGDClassifier",
        "SGDRegressor",
        "Perceptron",
        "PassiveAggressiveClassifier",
        "MLPClassifier",
        "MLPRegressor",
    ): _STOPS,
}
"""Common classes that are not supported, and the reason."""

LINEAR = {
    "LinearRegression": _least_squares,
    "Ridge": _least_squares,
    "RidgeCV": _ridge_cv,
    "LogisticRegression": _logistic_regression,
    "LogisticRegressionCV": _logistic_regression_cv,
    "LinearSVC": _linear_svc,
}
"""Supported classes, and functions that build the models of their objectives."""


FIT = ("sklearn", from_sklearn)
"""The library of the fits, and the function that reads them."""

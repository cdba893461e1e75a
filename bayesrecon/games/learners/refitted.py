"""Scikit-learn models that are retrained from scratch: lasso, support vectors, trees, forests and small networks."""

from typing import Any

from bayesrecon.games.answers import DECISIONS, PROBABILITIES, VALUES
from bayesrecon.games.learner import ScikitEstimator, ScikitLearner


def lasso(classes: int) -> ScikitLearner:
    from sklearn.linear_model import Lasso

    return ScikitLearner("Lasso (alpha 0.1)", Lasso(alpha=0.1), VALUES, quick=True)


def svm(classes: int) -> ScikitLearner:
    """A support vector machine with decision values.

    `SVC(probability=True)` calibrates on random folds, and their noise is larger than the influence of a record.
    """
    from sklearn.svm import SVC, SVR

    if not classes:
        return ScikitLearner("SVM (RBF, C 1)", SVR(), VALUES)
    return ScikitLearner("SVM (RBF, C 1), decision values", SVC(), DECISIONS)


def calibrated_svm(classes: int) -> ScikitLearner:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    # Stratified folds in the order of the records are not random.
    one_model: Any = False  # fitted on all records, calibrated on answers to records that it was not fitted on
    return ScikitLearner("SVM (RBF, C 1), calibrated", CalibratedClassifierCV(SVC(), ensemble=one_model), PROBABILITIES)


def tree(classes: int) -> ScikitLearner:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    return _by_response("decision tree", classes, DecisionTreeRegressor(), DecisionTreeClassifier())


def forest(classes: int) -> ScikitLearner:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    # One thread per forest, because rounds run in parallel.
    regressor = RandomForestRegressor(n_estimators=10, n_jobs=1)
    return _by_response("forest of 10 trees", classes, regressor, RandomForestClassifier(n_estimators=10, n_jobs=1))


def mlp(classes: int) -> ScikitLearner:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    name = f"MLP (20, {10 if classes else 2}), L-BFGS, at most 200 iterations"
    regressor = MLPRegressor(hidden_layer_sizes=(20, 2), solver="lbfgs", max_iter=200)
    classifier = MLPClassifier(hidden_layer_sizes=(20, 10), solver="lbfgs", max_iter=200)
    return _by_response(name, classes, regressor, classifier)


def _by_response(name: str, classes: int, regressor: ScikitEstimator, classifier: ScikitEstimator) -> ScikitLearner:
    return ScikitLearner(name, classifier, PROBABILITIES) if classes else ScikitLearner(name, regressor, VALUES)


LEARNERS = {
    "lasso": ("Lasso, alpha 0.1", lasso),
    "svm": ("support vectors, RBF, C 1; decision values for classes", svm),
    "svm-calibrated": ("support vectors, RBF, C 1, probabilities by calibration", calibrated_svm),
    "tree": ("decision tree without a limit", tree),
    "forest": ("forest of 10 trees", forest),
    "mlp": ("two hidden layers, L-BFGS, 200 iterations", mlp),
}

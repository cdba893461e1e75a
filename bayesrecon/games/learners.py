"""The learners that come with the package; those with differential privacy are in `games.private`."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError, version
from bayesrecon.games.answers import DECISIONS, PROBABILITIES, VALUES
from bayesrecon.games.data import Records, with_ones
from bayesrecon.games.learner import FittedModel, Learner, Predictor, ScikitEstimator, ScikitLearner

if TYPE_CHECKING:
    from bayesrecon.releases import Release


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted linear regression.

    Attributes:
        coefficients: `(p + 1,)`, the intercept last.
        factor: the upper triangle R of `R'R = A`, the normal matrix.
    """

    coefficients: np.ndarray
    factor: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.coefficients[:-1] + self.coefficients[-1]

    def solve(self, right: np.ndarray) -> np.ndarray:
        """`A^-1 right`."""
        return np.linalg.solve(self.factor, np.linalg.solve(self.factor.T, right))


@dataclass(frozen=True)
class LeastSquares(Learner):
    """`min sum_n (y_n - <b, x_n> - c)^2 + penalty |b|^2`, exactly.

    Without the rows D, with `A = X'X + penalty I` over all rows, `H = X_D A^-1 X_D'` and residuals r_D,

        b_without = b - A^-1 X_D' (I - H)^-1 r_D

    which for one row is the leave-one-out formula `b - A^-1 x r / (1 - h)`.

    >>> rng = np.random.default_rng(0)
    >>> data = Records(rng.normal(size=(9, 2)), rng.normal(size=9))
    >>> learner = LeastSquares(penalty=1.0)
    >>> quick = learner.without(learner.fit(data, 0, 0), data, np.array([4]), 0, 0)
    >>> refitted = learner.fit(data.rows(np.arange(9) != 4), 0, 0)
    >>> bool(np.allclose(quick.coefficients, refitted.coefficients))
    True
    """

    penalty: float = 0.0
    answers = VALUES
    quick: ClassVar[bool] = True
    open: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"ridge (alpha {self.penalty:g})" if self.penalty else "linear regression"

    def fit(self, records: Records, classes: int, seed: int) -> LinearFit:
        design = with_ones(records.x)
        target = records.y
        if self.penalty:
            # Rows sqrt(penalty) e_j with response zero, none for the intercept.
            width = design.shape[1] - 1
            design = np.concatenate([design, self.penalty**0.5 * np.eye(width, width + 1)])
            target = np.concatenate([target, np.zeros(width)])
        if len(design) < design.shape[1]:
            raise BayesreconError(
                f"{self.name}: {len(records.x)} records do not determine {design.shape[1]} coefficients; add a penalty"
            )
        q, r = np.linalg.qr(design)
        size = np.abs(np.diag(r))
        if size.min() <= 1e-12 * size.max():
            raise BayesreconError(f"{self.name}: the features are collinear; leave columns out or add a penalty")
        return LinearFit(np.linalg.solve(r, q.T @ target), r)

    def without(self, fitted: LinearFit, records: Records, rows: np.ndarray, classes: int, seed: int) -> LinearFit:
        x, y = with_ones(records.x[rows]), records.y[rows]
        solved = fitted.solve(x.T)  # (q, k)
        inner = np.eye(len(rows)) - x @ solved
        # If a coefficient is determined by these records alone, the formula divides by zero.
        if np.linalg.eigvalsh(inner)[0] < 1e-8:
            return self.fit(records.without(rows), classes, seed)
        coefficients = fitted.coefficients - solved @ np.linalg.solve(inner, y - x @ fitted.coefficients)
        # The factor is still that of all rows, so it is valid only for further deletions from the same data.
        return LinearFit(coefficients, fitted.factor)

    def release(self, fitted: LinearFit) -> "Release":
        from bayesrecon.models.linear_losses import linear_predictor
        from bayesrecon.posteriors.sources import dirac

        model = linear_predictor("squared", len(fitted.coefficients) - 1, 1, float(self.penalty))
        return dirac(
            model, {"coef": fitted.coefficients[None, :-1], "intercept": fitted.coefficients[-1:]}, name=self.name
        )


# Logistic and softmax regression, converged. Retraining starts from the old parameter.


_FACTORISED = 2000  # largest number of parameters for which the Hessian is factorised
# Older versions of scikit-learn fit classes one against the rest (1.5) or start from another parameter (1.6).
_SEVERAL = (1, 8)
_NEAR = 1e-6  # gradient per record from which Newton's method needs only a few steps


@dataclass(frozen=True)
class Logistic(Learner):
    """`min sum_n loss + |b|^2 / (2 C)`, multinomial, to a gradient of `tolerance` per record (Newton).

    A retrained parameter is close to the old one, so Newton's method starts there and needs one or two steps.
    Adversaries rely on small differences, so training that stops early would add noise of its own. The Hessian is
    factorised if it is small. Otherwise L-BFGS is used first, and Newton systems are solved by conjugate gradients.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(30, 2))
    >>> data, learner = Records(x, (x[:, 0] + rng.normal(size=30) > 0).astype(int)), Logistic()
    >>> quick = learner.without(learner.fit(data, 2, 0), data, np.array([3]), 2, 0)
    >>> refitted = learner.fit(data.rows(np.arange(30) != 3), 2, 0)
    >>> bool(np.allclose(quick(x), refitted(x), rtol=0, atol=1e-9))
    True
    """

    C: float = 1.0
    tolerance: float = 1e-11
    answers = PROBABILITIES
    open: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"logistic regression (C {self.C:g})"

    def fit(self, records: Records, classes: int, seed: int) -> Predictor:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=self.C, solver="newton-cholesky", tol=self.tolerance, warm_start=True)
        if classes * records.x.shape[1] > _FACTORISED or (classes > 2 and version("scikit-learn") < _SEVERAL):
            model.set_params(solver="lbfgs", tol=_NEAR, max_iter=10_000).fit(records.x, records.y)
            model.set_params(solver="newton-cg", tol=self.tolerance)
        return Predictor(model.fit(records.x, records.y), PROBABILITIES, classes)

    def without(self, fitted: Predictor, records: Records, rows: np.ndarray, classes: int, seed: int) -> Predictor:
        remaining = records.without(rows)
        if len(np.unique(remaining.y)) < len(fitted.model.classes_):  # the old parameter has another shape
            return self.fit(remaining, classes, seed)
        return Predictor(copy.deepcopy(fitted.model).fit(remaining.x, remaining.y), PROBABILITIES, classes)

    def release(self, fitted: Predictor) -> "Release":
        from bayesrecon.posteriors.fits.estimators import from_sklearn

        return from_sklearn(fitted.model, name=self.name)


# Nearest neighbours. After a deletion, the next neighbours move up.


_LARGEST = 2**22  # largest number of distances in memory


@dataclass(frozen=True, eq=False)
class Voters:
    """Answers from the nearest remaining records.

    At equal distance the first records count, so that a deletion changes an answer only if the deleted record had a
    vote. Without records (`x=None`), queries are rows of distances.

    Attributes:
        x: features of the training records, `(n, p)`.
        y: their responses, `(n,)`.
        k: number of neighbours.
        classes: number of classes; 0 for a number.
        deleted: positions of the deleted records.
    """

    x: np.ndarray | None
    y: np.ndarray
    k: int
    classes: int
    deleted: np.ndarray = field(default_factory=lambda: np.zeros(0, int))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        length = max(_LARGEST // len(self.y), 1)
        parts = [self._votes(x[start : start + length]) for start in range(0, max(len(x), 1), length)]
        return np.concatenate(parts)

    def _votes(self, x: np.ndarray) -> np.ndarray:
        from sklearn.metrics import euclidean_distances

        distances = np.array(x, float) if self.x is None else euclidean_distances(x, self.x, squared=True)
        distances[:, self.deleted] = np.inf
        k = min(self.k, len(self.y) - len(self.deleted))
        last = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        nearer, tied = distances < last, distances == last
        chosen = nearer | (tied & (np.cumsum(tied, axis=1) <= k - nearer.sum(axis=1, keepdims=True)))
        responses = self.y[:, None] == np.arange(self.classes) if self.classes else self.y[:, None]
        votes = chosen @ responses.astype(float) / k
        return np.asarray(votes if self.classes else votes[:, 0])


@dataclass(frozen=True)
class Neighbours(Learner):
    """The average response, or the share of every class, among the k nearest records.

    Distances are Euclidean. At equal distance the first records count.

    >>> data = Records(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1]))
    >>> learner = Neighbours(1, PROBABILITIES)
    >>> learner.without(learner.fit(data, 2, 0), data, np.array([0]), 2, 0)(np.array([[0.1]]))
    array([[0., 1.]])
    """

    k: int = 5
    answers: str = PROBABILITIES

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.k} nearest neighbours"

    def fit(self, records: Records, classes: int, seed: int) -> Voters:
        return Voters(records.x, records.y, self.k, classes)

    def without(self, fitted: Voters, records: Records, rows: np.ndarray, classes: int, seed: int) -> Voters:
        return Voters(fitted.x, fitted.y, fitted.k, fitted.classes, np.union1d(fitted.deleted, rows))


def _nearest(k: int) -> Callable[[int], Neighbours]:
    return lambda classes: Neighbours(k, PROBABILITIES if classes else VALUES)


# A learner that only answers with labels.


@dataclass(frozen=True, eq=False)
class Labelled:
    """A model that shows only its most likely class, as a one in the class's column and zeros elsewhere."""

    model: FittedModel
    classes: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.eye(self.classes)[self.model(x).argmax(axis=1)]


@dataclass(frozen=True, eq=False)
class Labels(Learner):
    """Another learner whose models only answer with labels: the defence of a service that hides its confidences.

    >>> from bayesrecon.games import Logistic
    >>> data = Records(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]))
    >>> Labels(Logistic()).fit(data, 2, 0)(np.array([[2.9]]))
    array([[0., 1.]])
    """

    learner: Learner
    answers = PROBABILITIES

    def __post_init__(self) -> None:
        if self.learner.answers == VALUES:
            raise BayesreconError(f"{self.learner.name} answers with {VALUES}, which are not labels; use a classifier")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.learner.name}, labels alone"

    @property
    def epsilon(self) -> float | None:  # type: ignore[override]
        """That of the other learner: labels are computed from its model alone."""
        return self.learner.epsilon

    def fit(self, records: Records, classes: int, seed: int) -> Labelled:
        return Labelled(self.learner.fit(records, classes, seed), classes)

    def without(self, fitted: Labelled, records: Records, rows: np.ndarray, classes: int, seed: int) -> Labelled:
        return Labelled(self.learner.without(fitted.model, records, rows, classes, seed), classes)


# Scikit-learn models that are retrained from scratch: lasso, support vectors, trees, forests and small networks.


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
    "linear": ("linear regression", lambda classes: LeastSquares()),
    "ridge": ("ridge regression, alpha 1", lambda classes: LeastSquares(1.0)),
    "logistic": ("logistic or softmax regression, C 1, converged", lambda classes: Logistic()),
    "knn": ("5 nearest neighbours", _nearest(5)),
    "1-nn": ("the nearest neighbour", _nearest(1)),
    "lasso": ("Lasso, alpha 0.1", lasso),
    "svm": ("support vectors, RBF, C 1; decision values for classes", svm),
    "svm-calibrated": ("support vectors, RBF, C 1, probabilities by calibration", calibrated_svm),
    "tree": ("decision tree without a limit", tree),
    "forest": ("forest of 10 trees", forest),
    "mlp": ("two hidden layers, L-BFGS, 200 iterations", mlp),
}

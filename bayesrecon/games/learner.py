"""Learners: what trains a model, and trains it again without some records.

Any object with `fit` and `predict` (`predict_proba` for classes), or a pair of functions, can be used as a learner.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import DECISIONS, PROBABILITIES, VALUES
from bayesrecon.games.data import Records


class ScikitEstimator(Protocol):
    """An estimator in the style of scikit-learn."""

    def fit(self, x: Any, y: Any, /) -> Any: ...
    def predict(self, x: Any, /) -> Any: ...


class FittedModel(Protocol):
    """A trained model: a function from records `(m, p)` to answers `(m,)` or `(m, K)`."""

    def __call__(self, x: np.ndarray) -> np.ndarray: ...


class Learner:
    """The base class of learners. A subclass states its `name` and the kind of its `answers`, and implements `fit`.

    Each fitted model (`fitted`) that a method gets is one that `fit` or `without` returned.

    Attributes:
        quick: whether a round is so short that worker processes do not pay off.
        open: whether its parameters can be read as a release (`release`), which white-box adversaries require.
        density: whether it can evaluate the density of its released model (`log_density`).
        epsilon: epsilon of differential privacy under the substitution of one record (twice that of leaving one out).
            It must hold for every training with an independent seed and for data sets in any order. Games compare the
            measured success with it. None if the learner claims nothing.
    """

    name: str
    answers: str
    quick: ClassVar[bool] = False
    open: ClassVar[bool] = False
    density: ClassVar[bool] = False
    epsilon: float | None = None

    def fit(self, records: Records, classes: int, seed: int) -> FittedModel:
        """Train on records. All randomness comes from the seed."""
        raise NotImplementedError

    def without(self, fitted: Any, records: Records, rows: np.ndarray, classes: int, seed: int) -> FittedModel:
        """The model after exact retraining without some rows of the records that `fitted` was trained on."""
        return self.fit(records.without(rows), classes, seed)

    def release(self, fitted: Any) -> Any:
        """Its trained parameter as a `Release`."""
        raise BayesreconError(f"{self.name} does not show its parameters, which white-box adversaries need")

    def log_density(self, fitted: Any, records: Records) -> float:
        """The log density of releasing this model after training on these records."""
        raise BayesreconError(f"{self.name} cannot evaluate the density of its released model")

    def check(self, classes: int) -> None:
        """Raise an error if the data are of the other kind (classes or numbers)."""
        if (self.answers == VALUES) is bool(classes):
            task = "classes" if classes else "a number"
            raise BayesreconError(f"{self.name} answers with {self.answers}, and the response is {task}")


@dataclass(frozen=True, eq=False)
class ScikitLearner(Learner):
    """Any object with scikit-learn's `fit` and `predict`; for classes `predict_proba`, or else `decision_function`.

    It is cloned for every training. Its parameters named `random_state` are set from the round's seed.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> data = Records(np.array([[0.0], [1.0]]), np.array([3.0, 5.0]))
    >>> ScikitLearner("tree", DecisionTreeRegressor(), VALUES).fit(data, 0, 7)(np.array([[0.9]]))
    array([5.])
    """

    name: str
    estimator: ScikitEstimator
    answers: str
    quick: bool = False  # type: ignore[misc]
    epsilon: float | None = None

    def fit(self, records: Records, classes: int, seed: int) -> "Predictor":
        model = _unfitted(self.estimator, seed)
        return Predictor(model.fit(records.x, records.y), self.answers, classes)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted estimator as a function. Classes that were not in its data have probability zero.

    Attributes:
        model: the fitted estimator, with the attributes of its class.
        answers: kind of the answers.
        classes: number of classes; 0 for a number.
    """

    model: Any
    answers: str
    classes: int

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if self.answers == VALUES:
            return np.asarray(self.model.predict(x), float).reshape(len(x))
        known = np.asarray(self.model.classes_, int)
        if self.answers == PROBABILITIES:
            probabilities = np.zeros((len(x), self.classes))
            probabilities[:, known] = self.model.predict_proba(x)
            return probabilities
        decisions = np.asarray(self.model.decision_function(x), float)
        if decisions.ndim == 1:  # split in halves, so that the margin is the decision value
            decisions = np.stack([-decisions / 2, decisions / 2], axis=1)
        result = np.full((len(x), self.classes), decisions.min() - 1.0)
        result[:, known] = decisions
        return result


@dataclass(frozen=True, eq=False)
class Functions(Learner):
    """A pair of functions: `train(x, y, seed)` returns a model, and `predict(model, x)` its predictions."""

    name: str
    train: Callable[[np.ndarray, np.ndarray, int], Any]
    predict: Callable[[Any, np.ndarray], npt.ArrayLike]
    answers: str
    epsilon: float | None = None

    def fit(self, records: Records, classes: int, seed: int) -> FittedModel:
        model = self.train(records.x, records.y, seed)

        def answer(x: np.ndarray) -> np.ndarray:
            outputs = np.asarray(self.predict(model, x), float)
            shape = (len(x), classes) if classes else (len(x),)
            if outputs.shape != shape:
                raise BayesreconError(f"{self.name}: predict returned shape {outputs.shape}, expected {shape}")
            return outputs

        return answer


Trainable = (
    Learner | ScikitEstimator | tuple[Callable[[np.ndarray, np.ndarray, int], Any], Callable[[Any, np.ndarray], Any]]
)
"""What games accept as a learner: a `Learner`, an estimator, or a pair of functions `(train, predict)`."""


def as_learner(learner: Trainable, classes: int, name: str | None = None) -> Learner:
    """A learner from a `Learner`, an estimator, or a pair of functions `(train, predict)`.

    An estimator's attribute `epsilon` is taken as its privacy claim (`Learner.epsilon`), unless it is a parameter of
    scikit-learn, where the name has other meanings.

    Args:
        classes: number of classes of the response; 0 for a number.
    """
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, tuple) and len(learner) == 2 and all(map(callable, learner)):
        return Functions(name or "functions", *learner, PROBABILITIES if classes else VALUES)
    kind = type(learner).__name__
    if isinstance(learner, type | tuple) or not (hasattr(learner, "fit") and hasattr(learner, "predict")):
        raise BayesreconError(f"expected an object with fit and predict, or two functions (train, predict), got {kind}")
    claimed = None if _is_setting("epsilon", learner) else getattr(learner, "epsilon", None)
    if not classes:
        return ScikitLearner(name or kind, learner, VALUES, epsilon=claimed)
    if hasattr(learner, "predict_proba"):
        return ScikitLearner(name or kind, learner, PROBABILITIES, epsilon=claimed)
    if hasattr(learner, "decision_function"):
        return ScikitLearner(name or kind, learner, DECISIONS, epsilon=claimed)
    raise BayesreconError(f"{kind} has neither predict_proba nor decision_function, which classes need")


def check_positive(**values: object) -> None:
    """Raise an error for values that are not positive numbers."""
    for name, value in values.items():
        number = float(value) if isinstance(value, int | float | np.integer | np.floating) else 0.0
        if isinstance(value, bool) or not 0 < number < float("inf"):
            raise BayesreconError(f"{name}={value!r}: expected a positive number")


def _is_setting(name: str, estimator: object) -> bool:
    """Whether scikit-learn itself has a parameter with this name, such as the tube width of `SVR`."""
    bases = (base for base in type(estimator).__mro__ if base.__module__.startswith("sklearn."))
    return any(name in inspect.signature(base).parameters for base in bases if "__init__" in vars(base))


def _unfitted(estimator: ScikitEstimator, seed: int) -> Any:
    """An unfitted copy with this seed."""
    import copy

    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    model: Any = clone(estimator)
    seeded = [k for k in model.get_params() if k == "random_state" or k.endswith("__random_state")]
    return model.set_params(**dict.fromkeys(seeded, seed)) if seeded else model

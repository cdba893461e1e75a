"""Logistic and softmax regression, converged. Retraining starts from the old parameter."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bayesrecon.errors import version
from bayesrecon.games.answers import PROBABILITIES
from bayesrecon.games.data import Records
from bayesrecon.games.learner import Learner, Predictor

if TYPE_CHECKING:
    from bayesrecon.releases import Release

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


LEARNERS = {"logistic": ("logistic or softmax regression, C 1, converged", lambda classes: Logistic())}

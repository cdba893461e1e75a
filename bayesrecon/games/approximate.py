"""Approximate deletion: one step of Newton's method instead of retraining."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError
from bayesrecon.games.data import Records, with_ones
from bayesrecon.games.learner import Learner, Predictor
from bayesrecon.games.learners import Logistic


@dataclass(frozen=True)
class NewtonStep:
    """A deletion mechanism for logistic and softmax regression (`Logistic`): one Newton step plus normal noise.

    The new parameter is `theta' = theta - H^-1 g + noise` (Guo, Goldstein, Hannun and van der Maaten 2020). Here g and
    H are the gradient and the Hessian of the training objective without the deleted rows, at the old parameter.

    The remaining influence of the deleted record is of second order. Steps for later deletions reduce it further.

    Attributes:
        noise: standard deviation of the noise in every coefficient.

    Raises:
        BayesreconError: the learner is of another kind.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(40, 2))
    >>> data, learner = Records(x, (x[:, 0] + rng.normal(size=40) > 0).astype(int)), Logistic()
    >>> before, rows = learner.fit(data, 2, 0), np.array([3])
    >>> exact = learner.without(before, data, rows, 2, 0)
    >>> approximate = NewtonStep()(learner, before, data, rows, 2, (0, 0))
    >>> change, error = (abs(exact(x) - model(x)).max() for model in (before, approximate))
    >>> bool(0 < error < change / 10)
    True
    """

    noise: float = 0.0

    def __call__(
        self, learner: Learner, fitted: Any, records: Records, rows: np.ndarray, classes: int, seeds: tuple[int, int]
    ) -> Predictor:
        if not isinstance(learner, Logistic):
            raise BayesreconError(f"a Newton step needs logistic or softmax regression, and not {learner.name}")
        remaining = records.without(rows)
        model = copy.deepcopy(fitted.model)
        theta = np.column_stack([model.coef_, model.intercept_])
        step = _newton(theta, remaining, np.asarray(model.classes_), 1 / learner.C)
        noise = self.noise * np.random.default_rng(seeds[1]).normal(size=theta.shape)
        theta = theta - step + noise
        model.coef_, model.intercept_ = theta[:, :-1], theta[:, -1]
        return Predictor(model, fitted.answers, classes)


def _newton(theta: np.ndarray, records: Records, known: np.ndarray, penalty: float) -> np.ndarray:
    """`H^-1 g` for the objective `sum_n loss + penalty |b|^2 / 2` and theta `(k, p + 1)`; k is 1 for two classes."""
    x, width = with_ones(records.x), theta.shape[1]
    logits = x @ theta.T
    if len(theta) == 1:
        p = scipy.special.expit(logits)
        responses = (records.y == known[1]).astype(float)[:, None]
        curvature = (p * (1 - p))[:, :, None]
    else:
        p = scipy.special.softmax(logits, axis=1)
        responses = (records.y[:, None] == known).astype(float)
        curvature = p[:, :, None] * (np.eye(len(theta)) - p[:, None, :])
    penalties = penalty * np.append(np.ones(width - 1), 0.0)  # the intercept has no penalty
    gradient = (p - responses).T @ x + penalties * theta
    hessian = np.einsum("nab,ni,nj->aibj", curvature, x, x, optimize=True).reshape(theta.size, theta.size)
    hessian += np.diag(np.tile(penalties, len(theta)))
    # Adding a number to all intercepts does not change the softmax, so this takes the shortest of the equivalent steps.
    return np.linalg.lstsq(hessian, gradient.ravel())[0].reshape(theta.shape)

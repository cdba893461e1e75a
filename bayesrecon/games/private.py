"""Logistic regression that promises epsilon: what the private learners share.

They measure. Their noise comes from a seeded generator in floating-point numbers, which is no way to protect a release
(Mironov 2012).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import PROBABILITIES
from bayesrecon.games.data import Records
from bayesrecon.games.learner import Learner, check_positive

_STEPS = 200  # of Newton; about ten are needed


@dataclass(frozen=True, eq=False)
class Released:
    """What a private learner releases: `theta (d,)`, which answers by `P(y = 1 | x) = sigmoid(<theta, row(x)>)`."""

    theta: np.ndarray
    rows: Callable[[np.ndarray], np.ndarray]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        logit = self.rows(x) @ self.theta
        return scipy.special.expit(np.stack([-logit, logit], axis=1))


@dataclass(frozen=True)
class Private(Learner):
    """A learner of two classes that is epsilon-private under the substitution of one record.

    Rows are made the same way for every record, by nothing that was learnt from any: `x / norm`, shortened to the unit
    ball where it is longer; with an intercept `(x, 1) / sqrt(2)`, a column like the others, penalised as they are.

    Attributes:
        epsilon: of one training.
        norm: a public bound of |x|; by default the square root of the number of columns, the length of a record whose
            columns lie between -1 and 1, and about that of a standardised one.
        intercept: whether there is one.
    """

    epsilon: float = 1.0  # type: ignore[assignment]
    norm: float | None = None
    intercept: bool = True
    mechanism: ClassVar[str]
    answers = PROBABILITIES
    quick: ClassVar[bool] = True
    density: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon, norm=1.0 if self.norm is None else self.norm)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"logistic regression, {self.mechanism} (epsilon {self.epsilon:g})"

    def check(self, classes: int) -> None:
        if classes != 2:
            task = f"has {classes} classes" if classes else "is a number"
            raise BayesreconError(f"{self.name} is a learner of two classes, and the response {task}")

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Features `(m, p)` as rows `(m, d)` of length one at most."""
        x = self.reduced(x / (self.norm or x.shape[1] ** 0.5))
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        return np.concatenate([x, np.ones((len(x), 1))], axis=1) / 2**0.5 if self.intercept else x

    def reduced(self, x: np.ndarray) -> np.ndarray:
        """Fewer columns, by what is public."""
        return x

    def signed(self, records: Records) -> np.ndarray:
        """`z = s row(x)` `(m, d)`, s = 1 for class 1 and -1 for class 0: the loss is `log(1 + exp(-<theta, z>))`."""
        return self.rows(records.x) * (2.0 * records.y[:, None] - 1.0)


@dataclass(frozen=True)
class Perturbed(Private):
    """One that minimises a penalised mean loss.

    Attributes:
        penalty: of the mean loss. tolerance: the longest gradient that the solver may leave.
    """

    penalty: float = 0.01
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(penalty=self.penalty, tolerance=self.tolerance)


def gradient(theta: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """Of the summed logistic loss, `(d,)`."""
    return -scipy.special.expit(-signed @ theta) @ signed


def hessian(theta: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """Of the summed logistic loss, `(d, d)`."""
    p = scipy.special.expit(signed @ theta)
    return (signed * (p * (1 - p))[:, None]).T @ signed


def minimiser(signed: np.ndarray, penalty: float, linear: Any, tolerance: float) -> np.ndarray:
    """`argmin 1/m sum_i log(1 + exp(-<theta, z_i>)) + penalty / 2 |theta|^2 + <linear, theta>`, by Newton's method.

    Steps are halved until the gradient is shorter: its length falls along every Newton step of a convex function.

    Args:
        signed: z `(m, d)`; linear: `(d,)` or 0.

    Returns:
        theta `(d,)` with a gradient of length `tolerance` at most.

    Raises:
        BayesreconError: the tolerance is not reached.
    """
    count, width = signed.shape
    theta = np.zeros(width)

    def slope(at: np.ndarray) -> np.ndarray:
        return gradient(at, signed) / count + penalty * at + linear

    here = slope(theta)
    for _ in range(_STEPS):
        length = np.linalg.norm(here)
        if length <= tolerance:
            return theta
        step, share = np.linalg.solve(hessian(theta, signed) / count + penalty * np.eye(width), here), 1.0
        while share > 1e-12 and np.linalg.norm(slope(theta - share * step)) > (1 - share / 4) * length:
            share /= 2
        theta = theta - share * step
        here = slope(theta)
    raise BayesreconError(
        f"the minimiser is not exact: a gradient of {np.linalg.norm(here):.1e} is left, more than {tolerance:.1e}; "
        "epsilon rests on it: take a larger penalty or tolerance"
    )


def spherical(width: int, scale: float, seed: int) -> np.ndarray:
    """Noise b `(d,)` with density proportional to `exp(-|b| / scale)`: a length ~ Gamma(d, scale), any direction."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=width)
    return rng.gamma(width, scale) * direction / np.linalg.norm(direction)


def spherical_log_density(b: np.ndarray, scale: float) -> float:
    """`-|b| / scale - log(scale^d Gamma(d) 2 pi^(d/2) / Gamma(d/2))`.

    >>> bool(np.isclose(spherical_log_density(np.array([0.3]), 2.0), -0.15 - np.log(4)))  # Laplace
    True
    """
    d = len(b)
    sphere = np.log(2) + d / 2 * np.log(np.pi) - scipy.special.gammaln(d / 2)
    return float(-np.linalg.norm(b) / scale - d * np.log(scale) - scipy.special.gammaln(d) - sphere)

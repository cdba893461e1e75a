"""Shared parts of the epsilon-private learners, which are variants of logistic regression.

They are for measurements only. Their noise comes from a seeded generator in floating-point arithmetic, which does not
protect a release (Mironov 2012).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import PROBABILITIES
from bayesrecon.games.data import Records
from bayesrecon.games.learner import Learner, check_positive

_STEPS = 200  # largest number of Newton steps; about ten are needed


@dataclass(frozen=True, eq=False)
class Released:
    """The released parameter `theta (d,)`. It answers with `P(y = 1 | x) = sigmoid(<theta, row(x)>)`."""

    theta: np.ndarray
    rows: Callable[[np.ndarray], np.ndarray]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        logit = self.rows(x) @ self.theta
        return scipy.special.expit(np.stack([-logit, logit], axis=1))


@dataclass(frozen=True)
class Private(Learner):
    """The base class of learners for two classes that are epsilon-private under the substitution of one record.

    The row of a record is `x / norm`, shortened to length one if it is longer. It does not depend on other records.
    With an intercept the row is `(x, 1) / sqrt(2)`, and the intercept is penalised like the other coefficients.

    Attributes:
        epsilon: privacy parameter of one training.
        norm: a public bound on |x|. Defaults to the square root of the number of columns, which is a bound for columns
            in [-1, 1] and typical for standardised ones.
        intercept: whether to fit an intercept.
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
            raise BayesreconError(f"{self.name} needs two classes, and the response {task}")

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Features `(m, p)` as rows `(m, d)` of length at most one."""
        x = self.reduced(x / (self.norm or x.shape[1] ** 0.5))
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        return np.concatenate([x, np.ones((len(x), 1))], axis=1) / 2**0.5 if self.intercept else x

    def reduced(self, x: np.ndarray) -> np.ndarray:
        """Reduce the number of columns in a way that does not depend on private data."""
        return x

    def signed(self, records: Records) -> np.ndarray:
        """Signed rows `z = s row(x)`, `(m, d)`, where s is 1 for class 1 and -1 for class 0.

        The loss is `log(1 + exp(-<theta, z>))`.
        """
        return self.rows(records.x) * (2.0 * records.y[:, None] - 1.0)


@dataclass(frozen=True)
class Perturbed(Private):
    """A private learner that minimises a penalised mean loss.

    Attributes:
        penalty: penalty on the mean loss.
        tolerance: largest length of the gradient at which the solver may stop.
    """

    penalty: float = 0.01
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(penalty=self.penalty, tolerance=self.tolerance)


def gradient(theta: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """Gradient of the summed logistic loss, `(d,)`."""
    return -scipy.special.expit(-signed @ theta) @ signed


def hessian(theta: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """Hessian of the summed logistic loss, `(d, d)`."""
    p = scipy.special.expit(signed @ theta)
    return (signed * (p * (1 - p))[:, None]).T @ signed


def minimiser(signed: np.ndarray, penalty: float, linear: np.ndarray | float, tolerance: float) -> np.ndarray:
    """`argmin 1/m sum_i log(1 + exp(-<theta, z_i>)) + penalty / 2 |theta|^2 + <linear, theta>`, by Newton's method.

    A step is halved until the gradient gets shorter, which happens for small steps because the function is convex.

    Args:
        signed: signed rows z, `(m, d)`.
        linear: linear term, `(d,)` or 0.

    Returns:
        theta, `(d,)`, with a gradient of length at most `tolerance`.
    """
    count, width = signed.shape
    theta = np.zeros(width)

    def slope(theta: np.ndarray) -> np.ndarray:
        return gradient(theta, signed) / count + penalty * theta + linear

    current = slope(theta)
    for _ in range(_STEPS):
        length = np.linalg.norm(current)
        if length <= tolerance:
            return theta
        step, fraction = np.linalg.solve(hessian(theta, signed) / count + penalty * np.eye(width), current), 1.0
        while fraction > 1e-12 and np.linalg.norm(slope(theta - fraction * step)) > (1 - fraction / 4) * length:
            fraction /= 2
        theta = theta - fraction * step
        current = slope(theta)
    raise BayesreconError(
        f"the minimiser is not exact, so epsilon does not hold: the gradient is {np.linalg.norm(current):.1e}, more "
        f"than {tolerance:.1e}; use a larger penalty or tolerance"
    )


def spherical(width: int, scale: float, seed: int) -> np.ndarray:
    """Noise b `(d,)` with density proportional to `exp(-|b| / scale)`: its length is Gamma(d, scale) distributed."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=width)
    return rng.gamma(width, scale) * direction / np.linalg.norm(direction)


def spherical_log_density(b: np.ndarray, scale: float) -> float:
    """Log density of the noise, `-|b| / scale - log(scale^d Gamma(d) 2 pi^(d/2) / Gamma(d/2))`."""
    d = len(b)
    sphere = np.log(2) + d / 2 * np.log(np.pi) - scipy.special.gammaln(d / 2)
    return float(-np.linalg.norm(b) / scale - d * np.log(scale) - scipy.special.gammaln(d) - sphere)

"""The epsilon-private learners, which are variants of logistic regression.

They are for measurements only. Their noise comes from a seeded generator in floating-point arithmetic, which does not
protect a release (Mironov 2012).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
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


@dataclass(frozen=True)
class OutputPerturbation(Perturbed):
    """Output perturbation (Chaudhuri and Monteleoni 2008; Chaudhuri, Monteleoni and Sarwate 2011, algorithm 1).

        theta = argmin J + b,   J = 1/m sum_i log(1 + exp(-<theta, z_i>)) + penalty / 2 |theta|^2

    The sum is over the m training records, and b has a density proportional to `exp(-epsilon |b| / sensitivity)`.

    The gradient of a record's loss is at most as long as its row, whose length is at most 1. So substituting a record
    changes the gradient of J by at most `2 / m`. J is strongly convex, so its minimiser changes by at most
    `2 / (m penalty)`. A solver that stops at a gradient of length `tolerance` is within `tolerance / penalty` of the
    minimiser. This applies to both data sets:

        sensitivity = (2 / m + 2 tolerance) / penalty

    Attributes:
        penalty: penalty on the mean loss.
        tolerance: largest length of the gradient at which the solver may stop.

    >>> round(OutputPerturbation(epsilon=0.5, penalty=0.1, tolerance=1e-9).sensitivity(100), 10)
    0.20000002
    """

    mechanism: ClassVar[str] = "output perturbation"

    def sensitivity(self, count: int) -> float:
        """Bound on the change of the parameter if one of this many records is replaced by another."""
        return (2 / count + 2 * self.tolerance) / self.penalty

    def fit(self, records: Records, classes: int, seed: int) -> Released:
        best = minimiser(self.signed(records), self.penalty, 0.0, self.tolerance)
        noise = spherical(len(best), self.sensitivity(len(records.y)) / self.epsilon, seed)
        return Released(best + noise, self.rows)

    def log_density(self, fitted: Released, records: Records) -> float:
        best = minimiser(self.signed(records), self.penalty, 0.0, self.tolerance)
        return spherical_log_density(fitted.theta - best, self.sensitivity(len(records.y)) / self.epsilon)


_CURVATURE = 0.25
"""The largest second derivative of the logistic loss."""


@dataclass(frozen=True)
class ObjectivePerturbation(Perturbed):
    """Objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011, algorithm 2).

        theta = argmin J + <b, theta> / m + extra / 2 |theta|^2

    J is the objective of `OutputPerturbation`, and b has a density proportional to `exp(-epsilon' |b| / 2)`. With c =
    1/4,

        epsilon' = epsilon - 2 log(1 + c / (m penalty)),   extra = 0,
        or, if that is not positive: epsilon' = epsilon / 2,   extra = c / (m (exp(epsilon / 4) - 1)) - penalty

    Proof of epsilon-privacy: b is a function of theta, `b = -(m L theta + sum_i g_i)` with `L = penalty + extra` and
    gradients g_i. The density of theta is that of b times `det(m L I + sum_i H_i)`. Substituting one record changes b
    by at most 2, which costs epsilon'. Each of the two records adds a matrix of rank one and norm at most c to the
    common part. So the determinants differ by a factor of at most `1 + c / (m L)`. The published epsilon' accounts for
    its square.

    The proof needs the exact minimiser. The solver stops at a gradient of length at most `tolerance`, which corresponds
    to an error of at most `m tolerance` in b. Epsilon does not account for this.

    Attributes:
        penalty: penalty on the mean loss.
        tolerance: largest length of the gradient at which the solver may stop.

    >>> remaining, extra = ObjectivePerturbation(epsilon=1.0, penalty=0.1).settings(100)
    >>> round(remaining, 4), extra
    (0.9506, 0.0)
    >>> ObjectivePerturbation(epsilon=0.1, penalty=0.01).settings(100)[0]
    0.05
    """

    tolerance: float = 1e-12
    mechanism: ClassVar[str] = "objective perturbation"

    def settings(self, count: int) -> tuple[float, float]:
        """epsilon' and the extra penalty for this number of training records."""
        remaining = self.epsilon - 2 * np.log1p(_CURVATURE / (count * self.penalty))
        if remaining > 0:
            return float(remaining), 0.0
        return self.epsilon / 2, float(_CURVATURE / (count * np.expm1(self.epsilon / 4)) - self.penalty)

    def fit(self, records: Records, classes: int, seed: int) -> Released:
        signed, count = self.signed(records), len(records.y)
        remaining, extra = self.settings(count)
        noise = spherical(signed.shape[1], 2 / remaining, seed) / count
        # Long noise also has large rounding errors.
        tolerance = self.tolerance * max(1.0, float(np.linalg.norm(noise)))
        return Released(minimiser(signed, self.penalty + extra, noise, tolerance), self.rows)

    def log_density(self, fitted: Released, records: Records) -> float:
        signed, count, theta = self.signed(records), len(records.y), fitted.theta
        remaining, extra = self.settings(count)
        curvature = count * (self.penalty + extra)
        noise = -(curvature * theta + gradient(theta, signed))
        _, volume = np.linalg.slogdet(curvature * np.eye(len(theta)) + hessian(theta, signed))
        return spherical_log_density(noise, 2 / remaining) + float(volume)


_POINTS, _BLOCK, _LARGEST = 200_000, 500_000, 100.0
"""Largest number of grid points, largest number of log likelihoods in memory, and largest radius."""


@dataclass(frozen=True)
class PosteriorDraw(Private):
    """One draw from a tempered posterior (Wang, Fienberg and Smola 2015; Dimitrakakis et al. 2017).

    Theta is drawn with probability proportional to `exp(power sum_i -log(1 + exp(-<theta, z_i>)))` from the points of a
    fixed grid in the ball `|theta| <= radius`. The draw is exact, because the probabilities of all points are summed.

    For `|z| <= 1` the log likelihood of a record is between `-log(1 + e^radius)` and `-log(1 + e^-radius)`. The two
    differ by `radius`. So substituting one record changes the log of every weight, and of their sum, by at most
    `power radius`, and `epsilon = 2 power radius`. The power of the likelihood is therefore `epsilon / (2 radius)`. A
    power of 1 is the posterior itself.

    The log ratios of the weights are in an interval of length epsilon. So the success rate of any adversary of the game
    is at most `e^(epsilon/2) / (1 + e^(epsilon/2))`.

    Attributes:
        radius: radius of the ball.
        dimensions: number of dimensions of theta, including the intercept. If the data have more columns, they are
            projected on directions that are the same for all data.
        points: number of grid points along each dimension.

    >>> learner = PosteriorDraw(epsilon=1.0, radius=4.0)
    >>> learner.power
    0.125
    """

    radius: float = 4.0
    dimensions: int = 3
    points: int = 17
    mechanism: ClassVar[str] = "one posterior draw"
    quick: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(radius=self.radius)
        if self.radius > _LARGEST:
            raise BayesreconError(
                f"radius={self.radius:g}: log odds above {_LARGEST} mean certainty; use a smaller radius"
            )
        least = 2 if self.intercept else 1
        if self.dimensions < least or self.points < 2 or self.points**self.dimensions > _POINTS:
            raise BayesreconError(
                f"dimensions={self.dimensions}, points={self.points}: expected at least {least} dimensions, at least "
                f"two points per dimension, and at most {_POINTS} points in all"
            )

    @property
    def power(self) -> float:
        """Power of the likelihood."""
        return self.epsilon / (2 * self.radius)

    def reduced(self, x: np.ndarray) -> np.ndarray:
        width, reduced = x.shape[1], self.dimensions - self.intercept
        # Projections are shorter. If all columns matter equally, this restores their length.
        return x @ _directions(width, reduced) * (width / reduced) ** 0.5 if width > reduced else x

    def fit(self, records: Records, classes: int, seed: int) -> Released:
        grid, log_probability = self.posterior(records)
        draw = np.random.default_rng(seed).choice(len(grid), p=np.exp(log_probability))
        return Released(grid[draw], self.rows)

    def log_density(self, fitted: Released, records: Records) -> float:
        grid, log_probability = self.posterior(records)
        return float(log_probability[(grid == fitted.theta).all(axis=1)][0])

    def posterior(self, records: Records) -> tuple[np.ndarray, np.ndarray]:
        """The points of the grid `(G, d)` and their log probabilities `(G,)`."""
        signed = self.signed(records)
        grid = _grid(self.radius, signed.shape[1], self.points)
        log_weight, size = np.zeros(len(grid)), max(1, _BLOCK // len(grid))
        for start in range(0, len(signed), size):
            log_weight -= np.log1p(np.exp(-grid @ signed[start : start + size].T)).sum(axis=1)
        log_weight *= self.power
        return grid, log_weight - scipy.special.logsumexp(log_weight)


@cache
def _grid(radius: float, width: int, points: int) -> np.ndarray:
    axes = np.meshgrid(*[np.linspace(-radius, radius, points)] * width, indexing="ij")
    cube = np.stack([axis.ravel() for axis in axes], axis=1)
    grid = cube[np.linalg.norm(cube, axis=1) <= radius * (1 + 1e-12)]
    if len(grid) < 2:
        raise BayesreconError(f"points={points}: fewer than two grid points are in the ball; use more points")
    grid.flags.writeable = False
    return grid


@cache
def _directions(width: int, reduced: int) -> np.ndarray:
    """Orthonormal columns `(width, reduced)`, the same for all data."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(width, reduced)))[0]


LEARNERS = {
    "private-objective": (
        "logistic regression, noise in its objective, epsilon 1",
        lambda classes: ObjectivePerturbation(),
    ),
    "private-output": ("logistic regression, noise on its parameter, epsilon 1", lambda classes: OutputPerturbation()),
    "private-posterior": (
        "logistic regression, one draw of a tempered posterior, epsilon 1",
        lambda classes: PosteriorDraw(),
    ),
}

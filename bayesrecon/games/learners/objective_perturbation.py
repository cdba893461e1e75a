"""Logistic regression with noise in its objective function."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.games.data import Records
from bayesrecon.games.private import (
    Perturbed,
    Released,
    gradient,
    hessian,
    minimiser,
    spherical,
    spherical_log_density,
)

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


LEARNERS = {
    "private-objective": (
        "logistic regression, noise in its objective, epsilon 1",
        lambda classes: ObjectivePerturbation(),
    )
}

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
    """`theta = argmin J + <b, theta> / m + extra / 2 |theta|^2`, J as in `OutputPerturbation` and b of density
    proportional to `exp(-epsilon' |b| / 2)` (Chaudhuri, Monteleoni and Sarwate 2011, algorithm 2), with c = 1/4 and

        epsilon' = epsilon - 2 log(1 + c / (m penalty)),   extra = 0,
        or, where that is not positive: epsilon' = epsilon / 2,   extra = c / (m (exp(epsilon / 4) - 1)) - penalty

    Why it is epsilon-private: b is a function of theta, `b = -(m L theta + sum_i g_i)` with `L = penalty + extra` and
    gradients g_i, and theta has the density of b times `det(m L I + sum_i H_i)`. Another record in place of one moves b
    by 2 at most, which costs epsilon'. Each of both records adds a matrix of rank one and norm c at most to what they
    share, so the determinants differ by a factor of `1 + c / (m L)` at most; the published epsilon' pays for its
    square.

    The argument needs the exact minimiser. The solver leaves a gradient of length `tolerance` at most, as if b had been
    another one at most `m tolerance` away; epsilon does not account for that.

    Attributes:
        penalty: of the mean loss. tolerance: the longest gradient that the solver may leave.

    >>> left, extra = ObjectivePerturbation(epsilon=1.0, penalty=0.1).settings(100)
    >>> round(left, 4), extra
    (0.9506, 0.0)
    >>> ObjectivePerturbation(epsilon=0.1, penalty=0.01).settings(100)[0]
    0.05
    """

    tolerance: float = 1e-12
    mechanism: ClassVar[str] = "objective perturbation"

    def settings(self, count: int) -> tuple[float, float]:
        """epsilon' and the extra penalty where so many records are trained on."""
        remaining = self.epsilon - 2 * np.log1p(_CURVATURE / (count * self.penalty))
        if remaining > 0:
            return float(remaining), 0.0
        return self.epsilon / 2, float(_CURVATURE / (count * np.expm1(self.epsilon / 4)) - self.penalty)

    def fit(self, records: Records, classes: int, seed: int) -> Released:
        signed, count = self.signed(records), len(records.y)
        remaining, extra = self.settings(count)
        noise = spherical(signed.shape[1], 2 / remaining, seed) / count
        # The noise may be long, and rounding with it.
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

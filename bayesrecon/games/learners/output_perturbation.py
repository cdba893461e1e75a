"""Logistic regression with noise added to its parameter."""

from dataclasses import dataclass
from typing import ClassVar

from bayesrecon.games.data import Records
from bayesrecon.games.private import Perturbed, Released, minimiser, spherical, spherical_log_density


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


LEARNERS = {
    "private-output": ("logistic regression, noise on its parameter, epsilon 1", lambda classes: OutputPerturbation())
}

"""Intervals of totals and of statistics computed from them, under bounded rounding and normal sampling errors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

_PASSES = 6  # largest number of successive linear programs for a non-linear statistic
_STEPS = np.linspace(0, 1, 17)[1:]  # steps along the way to a program's solution at which the statistic is evaluated
_FEASIBLE = 1e-7  # error up to which a linear program counts a constraint as met
_SAME = 1e-9  # relative change of a bound that ends the successive programs, far below a printed digit


StatisticAt = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Function of errors of the totals `(P, S)` that returns values of a statistic `(S,)` and gradients `(P, S)` there."""


@dataclass(frozen=True, eq=False)
class EquationErrors:
    """Errors of k equations.

    Attributes:
        normal: `(k, g)` columns with standard normal coefficients.
        bounded: `(k, b)` columns with coefficients delta in [-1, 1], from rounding.
        rule: `(k, q)` errors of a quadrature rule.
        constraints, constraint_values: `(c, b)` and `(c,)`: `constraints @ delta = constraint_values` holds because the
            data exist.
        trusted_width: bound on |delta| for which the constraints can be met; None if they cannot.
        freedom: degrees of freedom of the estimated size of the normal errors.
    """

    normal: Float[np.ndarray, "k g"]
    bounded: Float[np.ndarray, "k b"]
    rule: Float[np.ndarray, "k q"]
    constraints: Float[np.ndarray, "c b"]
    constraint_values: Float[np.ndarray, " c"]
    trusted_width: float | None = 1.0
    freedom: float = np.inf

    @property
    def exact(self) -> bool:
        """Whether the parameter itself has no errors."""
        return not self.normal.size and not self.bounded.size

    def of(self, directions: Float[np.ndarray, "k P"]) -> "EquationErrors":
        """The errors of totals that are estimated along `directions (k, P)`."""
        normal, bounded, rule = (directions.T @ x for x in (self.normal, self.bounded, self.rule))
        return replace(self, normal=normal, bounded=bounded, rule=rule)

    def sd(self, slope: np.ndarray) -> float:
        """Standard deviation along `slope`, if rounding errors are uniform."""
        parts = (float(np.sum((slope @ self.normal) ** 2)), float(np.sum((slope @ self.bounded) ** 2)) / 3)
        return float(np.sqrt(sum(parts)))

    def ends(
        self,
        estimate: float,
        slope: Float[np.ndarray, " P"],
        statistic_at: StatisticAt,
    ) -> tuple[float, float]:
        """The smallest and the largest value of a statistic that rounding allows, widened for 95 % of the sampling
        noise.

        Args:
            estimate: value of the statistic.
            slope: `(P,)` gradient of the statistic in the totals.
            statistic_at: the statistic as a function of errors of the totals.
        """
        normal = self._quantile() * float(np.linalg.norm(slope @ self.normal))
        normal += float(np.abs(slope @ self.rule).sum())
        if not self.bounded.size:
            return estimate - normal, estimate + normal
        if self.normal.size or self.trusted_width is None:  # a bounded plus a normal error, in the worst case
            half = normal + float(np.abs(slope @ self.bounded).sum())
            return estimate - half, estimate + half
        starts = [self._farthest(start * slope @ self.bounded) for start in (1.0, -1.0)]
        extremes = [self._end(sign, start, slope, statistic_at) for sign in (1.0, -1.0) for start in starts]
        return min(estimate, *extremes) - normal, max(estimate, *extremes) + normal

    def _end(
        self,
        sign: float,
        delta: np.ndarray | None,
        slope: np.ndarray,
        statistic_at: StatisticAt,
    ) -> float:
        """The largest (sign 1) or smallest (-1) value of a statistic, starting from `delta`.

        Linear programs are solved one after another, each with a line search (Frank and Wolfe 1956). The duality gap of
        the last one is added.
        """
        if delta is None:
            return sign * np.inf
        at: np.ndarray = delta
        (value,), gradients = statistic_at(-self.bounded @ at[:, None])
        gradient = gradients[:, 0]
        gap = 0.0
        for _ in range(_PASSES):
            vertex = self._farthest(sign * (gradient @ self.bounded))
            if vertex is None:
                return sign * np.inf
            step = vertex - at
            gap = -sign * float(gradient @ self.bounded @ step)
            if not np.isfinite(gap):
                return sign * np.inf
            if gap <= _SAME * float(np.abs(slope @ self.bounded).sum()):
                break
            values, gradients = statistic_at(-self.bounded @ (at[:, None] + np.outer(step, _STEPS)))
            best = int(np.argmax(np.where(np.isnan(values), -np.inf, sign * values)))
            if sign * (values[best] - value) <= 0:
                break
            at, value, gradient = at + _STEPS[best] * step, values[best], gradients[:, best]
            gap = 0.0 if _STEPS[best] == 1 else gap
        return float(value + sign * max(gap, 0.0))

    def _quantile(self) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, 0.975)) if np.isfinite(self.freedom) else NormalDist().inv_cdf(0.975)

    def _farthest(self, cost: np.ndarray) -> np.ndarray | None:
        assert self.trusted_width is not None
        return farthest(cost, self.constraints, self.constraint_values, self.trusted_width)


def farthest(cost: np.ndarray, constraints: np.ndarray, values: np.ndarray, width: float) -> np.ndarray | None:
    """Minimise `cost @ delta` subject to `constraints @ delta = values` and `|delta| <= width`; None if that is
    infeasible. Without any delta the constraints hold only if their values are zero."""
    if not len(constraints):  # a box
        return -width * np.sign(cost)
    if not cost.size:
        return None if (np.abs(values) > _FEASIBLE).any() else np.zeros(0)
    from scipy.optimize import linprog  # costs a third of a second

    size = float(np.abs(cost).max(initial=0.0)) or 1.0
    solution = linprog(cost / size, A_eq=constraints, b_eq=values, bounds=(-width, width), method="highs")
    return np.asarray(solution.x) if solution.status == 0 else None

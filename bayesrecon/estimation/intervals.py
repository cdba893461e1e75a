"""Intervals of totals and of statistics computed from them, under bounded rounding and normal sampling errors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

_PASSES = 6  # largest number of successive linear programs for a non-linear statistic
_STEPS = np.linspace(0, 1, 17)[1:]  # steps along the way to a program's solution at which the statistic is evaluated
_SAME = 1e-9  # relative change of a bound that ends the successive programs, far below a printed digit


@dataclass(frozen=True, eq=False)
class EquationErrors:
    """Errors of k equations.

    Attributes:
        normal: `(k, g)` columns with standard normal coefficients.
        bounded: `(k, b)` columns with coefficients delta in [-1, 1], from rounding.
        rule: `(k, q)` errors of a quadrature rule.
        left, right: `(c, b)` and `(c,)`: constraints `left @ delta = right`, which hold because the data exist.
        believed: bound on |delta| for which the constraints can be met; None if they cannot.
        freedom: degrees of freedom of the estimated size of the normal errors.
    """

    normal: Float[np.ndarray, "k g"]
    bounded: Float[np.ndarray, "k b"]
    rule: Float[np.ndarray, "k q"]
    left: Float[np.ndarray, "c b"]
    right: Float[np.ndarray, " c"]
    believed: float | None = 1.0
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
        self, estimate: float, slope: Float[np.ndarray, " P"], moved: Callable[[np.ndarray], tuple[float, np.ndarray]]
    ) -> tuple[float, float]:
        """The smallest and the largest value of a statistic that rounding allows, widened for 95 % of the sampling
        noise.

        Args:
            estimate: value of the statistic.
            slope: `(P,)` gradient of the statistic in the totals.
            moved: function of an error of the totals, `(P,)`, that returns the statistic's value and gradient there.
        """
        normal = self._quantile() * float(np.linalg.norm(slope @ self.normal))
        normal += float(np.abs(slope @ self.rule).sum())
        if not self.bounded.size:
            return estimate - normal, estimate + normal
        if self.normal.size or self.believed is None:  # a bounded plus a normal error, in the worst case
            half = normal + float(np.abs(slope @ self.bounded).sum())
            return estimate - half, estimate + half
        found = [self._end(sign, start * slope, slope, moved) for sign in (1.0, -1.0) for start in (1.0, -1.0)]
        return min(estimate, *found) - normal, max(estimate, *found) + normal

    def _end(
        self,
        sign: float,
        first: np.ndarray,
        slope: np.ndarray,
        moved: Callable[[np.ndarray], tuple[float, np.ndarray]],
    ) -> float:
        """The largest (sign 1) or smallest (-1) value of a statistic, starting from the solution along `first`.

        Linear programs are solved one after another, each with a line search (Frank and Wolfe 1956). The duality gap of
        the last one is added.
        """
        at = self._farthest(first @ self.bounded)
        if at is None:
            return sign * np.inf
        value, here = moved(-self.bounded @ at)
        gap = 0.0
        for _ in range(_PASSES):
            vertex = self._farthest(sign * (here @ self.bounded))
            if vertex is None:
                return sign * np.inf
            gap = -sign * float(here @ self.bounded @ (vertex - at))
            if not np.isfinite(gap):
                return sign * np.inf
            if gap <= _SAME * float(np.abs(slope @ self.bounded).sum()):
                break
            steps = [moved(-self.bounded @ (at + t * (vertex - at))) for t in _STEPS]
            best = max(range(len(_STEPS)), key=lambda k: sign * steps[k][0])
            if sign * (steps[best][0] - value) <= 0:
                break
            at, (value, here) = at + _STEPS[best] * (vertex - at), steps[best]
            gap = 0.0 if _STEPS[best] == 1 else gap
        return value + sign * max(gap, 0.0)

    def _quantile(self) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, 0.975)) if np.isfinite(self.freedom) else NormalDist().inv_cdf(0.975)

    def _farthest(self, cost: np.ndarray) -> np.ndarray | None:
        assert self.believed is not None
        return farthest(cost, self.left, self.right, self.believed)


def farthest(cost: np.ndarray, left: np.ndarray, right: np.ndarray, width: float) -> np.ndarray | None:
    """Minimise `cost @ delta` subject to `left @ delta = right` and `|delta| <= width`; None if that is infeasible."""
    from scipy.optimize import linprog  # costs a third of a second

    size = float(np.abs(cost).max(initial=0.0)) or 1.0
    equal = {"A_eq": left, "b_eq": right} if len(left) else {}
    found = linprog(cost / size, bounds=(-width, width), method="highs", **equal)
    return np.asarray(found.x) if found.status == 0 else None

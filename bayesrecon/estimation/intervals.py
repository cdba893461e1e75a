"""How far totals, and statistics made of them, can lie from their estimates: rounding is bounded, sampling is not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

_PASSES = 6  # linear programs in a row towards the end of a statistic that is no linear one
_STEPS = np.linspace(0, 1, 17)[1:]  # of the way to the end of one, at which the statistic is looked at
_SAME = 1e-9  # change of a bound, in its own scale, that ends the successive programs: far below a printed digit


@dataclass(frozen=True, eq=False)
class EquationErrors:
    """Errors of the k equations: `normal (k, g)`, `bounded (k, b)` and `rule (k, q)`, a quadrature's.

    Attributes:
        left, right: `(c, b)` and `(c,)`: what is known of delta, `left @ delta = right`, because data exist.
        believed: half units within which delta can lie, None where no data exist within the widest.
        freedom: degrees of freedom with which the size of the normal errors is known.
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
        """The errors of totals that are estimated along `directions (k, P)`, in the place of those of equations."""
        normal, bounded, rule = (directions.T @ x for x in (self.normal, self.bounded, self.rule))
        return replace(self, normal=normal, bounded=bounded, rule=rule)

    def sd(self, slope: np.ndarray) -> float:
        """Standard deviation along `slope`, rounding errors taken as uniform."""
        parts = (float(np.sum((slope @ self.normal) ** 2)), float(np.sum((slope @ self.bounded) ** 2)) / 3)
        return float(np.sqrt(sum(parts)))

    def ends(
        self, estimate: float, slope: Float[np.ndarray, " P"], moved: Callable[[np.ndarray], tuple[float, np.ndarray]]
    ) -> tuple[float, float]:
        """The least and the largest value of a statistic that rounding allows, and 95 % of the sampling noise.

        Args:
            slope: `(P,)` gradient of the statistic in the totals.
            moved: its value and gradient where the totals are off by so much, `(P,)`.
        """
        normal = self._quantile() * float(np.linalg.norm(slope @ self.normal))
        normal += float(np.abs(slope @ self.rule).sum())
        if not self.bounded.size:
            return estimate - normal, estimate + normal
        if self.normal.size or self.believed is None:  # the sum of a bounded error and a normal one, at its worst
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
        """The largest value (sign 1) or the smallest (-1) on the way from the end along `first`: linear programs, each
        followed as far as the statistic goes on growing (Frank and Wolfe 1956), and what the last one leaves open."""
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
    """Minimise `cost @ delta` over `left @ delta = right`, `|delta| <= width`; None where there is none."""
    from scipy.optimize import linprog  # costs a third of a second

    size = float(np.abs(cost).max(initial=0.0)) or 1.0
    equal = {"A_eq": left, "b_eq": right} if len(left) else {}
    found = linprog(cost / size, bounds=(-width, width), method="highs", **equal)
    return np.asarray(found.x) if found.status == 0 else None

"""Limits of statistics from a table of least squares whose columns are one orthogonal polynomial.

R's `poly(x, p)` has columns of length one that are orthogonal to each other and to a column of ones, so that `X'X` of
the whole design is known except for n: with errors `se_j` and coefficients `b_j`

    n = (s / se_0)^2,  mean(y) = b_0,  mean(x_j) = 0,  n var(x_j) = 1,  n cov(x_j, y) = b_j,
    n var(y) = sum_j b_j^2 + (n - p - 1) s^2
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Statements
from bayesrecon.model import Field

_POLYNOMIAL = re.compile(r"poly\((?P<of>[^,()]+),\s*(?:degree\s*=\s*)?(?P<degree>\d+)\)(?P<k>\d+)")


def orthogonal(labels: Sequence[str]) -> bool:
    """Whether these are all columns of one orthogonal polynomial of R.

    >>> orthogonal(["poly(age, 2)1", "poly(age, 2)2"]), orthogonal(["poly(age, 2, raw = TRUE)1", "x"])
    (True, False)
    """
    matches = [m for m in map(_POLYNOMIAL.fullmatch, labels) if m is not None]
    called = {(m["of"].strip(), int(m["degree"])) for m in matches}
    numbers = sorted(int(m["k"]) for m in matches)
    return len(matches) == len(labels) and len(called) == 1 and numbers == list(range(1, max(d for _, d in called) + 1))


@dataclass(frozen=True)
class Orthogonal:
    """Statistics from a table of an orthogonal polynomial: `Limits` of a release.

    Args:
        covariates, response: names of the fields; the intercept comes first.
        coefficients: `(value, half)` of each number, as far as rounding can have moved it either way.
        error: error of the intercept, in the same way.
        scale: s.

    >>> table = Orthogonal(("x1",), "y", ((5.0, 0.0), (2.0, 0.0)), (0.5, 0.0), (2.0, 0.0))
    >>> found = table({}, None)
    >>> found["n"].estimate, found["mean(y)"].estimate, found["var(y)"].estimate
    (16.0, 5.0, 3.75)
    """

    covariates: tuple[str, ...]
    response: str
    coefficients: tuple[tuple[float, float], ...]
    error: tuple[float, float]
    scale: tuple[float, float]

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        wide, narrow = (self._found(total, width) for width in (1.0, 0.0))
        return Statements({name: Limit(*ends, narrow[name][0]) for name, ends in wide.items()})

    def _found(self, total: float | None, width: float) -> dict[str, tuple[float, float]]:
        """Intervals, term by term."""
        (b0, h0), *more = self.coefficients
        (s0, s1), (e0, e1) = ((x - width * h, x + width * h) for x, h in (self.scale, self.error))
        n0, n1 = (total, total) if total is not None else ((s0 / e1) ** 2, (s1 / e0) ** 2)
        y, p = self.response, len(self.coefficients)
        result = {"n": (n0, n1), f"mean({y})": (b0 - width * h0, b0 + width * h0)}
        small, large = (1 - p / n0) * s0**2, (1 - p / n1) * s1**2
        for name, (b, h) in zip(self.covariates, more, strict=True):
            b, h = float(b), width * h
            small, large = small + max(abs(b) - h, 0.0) ** 2 / n1, large + (abs(b) + h) ** 2 / n0
            ends = [(b + sign * h) / n for sign in (-1, 1) for n in (n0, n1)]
            result |= {f"mean({name})": (0.0, 0.0), f"var({name})": (1 / n1, 1 / n0)}
            result[f"cov({name},{y})"] = min(ends), max(ends)
        result[f"var({y})"] = small, large
        return result | {f"cov({a},{b})": (0.0, 0.0) for a, b in combinations(self.covariates, 2)}

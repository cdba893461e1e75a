"""Limits of statistics from a table of least squares without the correlations of its estimates.

With n records, an intercept and p coefficients, standard errors `se_j = s [(X'X)^-1]_jj^(1/2)` say, S the covariance of
the covariates, m their means and R_j^2 that of covariate j on the others,

    s^2 / se_0^2 = n / (1 + m' S^-1 m),    s^2 / se_j^2 = n var(x_j) (1 - R_j^2),    n var(y) = n b' S b + (n - p) s^2

so that `n >= (s / se_0)^2`, `n var(x_j) >= (s / se_j)^2`, and `n b' S b >= s^2 max_j (b_j / se_j)^2`. With one
covariate these are equations in n, m and var(x). One more number, such as n, determines all but the sign of m;
without it `mean(x^2) = (se_0 / se_1)^2` is determined, which bounds the rest. A covariate that is 0 or 1 is its own
square, and determines n as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Statements
from bayesrecon.model import Field

Interval = tuple[float, float]


@dataclass(frozen=True)
class WithoutCorrelations:
    """Limits of statistics from a table without correlations, whatever these are: `Limits` of a release.

    Args:
        covariates, response: names of the fields; the intercept comes first.
        coefficients, errors: `(value, half)` of each number, as far as rounding can have moved it either way.
        scale: s in the same way.
    """

    covariates: tuple[str, ...]
    response: str
    coefficients: tuple[tuple[float, float], ...]
    errors: tuple[tuple[float, float], ...]
    scale: tuple[float, float]

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        wide, narrow = (self._found(fields, total, width) for width in (1.0, 0.0))
        return Statements(
            {
                name: Limit(*ends, 0.5 * sum(narrow[name][0]) if determined else None)
                for name, (ends, determined) in wide.items()
            }
        )

    def _found(
        self, fields: Mapping[str, Field], total: float | None, width: float
    ) -> dict[str, tuple[Interval, bool]]:
        """Interval of each statistic, and whether it is a number except for rounding."""

        def within(number: tuple[float, float]) -> Interval:
            return number[0] - width * number[1], number[0] + width * number[1]

        b: list[Interval] = [within(x) for x in self.coefficients]
        se: list[Interval] = [_square(within(x)) for x in self.errors]
        scale = _square(within(self.scale))
        result: dict[str, tuple[Interval, bool]] = {"n": ((_over(scale, se[0])[0], float("inf")), False)}
        if total is not None:
            share, counted = (1 / total, 1 / total), True  # 1 / n
        else:
            share, counted = (0.0, _over(se[0], scale)[1]), False
        if not self.covariates:  # the mean alone, with `se^2 = s^2 / n`
            return {"n": (_over(scale, se[0]), True), f"mean({self.response})": (b[0], True)}
        first, *more = self.covariates
        if more:
            return result | self._several(b, se, scale, share, counted)
        return result | self._single(first, fields[first], b, se, scale, share, counted)

    def _several(
        self, b: list[Interval], se: list[Interval], scale: Interval, share: Interval, counted: bool
    ) -> dict[str, tuple[Interval, bool]]:
        open_ = float("inf")
        result: dict[str, tuple[Interval, bool]] = {}
        for name, error in zip(self.covariates, se[1:], strict=True):
            if counted:
                result[f"var({name})"] = (_times(_over(scale, error), share)[0], open_), False
        ratio = max(_over(_square(slope), error)[0] for slope, error in zip(b[1:], se[1:], strict=True))
        shift = ratio - len(b)
        low = _times(scale, _plus((1.0, 1.0), _times(share, (shift, shift))))[0]
        return result | {f"var({self.response})": ((max(low, 0.0), open_), False)}

    def _single(
        self,
        x: str,
        field: Field,
        b: list[Interval],
        se: list[Interval],
        scale: Interval,
        share: Interval,
        counted: bool,
    ) -> dict[str, tuple[Interval, bool]]:
        y, square = self.response, _over(se[0], se[1])
        result: dict[str, tuple[Interval, bool]] = {f"mean({x}*{x})": (square, True)}
        domain = field.domain
        low, high = (min(domain.levels), max(domain.levels)) if domain.levels else (domain.low, domain.high)
        if domain.levels in ((0.0, 1.0), (0, 1)) and square[1] < 1:
            mean, signed = square, True
            if not counted:
                spread = _times(square, (1 - square[1], 1 - square[0]))
                share, counted = _over(_times(spread, se[1]), scale), True
                result["n"] = (1 / share[1], 1 / share[0]), True
        else:
            rest = _times(scale, share) if counted else (0.0, se[0][1])
            remaining = max(se[0][0] - rest[1], 0.0), max(se[0][1] - rest[0], 0.0)
            size = remaining[0] ** 0.5 / se[1][1] ** 0.5, remaining[1] ** 0.5 / se[1][0] ** 0.5
            signed = counted and (low >= 0 or high <= 0)
            mean = size if low >= 0 else (-size[1], -size[0]) if high <= 0 else (-size[1], size[1])
        spread = _times(_over(scale, se[1]), share) if counted else (0.0, square[1])
        rest = _times(scale, share) if counted else (0.0, se[0][1])  # s^2 / n
        ratio = _over(_square(b[1]), se[1])
        result[f"mean({x})"] = mean, signed
        result[f"var({x})"] = spread, counted
        result[f"mean({y})"] = _plus(b[0], _times(b[1], mean)), signed
        result[f"var({y})"] = _plus(scale, _times(rest, _plus(ratio, (-2.0, -2.0)))), counted
        result[f"cov({x},{y})"] = _times(b[1], spread), counted
        return result


def _plus(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _times(a: Interval, b: Interval) -> Interval:
    ends = [u * v for u, v in product(a, b)]
    return min(ends), max(ends)


def _over(a: Interval, b: Interval) -> Interval:
    """Both are positive."""
    return a[0] / b[1], a[1] / b[0]


def _square(a: Interval) -> Interval:
    low = 0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return low**2, max(abs(a[0]), abs(a[1])) ** 2

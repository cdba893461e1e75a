"""Limits of statistics from a table of a logistic or Poisson regression without correlations.

With an intercept, standard errors `se_j = [H^-1]_jj^(1/2)`, `H = sum_n w_n x_n x_n'` and weights `w = p (1 - p)` of
records with probability p, or w the rate of a count,

    H_jj >= 1 / se_j^2,    n >= 4 / se_0^2  (logistic, w <= 1/4),    sum_n y_n = sum_n w_n >= 1 / se_0^2  (Poisson).

One covariate that is 0 or 1 is its own square, so that the correlation is `-se_0 / se_1` and everything is told: with
`1 / se_0^2` the sum of the weights of the records with 0 and `1 / (se_1^2 - se_0^2)` that of the others, whose
predictors are the two that the coefficients give.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Statements
from bayesrecon.model import Field

Interval = tuple[float, float]


@dataclass(frozen=True)
class WithoutCorrelationsWeighted:
    """Limits of statistics from such a table, whatever the correlations are: `Limits` of a release.

    Args:
        kind: "logit" or "poisson".
        covariates, response: names of the fields; the intercept comes first.
        coefficients, errors: `(value, half)` of each number, as far as rounding can have moved it either way.

    >>> from bayesrecon.domains import BINARY
    >>> estimates, errors = ((0.0, 0.0), (1.0986123, 0.0)), ((0.2, 0.0), (0.305505, 0.0))
    >>> table = WithoutCorrelationsWeighted("logit", ("x",), "y", estimates, errors)
    >>> found = table({"x": Field((), BINARY), "y": Field((), BINARY)}, None)
    >>> {name: round(limit.estimate, 3) for name, limit in found.items() if limit.estimate is not None}["n"]
    200.0
    """

    kind: str
    covariates: tuple[str, ...]
    response: str
    coefficients: tuple[tuple[float, float], ...]
    errors: tuple[tuple[float, float], ...]

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        wide, narrow = (self._found(fields, total, width) for width in (1.0, 0.0))
        return Statements(
            {
                name: Limit(*ends, 0.5 * sum(narrow[name][0]) if determined and name in narrow else None)
                for name, (ends, determined) in wide.items()
            }
        )

    def _found(
        self, fields: Mapping[str, Field], total: float | None, width: float
    ) -> dict[str, tuple[Interval, bool]]:
        """Interval of each statistic, and whether it is a number except for rounding."""
        b = [(x - width * half, x + width * half) for x, half in self.coefficients]
        se = [(max(x - width * half, 0.0) ** 2, (x + width * half) ** 2) for x, half in self.errors]
        y, open_, least = self.response, math.inf, 1 / se[0][1]
        result: dict[str, tuple[Interval, bool]] = {}
        if self.kind == "logit":
            result["n"] = (4 * least, open_), False
        elif total is not None:
            result[f"mean({y})"] = (least / total, open_), False
        if len(self.covariates) == 1:
            x = self.covariates[0]
            levels = fields[x].domain.levels
            rest = se[1][0] - se[0][1], se[1][1] - se[0][0]
            if levels and set(levels) == {0.0, 1.0} and rest[0] > 0 and se[0][0] > 0:
                result |= self._binary(x, b, (least, 1 / se[0][0]), (1 / rest[1], 1 / rest[0]))
        return result

    def _binary(
        self, x: str, b: list[Interval], at_zero: Interval, at_one: Interval
    ) -> dict[str, tuple[Interval, bool]]:
        """Statistics with one binary covariate; `at_zero` and `at_one` are the weights of records with either value."""
        y, ends = self.response, (b[0], (b[0][0] + b[1][0], b[0][1] + b[1][1]))
        rates = [(_rate(self.kind, low), _rate(self.kind, high)) for low, high in ends]
        counts = [_over(weight, self._weight(end)) for weight, end in zip((at_zero, at_one), ends, strict=True)]
        n = counts[0][0] + counts[1][0], counts[0][1] + counts[1][1]
        share = 1 / (1 + counts[0][1] / counts[1][0]), 1 / (1 + counts[0][0] / counts[1][1])
        mean = _ends(lambda m, p, q: (1 - m) * p + m * q, share, *rates)
        spread = _range(lambda m: m * (1 - m), share)
        apart = rates[1][0] - rates[0][1], rates[1][1] - rates[0][0]
        limits = {"n": n, f"mean({x})": share, f"mean({y})": mean, f"var({x})": spread}
        if self.kind == "logit":
            limits[f"var({y})"] = _range(lambda m: m * (1 - m), mean)
        limits[f"cov({x},{y})"] = _ends(lambda u, v: u * v, spread, apart)
        return {name: (interval, True) for name, interval in limits.items()}

    def _weight(self, eta: Interval) -> Interval:
        """Weight of a record whose predictor lies in an interval."""
        if self.kind == "poisson":
            return math.exp(eta[0]), math.exp(eta[1])
        ends = [_rate("logit", e) for e in eta]
        return _range(lambda p: p * (1 - p), (ends[0], ends[1]))


def _rate(kind: str, eta: float) -> float:
    return math.exp(eta) if kind == "poisson" else 0.5 * (1 + math.tanh(0.5 * eta))


def _ends(f: Callable[..., float], *intervals: Interval) -> Interval:
    """Range of a function that is affine in each argument: its extremes lie at corners."""
    result = [f(*corner) for corner in product(*intervals)]
    return min(result), max(result)


def _range(f: Callable[[float], float], ends: Interval) -> Interval:
    """Range of `p (1 - p)`, whose maximum is at a half."""
    result = [f(e) for e in ends]
    return min(result), f(0.5) if ends[0] <= 0.5 <= ends[1] else max(result)


def _over(a: Interval, b: Interval) -> Interval:
    """Both are positive."""
    return a[0] / b[1], a[1] / b[0]

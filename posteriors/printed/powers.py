"""Limits of statistics from a table of least squares with a covariate and its square, without correlations.

With n records, standard errors `se_j` of 1, x and x^2, and `E_j = n se_j^2 / s^2`, m and v mean and variance of x, and
D what is left of the variance of x^2 after a regression on x, of slope `2 m + t`,

    E_2 = 1 / D,    E_1 = 1 / v + r^2 / D with r = 2 m + t,    E_0 = 1 + m^2 / v + (m^2 - r m + v)^2 / D,

since column x^2 is known where x is: the three errors are equations in four numbers, and leave a curve, along which all
of them are bounded. What is explained,

    b_1^2 v + 2 b_1 b_2 r v + b_2^2 (D + r^2 v),

is one equation more where R-squared stands below the table. Boxes of m and v are cut in halves, and those are left out
in which an equation has no solution, whatever the digits behind the printed ones are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Statements
from bayesrecon.model import Field
from bayesrecon.posteriors.printed.footers import Footer, Number

_FINEST = 400  # parts of a side of the first box: a limit is wider than it has to be by one of them
_BOXES = 100_000
_ROUNDS = 40
_NARROW = 0.02  # relative width below which an interval from unrounded numbers counts as a value
_ARITHMETIC = 1e-9

Interval = tuple[Any, Any]
"""Lower and upper end: numbers of one interval, arrays `(B,)` of many."""

Boxes = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends of one coordinate of boxes, each `(B,)`."""


@dataclass(frozen=True)
class Squared:
    """Statistics from a table of `1, x, x^2`: `Limits` of a release.

    Args:
        covariate, square, response: names of fields.
        coefficients, errors: `(value, half)` of those of 1, x and x^2, as far as rounding can have moved it either way.
        scale: s in the same way.
        footer: footer of the table.

    >>> table = Squared("x", "xx", "y", ((1.0, 0.0), (2.0, 0.0), (0.5, 0.0)), ((0.15, 0.0), (0.1, 0.0), (0.08, 0.0)),
    ...                 (1.0, 0.0))
    >>> from bayesrecon.model import Field
    >>> limit = table({"x": Field(), "y": Field()}, 100.0)["var(x)"]
    >>> round(limit.lower, 2), round(limit.upper, 1)
    (1.0, 1.5)
    """

    covariate: str
    square: str
    response: str
    coefficients: tuple[Number, ...]
    errors: tuple[Number, ...]
    scale: Number
    footer: Footer = field(default=Footer())

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        if total is None:
            return Statements({})
        domain = fields[self.covariate].domain
        ends = domain.ends
        wide, narrow = (self._found(float(total), ends, width) for width in (1.0, 0.0))
        if not wide:
            squared = f"no {total:g} records give these standard errors, if {self.square} is the square"
            return Statements({}, (), (f"{squared} of {self.covariate}",))
        sure = {name: low for name, (low, high) in narrow.items() if high - low <= _NARROW * max(abs(low), abs(high))}
        return Statements(
            {
                name: Limit(*limit, min(max(narrow[name][0], limit[0]), limit[1]) if name in sure else None)
                for name, limit in wide.items()
            }
        )

    def _found(self, n: float, domain: tuple[float, float], width: float) -> dict[str, tuple[float, float]]:
        """The ends of each statistic; none if no box is left."""
        (b0, b1, b2), errors = (
            [(v - width * h, v + width * h) for v, h in numbers] for numbers in (self.coefficients, self.errors)
        )
        s2 = _square((self.scale[0] - width * self.scale[1], self.scale[0] + width * self.scale[1]))
        slack = 1 - _ARITHMETIC, 1 + _ARITHMETIC
        e0, e1, e2 = (_times(_over(_times((n, n), _square(se)), s2), slack) for se in errors)
        known = _Known(e0, e1, _over((1.0, 1.0), e2), b1, b2, self._explained(n, s2, width), domain)
        m, v, r = _feasible_boxes(known)
        if not len(m[0]):
            return {}
        product, spread = _times(r, v), _plus(known.remainder, _times(_square(r), v))
        second = _plus(_square(m), v)
        x, xx, y = self.covariate, self.square, self.response
        limits = {
            f"mean({x})": m,
            f"var({x})": v,
            f"mean({xx})": second,
            f"mean({x}*{x})": second,
            f"var({xx})": spread,
            f"cov({x},{xx})": product,
            f"mean({y})": _plus(b0, _plus(_times(b1, m), _times(b2, second))),
            f"cov({x},{y})": _plus(_times(b1, v), _times(b2, product)),
            f"cov({xx},{y})": _plus(_times(b1, product), _times(b2, spread)),
            f"var({y})": _plus(_times(s2, (1 - 3 / n, 1 - 3 / n)), known.explains(v, r)),
        }
        return {name: (float(np.min(low)), float(np.max(high))) for name, (low, high) in limits.items()}

    def _explained(self, n: float, s2: Interval, width: float) -> Interval | None:
        """Variance of the response that the covariates explain: `(1 - 3 / n) s^2 R^2 / (1 - R^2)`."""
        if self.footer.r2 is None:
            return None
        value, half = self.footer.r2
        low, high = max(value - width * half, 0.0), value + width * half
        if high >= 1:
            return None
        return _times(_times(s2, (1 - 3 / n, 1 - 3 / n)), (low / (1 - low), high / (1 - high)))


@dataclass(frozen=True)
class SeparatePower:
    """Limits from a covariate and its square in a table with other columns: `Limits` of a release.

    Other columns only add to the error of x, and only the moments of the plain line follow from one another:

        mean(x^2) >= var(x) >= s^2 / (n se_x^2).

    Args:
        covariate, square: names of fields.
        error, scale: `(value, half)`, of x, and s.

    >>> round(SeparatePower("x", "xx", (0.1, 0.0), (1.0, 0.0))({}, 50.0)["mean(xx)"].lower, 6)
    2.0
    """

    covariate: str
    square: str
    error: Number
    scale: Number

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        if total is None:
            return Statements({})
        least = max(self.scale[0] - self.scale[1], 0.0) ** 2 / (total * (self.error[0] + self.error[1]) ** 2)
        limit = Limit(least * (1 - _ARITHMETIC))
        return Statements({f"mean({self.square})": limit, f"mean({self.covariate}*{self.covariate})": limit})


@dataclass(frozen=True)
class _Known:
    """Limits of the quantities that a table determines.

    Attributes:
        e0, e1: of E_0 and E_1.
        remainder: remainder of D.
        b1, b2: of the slopes.
        explained: of what they explain; None if nobody says.
        domain: of x.
    """

    e0: Interval
    e1: Interval
    remainder: Interval
    b1: Interval
    b2: Interval
    explained: Interval | None
    domain: tuple[float, float]

    def explains(self, v: Boxes, r: Boxes) -> Interval:
        linear = _plus(_times(_square(self.b1), v), _times((2.0, 2.0), _times(_times(self.b1, self.b2), _times(r, v))))
        return _plus(linear, _times(_square(self.b2), _plus(self.remainder, _times(_square(r), v))))

    def slope(self, v: Interval) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The size of r, lower and upper ends, and where there is one."""
        square = _times(self.remainder, _minus(self.e1, _over((1.0, 1.0), v)))
        return np.sqrt(np.maximum(square[0], 0.0)), np.sqrt(np.maximum(square[1], 0.0)), square[1] >= 0

    def allows(self, m: Boxes, v: Boxes, r: Boxes) -> np.ndarray:
        """Which boxes may contain a solution of the remaining equations."""
        apart = _over(_square(_plus(_minus(_square(m), _times(r, m)), v)), self.remainder)
        total = _plus(_plus((1.0, 1.0), _over(_square(m), v)), apart)
        possible = (total[0] <= self.e0[1]) & (total[1] >= self.e0[0])
        if self.explained is not None:
            part = self.explains(v, r)
            possible &= (part[0] <= self.explained[1]) & (part[1] >= self.explained[0])
        low, high = self.domain
        possible &= (m[1] >= low) & (m[0] <= high)
        if np.isfinite(low) and np.isfinite(high):  # v <= (m - low) (high - m), which is largest in the middle
            at = np.clip(0.5 * (low + high), m[0], m[1])
            possible &= v[0] <= (at - low) * (high - at)
        return np.asarray(possible)


def _feasible_boxes(known: _Known) -> tuple[Boxes, Boxes, Boxes]:
    """Boxes of m, v and r in which a solution may lie."""
    beyond = max(known.e0[1] - 1, 0.0)
    most = known.remainder[1] * known.e1[1] / 4 + np.sqrt(known.remainder[1] * beyond)
    reach = np.sqrt(most * beyond)
    low, high = np.array([[-reach, 1 / known.e1[1]]] * 2), np.array([[reach, most]] * 2)
    low[:, 1] = np.minimum(low[:, 1], high[:, 1])
    sign, finest = np.array([1.0, -1.0]), (high[0] - low[0]) / _FINEST
    r = low[:, 0], high[:, 0]
    for _ in range(_ROUNDS):
        m, v = ((low[:, k], high[:, k]) for k in (0, 1))
        small, large, real = known.slope(v)
        r = np.where(sign > 0, small, -large), np.where(sign > 0, large, -small)
        keep = real & known.allows(m, v, r)
        low, high, sign = low[keep], high[keep], sign[keep]
        r = r[0][keep], r[1][keep]
        wide = (high - low) / np.maximum(finest, 1e-300)
        if not len(low) or (wide <= 1).all() or 2 * len(low) > _BOXES:
            break
        side, rows = wide.argmax(axis=1), np.arange(len(low))
        middle = 0.5 * (low[rows, side] + high[rows, side])
        upper, lower = low.copy(), high.copy()
        upper[rows, side], lower[rows, side] = middle, middle
        low, high, sign = np.concatenate([low, upper]), np.concatenate([lower, high]), np.tile(sign, 2)
    return (low[:, 0], high[:, 0]), (low[:, 1], high[:, 1]), r


def _plus(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _minus(a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


def _times(a: Interval, b: Interval) -> Interval:
    ends = np.stack(np.broadcast_arrays(*(u * v for u in a for v in b)))
    return _plain(ends.min(axis=0), ends.max(axis=0))


def _over(a: Interval, b: Interval) -> Interval:
    """The quotient by a positive interval."""
    return _times(a, (1 / np.asarray(b[1]), 1 / np.asarray(b[0])))


def _square(a: Interval) -> Interval:
    low, high = np.abs(a[0]), np.abs(a[1])
    inside = (np.asarray(a[0]) <= 0) & (np.asarray(a[1]) >= 0)
    return _plain(np.where(inside, 0.0, np.minimum(low, high)) ** 2, np.maximum(low, high) ** 2)


def _plain(low: np.ndarray, high: np.ndarray) -> Interval:
    """Ends of intervals, of a single one as numbers of Python."""
    return (low, high) if np.ndim(low) else (float(low), float(high))


Found = dict[str, tuple[Interval, bool]]
"""The interval of each statistic, and whether it is a number except for rounding."""


def _rounded(found: Callable[[float], Found]) -> Statements:
    """Limits from numbers that may lie anywhere in their last digits, and the middle from the numbers as printed."""
    wide, narrow = found(1.0), found(0.0)
    return Statements(
        {
            name: Limit(*ends, 0.5 * sum(narrow[name][0]) if determined and name in narrow else None)
            for name, (ends, determined) in wide.items()
        }
    )


@dataclass(frozen=True)
class WithoutCorrelations:
    """Limits of statistics from a table without correlations, whatever these are: `Limits` of a release.

    Args:
        covariates, response: names of the fields; the intercept comes first.
        coefficients, errors: `(value, half)` of each number, as far as rounding can have moved it either way.
        scale: s in the same way.
        related: correlations in the same way, if they were printed. That of one slope tells the sign of the mean.
    """

    covariates: tuple[str, ...]
    response: str
    coefficients: tuple[tuple[float, float], ...]
    errors: tuple[tuple[float, float], ...]
    scale: tuple[float, float]
    related: tuple[tuple[float, float], ...] = ()

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        return _rounded(lambda width: self._found(fields, total, width))

    def _found(self, fields: Mapping[str, Field], total: float | None, width: float) -> Found:

        def within(number: tuple[float, float]) -> Interval:
            return number[0] - width * number[1], number[0] + width * number[1]

        b: list[Interval] = [within(x) for x in self.coefficients]
        se: list[Interval] = [_square(within(x)) for x in self.errors]
        scale = _square(within(self.scale))
        result: Found = {"n": ((_over(scale, se[0])[0], float("inf")), False)}
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

    def _several(self, b: list[Interval], se: list[Interval], scale: Interval, share: Interval, counted: bool) -> Found:
        open_ = float("inf")
        result: Found = {}
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
    ) -> Found:
        y, square = self.response, _over(se[0], se[1])
        result: Found = {f"mean({x}*{x})": (square, True)}
        domain = field.domain
        low, high = domain.ends
        for r, half in self.related:  # of one slope and the intercept
            low, high = (max(low, 0.0), high) if r < -half else (low, min(high, 0.0)) if r > half else (low, high)
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
        return _rounded(lambda width: self._found(fields, total, width))

    def _found(self, fields: Mapping[str, Field], total: float | None, width: float) -> Found:
        b = [(x - width * half, x + width * half) for x, half in self.coefficients]
        se = [(max(x - width * half, 0.0) ** 2, (x + width * half) ** 2) for x, half in self.errors]
        y, open_, least = self.response, math.inf, 1 / se[0][1]
        result: Found = {}
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

    def _binary(self, x: str, b: list[Interval], at_zero: Interval, at_one: Interval) -> Found:
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

"""Limits of statistics from a table with splines of one covariate and without correlations.

Columns of `bs(x, ...)` lie between zero and one and sum to one at most, so that each is at least its square.
With the weights w of records, one for least squares, whose errors are relative to s, and at most 1/4 for a logistic
regression,

    sum_n B_j >= sum_n B_j^2 >= 1 / (w se_j^2),    n >= sum_j sum_n B_j.

Columns of R's `ns(x, ...)` are B-splines times a matrix with orthonormal columns. They have either sign, and their
squares sum to one at most between the boundary knots, so that

    n >= sum_j sum_n N_j^2,    sum_n N_j^2 >= 1 / (w se_j^2).

Other columns of a design only add to squared errors, so that all of this holds beside them as well.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Statements
from bayesrecon.model import Field
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.footers import Number

_COLUMN = re.compile(r"(?:splines::)?(?P<basis>bs\((?P<x>[^,()]+)(?:,.*)?\))(?:\[(?P<k>\d+)\]|(?P<r>\d+))")
_NATURAL = re.compile(r"(?:splines::)?(?P<basis>ns\((?P<x>[^,()]+)(?:,.*)?\))(?P<r>\d+)")  # as R alone writes them
_OTHERWISE = ("Boundary", "lower_bound", "upper_bound", "intercept")  # options that let columns leave their bounds
_WEIGHTS = {"ols": 1.0, "logit": 0.25}  # the largest of a record

_ARITHMETIC = 1e-9  # relative


def bases(labels: Sequence[str], natural: bool = False) -> tuple[tuple[str, ...], ...]:
    """Lines that are columns of one basis of B-splines, by what R and Python write, or of natural splines, by what R
    writes.

    >>> bases(["bs(age, df = 4)1", "bs(age, df = 4)2", "x", "ns(age, 3)1"])
    (('bs(age, df = 4)1', 'bs(age, df = 4)2'),)
    >>> bases(["bs(age, df = 4)1", "bs(age, df = 4)2", "x", "ns(age, 3)1"], natural=True)
    (('ns(age, 3)1',),)
    """
    by_basis: dict[str, list[str]] = {}
    for label in labels:
        match = (_NATURAL if natural else _COLUMN).fullmatch(label.strip())
        if match is not None and not any(word in match["basis"] for word in _OTHERWISE):
            by_basis.setdefault(match["basis"], []).append(label)
    return tuple(tuple(columns) for columns in by_basis.values())


@dataclass(frozen=True)
class Splines:
    """Limits of statistics from a table with splines: `Limits` of a release.

    Args:
        kind: "ols" or "logit".
        labels: labels of the coefficients but the intercept, which comes first.
        errors: `(value, half)` of all, as far as rounding can have moved it either way.
        scale: s of "ols" in the same way.

    >>> errors = ((0.5, 0.0), (0.25, 0.0), (0.2, 0.0))
    >>> found = Splines("ols", ("bs(x, df=2)[0]", "bs(x, df=2)[1]"), errors, (1.0, 0.0))({}, 100.0)
    >>> found["n"].lower, round(found["mean(bs_x__df_2__1_)"].lower, 6), round(found["mean(bs_x__df_2__1_)"].upper, 6)
    (41.0, 0.25, 0.84)
    >>> found = Splines("ols", ("ns(x, 2)1", "ns(x, 2)2"), errors, (1.0, 0.0))({}, 100.0)
    >>> found["n"].lower, round(found["mean(ns_x__2_1)"].lower, 6), round(found["mean(ns_x__2_1)"].upper, 6)
    (41.0, -0.866025, 0.866025)
    """

    kind: str
    labels: tuple[str, ...]
    errors: tuple[Number, ...]
    scale: Number | None

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        weight, scale = _WEIGHTS.get(self.kind), 1.0
        if self.kind == "ols":
            scale = 0.0 if self.scale is None else max(self.scale[0] - self.scale[1], 0.0) ** 2
        if weight is None:
            return Statements({})
        result: dict[str, Limit] = {"n": Limit(0.0)}
        for natural, every in ((kind, bases(self.labels, kind)) for kind in (False, True)):
            for columns in every:
                least = {label: self._least(label, scale / weight) for label in columns}
                result["n"] = Limit(max(result["n"].lower, float(-(-sum(least.values()) // 1))))
                if total is not None:
                    result |= _natural(least, total) if natural else _plain(least, total)
        return Statements(result)

    def _least(self, label: str, scale: float) -> float:
        """Lower limit of the sum of squares of a column."""
        value, half = self.errors[1 + self.labels.index(label)]
        return scale / (value + half) ** 2 * (1 - _ARITHMETIC)


def _plain(least: Mapping[str, float], total: float) -> dict[str, Limit]:
    most = sum(least.values())
    return {f"mean({field_name(c)})": Limit(low / total, 1 - (most - low) / total) for c, low in least.items()}


def _natural(least: Mapping[str, float], total: float) -> dict[str, Limit]:
    most, result = sum(least.values()), {}
    for label, low in least.items():
        name, high = field_name(label), max(1 - (most - low) / total, 0.0)
        result[f"mean({name}*{name})"] = Limit(low / total, high)
        result[f"mean({name})"] = Limit(-(high**0.5), high**0.5)
    return result

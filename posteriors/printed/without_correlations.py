"""Tables of regressions without the correlations of their estimates."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.factors import Factor, factors_by_name
from bayesrecon.inexact import NO_CORRELATIONS, Limit, Limits, Statements
from bayesrecon.model import Field, Model
from bayesrecon.posteriors.printed.coded_tables import Coded, Presumed
from bayesrecon.posteriors.printed.design_cells import parts_of
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.footers import Footer, Number
from bayesrecon.posteriors.printed.powers import (
    SeparatePower,
    Squared,
    WithoutCorrelations,
    WithoutCorrelationsWeighted,
)
from bayesrecon.releases import Release, StatedLimits

# Limits of statistics from a table of least squares with a slope in each group, without correlations.
#
# With an intercept, x, exclusive dummies of the other levels of a factor, and the product of each with x, `X'X` falls
# into blocks, one a level: products of columns of different levels are zero, those of one level its own sums. With n_k
# records in level k, m_k their mean of x, Q_k their sum of squares `(x - m_k)^2` and `a_k = se_0^2, se_k^2 - se_0^2`,
# `q_k = se_x^2, se_{k:x}^2 - se_x^2` of the baseline and of the others
#
#     a_k = s^2 (1 / n_k + m_k^2 / Q_k),    q_k = s^2 / Q_k,
#
# so that each Q_k is told, `a_k / q_k = Q_k / n_k + m_k^2` is the mean of x^2 in the level, and `n_k >= s^2 / a_k`.

_FEWEST = 2  # records of a level whose slope is told


@dataclass(frozen=True)
class OwnSlopes:
    """Limits of statistics from such a table: `Limits` of a release; none if it is another.

    Args:
        labels: labels of the coefficients but the intercept, which comes first.
        fields: `{part of a label: field of a record}`.
        errors: `(value, half)` of all, as far as rounding can have moved it either way.
        scale: s in the same way.
        factors: that the labels tell by themselves.

    >>> table = OwnSlopes(("g2", "x", "g2:x"), {"g2": "g2", "x": "x"},
    ...                   ((0.5, 0.0), (0.8, 0.0), (0.1, 0.0), (0.2, 0.0)), (1.0, 0.0), (Factor("g", ("g2",)),))
    >>> found = table({"g2": Field(), "x": Field(), "y": Field()}, 40.0)
    >>> found["n[g=baseline]"].lower, found["n[g=g2]"].lower, round(found["mean(x*x)[g=g2]"].estimate, 6)
    (4.0, 3.0, 13.0)
    """

    labels: tuple[str, ...]
    fields: Mapping[str, str]
    errors: tuple[Number, ...]
    scale: Number
    factors: tuple[Factor, ...] = ()

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        stated = {column for f in factors for column in f.columns}
        all_factors = [*factors, *(f for f in self.factors if not stated & set(f.columns))]
        for factor in all_factors:
            at = self._positions(factor)
            if at is not None:
                return self._found(factor, *at, total)
        return Statements({})

    def _positions(self, factor: Factor) -> tuple[str, int, list[int], list[int]] | None:
        """The covariate, and where its own error, those of the dummies and those of the products stand."""
        pieces = [tuple(sorted(self.fields[part] for part in parts_of(label))) for label in self.labels]
        single = [row[0] for row in pieces if len(row) == 1 and row[0] not in factor.columns]
        if factor.contrast != "treatment" or len(single) != 1 or len(set(pieces)) < len(pieces):
            return None
        (x,) = single
        products = [tuple(sorted((column, x))) for column in factor.columns]
        if {*pieces} != {(x,), *((c,) for c in factor.columns), *products}:
            return None
        place = {row: i for i, row in enumerate(pieces, 1)}
        return x, place[(x,)], [place[(c,)] for c in factor.columns], [place[p] for p in products]

    def _found(
        self, factor: Factor, x: str, own: int, dummies: list[int], products: list[int], total: float | None
    ) -> Statements:
        squares = np.array([(max(v - h, 0.0) ** 2, (v + h) ** 2) for v, h in self.errors])
        middle = np.array([v**2 for v, _ in self.errors])
        scale = max(self.scale[0] - self.scale[1], 0.0) ** 2, (self.scale[0] + self.scale[1]) ** 2

        def less(rows: list[int], row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            """The baseline's, and what those of the other levels have beyond it: lower and upper ends, middles."""
            low = np.array([squares[row, 0], *(squares[rows, 0] - squares[row, 1])])
            high = np.array([squares[row, 1], *(squares[rows, 1] - squares[row, 0])])
            return np.maximum(low, 0.0), high, np.array([middle[row], *(middle[rows] - middle[row])])

        a, q = less(dummies, 0), less(products, own)
        names = [f"{factor.name}={level}" for level in factor.levels]
        if (a[1] <= 0).any() or (q[1] <= 0).any():
            listed = ", ".join(names)
            return Statements(
                {}, (), (f"no records give these standard errors, if each of these levels has its own slope: {listed}",)
            )
        least = np.maximum(np.ceil(scale[0] / a[1] * (1 - _ARITHMETIC)), _FEWEST)
        result: dict[str, Limit] = {"n": Limit(float(least.sum()))}
        with np.errstate(divide="ignore", invalid="ignore"):
            sums, about = np.stack([scale[0] / q[1], scale[1] / q[0]], axis=1), self.scale[0] ** 2 / q[2]
            means, mean = np.stack([a[0] / q[1], a[1] / q[0]], axis=1), a[2] / q[2]
        for k, name in enumerate(names):
            most = math.inf if total is None else total - (least.sum() - least[k])
            result[f"n[{name}]"] = Limit(float(least[k]), float(most), float(most) if most == least[k] else None)
            determined = np.isfinite(means[k]).all() and a[2][k] > 0
            result[f"mean({x}*{x})[{name}]"] = Limit(
                float(means[k, 0]), float(means[k, 1]), float(mean[k]) if determined else None
            )
            determined = np.isfinite(sums[k]).all() and q[2][k] > 0
            result[f"sum(({x}-mean)^2)[{name}]"] = Limit(
                float(sums[k, 0]), float(sums[k, 1]), float(about[k]) if determined else None
            )
        result[f"mean({x}*{x})"] = Limit(float(means[:, 0].min()), float(means[:, 1].max()))
        if total is not None:
            result[f"var({x})"] = Limit(float(sums[:, 0].sum() / total), float(means[:, 1].max()))
        return Statements(result)


Printed = Sequence[tuple[float, float]]
"""Numbers with half the unit of the last digit of each."""


def without_correlations_of(
    model: Model,
    labels: Sequence[str],
    estimates: Printed,
    errors: Printed,
    name: str | None,
    factors: Sequence[Factor] = (),
    footer: Footer | None = None,
    described: bool = False,
    related: Printed = (),
) -> Release:
    """The release of a regression's estimates and standard errors, both in the order of its parameters.

    Args:
        labels: labels of the coefficients but the intercept.
        factors: that a formula tells besides those that the labels tell.
        footer: footer of the table.
        described: whether a formula says what columns are, so that their names suggest nothing more.
        related: correlations of the coefficients, below the diagonal row by row, with too few digits for equations.
    """
    if model.name not in ("ols", "logit", "poisson") or not model.settings["intercept"]:
        raise BayesreconError(
            "tables without the correlations of their estimates are supported for least squares, logistic and "
            "Poisson regressions with an intercept; supply correlations="
        )
    theta = np.array([value for value, _ in estimates])
    covariates, y = tuple(str(c) for c in model.settings["covariates"]), str(model.settings["response"])
    plain: Limits | None = None
    scale, footer = None, footer or Footer()
    if model.name == "ols":
        *estimates, scale = estimates
        if np.isnan(scale[0]):
            scale = footer.scale(len(estimates))
            theta[-1] = 1.0 if scale is None else scale[0]  # nothing that was released where it is not known
        if scale is not None and scale[0] <= 0:
            raise BayesreconError("the residual standard error is not positive")
        if scale is not None:
            numbers = tuple(estimates), tuple(errors[: len(estimates)]), scale, tuple(related)
            plain = WithoutCorrelations(covariates, y, *numbers)
        if scale is not None and orthogonal(labels):
            plain = Orthogonal(covariates, y, tuple(estimates), errors[0], scale)
        known = "n has a lower bound and moments have wide bounds"
        known += "; with total= everything but the sign of the covariate's mean is determined"
        if len(covariates) > 1:
            known = f"n and var({y}) have lower bounds; with total= so does every variance"
        lost = "n and every mean, variance and covariance"
    else:
        plain = WithoutCorrelationsWeighted(model.name, covariates, y, tuple(estimates), tuple(errors))
        known = "n has a lower bound" if model.name == "logit" else f"with total= mean({y}) has a lower bound"
        lost = "more"
        if len(covariates) == 1:
            lost = f"n, if {covariates[0]} is 0 or 1, and more"
            known += (
                f"; if {covariates[0]} is binary, domain={{{covariates[0]!r}: 'binary'}} determines n and the means"
            )
    fields = {part: field_name(part) for label in labels for part in parts_of(label)}
    stated = tuple(_as_fields(f, fields) for f in (*factors, *factors_by_name(list(fields))))
    limits = Coded(
        model.name,
        tuple(labels),
        fields,
        y,
        tuple(estimates),
        tuple(errors[: len(estimates)]),
        scale,
        stated,
        plain,
        footer,
        _shapes(model, labels, fields, estimates, errors[: len(estimates)], scale, stated, footer),
        () if described else _presumed(model, labels, estimates, errors[: len(estimates)], scale, footer),
        tuple(related),
    )
    title = name or f"{model.name}, estimates and standard errors"
    if stated:
        listed = "; ".join(f"{f.name} is {', '.join(f.columns)}" for f in stated)
        known, lost = (
            f"counts of factor levels follow from the standard errors (factors recognised by their names: {listed})",
            "more",
        )
    known += "".join(f"; {line}" for line in _of_shapes(model.name, labels, limits.presumed))
    without = f"{NO_CORRELATIONS} with enough digits" if related else NO_CORRELATIONS
    note = f"{without}: {known}; with correlations= {lost} would be determined"
    return StatedLimits(theta[None], model, limits, name=title, notes=(note,))


def _shapes(
    model: Model,
    labels: Sequence[str],
    fields: Mapping[str, str],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float] | None,
    factors: tuple[Factor, ...],
    footer: Footer,
) -> tuple[Limits, ...]:
    """Limits from columns that are functions of one covariate: a square, splines, a slope in every level."""
    result: list[Limits] = []
    if bases(labels) or bases(labels, natural=True):
        result.append(Splines(model.name, tuple(labels), tuple(errors), scale))
    if model.name != "ols" or scale is None:
        return tuple(result)
    if any(len(parts_of(label)) > 1 for label in labels):
        result.append(OwnSlopes(tuple(labels), fields, tuple(errors), scale, factors))
    if (at := with_square(labels)) is not None:
        result.append(_squared(model, at, estimates, errors, scale, footer))
        return tuple(result)
    columns = dict(zip(labels, model.settings["covariates"], strict=True))
    for line, (x, power) in powers(labels).items():
        plain = next((label for label in labels if label.strip().removeprefix("c.") == x), None)
        if power == 2 and plain is not None:
            at_plain = 1 + list(labels).index(plain)
            result.append(SeparatePower(columns[plain], columns[line], errors[at_plain], scale))
    return tuple(result)


def _squared(
    model: Model,
    at: tuple[int, int],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float],
    footer: Footer,
) -> Squared:
    """Limits from a covariate and its square, at these positions among the covariates."""
    covariates, order = model.settings["covariates"], (0, 1 + at[0], 1 + at[1])
    of_three, errors_of = (tuple(given[i] for i in order) for given in (estimates, errors))
    names = covariates[at[0]], covariates[at[1]], model.settings["response"]
    return Squared(*names, of_three, errors_of, scale, footer)


def _presumed(
    model: Model,
    labels: Sequence[str],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float] | None,
    footer: Footer,
) -> tuple[Presumed, ...]:
    """A square that is known only by its name."""
    at = presumed_square(labels)
    if at is None or model.name != "ols" or scale is None:
        return ()
    square = _squared(model, at, estimates, errors, scale, footer)
    return (Presumed(square, square.square, f"{square.square} is the square of {square.covariate}"),)


def _of_shapes(kind: str, labels: Sequence[str], presumed: Sequence[Presumed]) -> list[str]:
    """A line for each function of a covariate: what it constrains, or that it is not used."""
    result = []
    if kind == "ols" and with_square(labels) is not None:
        pair = " and ".join(labels)
        result.append(f"{pair} are a covariate and its square, which constrains their moments if n is known")
    elif raised := powers(labels):
        effect = "beside other columns they give only lower bounds of means of squares"
        effect = effect if kind == "ols" and any(power == 2 for _, power in raised.values()) else "these are not used"
        result.append(f"{', '.join(raised)}: powers of a covariate; {effect}")
    result += [f"if n is known, it is assumed from the name that {assumption.words}" for assumption in presumed]
    if kind != "poisson" and bases(labels):
        result.append("columns of bs() lie between 0 and 1")
    if kind != "poisson" and bases(labels, natural=True):
        result.append("squares of the columns of ns() sum to at most 1")
    return result


def _as_fields(factor: Factor, fields: dict[str, str]) -> Factor:
    return Factor(factor.name, tuple(fields.get(c, c) for c in factor.columns), factor.levels, factor.contrast)


# Limits of statistics from a table of least squares whose columns are one orthogonal polynomial.
#
# R's `poly(x, p)` has columns of length one that are orthogonal to each other and to a column of ones, so that `X'X` of
# the whole design is known except for n: with errors `se_j` and coefficients `b_j`
#
#     n = (s / se_0)^2,  mean(y) = b_0,  mean(x_j) = 0,  n var(x_j) = 1,  n cov(x_j, y) = b_j,
#     n var(y) = sum_j b_j^2 + (n - p - 1) s^2

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


# Which lines of a table are powers of another line's covariate, as their names say beyond doubt or suggest.

_NAMED = r"(?P<x>[\w.]+?)[._]?(?:2|sqr?|squared?)"  # what nothing but a name says: x2, x_sq, xsquared
_POWERS = (
    r"I\(\s*(?P<x>[\w.]+)\s*(?:\^|\*\*)\s*(?P<k>\d+)\s*\)",
    r"(?:np|numpy)\.power\(\s*(?P<x>[\w.]+)\s*,\s*(?P<k>\d+)\s*\)",
    r"(?P<x>[\w.]+)\s*(?:\^|\*\*)\s*(?P<k>\d+)",
    r"(?P<x>(?:c\.)?[\w.]+)(?P<times>(?:\s*[#:*]\s*(?P=x))+)",
    r"I\(\s*(?P<x>[\w.]+)(?P<times>(?:\s*\*\s*(?P=x))+)\s*\)",
    r"(?:np|numpy)\.square\(\s*(?P<x>[\w.]+)\s*\)",
    r"(?P<x>poly\([\w.]+,\s*(?:degree\s*=\s*)?\d+,\s*raw\s*=\s*T(?:RUE)?\))(?P<k>\d+)",
)  # as formulas of R, of Python and of Stata write powers


def power_of(label: str) -> tuple[str, int] | None:
    """The covariate that a line of a table is a power of, and which one, as its name says beyond doubt.

    >>> [power_of(label) for label in ("I(age^2)", "np.power(age, 3)", "c.age#c.age", "I(age * age)", "age2", "age")]
    [('age', 2), ('age', 3), ('age', 2), ('age', 2), None, None]
    """
    for pattern in _POWERS:
        if (match := re.fullmatch(pattern, label.strip())) is not None:
            groups = match.groupdict()
            times = len(re.findall(r"[#:*]", groups.get("times") or "")) or 1
            power = int(groups.get("k") or times + 1)
            name = groups["x"].removeprefix("c.")
            if power > 1:
                return (f"{name}1" if name.startswith("poly(") else name), power
    return None


def square_of(label: str) -> str | None:
    """The covariate whose square a line of a table is, as its name says beyond doubt.

    >>> [square_of(label) for label in ("I(age^2)", "np.square(age)", "c.age#c.age", "I(age^3)", "age2", "age")]
    ['age', 'age', 'age', None, None, None]
    """
    power = power_of(label)
    return power[0] if power is not None and power[1] == 2 else None


def powers(labels: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Lines that are powers of a covariate that has a line of its own: `{line: (covariate, power)}`.

    >>> powers(["x", "I(x^2)", "I(x^3)", "I(z^2)"])
    {'I(x^2)': ('x', 2), 'I(x^3)': ('x', 3)}
    """
    plain = {label.strip().removeprefix("c.") for label in labels}
    parsed = {label: power_of(label) for label in labels}
    return {label: power for label, power in parsed.items() if power is not None and power[0] in plain}


def presumed_square(labels: Sequence[str]) -> tuple[int, int] | None:
    """Positions of a covariate and of what its name alone says is its square, where a table has these two alone.

    >>> [presumed_square(["age", label]) for label in ("age2", "age_sq", "agesquared", "I(age^2)", "height2")]
    [(0, 1), (0, 1), (0, 1), None, None]
    """
    if len(labels) != 2:
        return None
    for i, j in ((0, 1), (1, 0)):
        match = re.fullmatch(_NAMED, labels[j].strip(), re.IGNORECASE)
        if match is not None and match["x"] == labels[i].strip():
            return i, j
    return None


def with_square(labels: Sequence[str]) -> tuple[int, int] | None:
    """Positions of a covariate and of its square where a table has these two alone.

    >>> with_square(["age", "I(age^2)"]), with_square(["age", "height"])
    ((0, 1), None)
    """
    if len(labels) != 2:
        return None
    for i, j in ((0, 1), (1, 0)):
        if square_of(labels[j]) == labels[i].strip().removeprefix("c."):
            return i, j
    return None


# Limits of statistics from a table with splines of one covariate and without correlations.
#
# Columns of `bs(x, ...)` lie between zero and one and sum to one at most, so that each is at least its square. With the
# weights w of records, one for least squares, whose errors are relative to s, and at most 1/4 for a logistic
# regression,
#
#     sum_n B_j >= sum_n B_j^2 >= 1 / (w se_j^2),    n >= sum_j sum_n B_j.
#
# Columns of R's `ns(x, ...)` are B-splines times a matrix with orthonormal columns. They have either sign, and their
# squares sum to one at most between the boundary knots, so that
#
#     n >= sum_j sum_n N_j^2,    sum_n N_j^2 >= 1 / (w se_j^2).
#
# Other columns of a design only add to squared errors, so that all of this holds beside them as well.

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

"""Counts of factor levels from a regression table without the correlations of its estimates.

Exclusive dummies, and products of them, are functions of cells, whose records are counted by whole numbers
(`models.cell_counts`). Of one factor with an intercept

    s^2 / se_0^2 = n_0,    s^2 / (se_k^2 - se_0^2) = n_k

for least squares, and of a logistic or Poisson regression the same is told of the sums of the weights, `n_k p_k (1 -
p_k)` or the total of the response, with `p_k` from the coefficients. Covariates with values of their own only add to
squared errors, so that limits on one side are left: `n_k >= s^2 / se_k^2`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayesrecon.errors import Note
from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Limits, Statements
from bayesrecon.model import Field
from bayesrecon.posteriors.printed.design_cells import (
    MOST,
    CellLayout,
    Cells,
    Solutions,
    layout_of,
    mean_of,
    moments_of,
    parts_of,
    solutions,
    tightened,
    whole,
)
from bayesrecon.posteriors.printed.footers import Footer, Number

_LISTED = 6  # solutions that a remark lists
_SEARCHED = 4000  # solutions up to which all are found


@dataclass(frozen=True)
class Coded:
    """Limits of statistics of a table whose columns code levels: `Limits` of a release.

    Args:
        kind: "ols", "logit" or "poisson".
        labels: labels of the coefficients but the intercept, which comes first.
        fields: `{part of a label: field of a record}`.
        response: name of its field.
        coefficients, errors: of all, the intercept's first.
        scale: s of "ols"; None if it was not printed.
        factors: those that follow from the labels alone.
        plain: limits that need no column of levels.
        footer: footer of the table.
        shapes: limits from columns that are functions of one covariate, or products with it.
        presumed: limits from columns if they are what their names suggest.
        related: correlations of the coefficients, below the diagonal row by row, if they were printed.

    >>> table = Coded("ols", ("g2",), {"g2": "g2"}, "y", ((1.0, 0.0), (2.0, 0.0)), ((0.5, 5e-4), (0.7638, 5e-5)),
    ...               (1.0, 5e-4), (Factor("g", ("g2",)),))
    >>> found = table({"g2": Field(), "y": Field()}, None)
    >>> found["n[g=baseline]"].estimate, found["n[g=g2]"].lower
    (4.0, 3.0)
    """

    kind: str
    labels: tuple[str, ...]
    fields: Mapping[str, str]
    response: str
    coefficients: tuple[Number, ...]
    errors: tuple[Number, ...]
    scale: Number | None
    factors: tuple[Factor, ...] = ()
    plain: Limits | None = field(default=None, repr=False)
    footer: Footer = field(default=Footer())
    shapes: tuple[Limits, ...] = field(default=(), repr=False)
    presumed: "tuple[Presumed, ...]" = field(default=(), repr=False)
    related: tuple[Number, ...] = ()

    def __call__(self, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor] = ()) -> Statements:
        printed = self.footer.records(len(self.coefficients))
        if printed is not None and total is not None and not printed[0] - 0.5 <= total <= printed[1] + 0.5:
            failure = f"{total:g} records were stated, and the footer of the table says {printed[0]:.6g}"
            return Statements({}, (), (failure,))
        if printed is not None and total is None and printed[0] == printed[1]:
            total = printed[0]
        statements = Statements({}) if self.plain is None else self.plain(fields, total)
        statements = self._counted(self._with_footer(statements, total, printed), fields, total, printed, factors)
        for shape in self.shapes:
            statements = statements.meeting(shape(fields, total, factors))
        for assumption in self.presumed:
            statements = assumption.beside(statements, fields, total, factors)
        return statements

    def _with_footer(
        self, statements: Statements, total: float | None, printed: tuple[float, float] | None
    ) -> Statements:
        """The limits with n and the statistics of the response that follow from the footer."""
        result = dict(statements)
        if total is not None and printed is not None:
            result["n"] = Limit(total, total, total)
        elif printed is not None:
            before = result.get("n", Limit(1.0))
            result["n"] = Limit(max(before.lower, printed[0]), min(before.upper, printed[1]), sum(printed) / 2)
        if self.kind == "ols":
            name = f"var({self.response})"
            variance = self.footer.variance(len(self.coefficients), total, _square(self.scale))
            before = result.get(name, Limit())
            if variance is not None and variance.upper - variance.lower <= before.upper - before.lower:
                result[name] = variance
        return Statements(result, statements.remarks, statements.failures)

    def _counted(
        self,
        statements: Statements,
        fields: Mapping[str, Field],
        total: float | None,
        printed: tuple[float, float] | None,
        factors: Sequence[Factor],
    ) -> Statements:
        """The limits with the counts of cells, if columns code levels."""
        layout = self.layout(fields, factors)
        if layout is None:
            return statements
        cells = self._cells(layout, total if total is not None else printed)
        if cells is None:
            return statements
        cells = tightened(cells)
        if not cells.possible:
            return _none(statements, layout)
        answer = self._answer(layout, cells, fields)
        if answer is not None and not len(answer.counts):
            return _none(statements, layout)
        return _stated(statements, self, layout, cells, answer, fields, total)

    def layout(self, fields: Mapping[str, Field], factors: Sequence[Factor] = ()) -> CellLayout | None:
        """The cells, given the domains of fields, and factors that were stated besides those of the labels."""
        stated = {column for f in factors for column in f.columns}
        all_factors = [*factors, *(f for f in self.factors if not stated & set(f.columns))]
        binary = [
            name for name, field in fields.items() if name != self.response and set(field.domain.levels) == {0, 1}
        ]
        return layout_of(self.labels, self.fields, binary, all_factors)

    def products(self, layout: CellLayout) -> dict[str, np.ndarray]:
        """Columns `(C,)` of the design that are products of others, by the names of their fields."""
        labels = {j: self.labels[i - 1] for j, i in enumerate(layout.columns) if i > 0}
        return {
            re.sub(r"\W", "_", label): layout.design[:, j] for j, label in labels.items() if len(parts_of(label)) > 1
        }

    def box(self, at: Sequence[int]) -> np.ndarray:
        """`(p, 2)` limits of some coefficients."""
        return np.array([(v - h, v + h) for v, h in (self.coefficients[i] for i in at)])

    def _cells(self, layout: CellLayout, total: float | tuple[float, float] | None) -> Cells | None:
        errors = [self.errors[i] for i in layout.columns]
        squares = np.array([(max(v - h, 0.0) ** 2, (v + h) ** 2) for v, h in errors])
        count, scale = len(layout.cells), (1.0, 1.0)
        if not layout.whole:
            squares[:, 0] = 0.0
        weights = np.ones((count, 2))
        if self.kind == "ols":
            scale = _square(self.scale) or (0.0, math.inf)
        elif layout.whole:
            weights = weights_of(self.kind, predictors(layout.design, self.box(layout.columns)))
        elif self.kind == "logit":
            weights = np.tile([0.0, 0.25], (count, 1))
        else:
            return None  # a rate may be as large as it likes
        least = np.full(count, 1.0 if layout.saturated else 0.0)
        freedom = len(self.labels) + (2 if self.kind == "ols" else 1)
        ends = (float(freedom), count * MOST) if total is None else (np.min(total) - 0.5, np.max(total) + 0.5)
        return Cells(layout.design, weights, squares, least, np.full(count, min(ends[1], MOST)), ends, scale)

    def _answer(self, layout: CellLayout, cells: Cells, fields: Mapping[str, Field]) -> Solutions | None:
        """All whole numbers that print the errors; None if they are too many, or covariates leave them open."""
        if not layout.whole or (cells.high >= MOST).any():
            return None
        points, complete = solutions(cells, _SEARCHED)
        if not complete:
            return None
        response = fields[self.response].domain
        counted = self.kind != "ols" or (response.discrete and response.dtype is np.int64)
        return whole(self.kind, layout.design, points, self.box(layout.columns), cells, counted, layout.saturated)


def _square(number: Number | None) -> tuple[float, float] | None:
    return None if number is None else (max(number[0] - number[1], 0.0) ** 2, (number[0] + number[1]) ** 2)


def predictors(design: np.ndarray, box: np.ndarray) -> np.ndarray:
    """`(C, 2)` limits of linear predictors, coefficients in a `box (p, 2)`."""
    centre, half = box.mean(axis=1), np.diff(box, axis=1)[:, 0] / 2
    middle, reach = design @ centre, np.abs(design) @ half
    return np.column_stack([middle - reach, middle + reach])


def weights_of(kind: str, ends: np.ndarray) -> np.ndarray:
    """`(C, 2)` limits of the weight of a record by those of its predictor."""
    means = mean_of(kind, ends)
    if kind == "poisson":
        return means
    result = np.sort(means * (1 - means), axis=1)
    result[(ends[:, 0] <= 0) & (ends[:, 1] >= 0), 1] = 0.25
    return result


def _none(statements: Statements, layout: CellLayout) -> Statements:
    listed = ", ".join(f"{f.name} ({', '.join(f.columns)})" for f in layout.factors)
    failure = f"no whole cell counts give these standard errors, if these columns are factors or 0/1: {listed}"
    return Statements(statements, statements.remarks, (*statements.failures, failure))


def _stated(
    statements: Statements,
    table: Coded,
    layout: CellLayout,
    cells: Cells,
    answer: Solutions | None,
    fields: Mapping[str, Field],
    total: float | None,
) -> Statements:
    determined = layout.saturated and bool(
        np.linalg.matrix_rank(np.linalg.inv(layout.design) ** 2) == len(layout.cells)
    )

    def limit(member: np.ndarray) -> Limit:
        """Limit of the number of records in some of the cells."""
        if answer is not None:
            values = answer.counts[:, member].sum(axis=1)
            low, high = float(values.min()), float(values.max())
        else:
            low, high = float(cells.low[member].sum()), float(cells.high[member].sum())
            rest_low, rest_high = float(cells.low[~member].sum()), float(cells.high[~member].sum())
            low, high = max(low, np.ceil(cells.total[0] - rest_high)), min(high, np.floor(cells.total[1] - rest_low))
        open_ = answer is None and (cells.high[member] >= MOST).any() and not high < MOST
        sure = (determined and not open_) or low == high
        return Limit(low, math.inf if open_ else high, 0.5 * (low + high) if sure else None)

    result: dict[str, Limit] = dict(statements)
    everything = np.ones(len(layout.cells), bool)
    result["n"] = limit(everything)
    margins = layout.margins()
    least = _least(table, layout, cells)
    for name, member in margins.items():
        others = [other for other in margins if other != name and other.partition("=")[0] == name.partition("=")[0]]
        most = cells.total[1] - sum(least.get(other, 0.0) for other in others)
        result[f"n[{name}]"] = _meeting(
            limit(member), least.get(name, 0.0), math.floor(most) if most < MOST else math.inf
        )
    if len(layout.factors) > 1:
        for k, cell in enumerate(layout.cells):
            result[f"n[{layout.named(cell)}]"] = limit(np.arange(len(layout.cells)) == k)
    result |= _responses(table, layout, answer)
    result |= _shares(layout, result, statements, fields)
    if answer is not None:
        means = mean_of(table.kind, predictors(layout.design, table.box(layout.columns)))
        scale = cells.scale if table.scale is not None else None
        result |= moments_of(table.kind, layout, answer, means, table.response, scale, table.products(layout))
    return Statements(result, (*statements.remarks, *_listed(layout, answer)), statements.failures)


def _meeting(limit: Limit, low: float, high: float) -> Limit:
    low, high = max(limit.lower, low), min(limit.upper, high)
    return Limit(low, high, 0.5 * (low + high) if limit.estimate is not None or low == high else None)


def _least(table: Coded, layout: CellLayout, cells: Cells) -> dict[str, float]:
    """`{g=b: least number of records}` of levels of exclusive dummies, whatever else is in the design.

    `se_k^2 >= s^2 / (X'WX)_kk` with `(X'WX)_kk <= w n_k`, and of the baseline the same, since any level may be it.
    """
    result: dict[str, float] = {}
    mains = {table.fields.get(label): i for i, label in enumerate(table.labels, 1)}
    for factor in layout.factors:
        if factor.contrast != "treatment":
            continue
        for column, level in zip(factor.columns, factor.levels[1:], strict=True):
            if column in mains:
                value, half = table.errors[mains[column]]
                n = math.ceil(cells.scale[0] / (value + half) ** 2 / cells.weights[:, 1].max() * (1 - 1e-9))
                for name in (f"{factor.name}={level}", f"{factor.name}={factor.levels[0]}"):
                    result[name] = max(result.get(name, 0.0), float(n))
    return result


def _responses(table: Coded, layout: CellLayout, answer: Solutions | None) -> dict[str, Limit]:
    """Means of the response in cells that have one of their own, and totals where they are whole numbers."""
    if not layout.saturated:
        return {}
    y, result = table.response, {}
    means = mean_of(table.kind, predictors(layout.design, table.box(layout.columns)))
    for k, cell in enumerate(layout.cells):
        name = layout.named(cell)
        low, high = means[k]
        if answer is not None and answer.totals is not None:
            totals = answer.totals[:, k]
            ratio = totals / answer.counts[:, k]
            low, high = max(low, ratio.min()), min(high, ratio.max())
            total = Limit(float(totals.min()), float(totals.max()), float(totals.min() + totals.max()) / 2)
            result[f"n[{name},{y}=1]" if table.kind == "logit" else f"sum({y})[{name}]"] = total
        result[f"mean({y})[{name}]"] = Limit(float(low), float(high), float(low + high) / 2)
    return result


def _shares(
    layout: CellLayout, counts: Mapping[str, Limit], statements: Mapping[str, Limit], fields: Mapping[str, Field]
) -> dict[str, Limit]:
    """Means of the columns that are 0 or 1, by their counts."""
    n, shares = counts["n"], {}
    for factor in layout.factors:
        if factor.contrast != "treatment":
            continue
        for column, level in zip(factor.columns, factor.levels[1:], strict=True):
            part = counts[f"n[{factor.name}={level}]"]
            name = f"mean({column})"
            if (
                column in fields
                and statements.get(name, Limit()).estimate is None
                and n.upper < math.inf
                and n.lower > 0
            ):
                ends = part.lower / n.upper, min(part.upper / n.lower, 1.0)
                sure = part.estimate is not None and n.estimate is not None
                shares[name] = Limit(*ends, part.estimate / n.estimate if sure else None)  # type: ignore[operator]
    return shares


def _listed(layout: CellLayout, answer: Solutions | None) -> tuple[str, ...]:
    if answer is None:
        return ()
    count = len(answer.counts)
    names = ", ".join(layout.named(cell) for cell in layout.cells)
    if count > _LISTED:
        return (Note(f"{count} combinations of whole cell counts ({names}) give this table"),)
    listed = "; ".join(", ".join(f"{v:g}" for v in row) for row in answer.counts)
    combinations = "only one combination" if count == 1 else f"{count} combinations"
    return (
        Note(f"{combinations} of whole cell counts ({names}) {'gives' if count == 1 else 'give'} this table: {listed}"),
    )


@dataclass(frozen=True)
class Presumed:
    """Limits of statistics under the assumption that a column is what its name suggests.

    Args:
        limits: under the presumption.
        field: the column.
        words: what is presumed.

    >>> from bayesrecon.inexact import Limit
    >>> square = Presumed(lambda *_: Statements({"mean(x2)": Limit(4.0)}), "x2", "x2 is the square of x")
    >>> statements = square.beside(Statements({}), {"x2": Field()}, 40.0, ())
    >>> statements["mean(x2)"].lower, statements.presumed
    (4.0, ('x2 is the square of x',))
    >>> square.beside(Statements({"mean(x2)": Limit(1.0, 2.0)}), {"x2": Field()}, 40.0, ()).remarks
    ('no data give this table if x2 is the square of x, as its name suggests: that is not assumed',)
    """

    limits: Limits
    field: str
    words: str

    def beside(
        self, statements: Statements, fields: Mapping[str, Field], total: float | None, factors: Sequence[Factor]
    ) -> Statements:
        """The statements, intersected with those that hold under the assumption."""
        described = fields[self.field].domain.kind != "real" or any(self.field in f.columns for f in factors)
        if described or statements.failures:
            return statements
        more = self.limits(fields, total, factors)
        together = statements.meeting(more)
        if together.failures:
            remark = Note(f"no data give this table if {self.words}, as its name suggests: that is not assumed")
            return Statements(statements, (*statements.remarks, remark), statements.failures, statements.presumed)
        if not more:
            return statements
        remark = (
            f"assumed from the name alone: {self.words}; if this is wrong, state its domain "
            f"(domain={{{self.field!r}: (low, high)}}) or the formula (formula=) with it as a variable"
        )
        return Statements(together, (*together.remarks, remark), (), (*together.presumed, self.words))

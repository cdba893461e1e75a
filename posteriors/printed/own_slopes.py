"""Limits of statistics from a table of least squares with a slope in each group, without correlations.

With an intercept, x, exclusive dummies of the other levels of a factor, and the product of each with x, `X'X` falls
into blocks, one a level: products of columns of different levels are zero, those of one level its own sums. With n_k
records in level k, m_k their mean of x, Q_k their sum of squares `(x - m_k)^2` and `a_k = se_0^2, se_k^2 - se_0^2`,
`q_k = se_x^2, se_{k:x}^2 - se_x^2` of the baseline and of the others

    a_k = s^2 (1 / n_k + m_k^2 / Q_k),    q_k = s^2 / Q_k,

so that each Q_k is told, `a_k / q_k = Q_k / n_k + m_k^2` is the mean of x^2 in the level, and `n_k >= s^2 / a_k`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.factors import Factor
from bayesrecon.inexact import Limit, Statements
from bayesrecon.model import Field
from bayesrecon.posteriors.printed.design_cells import parts_of
from bayesrecon.posteriors.printed.footers import Number

_ARITHMETIC = 1e-9  # relative
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

"""The footer of a regression table: number of records, residual variance and variance of the response.

For least squares with n records and p coefficients, RSS = (n - p) s^2,

    R^2 = 1 - RSS / (n var(y)),    F = R^2 (n - p) / ((1 - R^2) (p - 1)),
    log L = -n / 2 (log(2 pi RSS / n) + 1),

and for every fit with k parameters `AIC = 2 k - 2 log L`, `BIC = k log n - 2 log L`. Programs differ in whether the
residual variance is one of the k: that is told where two of the three stand beside the log likelihood or n.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesrecon.inexact import Limit
from bayesrecon.posteriors.printed.headers import SIGMA, footer_of, plain
from bayesrecon.posteriors.printed.numbers import Cell, numbers_of

if TYPE_CHECKING:
    import pandas as pd


Number = tuple[float, float]
"""A number with half the unit of its last digit."""

_ARITHMETIC = 1e-9  # relative
_LARGEST = 50.0  # logarithm of a number of records, above which the criteria are no criteria of one fit


@dataclass(frozen=True)
class Footer:
    """Numbers in the footer of a table, None if it lacks them.

    Attributes:
        n, freedom: number of records, and residual degrees of freedom.
        r2, f, loglik: R squared, the F statistic of all coefficients, and the log likelihood.
        aic, bic: information criteria.
    """

    n: float | None = None
    freedom: float | None = None
    r2: Number | None = None
    f: Number | None = None
    loglik: Number | None = None
    aic: Number | None = None
    bic: Number | None = None

    def records(self, p: int) -> tuple[float, float] | None:
        """Limits of n, with p coefficients including the intercept; None if the footer gives none."""
        if self.n is not None:
            return self.n, self.n
        if self.freedom is not None:
            return self.freedom + p, self.freedom + p
        if self.f is None or self.r2 is None or p < 2:
            return self._records_by_criteria(p)
        low, high = max(self.r2[0] - self.r2[1], 0.0), min(self.r2[0] + self.r2[1], 1.0)
        if low <= 0 or high >= 1:
            return None
        ends = self.f[0] - self.f[1], self.f[0] + self.f[1]
        return p + max(ends[0], 0.0) * (p - 1) * (1 - high) / high, p + ends[1] * (p - 1) * (1 - low) / low

    def scale(self, p: int) -> Number | None:
        """s with half of what is open, from the log likelihood of least squares."""
        n = self.n if self.n is not None else None if self.freedom is None else self.freedom + p
        loglik = self._likelihood(p, n)
        if loglik is None or n is None or n <= p:
            return None
        ends = [
            math.sqrt(n / (n - p) * math.exp(-2 * (loglik[0] + sign * loglik[1]) / n - 1) / (2 * math.pi))
            for sign in (1, -1)
        ]
        return 0.5 * (ends[0] + ends[1]), 0.5 * (ends[1] - ends[0]) + _ARITHMETIC * ends[1]

    def _parameters(self, p: int, n: float | None = None) -> int | None:
        """k, p or one more; None if the numbers do not tell which."""
        if self.aic is None:
            return None
        limits = []
        for k in (p, p + 1):
            if self.loglik is not None:
                off, open_ = 2 * k - 2 * self.loglik[0] - self.aic[0], 2 * self.loglik[1] + self.aic[1]
            elif self.bic is not None and n is not None:
                off, open_ = k * (math.log(n) - 2) - (self.bic[0] - self.aic[0]), self.bic[1] + self.aic[1]
            else:
                return None
            if abs(off) <= open_ + _ARITHMETIC * abs(self.aic[0]):
                limits.append(k)
        return limits[0] if len(limits) == 1 else None

    def _records_by_criteria(self, p: int) -> tuple[float, float] | None:
        """n by `BIC - AIC = k (log n - 2)`."""
        k = self._parameters(p)
        if k is None or self.aic is None or self.bic is None:
            return None
        middle, open_ = self.bic[0] - self.aic[0], self.bic[1] + self.aic[1] + _ARITHMETIC * abs(self.bic[0])
        ends = [(middle + sign * open_) / k + 2 for sign in (-1, 1)]
        return (math.exp(ends[0]), math.exp(ends[1])) if ends[1] < _LARGEST else None

    def _likelihood(self, p: int, n: float | None) -> Number | None:
        """The log likelihood, as it stands or by the AIC."""
        if self.loglik is not None or self.aic is None:
            return self.loglik
        k = self._parameters(p, n)
        return None if k is None else (k - 0.5 * self.aic[0], 0.5 * self.aic[1])

    def variance(self, p: int, total: float | None, scale: tuple[float, float] | None) -> Limit | None:
        """Variance of the response: `(n - p) s^2 / (n (1 - R^2))`.

        Args:
            total: n.
            scale: limits of s^2.
        """
        if self.r2 is None or total is None or scale is None or self.r2[0] + self.r2[1] >= 1:
            return None
        share = (total - p) / total
        low = share * scale[0] / (1 - max(self.r2[0] - self.r2[1], 0.0)) * (1 - _ARITHMETIC)
        high = share * scale[1] / (1 - self.r2[0] - self.r2[1]) * (1 + _ARITHMETIC)
        return Limit(low, high, 0.5 * (low + high))


_SIGMA = "sigma"


def without_footer(frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Footer]":
    """The lines of coefficients of a table in the standard form (`reading.Printed`), and the numbers of its footer.

    The line of the residual standard error is named `sigma`.

    >>> import pandas as pd
    >>> rows = [["1.5", "0.1"], ["0.7", ""], ["30", ""]]
    >>> labels = ["const", "Residual Std. Error", "N"]
    >>> lines, footer = without_footer(pd.DataFrame(rows, labels, ["estimate", "std. error"]))
    >>> list(lines.index), footer.n
    (['const', 'sigma'], 30.0)
    """
    first, second = frame.columns[:2]
    names = [
        footer_of(label) if _empty(value) else None for label, value in zip(frame.index, frame[second], strict=True)
    ]
    entries: dict[str, Any] = {}
    for name, text in zip(names, frame[first], strict=True):
        if name is None or name == _SIGMA:
            continue
        numbers = numbers_of([text])
        if name in ("n", "freedom"):
            entries[name] = float(numbers.values[0])
        else:
            entries[name] = float(numbers.values[0]), float(numbers.half[0])
    lines = frame.loc[[name in (None, _SIGMA) for name in names]]
    renamed = [
        _SIGMA if name == _SIGMA and plain(label) in SIGMA else label
        for name, label in zip(names, frame.index, strict=True)
        if name in (None, _SIGMA)
    ]
    return lines.set_axis(renamed, axis=0), Footer(**entries)


def with_scale(frame: "pd.DataFrame", footer: Footer) -> "pd.DataFrame":
    """The table with an empty line `sigma`, if it has none and the footer determines the number of records."""
    labels = [plain(label) for label in frame.index]
    if any(label in SIGMA[:-1] for label in labels) or footer.records(len(labels)) is None:
        return frame
    import pandas as pd

    line = pd.DataFrame([[""] * frame.shape[1]], [_SIGMA], frame.columns, dtype=object)
    return pd.concat([frame, line])


def _empty(value: Cell) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())

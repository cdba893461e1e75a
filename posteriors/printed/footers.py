"""The footer of a regression table: number of records, residual variance and variance of the response.

For least squares with n records and p coefficients, RSS = (n - p) s^2,

    R^2 = 1 - RSS / (n var(y)),    F = R^2 (n - p) / ((1 - R^2) (p - 1)),
    log L = -n / 2 (log(2 pi RSS / n) + 1),

and for every fit with k parameters `AIC = 2 k - 2 log L`, `BIC = k log n - 2 log L`. Programs differ in whether the
residual variance is one of the k: that is told where two of the three stand beside the log likelihood or n.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.printed.headers import EST, HIGH, LOW, OR, SE, SIGMA, STAT, footer_of, plain

if TYPE_CHECKING:
    import pandas as pd

    from bayesrecon.inexact import Limit


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

    def variance(self, p: int, total: float | None, scale: tuple[float, float] | None) -> "Limit | None":
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
        from bayesrecon.inexact import Limit  # with JAX

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


def _empty(value: "Cell") -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


Cell = str | float | None
"""Text as it was printed, or a number. Empty cells are "", None or NaN."""

_EXACT = 15  # significant digits from which a number was not rounded
_LEVEL = 0.975  # quantile of the upper end of a 95 % interval


@dataclass(frozen=True)
class PrintedNumbers:
    """Printed numbers, NaN for empty cells.

    Attributes:
        values: `(n,)`.
        half: `(n,)`, half the unit of the last printed digit of each.
    """

    values: np.ndarray
    half: np.ndarray

    def at(self, places: tuple[np.ndarray, ...]) -> "PrintedNumbers":
        return PrintedNumbers(self.values[places], self.half[places])

    @property
    def pairs(self) -> "tuple[Number, ...]":
        return tuple(zip(self.values.tolist(), self.half.tolist(), strict=True))


def numbers_of(cells: Sequence[Cell]) -> PrintedNumbers:
    """The numbers in cells, NaN for empty cells. A cell that is a number has its shortest decimal form.

    >>> numbers_of(["5.917", "", 0.25]).half.tolist()
    [0.0005, nan, 0.005]
    """
    values, half = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        text = cell.strip() if isinstance(cell, str) else "" if cell is None or cell != cell else repr(float(cell))
        if not text:
            continue
        if not isinstance(cell, str) and text.endswith(".0"):
            text = text[:-2]
        try:
            number = Decimal(text.replace("\u2212", "-"))
        except InvalidOperation:
            raise BayesreconError(f"the cell {text[:40]!r} is not a number") from None
        if not np.isfinite(float(number)):
            raise BayesreconError(f"the cell {text[:40]!r} is not a finite number")
        digits, exponent = number.as_tuple().digits, int(number.as_tuple().exponent)
        values[i] = float(number)
        half[i] = 0.0 if len(digits) >= _EXACT else 0.5 * 10.0**exponent
    return PrintedNumbers(values, half)


def estimates_of(frame: "pd.DataFrame", freedom: float | None) -> tuple[PrintedNumbers, PrintedNumbers]:
    """Estimates and standard errors of a table in the standard form (`reading.Printed`).

    Odds ratios and the limits of their intervals become logarithms. Rounding of these is asymmetric: the value is the
    middle of the interval that prints the same. Errors beside ratios are those of the logarithms, or these times the
    ratio, as Stata prints them. The statistics z tell which. An interval is `estimate +- q se`, with q the quantile of
    Student's t distribution.

    Args:
        freedom: degrees of freedom of that distribution, infinite for a normal one, None if they are not known.
    """
    first = OR if OR in frame.columns else EST

    def logs(numbers: PrintedNumbers) -> PrintedNumbers:
        return numbers if first == EST else _transformed(numbers, math.log)

    estimates = logs(numbers_of(list(frame[first])))
    if STAT in frame.columns:
        ratios, errors, statistics = (numbers_of(list(frame[name])) for name in (OR, SE, STAT))
        return estimates, _of_logarithms(ratios, estimates, errors, statistics)
    if SE in frame.columns:
        return estimates, numbers_of(list(frame[SE]))
    if freedom is None:
        raise BayesreconError(
            "intervals of least squares use Student's t with unknown degrees of freedom; add a line N, "
            "the number of records, or print standard errors"
        )
    from scipy.stats import norm, t

    width = 2 * float(norm.ppf(_LEVEL) if math.isinf(freedom) else t.ppf(_LEVEL, freedom))
    low, high = (logs(numbers_of(list(frame[name]))) for name in (LOW, HIGH))
    return estimates, PrintedNumbers((high.values - low.values) / width, (high.half + low.half) / width)


def _of_logarithms(
    ratios: PrintedNumbers, logs: PrintedNumbers, errors: PrintedNumbers, z: PrintedNumbers
) -> PrintedNumbers:
    """Standard errors of the logarithms of ratios. `z`, logarithm over error, tells of which kind `errors` are."""
    low, high = ((errors.values + s * errors.half) / (ratios.values - s * ratios.half) for s in (-1.0, 1.0))
    divided = PrintedNumbers(0.5 * (low + high), 0.5 * (high - low))
    fits = [_agree(logs, kind, z) for kind in (errors, divided)]
    if fits[0] == fits[1]:
        raise BayesreconError(
            "z does not tell whether the standard errors are those of the ratios or of their logarithms: it "
            f"fits {'both' if fits[0] else 'neither'}; add the limits of their intervals (lower, upper)"
        )
    return errors if fits[0] else divided


def _agree(logs: PrintedNumbers, errors: PrintedNumbers, z: PrintedNumbers) -> bool:
    """Whether `logs / errors` is z in every row, up to rounding."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = [
            (logs.values + s * logs.half) / (errors.values + t * errors.half) for s in (-1.0, 1.0) for t in (-1.0, 1.0)
        ]
        finite = np.isfinite(z.values) & np.isfinite(quotients[0])
        lower, upper = np.min(quotients, axis=0) - z.half, np.max(quotients, axis=0) + z.half
        return bool(finite.any() and np.all(((lower <= z.values) & (z.values <= upper))[finite]))


def _transformed(numbers: PrintedNumbers, function: Callable[[float], float]) -> PrintedNumbers:
    """An increasing function of positive numbers."""
    values, half = numbers.values.copy(), numbers.half.copy()
    for i, (value, reach) in enumerate(zip(numbers.values, numbers.half, strict=True)):
        if np.isnan(value):
            continue
        if value - reach <= 0:
            raise BayesreconError(f"a ratio of {value:g} could be zero at its printed precision; supply more digits")
        lower, upper = function(value - reach), function(value + reach)
        values[i], half[i] = 0.5 * (lower + upper), 0.5 * (upper - lower)
    return PrintedNumbers(values, half)


def cell(value: float, digits: int) -> str:
    """A number with this many significant digits, trailing zeros included; "" if it is NaN."""
    return str(Decimal(f"{value:.{digits - 1}e}")) if np.isfinite(value) else ""

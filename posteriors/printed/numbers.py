"""Printed numbers and their rounding errors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.printed.headers import EST, HIGH, LOW, OR, SE, STAT

if TYPE_CHECKING:
    import pandas as pd

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

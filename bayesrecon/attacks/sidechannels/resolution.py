"""The precision with which numbers were printed or stored."""

from dataclasses import dataclass

import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.digits import decimal_step

_MOST_DIGITS = 15  # significant digits of double precision
_LAST_BITS = 32  # rounding error of a sum of hundreds of terms, in units of the spacing of double precision
ARITHMETIC = 10.0
"""Rounding error of a sum of log densities, in units of the spacing of its binary format."""


@dataclass(frozen=True, eq=False)
class Resolution:
    """The precision of written values.

    Attributes:
        step: distance to the next value of this precision, with the shape of the values.
        digits: significant decimal digits; None for the full precision of a binary format.
        label: "6 digits", "single precision" or "double precision".
    """

    step: np.ndarray
    digits: int | None
    label: str

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of the rounding error, which is uniform on one step: `step / sqrt(12)`."""
        return self.step / np.sqrt(12)


def below_arithmetic(error: float, value: float) -> bool:
    """Whether an error of a value is smaller than the rounding error of computing it in double precision."""
    return error < _LAST_BITS * float(np.spacing(abs(value)))


def resolution(values: np.ndarray, sample: int = 2000) -> Resolution:
    """Infer the precision of values from a sample of them, without zeros and repeated values."""
    values = np.asarray(values, float)
    flat = np.ravel(values)
    flat = flat[np.isfinite(flat) & (flat != 0)]
    distinct = np.unique(flat[evenly(len(flat), sample)]) if len(flat) else flat
    digits = _most_digits(distinct)
    if digits <= _MOST_DIGITS:
        return Resolution(decimal_step(values, digits), digits, f"{digits} digit{'s' * (digits != 1)}")
    with np.errstate(over="ignore"):
        single = distinct.astype(np.float32)
    if np.array_equal(single.astype(float), distinct):
        step = np.spacing(np.abs(values).astype(np.float32)).astype(float)
        return Resolution(step, None, "single precision")
    return Resolution(np.spacing(np.abs(values)), None, "double precision")


def _most_digits(values: np.ndarray) -> int:
    """Largest number of digits. The search ends at the first value with the full precision of a binary format."""
    most = 1
    for value in values:
        most = max(most, _digits(float(value)))
        if most > _MOST_DIGITS:
            break
    return most


def _digits(value: float) -> int:
    """Significant digits of the shortest decimal text that reads back as this double."""
    mantissa = repr(abs(value)).split("e")[0].replace(".", "")
    return max(1, len(mantissa.strip("0")))

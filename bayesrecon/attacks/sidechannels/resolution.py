"""How finely numbers were printed or stored: what rounding leaves unsaid."""

from dataclasses import dataclass

import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.digits import decimal_step

_MOST_DIGITS = 15  # all that double precision holds of any number: more are its own rounding
_LAST_BITS = 32  # spacings of double precision that a sum of hundreds of terms may be off
ARITHMETIC = 10.0  # rounding errors of a sum of log densities in a binary format, in units of its spacing


@dataclass(frozen=True, eq=False)
class Resolution:
    """The spacing of the values that could have been written.

    Attributes:
        step: same shape as the values, distance to the next value that could have been written.
        digits: significant decimal digits, None if the values carry a binary format's full precision.
        label: "6 digits", "single precision" or "double precision".
    """

    step: np.ndarray
    digits: int | None
    label: str

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of the rounding error, a uniform distribution on one step: `step / sqrt(12)`."""
        return self.step / np.sqrt(12)


def below_arithmetic(error: float, value: float) -> bool:
    """Whether an error of a value is lost among the rounding errors of computing it in double precision."""
    return error < _LAST_BITS * float(np.spacing(abs(value)))


def resolution(values: np.ndarray, sample: int = 2000) -> Resolution:
    """Find how the values were written, from the values themselves.

    A sample of them decides; zeros and repeats say little and are left out.
    """
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
    """The most digits of any value; the first one beyond those that a text is written with ends the search."""
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

"""Numbers as they are printed."""

import numpy as np


def decimal_step(values: np.ndarray, digits: int) -> np.ndarray:
    """Unit of the last of so many significant digits of each value."""
    size = np.abs(values)
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)))
    return 10.0 ** (exponent + 1 - digits)


def round_to(values: np.ndarray, digits: int) -> np.ndarray:
    """The values as printed with so many significant digits.

    >>> round_to(np.array([-1878.873, 0.61234]), 3).tolist()
    [-1880.0, 0.612]
    """
    step = decimal_step(values, digits)
    # Through the decimal text, so that the nearest double of the printed number comes out.
    places = np.round(-np.log10(step)).astype(int)
    flat = [
        float(f"{v:.{digits - 1}e}") if p > 0 else v for v, p in zip(np.ravel(values), np.ravel(places), strict=True)
    ]
    exact = np.reshape(flat, np.shape(values))
    return np.where(places > 0, exact, np.round(values / step) * step)

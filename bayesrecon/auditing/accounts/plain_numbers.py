"""Numbers that reveal nothing about anybody: positions, grids, a repeated number, plain constants."""

import numpy as np

_EQUAL = 1e-6  # largest relative difference between the steps of a grid
_FEW, _PLAIN_DIGITS = 4, 2  # at most this many numbers with this few digits are chosen constants
_LEVELS, _LEVEL_DIGITS = 20, 4  # at most this many sorted numbers with this few digits are labels of an axis


@np.errstate(all="ignore")  # numbers of a stranger
def structure_of(values: np.ndarray) -> str:
    """The kind of structure that numbers have, or "" if they may be data.

    >>> structure_of(range(5)), structure_of([0.1, 0.2, 0.3]), structure_of([5.0, 5.0]), structure_of([10, 10, 5, 2])
    ('positions', 'a grid', 'one number', 'a few plain constants')
    >>> structure_of([3.1, 4.1, 5.9, 2.6, 5.3]), structure_of([41.73])
    ('', '')
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        return ""
    flat = array.ravel().astype(float)
    flat = flat[~np.isnan(flat)]
    if not flat.size:
        return "nothing"
    if np.ptp(flat) == 0 and digits_of(flat[0]) <= (_LEVEL_DIGITS if flat.size > 1 else _PLAIN_DIGITS):
        return "one number"
    if array.ndim == 2 and _is_pattern(array.astype(float)):
        return "a pattern of zeros and ones"
    if flat.size >= 2 and is_positions(flat):
        return "positions"
    if flat.size >= 3 and is_grid(flat):
        return "a grid"
    if flat.size <= _FEW and all(digits_of(v) <= _PLAIN_DIGITS for v in flat):
        return "a few plain constants"
    return ""


def is_positions(flat: np.ndarray) -> bool:
    """Whether the numbers are 0, 1, 2, ... or 1, 2, 3, ..."""
    return any(np.array_equal(flat, np.arange(start, start + len(flat))) for start in (0, 1))


@np.errstate(all="ignore")  # numbers of a stranger
def is_grid(flat: np.ndarray) -> bool:
    """Whether the numbers, or their logarithms, are equally spaced."""
    if not np.isfinite(flat).all():
        return False
    for values in (flat, np.log(flat)) if (flat > 0).all() else (flat,):
        steps = np.diff(values)
        tolerance = _EQUAL * np.abs(steps).max() + 8 * np.spacing(np.abs(values).max())
        if steps[0] != 0 and np.abs(steps - steps.mean()).max() <= tolerance:
            return True
    return False


@np.errstate(all="ignore")  # numbers of a stranger
def is_levels(values: object) -> bool:
    """Whether values are a few plain numbers in ascending order, such as doses, years, knots or quantile levels.

    >>> is_levels([0.025, 0.5, 0.975]), is_levels([3, 1, 2]), is_levels([1.23456, 2.0])
    (True, False, False)
    """
    flat = np.asarray(values).ravel()
    if flat.dtype.kind not in "iuf" or not 2 <= flat.size <= _LEVELS or not np.isfinite(flat).all():
        return False
    return bool(np.all(np.diff(flat) > 0)) and all(digits_of(v) <= _LEVEL_DIGITS for v in flat)


def _is_pattern(matrix: np.ndarray) -> bool:
    """Whether a matrix is an identity, a triangular mask, or constant."""
    rows, columns = matrix.shape
    if rows != columns or rows < 2:
        return False
    patterns = (np.eye(rows), np.tril(np.ones((rows, rows))), np.triu(np.ones((rows, rows))))
    return any(np.array_equal(matrix, pattern) for pattern in patterns)


def digits_of(value: float) -> int:
    """Number of significant digits, of a number in double or single precision.

    >>> digits_of(0.25), digits_of(1200.0), digits_of(np.float32(0.1)), digits_of(41.73)
    (2, 2, 1, 4)
    """
    if not np.isfinite(value):
        return 1
    texts = [repr(float(value))]
    with np.errstate(over="ignore"):
        if float(np.float32(value)) == float(value):
            texts.append(str(np.float32(value)))
    return min(max(1, len(t.lower().split("e")[0].lstrip("-").replace(".", "").strip("0"))) for t in texts)

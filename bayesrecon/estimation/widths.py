"""Errors that are too wide for a number to be used."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.results.row import Row

_DIVISOR = 0.25  # largest relative standard error of a divisor by which ratios can be linearised


def too_wide(rows: Sequence[Row]) -> set[str]:
    """Names of statistics whose interval, on one of its sides, is wider than the statistic's own scale.

    The interval is the final one, with what models next to the stated one and invisible parts add to the standard
    error. The scale of a count or a variance is its value, that of a category's count the mean count of all categories,
    that of a mean the standard deviation of its field, that of a covariance the product of two. Others have none. If
    the standard error of the number of records is above a quarter of it, means, variances and covariances are too wide:
    they are ratios by it, whose errors are then not normal, however small they look.

    >>> sorted(too_wide([Row("n", 93.8, se=78.7), Row("mean(y)", 3.0, se=0.2), Row("var(y)", 4.0, se=0.5)]))
    ['mean(y)', 'n', 'var(y)']
    """
    values = {row.name: abs(row.estimate) for row in rows if row.estimate is not None}
    categories = Counter(_fields_of(row.name) for row in rows)

    def scale(name: str) -> float | None:
        if name == "n" or name.startswith("var("):
            return values.get(name)
        if name.startswith("n[") and "n" in values:
            return values["n"] / categories[_fields_of(name)]
        if (mean := re.fullmatch(r"mean\((.*)\)", name)) is not None:
            variance = values.get(f"var({mean[1]})")
            return None if variance is None else variance**0.5
        # Names of fields may hold commas, as `x[0,1]` does: the pair of variances that are there is meant.
        if (pair := re.fullmatch(r"cov\((.*)\)", name)) is not None:
            for comma in (k for k, letter in enumerate(pair[1]) if letter == ","):
                both = [values.get(f"var({part})") for part in (pair[1][:comma], pair[1][comma + 1 :])]
                if both[0] is not None and both[1] is not None:
                    return float((both[0] * both[1]) ** 0.5)
        return None

    errors = {row.name: error for row in rows if (error := _error(row))}
    wide = {name for name, error in errors.items() if (size := scale(name)) is not None and error > size}
    if any(row.name == "n" and row.se and row.se > _DIVISOR * values.get("n", np.inf) for row in rows):
        wide |= {name for name in errors if name.startswith(("mean(", "var(", "cov("))}
    return wide


def _error(row: Row) -> float:
    """The longer side of the interval of a sampled statistic; zero if it was not sampled."""
    if not row.se or row.estimate is None:
        return 0.0
    ends = (Z95 * row.se, *(abs(end - row.estimate) for end in (row.lower, row.upper) if end is not None))
    return max(ends)


def _fields_of(name: str) -> str:
    """The name of a category's count without its values: those of all categories are alike."""
    return re.sub(r"=[^,\]]*", "=", name)

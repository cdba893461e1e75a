"""Recovered numbers in the form that findings report."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from bayesrecon.posteriors.printed.estimates_in_files import Statistic
from bayesrecon.results.findings import Item
from bayesrecon.results.recovery import Row

_ROUNDING = 1e-9
"""Largest relative error of a count that is computed from numbers in double precision."""


def items(rows: Iterable[Row | Statistic]) -> tuple[Item, ...]:
    """An item for each statistic that was recovered. A count between whole numbers by rounding alone is whole."""
    return tuple(
        Item(r.name, _whole(r.estimate) if r.name == "n" else r.estimate, r.se, lower=r.lower, upper=r.upper)
        for r in rows
        if r.estimate is not None
    )


def _whole(count: float) -> float:
    return float(round(count)) if np.isfinite(count) and abs(count - round(count)) <= _ROUNDING * count else count


def typical_error(errors: npt.ArrayLike) -> float:
    """Standard deviation of a normal distribution with the errors' median size, which is robust against outliers."""
    return float(np.median(np.abs(errors)) / 0.6744898)


def independent(count: int, all_of_them: bool) -> str:
    """The number of independent sums over the records, in words.

    >>> independent(136, True), independent(1, False)
    ('exactly 136 independent sums over the records', 'about 1 independent sum over the records')
    """
    return f"{'exactly' if all_of_them else 'about'} {count} independent sum{'s' * (count != 1)} over the records"

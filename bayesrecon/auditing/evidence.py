"""Recovered numbers as a finding states them."""

from typing import Any

import numpy as np

from bayesrecon.results.findings import Item


def items(rows: Any) -> tuple[Item, ...]:
    """Of what was recovered at all."""
    return tuple(Item(r.name, r.estimate, r.se, lower=r.lower, upper=r.upper) for r in rows if r.estimate is not None)


def typical_error(errors: Any) -> float:
    """Standard deviation of a normal law with the errors' median size: single records that go astray do not rule it."""
    return float(np.median(np.abs(errors)) / 0.6744898)


def independent(count: int, all_of_them: bool) -> str:
    """How many numbers about the data there are, in words.

    >>> independent(136, True), independent(1, False)
    ('exactly 136 independent sums over the records', 'about 1 independent sum over the records')
    """
    return f"{'exactly' if all_of_them else 'about'} {count} independent sum{'s' * (count != 1)} over the records"

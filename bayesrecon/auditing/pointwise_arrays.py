"""Shared parts of the attacks on arrays with a value per draw and record."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayesrecon.attacks.sidechannels.preimage import PreImages
from bayesrecon.auditing.opened import Opened
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.categories import level_label
from bayesrecon.results.findings import Item

MOST_RECORDS = 2000  # largest number of records that are solved for, evenly spaced


def for_rows(opened: Opened, count: int, chosen: np.ndarray) -> Reference:
    """The reference for the chosen columns. Known fields are matched row by row if they have as many rows."""
    known = {k: np.asarray(v) for k, v in opened.known.items()}
    return replace(opened.reference, known={k: v[chosen] for k, v in known.items() if len(v) == count})


def relative_errors(opened: Opened, records: PreImages) -> np.ndarray:
    """The largest standard error of each record's fields, relative to the field's spread, `(N,)`."""
    worst = np.zeros(len(records))
    for field, se in records.se.items():
        relative = np.asarray(se, float) / opened.spread(field)
        worst = np.maximum(worst, relative.reshape(len(worst), -1).max(axis=1))
    return worst


def counts_by_category(name: str, levels: Sequence[float], values: np.ndarray, unclear: np.ndarray) -> list[Item]:
    """Counts of the values of a categorical field, from records that were solved for one by one.

    Args:
        name: name of the field.
        levels: its values.
        values: `(N,)` recovered values.
        unclear: `(N,)` whether another record explains the column equally well. If any does, counts have no error.
    """
    items = []
    for level in levels:
        has = values == level
        items.append(Item(f"n[{name}={level_label(level)}]", float(has.sum()), None if unclear.any() else 0.0))
    return items

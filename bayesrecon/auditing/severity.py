"""How severe a finding is: here and nowhere else, as the report's legend has it.

high: values of single people, or the data themselves. medium: something exact, such as totals, labels of people, or
something about single ones. low: numbers about all people together, or traces of how the file was made.
"""

from typing import Any

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import is_levels, structure_of
from bayesrecon.auditing.accounts.texts import kind_of_labels
from bayesrecon.results.findings import Severity

ROWS = 5
"""So many values of single records are high; fewer may be a constant or a mean, and are medium."""

_MANY = 20  # different labels, or numbers of an attribute, that are more than levels or settings


def of_rows(count: int) -> Severity | None:
    """Of rows of a design, or values of records, that can be read off."""
    return None if count <= 0 else "high" if count >= ROWS else "medium"


def of_share(recovered: float, learnt: float, share: float) -> Severity:
    """Of records of which shares are `recovered`, and at least something `learnt`.

    Args:
        share: from which a finding about records is severe.
    """
    return "high" if recovered >= share else "medium" if learnt >= share else "low"


def of_totals(exact: bool, sharper: float = 1.0) -> Severity:
    """Of statistics of all records: exact, or so many times sharper than draws alone give them."""
    return "medium" if exact or sharper > 10 else "low"


def of_constants(values: Any, private: bool = False) -> Severity | None:
    """Of numbers that no sampler drew; None where they are structure."""
    flat = np.ravel(np.asarray(values))
    if private:
        return "high"
    if structure_of(values):
        return None
    return of_rows(len(flat)) if len(np.unique(flat)) > 2 else "high" if len(flat) >= _MANY else "medium"


def of_attribute_numbers(values: Any) -> Severity | None:
    """Of the numbers in an attribute or a text: rows of data where they are many; few are not told from settings."""
    flat = np.ravel(np.asarray(values))
    if structure_of(flat) or is_levels(flat):
        return None
    return "high" if len(flat) >= _MANY else None


def of_labels(values: Any, of_parameters: bool, of_records: bool) -> Severity | None:
    """Of labels of an axis, and where the axis belongs to; None where they are none of anybody."""
    kind, count = kind_of_labels(values), np.size(values)
    if kind == "e-mail addresses":
        return "high"
    if kind == "positions" or (kind == "levels" and not of_records):
        return None
    if kind == "identifiers":
        return "high" if not of_parameters and count >= ROWS else "medium"
    if kind == "numbers":
        return "medium" if of_records or count >= _MANY else None
    if of_records:
        return "high" if count >= _MANY else "medium"
    return None

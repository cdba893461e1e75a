"""The severity of findings, as in the legend of the report.

* high: values of single people, or the data themselves.
* medium: something exact, such as totals or labels of people, or something about single people.
* low: numbers about all people together, or traces of how the file was made.
"""

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import is_levels, structure_of
from bayesrecon.auditing.accounts.texts import kind_of_labels
from bayesrecon.results.findings import Severity

ROWS = 5
"""Values of single records that make a finding high. Fewer values may be constants or means, and are medium."""

_MANY = 20  # more distinct labels are not levels, and more numbers in an attribute are not settings


def of_rows(count: int) -> Severity | None:
    """Severity of rows of a design, or values of records, that can be read directly."""
    return None if count <= 0 else "high" if count >= ROWS else "medium"


def of_share(recovered: float, learnt: float, share: float) -> Severity:
    """Severity of a finding about records.

    Args:
        recovered: share of the records that are recovered.
        learnt: share of the records about which something is learnt.
        share: smallest share of recovered records that is high.
    """
    return "high" if recovered >= share else "medium" if learnt >= share else "low"


def of_totals(exact: bool, sharper: float = 1.0) -> Severity:
    """Severity of statistics of all records: exact, or `sharper` times more precise than from draws alone."""
    return "medium" if exact or sharper > 10 else "low"


def of_constants(values: np.ndarray, private: bool = False) -> Severity | None:
    """Severity of numbers that no sampler drew; None for structure."""
    flat = np.ravel(np.asarray(values))
    if private:
        return "high"
    if structure_of(values):
        return None
    return of_rows(len(flat)) if len(np.unique(flat)) > 2 else "high" if len(flat) >= _MANY else "medium"


def of_attribute_numbers(values: np.ndarray) -> Severity | None:
    """Severity of the numbers in an attribute or a text. Many numbers may be rows of data; a few may be settings."""
    flat = np.ravel(np.asarray(values))
    if structure_of(flat) or is_levels(flat):
        return None
    return "high" if len(flat) >= _MANY else None


def of_labels(values: np.ndarray, of_parameters: bool, of_records: bool) -> Severity | None:
    """Severity of labels of an axis of parameters or of records; None if they are not personal."""
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

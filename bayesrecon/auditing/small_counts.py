"""Counts below a threshold, which data stewards check for every level, cell and residual degree of freedom.

A count is a finding if the release determines it or bounds it below the threshold. Limits of a cell's count that lie
near the threshold, on both of its sides, are a finding, too. A cell with one record is more severe: its fitted
value is the record's response.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bayesrecon.model import Model
from bayesrecon.models.estimators import ESTIMATORS
from bayesrecon.results.findings import Finding, Item, Remedy, Severity, Thresholds
from bayesrecon.results.row import Row

KIND = "small-count"

_FREEDOM = "residual degrees of freedom"
_CELL = re.compile(r"n\[(.+)\]$")
_NEAR = 3  # multiples of the threshold up to which limits on both of its sides are reported
_WHOLE = 0.5  # largest distance of a count from an integer


@dataclass(frozen=True)
class Count:
    """A number of records.

    Attributes:
        cell: description of the records.
        estimate: the count, if it is determined.
        lower, upper: bounds, possibly infinite.
        how: how it was obtained, in words.
    """

    cell: str
    estimate: float | None
    lower: float
    upper: float
    how: str


def counts_of(rows: Iterable[Row], model: Model | None, how: str) -> list[Count]:
    """All counts that statistics determine: levels, cells, events, non-events, and residual degrees of freedom."""
    table = {row.name: row for row in rows}
    counts = [
        Count(match[1], row.estimate, _low(row), _high(row), how)
        for name, row in table.items()
        if (match := _CELL.match(name)) is not None
    ]
    counts += _without_events(table, model, how)
    n = table.get("n")
    if n is not None:
        counts.append(Count("all records", n.estimate, _low(n), _high(n), how))
        if model is not None and model.name in ESTIMATORS:
            p = len(model.settings["covariates"]) + bool(model.settings["intercept"])
            residual = None if n.estimate is None else n.estimate - p
            counts.append(Count(_FREEDOM, residual, _low(n) - p, _high(n) - p, how))
    return counts


def _without_events(table: Mapping[str, Row], model: Model | None, how: str) -> list[Count]:
    if model is None or "response" not in model.settings:
        return []
    counts, y = [], model.settings["response"]
    for name, row in table.items():
        cell = name.removeprefix("n[").removesuffix(f",{y}=1]")
        cell_row = table.get(f"n[{cell}]")
        if name.endswith(f",{y}=1]") and cell_row is not None:
            estimate = None if row.estimate is None or cell_row.estimate is None else cell_row.estimate - row.estimate
            bounds = max(_low(cell_row) - _high(row), 0.0), _high(cell_row) - _low(row)
            counts.append(Count(f"{cell},{y}=0", estimate, *bounds, how))
    return counts


def _low(row: Row) -> float:
    return -math.inf if row.lower is None else row.lower


def _high(row: Row) -> float:
    return math.inf if row.upper is None else row.upper


def small(counts: Iterable[Count], limits: Thresholds) -> list[Count]:
    """Counts below their threshold or with limits around it, smallest first; empty cells if these are disclosive.

    >>> [c.cell for c in small([Count("g=a", None, 7, 28, ""), Count("g=b", 90, 90, 90, "")], Thresholds())]
    ['g=a']
    """
    below = [
        c
        for c in counts
        if (c.upper < _least(c, limits) or ("=" in c.cell and c.lower < limits.small_count and _is_near(c, limits)))
        and (c.upper > _WHOLE or "=" not in c.cell or limits.zeros)
        and (c.cell != "all records" or c.lower > -math.inf)
    ]
    return sorted(below, key=lambda c: (c.upper, c.cell))


def _least(count: Count, limits: Thresholds) -> int:
    freedom = limits.small_count if limits.freedom is None else limits.freedom
    return freedom if count.cell == _FREEDOM else limits.small_count


def _is_near(count: Count, limits: Thresholds) -> bool:
    return count.upper < _NEAR * limits.small_count


def small_counts(
    counts: Iterable[Count], limits: Thresholds, where: tuple[str, ...], needs: str = "the model", more: str = ""
) -> list[Finding]:
    """One finding for each count below its threshold.

    Args:
        counts: the counts.
        limits: with the smallest counts that are no findings.
        where, needs: of the findings.
        more: presumptions in words, starting with a comma.
    """
    return [_finding(count, _least(count, limits), where, needs, more) for count in small(counts, limits)]


def _finding(count: Count, threshold: int, where: tuple[str, ...], needs: str, more: str) -> Finding:
    exact = count.lower == count.upper
    number = f"{count.upper:.6g}" if exact else f"between {max(count.lower, 0):.6g} and {count.upper:.6g}"
    single = exact and count.upper == 1 and "=" in count.cell
    level: Severity = "high" if single else "medium"
    records = count.cell if "=" not in count.cell else f"records with {count.cell}"
    title = f"{records}: {number}, {'below' if count.upper < threshold else 'perhaps below'} {threshold}{more}"
    summary = f"{count.how}: {number}"
    if single:
        summary += "; the only record of the cell: its fitted value is the record's own response, and all of any sum"
    if count.cell == _FREEDOM and count.upper <= 0:
        summary += "; the fit is saturated, so it reveals the responses"
    item = Item(
        f"n[{count.cell}]" if "=" in count.cell else count.cell, count.estimate, None, None, count.lower, count.upper
    )
    remedies = (
        Remedy("merge the level with another one, or leave its line and its standard error out", leaves="info"),
    )
    return Finding(KIND, level, title, where, summary, needs, (item,), remedies)

"""What draws determine about the records of a cell: their number, and the mean and variance of every other field.

With the indicator 1_c of the cell and a field y, these follow from totals over the records:

    n_c = sum_n 1_c,    m_c = sum_n 1_c y / n_c,    v_c = sum_n 1_c y^2 / n_c - m_c^2.

They show whether one record is more than half of a sum (`dominance`).
"""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist

import numpy as np

from bayesrecon.auditing.dominance import Bounds, Sum, dominating
from bayesrecon.auditing.sensitive_values import DROP_DRAWS
from bayesrecon.diagnostics import Z95
from bayesrecon.estimation.categories import level_label
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.statistics import (
    Component,
    Library,
    Part,
    Statistic,
    components,
    count_of,
    moments,
    ratio_of,
)
from bayesrecon.estimation.totals import part_totals, rows_of
from bayesrecon.model import Records
from bayesrecon.results.findings import Finding, Remedy
from bayesrecon.results.recovery import Recovery, Row

_SUMS = 300  # largest number of sums that are checked; more would take minutes
_WIDER = NormalDist().inv_cdf(1 - 0.05 / 6) / Z95  # factor for intervals, so that three hold together at 95 %
_NEEDS = "the model and its prior"
_REMEDIES = (
    Remedy("merge the cell with another one in the model", leaves="info"),
    Remedy(DROP_DRAWS, leaves="info"),
)


def dominance_of_draws(
    problem: Problem, recovery: Recovery, where: tuple[str, ...]
) -> tuple[list[Finding], tuple[str, ...]]:
    """Sums of which one record is more than half: over all records, and over records with one value of a field.

    Known fields and fields with few values are not summed. If the number of records of a cell is not determined, all
    integers in its interval are considered.

    Args:
        problem: the solved release.
        recovery: the recovery without cells.
        where: places of the draws.

    Returns:
        Findings, and a warning if not all sums were checked.
    """
    if recovery.failures:
        return [], ()
    knowledge, reference = problem.knowledge, problem.reference
    fields = [
        c
        for c in components(knowledge.fields, list(knowledge.known), reference.centre, reference.scale)
        if not knowledge.fields[c.field].domain.levels
    ]
    library, cells, field_cells = moments(()), [("", c) for c in fields], list(_cells(problem, fields))
    for label, inside, c in field_cells[:_SUMS]:
        _add(library, label, inside, c)
        cells.append((label, c))
    rows = {row.name: row for row in recovery}
    if len(library.statistics) > 1:
        totals = part_totals(problem.solved, library, knowledge)
        rows |= {row.name: row for row in rows_of(library, totals, problem.solved.embedding)}
    findings: list[Finding] = []
    for c in fields:
        sums = [_sums(label, c.name, rows) for label, one in cells if one is c]
        if any(one.mean[0] <= 0 for possible in sums for one in possible):
            continue  # the values may be negative
        more = "" if knowledge.fields[c.field].domain.low >= 0 else f", if {c.name} is not negative"
        for possible in filter(None, sums):
            findings += dominating(possible, c.name, where, _NEEDS, more, _REMEDIES, ", with 95 % confidence")
    unchecked = len(field_cells) - _SUMS
    note = f"dominance was not looked for in {unchecked} of {len(field_cells)} sums of cells"
    return findings, (note,) if unchecked > 0 else ()


def _cells(problem: Problem, components: list[Component]) -> Iterator[tuple[str, tuple[str, float], Component]]:
    """The name of each cell with its field and value, and a component of another field."""
    for name, field in problem.knowledge.fields.items():
        levels = field.domain.levels
        if not field.shape and len(levels) > 1:
            yield from (
                (f"{name}={level_label(v)}", (name, v), c) for v in levels for c in components if c.field != name
            )


def _add(library: Library, label: str, cell: tuple[str, float], c: Component) -> None:
    def inside(records: Records) -> np.ndarray:
        return (np.asarray(records[cell[0]]) == cell[1]).astype(float)

    count, first, second = f"[{label}]", f"{c.name}[{label}]", f"{c.name}*{c.name}[{label}]"
    if count not in library.parts:
        library.parts[count] = Part(count, inside)
        library.statistics.append(count_of(f"n[{label}]", count))
    library.parts[first] = Part(first, lambda records: inside(records) * c.values(records), (count,))
    library.parts[second] = Part(second, lambda records: inside(records) * c.values(records) ** 2, (count, first))
    library.statistics.append(ratio_of(f"mean({c.name})[{label}]", first, count, c.centre, c.scale))
    square = c.scale**2
    library.statistics.append(
        Statistic(
            f"var({c.name})[{label}]",
            (count, first, second),
            lambda t: square * (t[second] / t[count] - (t[first] / t[count]) ** 2),
            lambda t: {
                second: square / t[count],
                first: -2 * square * t[first] / t[count] ** 2,
                count: square * (2 * t[first] ** 2 / t[count] - t[second]) / t[count] ** 2,
            },
        )
    )


def _bounds(row: Row | None) -> Bounds | None:
    if row is None or row.verdict != "determined" or row.estimate is None or row.lower is None or row.upper is None:
        return None
    bounds = row.estimate + _WIDER * (row.lower - row.estimate), row.estimate + _WIDER * (row.upper - row.estimate)
    return bounds if math.isfinite(bounds[1] - bounds[0]) else None


def _sums(label: str, name: str, rows: Mapping[str, Row]) -> list[Sum]:
    """The sum with the smallest and with the largest possible number of records, which bound the shares."""
    suffix = f"[{label}]" if label else ""
    count, mean, variance = (
        _bounds(rows.get(row)) for row in (f"n{suffix}", f"mean({name}){suffix}", f"var({name}){suffix}")
    )
    if count is None or mean is None or variance is None:
        return []
    low, high = max(math.ceil(count[0]), 2), math.floor(count[1])
    spread = max(variance[0], 0.0), max(variance[1], 0.0)
    return [Sum(label, n, mean, (n * spread[0], n * spread[1])) for n in sorted({low, high}) if low <= high]

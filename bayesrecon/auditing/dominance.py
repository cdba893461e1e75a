"""Dominance: a record or a few are most of a sum, as the sum and the sum of squares show.

Take n non-negative numbers with mean m, and let Q be the sum of their squared deviations from m. The squares of their
shares in the sum add up to

    H = 1 / n + Q / (n m)^2.

So the largest share a has the bounds

    a >= (1 + (2 H - 1)^(1/2)) / 2  if H > 1/2,  and  a >= H  otherwise,
    a <= (1 + ((n - 1) (n H - 1))^(1/2)) / n.

The upper bound is attained if the other numbers are equal, and the lower one if they are as unequal as possible. The
share s of the k largest together has the bounds

    a <= s <= k / n + (k (n - k) (H - 1 / n) / n)^(1/2),    s >= min(H^(1/2), k H),

since H <= max(s^2, s / k). Three rules are judged by these bounds: one record is more than half of the sum; the k
largest are more than a stated share of it (n,k rule); and all but the two largest are less than a stated share of the
largest, which the second largest can then compute (p ratio). The largest number itself is between
`m + (Q / (n (n - 1)))^(1/2)` and `m + (Q (n - 1) / n)^(1/2)`.

Least squares on cells determines only W, the sum of Q over all cells. So each Q is at most W. It is at least W minus
the largest possible Q of the other cells, which is `n (n - 1) m^2` if one record is all of a sum.

Of draws, the number of records of a cell, and the mean and variance of every other field follow from totals over the
records, with the indicator 1_c of the cell and a field y:

    n_c = sum_n 1_c,    m_c = sum_n 1_c y / n_c,    v_c = sum_n 1_c y^2 / n_c - m_c^2.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bayesrecon.auditing.sensitive_values import DROP_DRAWS
from bayesrecon.auditing.wording import PRIOR
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
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
from bayesrecon.knowledge import Knows, check_knowledge
from bayesrecon.model import Records
from bayesrecon.releases import Release
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy, Thresholds
from bayesrecon.results.recovery import Recovery, Row
from bayesrecon.results.told import values_in

KIND = "dominance"

_SIGNED = "values may be negative"
_FEWEST = 2  # smallest number of records of a sum
_HALF = 0.5  # a record with a larger share of a sum dominates it
_REMEDIES = (Remedy("leave the residual standard error out, or merge the cell with another one", leaves="info"),)

Bounds = tuple[float, float]
Found = tuple[list[Finding], list[NotRun]]
"""Findings, and sums that are not cleared."""


@dataclass(frozen=True)
class Sum:
    """What is known about the sum of a field over some records.

    Attributes:
        cell: description of the records; "" for all records.
        count: n.
        mean: bounds on m.
        squares: bounds on Q.
    """

    cell: str
    count: float
    mean: Bounds
    squares: Bounds


def shares(total: Sum, k: int = 1) -> Bounds:
    """Bounds on the share of the k largest in a sum of non-negative numbers.

    >>> [round(bound, 3) for bound in shares(Sum("", 4, (25.0, 25.0), (5292.0, 5292.0)))]  # as of 88, 4, 4 and 4
    [0.874, 0.88]
    """
    n, (low, high) = total.count, total.mean
    if k >= n:
        return 1.0, 1.0
    least, most = (1 / n + q / (n * m) ** 2 for q, m in zip(total.squares, (high, low), strict=True))
    least, most = max(least, 1 / n), min(most, 1.0)
    begin = 0.5 * (1 + math.sqrt(2 * least - 1)) if least > _HALF else least
    if k > 1:
        begin = max(begin, min(math.sqrt(least), k * least), k / n)
    return min(begin, 1.0), min(k / n + math.sqrt(k * (n - k) * max(most - 1 / n, 0.0) / n), 1.0)


def largest(total: Sum) -> Bounds:
    """Bounds on the largest of these numbers.

    >>> [round(bound, 6) for bound in largest(Sum("", 2, (10.0, 10.0), (32.0, 32.0)))]  # 14 and 6
    [14.0, 14.0]
    """
    n = total.count
    return (
        total.mean[0] + math.sqrt(total.squares[0] / (n * (n - 1))),
        total.mean[1] + math.sqrt(total.squares[1] * (n - 1) / n),
    )


def dominance(
    release: Release, recovery: Recovery, knows: Knows, limits: Thresholds, needs: str = "the model", more: str = ""
) -> Found:
    """One finding for each sum of the response that a record or a few certainly dominate.

    If all means are positive, the response is presumed to be non-negative, and the finding says so.

    Args:
        release: a table.
        recovery: its statistics.
        knows: what an attacker knows.
        limits: rules of dominance.
        needs: what an attacker needs, in words.
        more: presumptions in words, starting with a comma.
    """
    y = release.about.settings.get("response")
    if y is None or recovery.failures:
        return [], []
    presumed = "" if _positive(release, knows, str(y)) else f"{' and' if more else ', if'} {y} is not negative"
    sums = _sums({row.name: row for row in recovery}, release, str(y))
    about = _About(str(y), (release.name,), needs, more + presumed, _REMEDIES)
    if any(total.mean[0] <= 0 for total in sums):
        return [], _open(about, _SIGNED, limits)
    found = [dominating([total], about, limits) for total in sums if total.count >= _FEWEST]
    return _gathered(found, about.where, limits)


@dataclass(frozen=True)
class _About:
    """What a sum is of, for findings.

    Attributes:
        y: name of the summed field.
        where, needs, remedies: of the finding.
        more: presumptions in words, starting with a comma.
        how: the confidence in words, starting with a comma.
    """

    y: str
    where: tuple[str, ...]
    needs: str
    more: str
    remedies: tuple[Remedy, ...]
    how: str = ""


def dominating(possible: Sequence[Sum], about: _About, limits: Thresholds) -> Found:
    """The finding that a record or a few dominate a sum, and what the bounds leave open of rules that were stated.

    Args:
        possible: the sum with the smallest and with the largest possible number of records.
    """
    if any(total.count < _FEWEST for total in possible):
        return [], []
    if any(total.mean[0] <= 0 for total in possible):
        return [], _open(about, _SIGNED, limits)
    one, two, several = (_around(shares(total, k) for total in possible) for k in (1, 2, limits.largest))
    cell = f" with {possible[0].cell}" if possible[0].cell else ""
    of_sum = f"of the sum of {about.y}{cell}"
    rules = [(one, _HALF, f"one record has {{}} {of_sum}")]
    if _stated(limits):
        rules.append((several, limits.largest_share, f"the {limits.largest} largest records have {{}} {of_sum}"))
    for share, limit, title in rules:
        if share[0] > limit:
            return [_finding(possible, share, title.format(_part(share)), about)], []
    if 1 - two[0] < limits.p_ratio * one[0]:
        title = f"all but the two largest records are less than {limits.p_ratio:.0%} of the largest {of_sum}"
        return [_finding(possible, one, title, about)], []
    unknown = several[1] > limits.largest_share or 1 - two[1] < limits.p_ratio * one[1]
    known = f"the largest record has {_part(one)} {of_sum}, and the two largest {_part(two)}"
    return [], _open(about, known, limits) if unknown else []


def _stated(limits: Thresholds) -> bool:
    """Whether rules beside that of one half are stated."""
    return limits.largest > 1 or limits.largest_share != _HALF or limits.p_ratio > 0


def _open(about: _About, reason: str, limits: Thresholds) -> list[NotRun]:
    """That a sum is not cleared of the rules that were stated."""
    remedy = "compute the shares of the largest records from the data, or publish no sum of these records"
    remedy = f"state the domain of {about.y} (domain=)" if reason == _SIGNED else remedy
    return [NotRun(KIND, reason, remedy, about.where)] if _stated(limits) else []


def _around(bounds: Iterable[Bounds]) -> Bounds:
    low, high = zip(*bounds, strict=True)
    return min(low), max(high)


def _part(share: Bounds) -> str:
    return f"{share[0]:.0%}" if share[1] - share[0] < 0.005 else f"{share[0]:.0%} to {share[1]:.0%}"


def _gathered(found: Iterable[Found], where: tuple[str, ...], limits: Thresholds) -> Found:
    """All findings; if there are none on any sum, that none is dominated, where rules were stated."""
    each = list(found)
    findings, open_ = [f for ones, _ in each for f in ones], [n for _, ones in each for n in ones]
    if each and _stated(limits) and not findings and not open_:
        text = f"of {len(each)} sum{'s' * (len(each) > 1)}, by the sums of squares, a record or a few are not most"
        findings = [Finding(KIND, "info", "no sum is dominated", where, text, "the model")]
    return findings, open_


def _positive(release: Release, knows: Knows, y: str) -> bool:
    try:
        domain = check_knowledge(release.about, **knows).fields[y].domain
    except (BayesreconError, KeyError):
        return False
    return bool((min(domain.levels) if domain.levels else domain.low) >= 0)


def _sums(rows: Mapping[str, Row], release: Release, y: str) -> list[Sum]:
    """The sums over all records, and over the cells of a least-squares table if their counts are known."""
    n, mean, variance = (_bounds(rows.get(name)) for name in ("n", f"mean({y})", f"var({y})"))
    sums = []
    if n is not None and n[0] == n[1] and mean is not None and variance is not None:
        sums.append(Sum("", n[0], mean, (n[0] * variance[0], n[0] * variance[1])))
    limits = getattr(release, "limits", None)
    scale: tuple[float, float] | None = getattr(limits, "scale", None)
    if getattr(limits, "kind", "") != "ols" or scale is None:
        return sums
    cells = {}
    for name in rows:
        begin, cell = name.partition("[")[0], name.partition("[")[2].removesuffix("]")
        count, bounds = _bounds(rows.get(f"n[{cell}]")), _bounds(rows[name])
        if begin == f"mean({y})" and bounds is not None and count is not None and count[0] == count[1]:
            cells[cell] = (count[0], bounds)
    if not cells or n is None or sum(count for count, _ in cells.values()) != n[0] or n[0] != n[1]:
        return sums  # some records are not in any cell
    value, half_width = scale
    freedom = n[0] - len(cells)
    within = max(value - half_width, 0.0) ** 2 * freedom, (value + half_width) ** 2 * freedom
    largest_squares = {
        cell: count * (count - 1) * max(abs(end) for end in bounds) ** 2 for cell, (count, bounds) in cells.items()
    }
    for cell, (count, bounds) in cells.items():
        others = sum(v for other, v in largest_squares.items() if other != cell)
        sums.append(Sum(cell, count, bounds, (max(within[0] - others, 0.0), min(within[1], largest_squares[cell]))))
    return sums


def _bounds(row: Row | None) -> Bounds | None:
    if row is None or row.lower is None or row.upper is None or not math.isfinite(row.upper - row.lower):
        return None
    return row.lower, row.upper


def _finding(possible: Sequence[Sum], share: Bounds, title: str, about: _About) -> Finding:
    cell, y = possible[0].cell, about.y
    sizes, parts = [largest(total) for total in possible], [shares(total) for total in possible]
    totals = [(total.count * total.mean[0], total.count * total.mean[1]) for total in possible]
    bounds = list(zip(sizes, parts, totals, strict=True))
    low = min(max(size[0], part[0] * total[0]) for size, part, total in bounds)
    high = max(min(size[1], part[1] * total[1]) for size, part, total in bounds)
    name = f"sum({y})[{cell}]" if cell else f"sum({y})"
    counts = " to ".join(f"{total.count:g}" for total in possible)
    summary = (
        f"{counts} records, their sum and their sum of squares are revealed: the largest has {_part(_around(parts))}, "
        "and lies between " + values_in(f"{low:.5g} and {high:.5g}") + about.how
    )
    of_largest = "largest share" if share == _around(parts) else "share of the largest"
    items = (
        Item(f"{of_largest} of {name}", sum(share) / 2, None, None, *share),
        Item(f"largest {y}{f'[{cell}]' if cell else ''}", (low + high) / 2, None, None, low, high, person=True),
    )
    return Finding(KIND, "medium", title + about.more, about.where, summary, about.needs, items, about.remedies)


_SUMS = 300  # largest number of sums that are checked; more would take minutes
_WIDER = NormalDist().inv_cdf(1 - 0.05 / 6) / Z95  # factor for intervals, so that three hold together at 95 %
_OF_DRAWS = tuple(
    Remedy(action, leaves="info") for action in ("merge the cell with another one in the model", DROP_DRAWS)
)


def dominance_of_draws(
    problem: Problem, recovery: Recovery, where: tuple[str, ...], limits: Thresholds
) -> tuple[list[Finding], list[NotRun | str]]:
    """Sums that a record or a few dominate: over all records, and over records with one value of a field.

    Known fields and fields with few values are not summed. If the number of records of a cell is not determined, all
    integers in its interval are considered.

    Args:
        problem: the solved release.
        recovery: the recovery without cells.
        where: places of the draws.
        limits: rules of dominance.

    Returns:
        Findings, and what was not checked.
    """
    if recovery.failures:
        return [], []
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
    found: list[Found] = []
    for c in fields:
        sums = [_sums_of_draws(label, c.name, rows) for label, one in cells if one is c]
        if any(one.mean[0] <= 0 for possible in sums for one in possible):
            continue  # the values may be negative
        more = "" if knowledge.fields[c.field].domain.low >= 0 else f", if {c.name} is not negative"
        about = _About(c.name, where, PRIOR, more, _OF_DRAWS, ", with 95 % confidence")
        found += [dominating(possible, about, limits) for possible in filter(None, sums)]
    unchecked = len(field_cells) - _SUMS
    note = f"dominance was not looked for in {unchecked} of {len(field_cells)} sums of cells"
    findings, open_ = _gathered(found, where, limits)
    return findings, [*open_, *([note] if unchecked > 0 else [])]


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


def _bounds_of_draws(row: Row | None) -> Bounds | None:
    if row is None or row.verdict != "determined" or row.estimate is None or row.lower is None or row.upper is None:
        return None
    bounds = row.estimate + _WIDER * (row.lower - row.estimate), row.estimate + _WIDER * (row.upper - row.estimate)
    return bounds if math.isfinite(bounds[1] - bounds[0]) else None


def _sums_of_draws(label: str, name: str, rows: Mapping[str, Row]) -> list[Sum]:
    """The sum with the smallest and with the largest possible number of records, which bound the shares."""
    suffix = f"[{label}]" if label else ""
    count, mean, variance = (
        _bounds_of_draws(rows.get(row)) for row in (f"n{suffix}", f"mean({name}){suffix}", f"var({name}){suffix}")
    )
    if count is None or mean is None or variance is None:
        return []
    low, high = max(math.ceil(count[0]), 2), math.floor(count[1])
    spread = max(variance[0], 0.0), max(variance[1], 0.0)
    return [Sum(label, n, mean, (n * spread[0], n * spread[1])) for n in sorted({low, high}) if low <= high]

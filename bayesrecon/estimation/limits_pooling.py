"""Several tables of one data set, some of them without correlations: their limits together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from bayesrecon.errors import labelled
from bayesrecon.inexact import Limit
from bayesrecon.knowledge import check_knowledge, of_model
from bayesrecon.posteriors.printed.nested_tables import between
from bayesrecon.releases import Release
from bayesrecon.results.recovery import Recovery, Row

_SLACK = 1e-9  # relative, of limits that are one number


def pooled_limits(
    releases: Sequence[Release], recover_one: Callable[..., Recovery], knows: Mapping[str, Any]
) -> Recovery:
    """One result of tables of the same records.

    Every table is read with the limits of n from the others. Intervals of one statistic are intersected. Two
    least-squares tables that differ in one covariate determine that covariate's means (`printed.nested_tables`).

    Args:
        recover_one: function that recovers one release, with the attacker's knowledge as keywords.
    """
    results = [recover_one(release, **of_model(knows, release.about)) for release in releases]
    rows, failures = _intersected(results)
    n = rows.get("n")
    if n is not None and n.lower is not None and n.lower == n.upper and not knows.get("total") and not failures:
        knows = {**knows, "total": n.lower}
        results = [recover_one(release, **of_model(knows, release.about)) for release in releases]
        rows, failures = _intersected(results)
    if not failures:
        for small, large in permutations(releases, 2):
            for name, limit in _between(small, large, rows, knows).items():
                rows[name] = _meet(rows[name], _row(name, limit)) if name in rows else _row(name, limit)
    best = max(results, key=lambda one: sum(row.estimate is not None for row in one))
    return replace(
        best,
        rows=tuple(rows.values()),
        release=" + ".join(one.release for one in results),
        model=" + ".join(dict.fromkeys(one.model for one in results)),
        warnings=tuple(labelled(one.release, line) for one in results for line in one.warnings),
        failures=(*(f"{one.release}: {line}" for one in results for line in one.failures), *failures),
        ranges=" and ".join(dict.fromkeys(one.ranges for one in results if one.ranges)),
        seconds=sum(one.seconds for one in results),
    )


def _between(small: Release, large: Release, rows: Mapping[str, Row], knows: Mapping[str, Any]) -> Mapping[str, Limit]:
    small_limits, large_limits = getattr(small, "limits", None), getattr(large, "limits", None)
    if small_limits is None or large_limits is None:
        return {}
    knowledge = check_knowledge(small.about, **of_model(knows, small.about))
    known_limits = {n: Limit(r.lower, r.upper) for n, r in rows.items() if r.lower is not None and r.upper is not None}
    return between(small_limits, large_limits, knowledge.fields, knowledge.factors, known_limits)


def _intersected(found: Sequence[Recovery]) -> tuple[dict[str, Row], tuple[str, ...]]:
    """Rows of all results, intersected, and contradictions."""
    rows: dict[str, Row] = {}
    failures = []
    presumed = " and ".join(dict.fromkeys(one.ranges for one in found if one.ranges))
    doubt = f", or it is wrong that {presumed}" if presumed else ""
    for one in found:
        for row in one:
            before = rows.get(row.name)
            rows[row.name] = row if before is None else _meet(before, row)
            if before is not None and _contradict(before, row):
                failures.append(
                    f"the tables are not of the same records{doubt}: {row.name} is {_in_words(before)} by one of "
                    f"them and {_in_words(row)} by {one.release}; an audit of both lists the records of only one"
                )
    return rows, tuple(failures[:1])


def _contradict(one: Row, other: Row) -> bool:
    low = max((r.lower for r in (one, other) if r.lower is not None), default=None)
    high = min((r.upper for r in (one, other) if r.upper is not None), default=None)
    return low is not None and high is not None and low > high + _SLACK * (1 + abs(high))


def _in_words(row: Row) -> str:
    if row.lower is not None and row.lower == row.upper:
        return f"{row.lower:.6g}"
    low, high = ("" if end is None else f"{end:.6g}" for end in (row.lower, row.upper))
    return f"{low} to {high}"


def _meet(one: Row, other: Row) -> Row:
    """The narrower of two rows with the ends of both."""
    first, second = sorted((one, other), key=_width)
    low = max((r.lower for r in (one, other) if r.lower is not None), default=None)
    high = min((r.upper for r in (one, other) if r.upper is not None), default=None)
    estimate = first.estimate if first.estimate is not None else second.estimate
    if estimate is not None and low is not None and high is not None:
        estimate = min(max(estimate, low), max(low, high))
    with_estimate = first if first.estimate is not None else second
    return replace(with_estimate, estimate=estimate, lower=low, upper=high)


def _width(row: Row) -> float:
    return float("inf") if row.lower is None or row.upper is None else row.upper - row.lower


def _row(name: str, limit: Limit) -> Row:
    return Row(name, limit.estimate, lower=limit.lower, upper=limit.upper, visibility=1.0, verdict="determined")

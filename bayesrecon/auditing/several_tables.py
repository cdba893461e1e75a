"""Audit of several tables: each by itself, what two of them reveal together, and the records in only one of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from typing import cast

from bayesrecon.auditing.look import Asked
from bayesrecon.auditing.small_counts import Count, counts_of, small_counts
from bayesrecon.auditing.table_differences import Table, difference_findings
from bayesrecon.auditing.wording import items
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.limits_pooling import pooled_limits
from bayesrecon.estimation.recovered import recovered
from bayesrecon.knowledge import Knows, of_model
from bayesrecon.posteriors.printed.footer_lines import without_footer
from bayesrecon.posteriors.printed.headers import SIGMA
from bayesrecon.posteriors.printed.reading import as_printed
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy
from bayesrecon.results.recovery import Recovery, Row

KIND = "tables together"

_ATTACK = "two tables"
_NEEDS = "the model, and both tables"
_APART = (Remedy("publish one of the tables, or both on the same records"),)
_PASS = "audit each table by itself, and state what an attacker knows"


@in_float64
def compare_tables(tables: Sequence[Table], asked: Asked) -> tuple[list[Finding], list[NotRun]]:
    """Findings on tables that they give only together, and what was not examined."""
    knows, key = cast(Knows, asked.knows), asked.key
    differences, refused, explained = difference_findings(tables, knows, asked.thresholds, key, asked.remedies)
    releases = [table.release for table in tables]
    findings, untried = _audit_pairs(releases, asked.thresholds.small_count, knows, key, explained)
    if findings:
        differences = [f for f in differences if f.severity != "info"]
    return [*differences, *findings], [*refused, *untried]


def records_of(source: object, column: str | None) -> float | None:
    """The number of records in the footer of a table."""
    lines, footer = without_footer(as_printed(source, column=column).frame)
    counted = footer.records(sum(str(label).strip().lower() not in SIGMA for label in lines.index))
    return counted[0] if counted is not None and counted[0] == counted[1] else None


def _audit_pairs(
    releases: Sequence[Release], threshold: int, knows: Knows, key: int, done: Collection[frozenset[str]]
) -> tuple[list[Finding], list[NotRun]]:
    """Findings on every pair of tables.

    Args:
        releases: the tables.
        threshold: counts below it are small.
        knows: what an attacker knows.
        key: seed.
        done: pairs of names whose difference was found already.
    """
    findings: list[Finding] = []
    untried: list[NotRun] = []

    @cache
    def alone(i: int) -> Recovery:
        return recovered(releases[i], **of_model(knows, releases[i].about), key=key).judged()

    for i, j in combinations(range(len(releases)), 2):
        pair, names = (releases[i], releases[j]), (releases[i].name, releases[j].name)
        if frozenset(names) in done:
            continue
        try:
            each = [alone(i), alone(j)]
            if any(table.failures for table in each):
                continue  # the audit of each table reports it
            counts = [next((row for row in table if row.name == "n" and _exact(row)), None) for table in each]
            apart = None not in counts and counts[0].upper != counts[1].upper  # type: ignore[union-attr]
            together = None if apart else pooled_limits(pair, partial(recovered, key=key), knows)
        except BayesreconError as error:
            untried.append(NotRun(_ATTACK, str(error), _PASS, names))
            continue
        if together is None or together.failures:
            findings += _cells(each, pair, threshold, names)
        else:
            findings += _together(each, together, pair, threshold, names)
    return findings, untried


def _together(
    alone: Sequence[Recovery], both: Recovery, pair: Sequence[Release], threshold: int, names: tuple[str, ...]
) -> list[Finding]:
    """Findings that two tables of the same records give only together."""
    before = {row.name for table in alone for row in table if row.estimate is not None}
    new = [row for row in both if row.estimate is not None and row.name not in before]
    if not new:
        return []
    title = f"two tables of the same records reveal {len(new)} statistics that neither of them reveals"
    summary = ", ".join(f"{row.name} = {row.estimate:.5g}" for row in new[:4])
    needs = f"{_NEEDS}, and that {both.ranges}" if both.ranges else _NEEDS
    findings = [Finding(KIND, "low", title, names, summary, needs, items(new), _APART)]
    known_cells = {c.cell for table in alone for c in counts_of(table, None, "") if c.upper < threshold}
    counts = [
        c for c in counts_of(both, pair[0].about, "by two tables of the same records") if c.cell not in known_cells
    ]
    return findings + small_counts(counts, threshold, names, needs)


def _cells(alone: Sequence[Recovery], pair: Sequence[Release], threshold: int, names: tuple[str, ...]) -> list[Finding]:
    """Findings on cells whose counts differ by less than the threshold, with the total response of the difference."""
    rows = [{row.name: row for row in recovery} for recovery in alone]
    findings: list[Finding] = []
    for name, first in rows[0].items():
        second = rows[1].get(name)
        if second is None or not name.startswith("n[") or not (_exact(first) and _exact(second)):
            continue
        sign = 1 if first.upper > second.upper else -1  # type: ignore[operator]
        larger, smaller = (first, second) if sign > 0 else (second, first)
        apart = larger.upper - smaller.upper  # type: ignore[operator]
        if not 0 < apart < threshold:
            continue
        order = names if sign > 0 else names[::-1]
        how = f"by difference of two tables: {larger.upper:g} in {order[0]} less {smaller.upper:g} in {order[1]}"
        cell = name[2:-1]
        (finding,) = small_counts([Count(cell, apart, apart, apart, how)], threshold, names, _NEEDS)
        evidence = (*finding.evidence, *_response(cell, rows if sign > 0 else rows[::-1], pair[0], apart))
        findings.append(_retitled(finding, cell, apart, evidence))
    return findings


def _retitled(finding: Finding, cell: str, apart: float, evidence: tuple[Item, ...]) -> Finding:
    records = "one record" if apart == 1 else f"{apart:g} records"
    title = f"two tables differ by {records} with {cell}"
    summary = finding.summary.partition("; ")[0]
    for item in evidence[1:]:
        summary += f"; {item.name} {'is' if apart == 1 else 'sums to'} {item.estimate:.5g}"
    return replace(finding, title=title, summary=summary, evidence=evidence, remedies=_APART)


def _exact(row: Row) -> bool:
    return row.lower is not None and row.lower == row.upper


def _response(cell: str, rows: Sequence[Mapping[str, Row]], release: Release, apart: float) -> tuple[Item, ...]:
    """The total response of the records in only one table: the difference of `n m` between the tables."""
    y = release.about.settings.get("response", "y")
    counts = [table[f"n[{cell}]"] for table in rows]
    means = [table.get(f"mean({y})[{cell}]") for table in rows]
    if any(m is None or m.lower is None or m.upper is None or m.estimate is None for m in means):
        return ()
    low = counts[0].upper * means[0].lower - counts[1].upper * means[1].upper  # type: ignore[operator,union-attr]
    high = counts[0].upper * means[0].upper - counts[1].upper * means[1].lower  # type: ignore[operator,union-attr]
    middle = counts[0].upper * means[0].estimate - counts[1].upper * means[1].estimate  # type: ignore[operator,union-attr]
    name = y if apart == 1 else f"sum({y})"
    return (Item(f"{name} of the records between", float(middle), None, None, float(low), float(high)),)

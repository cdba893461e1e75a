"""Audit of several tables: what two of them reveal together, and the records that are only in one of them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from typing import cast

import numpy as np

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.attacks.differences.one_record import Between, between
from bayesrecon.attacks.differences.released import grams_of
from bayesrecon.attacks.differences.search import Search, search
from bayesrecon.auditing.look import Asked, Fit
from bayesrecon.auditing.small_counts import Count, counts_of, small_counts
from bayesrecon.auditing.wording import items
from bayesrecon.diagnostics import Z95
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.limits_pooling import pooled_limits
from bayesrecon.estimation.recovered import recovered
from bayesrecon.knowledge import Knows, check_knowledge, of_model
from bayesrecon.posteriors.printed.footer_lines import without_footer
from bayesrecon.posteriors.printed.headers import SIGMA
from bayesrecon.posteriors.printed.reading import as_printed
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy, Severity, Thresholds
from bayesrecon.results.recovery import Recovery, Row
from bayesrecon.results.told import values_in

KIND = "tables together"

_ATTACK = "two tables"
_NEEDS = "the model, and both tables"
_APART = (Remedy("publish one of the tables, or both on the same records", leaves="info"),)
_PASS = "audit each table by itself, and state what an attacker knows"


@in_float64
def compare_tables(tables: Sequence[Fit], asked: Asked) -> tuple[list[Finding], list[NotRun]]:
    """Findings on tables that they give only together, and what was not examined."""
    knows, key = cast(Knows, asked.knows), asked.key
    differences, refused, explained = _differences(tables, knows, asked.thresholds, key, asked.remedies)
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
        told = f"{item.estimate:.5g}"
        summary += f"; {item.name} is {values_in(told)}" if apart == 1 else f"; {item.name} sums to {told}"
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
    return (Item(f"{name} of the records between", float(middle), None, None, float(low), float(high), apart == 1),)


DIFFERENCE = "difference of tables"

_ONE_OF = tuple(
    Remedy(f"publish {what}", leaves="info") for what in ("one of the tables", "all tables on the same records")
)


def _differences(
    tables: Sequence[Fit], knows: Knows, thresholds: Thresholds, key: int, remedies: bool
) -> tuple[list[Finding], list[NotRun], set[frozenset[str]]]:
    """Findings on records between tables, what could not be compared, and the pairs that are explained.

    Args:
        tables: all of them.
        knows: what an attacker knows.
        thresholds: what counts as severe.
        key: seed.
        remedies: whether to try fewer digits.
    """
    domains = {name: d for table in tables for name, d in _domains(table.release, knows).items()}
    most = _most(thresholds)
    grams = {table.release.name: _grams(table.release, table.n, domains, knows) for table in tables}
    result = search(list(grams.values()), most, key)
    possible = [one for one in result.found if one.count > 1 or _inside(one, domains)]
    by_name = {table.release.name: table for table in tables}
    findings = []
    for one in possible:
        tried = [*_ONE_OF, *(_tried(one, by_name, domains, knows, thresholds, key) if remedies else ())]
        findings.append(_of_difference(one, domains, thresholds, tuple(tried)))
    closed = [
        NotRun(
            DIFFERENCE,
            f"{name} has other units in {whole} than in {part} ({ratio:.4g} : 1)",
            "give both tables in the same units",
            (whole, part),
        )
        for whole, part, name, ratio in result.units
    ]
    closed += [
        NotRun(
            DIFFERENCE,
            f"{', '.join(names)} are related, but the signs of the covariate's means are not known",
            "state the covariate's range (domain=), or pass the correlations",
            names,
        )
        for names in result.ambiguous
    ]
    missing = "pass the correlations of the estimates (correlations=), or the number of records (a line N)"
    other = "audit each table by itself: only totals of least squares with an intercept can be subtracted"
    for least_squares, remedy in ((True, missing), (False, other)):
        open_ = [
            name
            for name, possible_grams in grams.items()
            if not possible_grams and (by_name[name].release.about.name == "ols") == least_squares
        ]
        if open_:
            reason = f"totals of the records are not determined by {', '.join(open_)}"
            closed.append(NotRun(DIFFERENCE, reason, remedy, tuple(open_)))
    if not findings and sum(map(bool, grams.values())) > 1:
        findings = [_nothing(result, tuple(grams))]
    return findings, closed, {frozenset((one.whole, *one.parts)) for one in possible}


def _domains(release: Release, knows: Knows) -> dict[str, Domain]:
    stated = check_knowledge(release.about, **of_model(knows, release.about)).fields
    return {name: field.domain for name, field in stated.items()}


def _grams(release: Release, n: float | None, domains: Mapping[str, Domain], knows: Knows) -> list[Gram]:
    covariates = release.about.settings.get("covariates", ())
    low, high = (-math.inf, math.inf) if len(covariates) != 1 else _ends(domains[covariates[0]])
    if any(knows.get(name) not in (None, "none", False) for name in ("fit_weights", "offset")):
        return []
    return grams_of(release, knows.get("total") if n is None else n, low, high)


def _ends(domain: Domain) -> tuple[float, float]:
    return (min(domain.levels), max(domain.levels)) if domain.levels else (domain.low, domain.high)


def _inside(one: Between, domains: Mapping[str, Domain]) -> bool:
    """Whether a person can have such values."""
    for name, value, half in zip(one.fields, one.estimate, one.half, strict=True):
        low, high = _ends(domains[name])
        if not low - 2 * half <= value <= high + 2 * half:
            return False
    return True


def _of_difference(
    one: Between, domains: Mapping[str, Domain], thresholds: Thresholds, remedies: tuple[Remedy, ...]
) -> Finding:
    names = (one.whole, *one.parts)
    known = _known(one)
    records = "one record" if one.count == 1 else f"{one.count} records"
    parts = one.parts[0] if len(one.parts) == 1 else f"the union of {' and '.join(one.parts)}"
    level = _level(one, known, thresholds)
    evidence = [Item("n", float(one.count), lower=float(one.count), upper=float(one.count))]
    for i in known:
        se = float(one.half[i] / Z95)
        name, low, high = one.fields[i], one.estimate[i] - one.half[i], one.estimate[i] + one.half[i]
        name = name if one.count == 1 else f"mean({name}) of the {records}"
        evidence.append(Item(name, float(one.estimate[i]), se, None, float(low), float(high), one.count == 1))
    if one.count == 1 and known:
        person = values_in(", ".join(_value(one, i, domains) for i in known))
        title = f"a person by difference of tables: {person}"
        summary = (
            f"if {one.whole} and {parts} differ by one record and nothing else, it is {person}; {_also(one, known)}"
        )
    else:
        title = f"{records} by difference of tables"
        means = values_in(", ".join(f"{one.fields[i]} {_number(one.estimate[i], one.half[i])}" for i in known))
        stated = f"their means are {means}" if known else "their values are not determined"
        summary = (
            f"if the records of {parts} are among those of {one.whole}, {records} are only in {one.whole}: {stated}"
        )
    vague = [name for i, name in enumerate(one.fields) if i not in known]
    if vague and known:
        summary += f"; {', '.join(vague)} not determined"
    needs = "the model, and that the tables differ by these records and nothing else"
    return Finding(DIFFERENCE, level, title, names, summary, needs, tuple(evidence), remedies)


def _most(thresholds: Thresholds) -> int:
    """The largest number of records between tables."""
    return max(thresholds.small_count - 1, 1)


def _level(one: Between, known: Sequence[int], thresholds: Thresholds) -> Severity:
    """High if a value of a single person is known well."""
    sharp = (one.half[list(known)] / Z95 < thresholds.record * one.sd[list(known)]).any()
    return "high" if one.count == 1 and sharp else "medium"


def _known(one: Between) -> list[int]:
    """Positions of the fields about which something is known: the error is below the standard deviation of all."""
    return [i for i in range(len(one.fields)) if one.half[i] / Z95 < one.sd[i]]


def _value(one: Between, i: int, domains: Mapping[str, Domain]) -> str:
    """A field with its error, or the only possible value."""
    value, half, domain = one.estimate[i], one.half[i], domains[one.fields[i]]
    low, high = value - half, value + half
    if domain.kind == "integer":
        levels = [float(v) for v in range(math.ceil(low), min(math.floor(high), math.ceil(low) + 1) + 1)]
    else:
        levels = [v for v in domain.levels if low <= v <= high]
    return f"{one.fields[i]} {levels[0]:g}" if len(levels) == 1 else f"{one.fields[i]} {_number(value, half)}"


def _number(value: float, half: float) -> str:
    """A number with its error, to one digit of that and not more than eight.

    >>> _number(50.29668, 0.0041)
    '50.297 ± 0.004'
    """
    if not half > 0:
        return f"{value:.8g}"
    places = max(-math.floor(math.log10(half)), 0)
    places = min(places, max(7 - math.floor(math.log10(max(abs(value), 1e-300))), 0))
    return f"{value:.{places}f} ± {half:.1g}"


def _also(one: Between, known: Sequence[int]) -> str:
    """The interval under the alternatives, in words."""
    ranges = ", ".join(f"{one.fields[i]} {_range(one.lower[i], one.upper[i])}" for i in known)
    return f"if a value of another record was corrected as well, or another record exchanged, {values_in(ranges)}"


def _range(low: float, high: float) -> str:
    digits = max(math.ceil(math.log10(max(abs(low), abs(high), 1e-300) / max(high - low, 1e-300))) + 2, 3)
    return f"{low:.{min(digits, 9)}g} to {high:.{min(digits, 9)}g}"


def _tried(
    one: Between,
    tables: Mapping[str, Fit],
    domains: Mapping[str, Domain],
    knows: Knows,
    thresholds: Thresholds,
    key: int,
) -> list[Remedy]:
    """What other forms of all of these tables would leave to an attacker who knows that a record is between them."""
    remedies: list[Remedy] = []
    before, most = one.half / Z95, _most(thresholds)
    concerned = [tables[name] for name in (one.whole, *one.parts)]
    for action in concerned[0].alternatives or {}:
        try:
            grams = [_grams((table.alternatives or {})[action](), table.n, domains, knows) for table in concerned]
        except (BayesreconError, KeyError):
            continue  # they have no more digits, or another form
        everywhere = f"in all of these tables, {action}"
        left = None
        if all(grams):
            left = between(grams[0][0], [part[0] for part in grams[1:]], one.fields, None, most, key)
        if left is None or not _known(left):
            far = "the errors of all values are then above 1 standard deviation"
            remedies.append(Remedy(f"{everywhere}: {far}", leaves="medium"))
        else:
            i = int(np.argmin(left.half / left.sd))
            error = float(left.half[i] / Z95)
            leaves = _level(left, _known(left), thresholds)
            remedies.append(Remedy(everywhere, left.fields[i], float(before[i]), None, error, leaves))
    return remedies


def _nothing(result: Search, names: tuple[str, ...]) -> Finding:
    pairs, triples = (
        f"{count} {word}{'s' * (count != 1)}" for count, word in ((result.pairs, "pair"), (result.triples, "triple"))
    )
    tried = f"{pairs} and {triples} of {len(names)} tables have nearly as many records"
    summary = f"{tried}, and the printed digits of none show that they differ by one record or a few"
    return Finding(DIFFERENCE, "info", "no relation found between the tables", names, summary, "all tables")

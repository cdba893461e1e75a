"""Findings on what several releases give only together: records that are in one and not in others, and two tables."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import cast

import numpy as np

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.attacks.differences.one_record import Between, between, exchanged
from bayesrecon.attacks.differences.released import grams_of
from bayesrecon.attacks.differences.search import Search, in_words_of_values, of_members, search
from bayesrecon.attacks.differences.solved import gram_of_problem
from bayesrecon.auditing.effort import budget_of
from bayesrecon.auditing.look import Asked, Released
from bayesrecon.auditing.small_counts import Count, small_counts
from bayesrecon.auditing.stage import INCALCULABLE
from bayesrecon.diagnostics import Z95
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows, check_knowledge, of_model
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.findings import Finding, Item, NotRun, Remedy, Severity, Thresholds
from bayesrecon.results.row import Row
from bayesrecon.results.told import values_in

KIND = "difference of releases"

_APART = tuple(
    Remedy(action, leaves="info") for action in ("publish one of them", "publish all of them on the same records")
)
_LATE = (Remedy("do not publish it, or publish it on the records of what was published before", leaves="info"),)
_ATTACK = "two tables"
_NEEDS = "the model, and both tables"
_PASS = "audit each table by itself, and state what an attacker knows"


@in_float64
def compare(released: Sequence[Released], asked: Asked) -> tuple[list[Finding], list[NotRun]]:
    """Findings on releases that they give only together, and what was not examined."""
    differences, refused, explained = Differences(released, asked).findings()
    tables = [one for one in released if one.release is not None and kind_of(one.release).states]
    findings, untried = _audit_pairs(tables, asked.thresholds, explained, asked.earlier)
    if findings:
        differences = [f for f in differences if f.severity != "info"]
    return [*differences, *findings], [*refused, *untried]


def _solved(release: Release, knows: Knows) -> Gram | None:
    return gram_of_problem(release.name, solve_release(release, **knows))


def with_names(released: Sequence[Released]) -> list[Released]:
    """The same with names that differ."""
    names = [one.name or "release" for one in released]
    unique = [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name for i, name in enumerate(names)
    ]
    return [
        replace(
            one,
            name=name,
            release=None if one.release is None else replace(one.release, name=name),
            grams=[replace(gram, name=name) for gram in one.grams],
        )
        for one, name in zip(released, unique, strict=True)
    ]


class Differences:
    """The comparison of all releases with one another.

    Attributes:
        grams: `{name: possible totals}`, empty where there are none.
    """

    def __init__(self, released: Sequence[Released], asked: Asked) -> None:
        self.by_name = {one.name: one for one in released}
        self.knows = {k: v for k, v in asked.knows.items() if k != "total"}
        self.asked, self.budget = asked, budget_of(asked.effort)
        self.most = max(asked.thresholds.small_count - 1, 1)
        self.reasons: dict[str, str] = {}
        self.grams = {one.name: self._grams(one) for one in released}
        self.domains: dict[str, Domain] = {}
        for one in released:
            self.domains |= one.domains if one.release is None else _domains(one.release, self.knows)
        self.coarser = cache(self._coarser)

    def findings(self) -> tuple[list[Finding], list[NotRun], set[frozenset[str]]]:
        """Findings on records between releases, what could not be compared, and the pairs that are explained."""
        usable = [grams for grams in self.grams.values() if grams and not grams[0].protected]
        result = search(usable, self.most, self.asked.key, self.asked.earlier)
        found = [("", one) for one in result.found if one.count > 1 or self._inside(one)]
        if self.asked.membership:
            single = [grams[0] for grams in self.grams.values() if len(grams) == 1]
            found += of_members(single, self.asked.membership, self.most, self.asked.key)
        findings = [self._finding(group, one) for group, one in found]
        if not findings and len(usable) > 1:
            findings = [_nothing(result, len(usable))]
        findings += self._hidden()
        return findings, self._closed(result), {frozenset((one.whole, *one.parts)) for _, one in found}

    def _grams(self, one: Released) -> Sequence[Gram]:
        if one.release is None or one.name in self.asked.earlier:
            return one.grams
        try:
            return self._of(one.release, one.n)
        except (BayesreconError, *INCALCULABLE) as error:
            self.reasons[one.name] = str(error)
            return ()

    def _of(self, release: Release, n: float | None) -> list[Gram]:
        if any(self.knows.get(name) not in (None, "none", False) for name in ("fit_weights", "offset")):
            return []
        n = self.asked.knows.get("total") if n is None else n
        return grams_of(release, n, of_model(self.knows, release.about), _solved)

    def _coarser(self, name: str, action: str) -> Sequence[Gram]:
        one = self.by_name[name]
        if name in self.asked.earlier:  # it is out
            return self.grams[name]
        make = one.alternatives[action]  # a KeyError if it has another form
        return self._of(make(), one.n)

    def _hidden(self) -> list[Finding]:
        """Releases whose noise hides single records."""
        hidden = [grams[0] for grams in self.grams.values() if grams and grams[0].protected]
        if not hidden or len(self.grams) < 2:
            return []
        errors = ", ".join(f"{gram.matrix[0, 0]:.4g} ± {gram.open:.2g} in {gram.name}" for gram in hidden)
        title = "draws hide single records from differences"
        summary = f"n is {errors}: the noise of the draws is larger than one record"
        return [Finding(KIND, "info", title, tuple(gram.name for gram in hidden), summary, "all releases")]

    def _closed(self, result: Search) -> list[NotRun]:
        closed = [
            NotRun(
                KIND,
                f"{name} has other units in {whole} than in {part} ({ratio:.4g} : 1)",
                "give both in the same units",
                (whole, part),
            )
            for whole, part, name, ratio in result.units
        ]
        closed += [
            NotRun(
                KIND,
                f"{', '.join(names)} are related, but the signs of the covariate's means are not known",
                "state the covariate's range (domain=), or pass the correlations",
                names,
            )
            for names in result.ambiguous
        ]
        closed += [
            NotRun(
                KIND,
                f"{' and '.join(names)} have as many records and share one field, which does not tell an exchange",
                "compare releases that share more fields",
                names,
            )
            for names in result.one_field
        ]
        known = {name: one.determined for name, one in self.by_name.items() if one.determined is not None}
        # Epsilon bounds what draws with a guarantee add to others.
        bounded = {*self.asked.earlier, *(name for name, by in known.items() if by.guaranteed)}
        open_ = [name for name, grams in self.grams.items() if not grams and name not in bounded]
        if open_ and len(self.grams) > 1:
            reason = f"totals of the records are not determined by {', '.join(open_)}"
            errors = "; ".join(f"{name}: {text}" for name, text in self.reasons.items())
            remedy = (
                "for least squares pass the correlations of the estimates (correlations=); one covariate needs only n"
            )
            closed.append(NotRun(KIND, f"{reason} ({errors})" if errors else reason, remedy, tuple(open_)))
        return closed

    def _inside(self, one: Between) -> bool:
        """Whether a person can have such values."""
        for name, value, half in zip(one.fields, one.estimate, one.half, strict=True):
            low, high = self._domain(name).ends
            if not low - 2 * half <= value <= high + 2 * half:
                return False
        return True

    def _domain(self, name: str) -> Domain:
        """The possible values of a field, or of an entry of it."""
        return self.domains.get(name) or self.domains.get(name.partition("[")[0], Domain())

    def _finding(self, group: str, one: Between) -> Finding:
        known = _known(one)
        records = "one record" if one.count == 1 else f"{one.count} records"
        within = f" of {group}" if group else ""
        less = " and ".join(one.parts)
        parts = less if len(one.parts) == 1 else f"the union of {less}"
        level: Severity = "medium"
        evidence = [Item("n", float(one.count), lower=float(one.count), upper=float(one.count))]
        for i in known:
            se = float(one.half[i] / Z95)
            name, low, high = one.fields[i], one.estimate[i] - one.half[i], one.estimate[i] + one.half[i]
            name = name if one.count == 1 else f"mean({name}) of the {records}"
            evidence.append(Item(name, float(one.estimate[i]), se, None, float(low), float(high), one.count == 1))
        if one.count == 1 and known:
            level = self._level(one)
            person = values_in(", ".join(self._value(one, i) for i in known))
            title = f"a person{within} by difference: {person}"
            if group:
                summary = f"if the membership holds, {group} is {person}; {_also(one, known)}"
            else:
                only = f"if {one.whole} and {parts} differ by one record and nothing else, it is {person}"
                if one.exchanged:
                    only = f"if one record of {one.whole} was exchanged or corrected in {parts} and no other was"
                    only += f", it is {person} in {one.whole}"
                summary = f"{only}; {_also(one, known)}"
        else:
            title = f"{records}{within} by difference"
            means = values_in(", ".join(f"{one.fields[i]} {_number(one.estimate[i], one.half[i])}" for i in known))
            stated = f"their means are {means}" if known else "their values are not determined"
            only = one.only_values(self._domain)
            if any(only.values()):
                level, stated = "high", f"{stated}; {values_in(in_words_of_values(only))}"
            premise = (
                f"if the membership holds, {group} is {one.whole} less {less}"
                if group
                else f"if the records of {parts} are among those of {one.whole}, {one.whole} has {records} more"
            )
            summary = f"{premise}: {stated}"
        vague = [name for i, name in enumerate(one.fields) if i not in known]
        if vague and known:
            summary += f"; {', '.join(vague)} not determined"
        if one.disagrees:
            summary += f"; the totals of {', '.join(one.disagrees)} differ by more than these records"
        needs = "the model, and that the releases differ by these records and nothing else"
        names = tuple(name for name in self.grams if name in (*one.whole.split(" and "), *one.parts))
        remedies = (
            *(_LATE if set(names) & set(self.asked.earlier) else _APART),
            *(self._tried(one, names) if self.asked.remedies else ()),
        )
        return Finding(KIND, level, title, names, summary, needs, tuple(evidence), remedies)

    def _left(self, one: Between, whole: Gram, parts: Sequence[Gram]) -> Between | None:
        """What coarser forms of the same releases tell of the same records."""
        if not one.exchanged:
            return between(whole, parts, one.fields, None, self.most, self.asked.key)
        found = exchanged(whole, parts[0], None, self.asked.key, one.fields)
        return next((each for each in found if each.whole == whole.name), None)

    def _level(self, one: Between) -> Severity:
        """High if a value of a single person is known well."""
        known = _known(one)
        sharp = (one.half[known] / Z95 < self.asked.thresholds.record * one.sd[known]).any()
        return "high" if one.count == 1 and sharp else "medium"

    def _value(self, one: Between, i: int) -> str:
        """A field with its error, or the only possible value."""
        only = one.only_values(self._domain)[one.fields[i]]
        return f"{one.fields[i]} {only[0]:g}" if only else f"{one.fields[i]} {_number(one.estimate[i], one.half[i])}"

    def _tried(self, one: Between, names: Sequence[str]) -> Iterator[Remedy]:
        """What other forms of all of these releases would leave to an attacker who knows that a record is between."""
        if len(names) != 1 + len(one.parts) or one.whole not in names:
            return
        before, new = one.half / Z95, [name for name in names if name not in self.asked.earlier]
        for action in self.by_name[new[0]].alternatives if new else ():
            everywhere = f"in {'all of these releases' if len(new) > 1 else new[0]}, {action}"
            if not self.budget.allows():
                yield Remedy(everywhere, untried=True)
                continue
            try:
                whole, *parts = (self.coarser(name, action) for name in (one.whole, *one.parts))
            except (BayesreconError, KeyError, *INCALCULABLE):
                continue  # they have no more digits, or another form
            left = None
            if whole and all(parts):
                left = self._left(one, whole[0], [part[0] for part in parts])
            if left is None:
                yield Remedy(f"{everywhere}: this attack then states nothing of these records", leaves="info")
            elif not _known(left):
                far = "the errors of all values are then above 1 standard deviation"
                yield Remedy(f"{everywhere}: {far}", leaves="medium")
            else:
                i = int(np.argmin(left.half / left.sd))
                error = float(left.half[i] / Z95)
                yield Remedy(everywhere, left.fields[i], float(before[i]), None, error, self._level(left))


def _domains(release: Release, knows: Mapping[str, object]) -> dict[str, Domain]:
    stated = check_knowledge(release.about, **of_model(knows, release.about)).fields
    return {name: field.domain for name, field in stated.items()}


def _known(one: Between) -> list[int]:
    """Positions of the fields about which something is known: the error is below the standard deviation of all."""
    return [i for i in range(len(one.fields)) if one.half[i] / Z95 < one.sd[i]]


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
    words, ranges = one.alternatives([one.fields[i] for i in known])
    return f"{words}, {values_in(ranges)}"


def _nothing(result: Search, count: int) -> Finding:
    pairs, triples = (
        f"{count} {word}{'s' * (count != 1)}" for count, word in ((result.pairs, "pair"), (result.triples, "triple"))
    )
    tried = f"{pairs} and {triples} of {count} releases have nearly as many records"
    summary = f"{tried}, and the digits of none show that they differ by one record or a few"
    if result.as_many:
        pairs = "1 pair has" if result.as_many == 1 else f"{result.as_many} pairs have"
        summary += f"; {pairs} as many records, and nothing shows that one record was exchanged or corrected"
    return Finding(KIND, "info", "no relation found between the releases", (), summary, "all releases")


def _audit_pairs(
    tables: Sequence[Released],
    limits: Thresholds,
    done: Collection[frozenset[str]],
    earlier: Collection[str],
) -> tuple[list[Finding], list[NotRun]]:
    """Findings on every pair of tables.

    Args:
        tables: with what each determines.
        limits: counts below them are small.
        done: pairs of names whose difference was found already.
        earlier: names of those that are not compared with one another.
    """
    findings: list[Finding] = []
    untried: list[NotRun] = []

    for pair in combinations(tables, 2):
        names = (pair[0].name, pair[1].name)
        each = [one.determined for one in pair if one.determined is not None]
        if frozenset(names) in done or {*names} <= {*earlier} or len(each) < 2:
            continue
        if reason := each[0].error or each[1].error:
            untried.append(NotRun(_ATTACK, reason, _PASS, names))
            continue
        releases = [cast(Release, one.release) for one in pair]
        findings += _cells([by.rows for by in each], releases, limits, names)  # a table that failed its checks has none
    return findings, untried


def _cells(
    alone: Sequence[Sequence[Row]], pair: Sequence[Release], limits: Thresholds, names: tuple[str, ...]
) -> list[Finding]:
    """Findings on cells whose counts differ by less than the threshold, with the total response of the difference."""
    rows = [{row.name: row for row in found} for found in alone]
    findings: list[Finding] = []
    for name, first in rows[0].items():
        second = rows[1].get(name)
        if second is None or not name.startswith("n[") or not (_exact(first) and _exact(second)):
            continue
        sign = 1 if first.upper > second.upper else -1  # type: ignore[operator]
        larger, smaller = (first, second) if sign > 0 else (second, first)
        apart = larger.upper - smaller.upper  # type: ignore[operator]
        if not 0 < apart < limits.small_count:
            continue
        order = names if sign > 0 else names[::-1]
        how = f"by difference of two tables: {larger.upper:g} in {order[0]} less {smaller.upper:g} in {order[1]}"
        cell = name[2:-1]
        (finding,) = small_counts([Count(cell, apart, apart, apart, how)], limits, names, _NEEDS)
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

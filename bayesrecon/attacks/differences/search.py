"""Search for releases whose difference is one record or a few.

Pairs, and one release of two disjoint parts, are found by their totals. Longer combinations are compared if somebody
says which release contains whom (`of_members`).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.attacks.differences.one_record import (
    Between,
    agree,
    between,
    combined,
    count_of,
    exchanged,
    other_units,
    shared,
)
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
from bayesrecon.results.row import Row

Signed = Sequence[Gram]
"""The possible Gram matrices of one release: one, or two that differ in the sign of a mean."""


@dataclass(frozen=True)
class Search:
    """What a search found.

    Attributes:
        found: one entry for each related combination.
        pairs, triples: numbers of combinations whose counts differ by one or a few records.
        as_many: number of pairs of as many records, compared to see whether one record was exchanged.
        one_field: pairs of as many other records that share a single field, of which an exchange is not told.
        units: `(whole, part, field, ratio)` for releases of nearly as many records in different units.
        ambiguous: pairs that are related for several signs of a mean.
    """

    found: tuple[Between, ...]
    pairs: int
    triples: int
    as_many: int
    one_field: tuple[tuple[str, str], ...]
    units: tuple[tuple[str, str, str, float], ...]
    ambiguous: tuple[tuple[str, ...], ...]


def search(releases: Sequence[Signed], most: int = 9, key: int = 0, earlier: Collection[str] = ()) -> Search:
    """Compare all pairs and triples of releases.

    Args:
        releases: the possible Gram matrices of each.
        most: largest number of records in a difference.
        key: seed.
        earlier: names of releases that are not compared with one another.
    """
    usable = [release for release in releases if release]
    pairs = list(_close(usable, 1, most, earlier))
    triples = list(_close(usable, 2, most, earlier))
    as_many = [
        two
        for two in combinations(usable, 2)
        if count_of([(1.0, two[0][0]), (-1.0, two[1][0])]) == 0
        and shared(two[0][0], [two[1][0]])
        and not {one[0].name for one in two} <= {*earlier}
    ]
    comparisons = sum(
        math.prod(map(len, one)) * (1 + len(shared(one[0][0], [part[0] for part in one[1:]])))
        for one in (*pairs, *triples, *as_many)
    )
    found: list[Between] = []
    ambiguous: list[tuple[str, ...]] = []
    units: list[tuple[str, str, str, float]] = []
    for whole, *parts in (*pairs, *triples):
        all_related = [
            relation
            for one, *others in product(whole, *parts)
            if (relation := _relation(one, others, comparisons, most, key)) is not None
        ]
        fields = max((len(relation.fields) for relation in all_related), default=0)
        best = [relation for relation in all_related if len(relation.fields) == fields]
        found += best if len(best) == 1 else []
        if len(best) > 1:
            ambiguous.append((whole[0].name, *(part[0].name for part in parts)))
        elif len(parts) == 1:
            ratios = other_units(whole[0], parts[0][0])
            compared = best[0].fields if best else ()
            units += [(whole[0].name, parts[0][0].name, f, ratio) for f, ratio in ratios.items() if f not in compared]
    one_field: list[tuple[str, str]] = []
    for two in as_many:
        names = two[0][0].name, two[1][0].name
        related = [each for one, other in product(*two) if (each := _exchange(one, other, comparisons, key))]
        found += related[0] if len(related) == 1 else []
        if len(related) > 1:
            ambiguous.append(names)
        elif not related:
            units += [(*names, f, ratio) for f, ratio in other_units(two[0][0], two[1][0]).items()]
            alone = len(shared(two[0][0], [two[1][0]])) == 1 and not any(agree(*each) for each in product(*two))
            one_field += [names] if alone else []
    counts = len(pairs), len(triples), len(as_many)
    return Search(tuple(found), *counts, tuple(one_field), tuple(units), tuple(ambiguous))


def _close(releases: Sequence[Signed], parts: int, most: int, earlier: Collection[str]) -> Iterator[tuple[Signed, ...]]:
    """Combinations of a whole and its parts whose numbers of records may differ by a few."""
    for whole in releases:
        others = [one for one in releases if one is not whole and one[0].matrix[0, 0] < whole[0].matrix[0, 0] + 1]
        for chosen in combinations(others, parts):
            if all(one[0].name in earlier for one in (whole, *chosen)):
                continue
            count = count_of([(1.0, whole[0]), *((-1.0, part[0]) for part in chosen)])
            if count is not None and 1 <= count <= most and shared(whole[0], [part[0] for part in chosen]):
                yield whole, *chosen


def _relation(whole: Gram, parts: Sequence[Gram], comparisons: int, most: int, key: int) -> Between | None:
    """The difference in all fields; if that shows nothing, without one that has the same name by chance, or changed."""
    every = shared(whole, parts)
    found = between(whole, parts, every, comparisons, most, key)
    if found is not None or len(every) < 2:
        return found
    without = [(f, between(whole, parts, tuple(x for x in every if x != f), comparisons, most, key)) for f in every]
    related = [replace(one, disagrees=(f,)) for f, one in without if one is not None]
    return max(related, key=lambda one: one.evidence, default=None)


def _exchange(one: Gram, other: Gram, comparisons: int, key: int) -> tuple[Between, ...]:
    """As `_relation`, for releases of as many records."""
    every = shared(one, [other])
    found = exchanged(one, other, comparisons, key, every)
    if found or len(every) < 3:
        return found
    without = [(f, exchanged(one, other, comparisons, key, tuple(x for x in every if x != f))) for f in every]
    related = [tuple(replace(each, disagrees=(f,)) for each in two) for f, two in without if two]
    return max(related, key=lambda two: two[0].evidence, default=())


def in_words_of_values(only: Mapping[str, Sequence[float]]) -> str:
    """Values of fields of several records, where they are known; records may have them in any order.

    >>> in_words_of_values({"age": (31.0, 45.0), "income": (), "sex": (1.0, 1.0)})
    'their values, each field in its own order: age 31 and 45, sex 1 and 1'
    """
    listed = [f"{name} {' and '.join(f'{v:g}' for v in values)}" for name, values in only.items() if values]
    return f"their values, each field in its own order: {', '.join(listed)}" if listed else ""


def rows_between(found: Sequence[Between]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Rows on records between releases, and the conditions under which they hold.

    The interval of a single record also covers that another one was corrected or exchanged.
    """
    rows: list[Row] = []
    conditions: list[str] = []
    for one in found:
        less = f"{one.whole} less {' and '.join(one.parts)}"
        rows.append(Row(f"n({less})", float(one.count), 0.0, one.count, one.count, None, 1.0, "determined"))
        for i, name in enumerate(one.fields):
            se, what = float(one.half[i] / Z95), name if one.count == 1 else f"mean({name})"
            ends = float(one.lower[i]), float(one.upper[i])
            if se < one.sd[i]:
                rows.append(Row(f"{what}({less})", float(one.estimate[i]), se, *ends, None, 1.0, "determined"))
            else:
                rows.append(Row(f"{what}({less})"))
        left = f", and the totals of {', '.join(one.disagrees)} differ by more" if one.disagrees else ""
        holds = "differ by one record" if one.count == 1 else f"differ by {one.count} records"
        holds = "differ by one record that was exchanged" if one.exchanged else holds
        conditions.append(
            f"the releases are not of the same records: this is what {less} leaves, if they {holds} and nothing "
            f"else{left}; intervals of a single record also hold {one.alternatives(())[0]}"
        )
    return tuple(rows), tuple(conditions)


Contains = Mapping[str, Sequence[str]]
"""What consists of which disjoint groups: `{release or group: groups}`, such as the sites of a region."""


def of_members(releases: Sequence[Gram], contains: Contains, most: int = 9, key: int = 0) -> list[tuple[str, Between]]:
    """Groups of a few records that no release contains alone, and that a combination of releases determines.

    With A the releases' members, 1 if a release contains a group, a group g is determined if `A' c = e_g` has a
    solution c; the totals of the group are then c times those of the releases.

    Args:
        releases: totals of the releases.
        contains: which release contains whom. Groups that are not divided further are atoms.
        most: largest number of records of a group.
        key: seed.

    Raises:
        BayesreconError: a group contains itself, or a person twice, or none of the releases is named.
    """
    parts = {gram.name: _atoms(gram.name, contains) for gram in releases if gram.name in contains}
    if not parts:
        known = ", ".join(gram.name for gram in releases) or "none"
        raise BayesreconError(f"membership: it names none of the releases that have totals ({known})")
    named = [gram for gram in releases if gram.name in parts or any(gram.name in p for p in parts.values())]
    members = [parts.get(gram.name, (gram.name,)) for gram in named]
    atoms = sorted({atom for p in members for atom in p})
    matrix = np.array([[atom in p for atom in atoms] for p in members], float)
    found: list[tuple[str, Between]] = []
    for i, atom in enumerate(atoms):
        target = np.eye(len(atoms))[i]
        factors = np.linalg.lstsq(matrix.T, target, rcond=None)[0]
        used = np.flatnonzero(np.abs(factors) > 1e-9)
        if (atom,) in members or np.abs(matrix.T @ factors - target).max() > 1e-9:
            continue
        terms = sorted(
            ((round(float(factors[k]), 9), named[k]) for k in used), key=lambda term: (-term[0], -term[1].matrix[0, 0])
        )
        if (one := combined(terms, None, None, most, key)) is not None:
            found.append((atom, one))
    return found


def _atoms(name: str, contains: Contains, above: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The undivided groups of a release or a group."""
    if name in above:
        raise BayesreconError(f"membership: {name} contains itself")
    if name not in contains:
        return (name,)
    atoms = [atom for part in contains[name] for atom in _atoms(part, contains, (*above, name))]
    if (twice := next((atom for atom in atoms if atoms.count(atom) > 1), None)) is not None:
        raise BayesreconError(f"membership: {name} contains {twice} twice; its groups are to be disjoint")
    return tuple(atoms)

"""Search for releases whose difference is one record or a few: pairs, and one release of two disjoint parts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.attacks.differences.one_record import Between, between, count_between, other_units, shared

Signed = Sequence[Gram]
"""The possible Gram matrices of one release: one, or two that differ in the sign of a mean."""


@dataclass(frozen=True)
class Search:
    """What a search found.

    Attributes:
        found: one entry for each related combination.
        pairs, triples: numbers of combinations whose counts differ by one or a few records.
        units: `(whole, part, field, ratio)` for releases of nearly as many records in different units.
        ambiguous: pairs that are related for several signs of a mean.
    """

    found: tuple[Between, ...]
    pairs: int
    triples: int
    units: tuple[tuple[str, str, str, float], ...]
    ambiguous: tuple[tuple[str, ...], ...]


def search(releases: Sequence[Signed], most: int = 9, key: int = 0) -> Search:
    """Compare all pairs and triples of releases.

    Args:
        releases: the possible Gram matrices of each.
        most: largest number of records in a difference.
        key: seed.
    """
    usable = [release for release in releases if release]
    pairs = list(_close(usable, 1, most))
    triples = list(_close(usable, 2, most))
    comparisons = 2 * sum(math.prod(map(len, one)) for one in (*pairs, *triples))
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
    return Search(tuple(found), len(pairs), len(triples), tuple(units), tuple(ambiguous))


def _close(releases: Sequence[Signed], parts: int, most: int) -> Iterator[tuple[Signed, ...]]:
    """Combinations of a whole and its parts whose numbers of records may differ by a few."""
    for whole in releases:
        others = [one for one in releases if one is not whole and one[0].matrix[0, 0] < whole[0].matrix[0, 0] + 1]
        for chosen in combinations(others, parts):
            count = count_between(whole[0], [part[0] for part in chosen])
            if count is not None and 1 <= count <= most and shared(whole[0], [part[0] for part in chosen]):
                yield whole, *chosen


def _relation(whole: Gram, parts: Sequence[Gram], comparisons: int, most: int, key: int) -> Between | None:
    """The difference in all fields; if that shows nothing, without a response that has the same name by chance."""
    every = shared(whole, parts)
    covariates = tuple(f for f in every if f != whole.fields[-1])
    for fields in dict.fromkeys((every, covariates)):
        found = between(whole, parts, fields, comparisons, most, key)
        if found is not None:
            return found
    return None

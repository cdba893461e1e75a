"""Records that are in one release and not in others, from the difference of their totals.

If the difference is one record, that of the Gram matrices of `(1, x, y)` is `v v'`, of rank one. The record v is
estimated by generalised least squares with the covariance of the rounding errors, in units in which the larger
release has mean zero and standard deviation one. Two questions are asked of the rest:

* Is the difference of rank one at all? The residual is tested (chi squared), and the evidence for one record,
  integrated over v, is compared with the evidence for releases of different people, whose totals differ by `sqrt(2 n)`.
* What else would look the same? If one record w was also exchanged for u, or one of its values was corrected, the
  difference is `v v' + w w' - u u'`. Pairs w and u are drawn from the records' normal distribution and weighted by how
  well some v then explains the difference. A second interval for v holds under these alternatives as well. Those that
  would pass in less than a share `_EXCLUDED` of cases are called excluded.

Two releases of as many records may differ by one record v that was exchanged for u, or of which a value was corrected.
The difference is then `v v' - u u'`, which determines both. The same two questions are asked of the rest (`exchanged`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import chdtrc, ndtri

from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.attacks.differences.totals_difference import LEVEL, REJECTED, TotalsDifference
from bayesrecon.domains import Domain

_ODDS = 200.0  # evidence against different people, for each comparison
_EXCLUDED = 2e-3  # evidence relative to one record alone, below which an alternative is excluded
_CHANGED = 2e-4  # the same where another field's totals do not agree, so that something else did change
_SPREADS = (2.0, 8.0)  # variances of records between releases, in that of all records
_CURVED = 0.05  # relative rounding error of n, above which the effect of rounding is not linear
_COARSE = 0.25  # standard error of a sum, in standard deviations, above which squares are not used
_MOST_VALUES = 50_000  # sets of values that are compared
_MOVED = 10.0  # standard errors of the difference of sums, below which the records of an exchange are not told
_FEW = (4.0, 16.0)  # records that differ between releases where more than one was exchanged
_SAME = 0.01  # the same in standard deviations of the fields
_UNIT = 1.5  # ratio of means and of standard deviations from which a unit may differ


@dataclass(frozen=True, eq=False)
class Between:
    """What is in one release and not in others.

    Attributes:
        whole, parts: names of the releases.
        count: number of records.
        fields: `(K,)`, the fields that all of them share.
        estimate, half: `(K,)`, mean of these records (their values, if one) with half of its 95 % interval.
        lower, upper: `(K,)`, interval of a single record if another one was corrected or exchanged as well.
        spread: `(2, K)`, sums of squared deviations of these records from their means, and half of the intervals.
        sd: `(K,)`, standard deviations of the fields in the whole.
        evidence: logarithm of the odds against different people.
        open: names of the alternatives that the second interval had to cover.
        disagrees: shared fields whose totals do not agree with these records, and which were left out.
        exchanged: whether the part has another record instead, so that both are of as many records.
    """

    whole: str
    parts: tuple[str, ...]
    count: int
    fields: tuple[str, ...]
    estimate: np.ndarray
    half: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    spread: np.ndarray
    sd: np.ndarray
    evidence: float
    open: tuple[str, ...] = field(default=())
    disagrees: tuple[str, ...] = ()
    exchanged: bool = False

    def alternatives(self, fields: Sequence[str]) -> tuple[str, str]:
        """The alternatives of the second interval, and this interval of fields, in words."""
        at = [self.fields.index(name) for name in fields]
        ranges = ", ".join(f"{self.fields[i]} {_range(self.lower[i], self.upper[i])}" for i in at)
        return "if a value of another record was corrected as well" + (
            ", or another record exchanged" * (not self.exchanged)
        ), ranges

    def only_values(self, domain_of: Callable[[str], Domain]) -> dict[str, tuple[float, ...]]:
        """The values of each field of all these records; empty unless whole numbers or levels leave one possibility.

        Values are possible if their mean and their squared deviations are within two half intervals of what is known.

        Args:
            domain_of: function of a field's name.
        """
        return {name: self._only(i, domain_of(name)) for i, name in enumerate(self.fields)}

    def _only(self, i: int, domain: Domain) -> tuple[float, ...]:
        centre, half = self.estimate[i], 2 * self.half[i]
        reach = half + math.sqrt(max(self.spread[0, i] + 2 * self.spread[1, i], 0.0))
        low, high = (min(max(x, end), 1e15) for x, end in ((centre - reach, -1e15), (centre + reach, -1e15)))
        if not domain.discrete or high - low > _MOST_VALUES:
            return ()
        whole = np.arange(math.ceil(low), math.floor(high) + 1.0)
        levels = np.array(domain.levels) if domain.levels else whole[(domain.low <= whole) & (whole <= domain.high)]
        levels = np.sort(levels[(low <= levels) & (levels <= high)])
        if not len(levels) or math.comb(len(levels) + self.count - 1, self.count) > _MOST_VALUES:
            return ()
        sets = np.array(list(combinations_with_replacement(levels, self.count)))
        near = np.abs(sets.mean(axis=1) - centre) <= half
        off = np.abs(sets.var(axis=1) * self.count - self.spread[0, i])
        (possible,) = np.nonzero(near & (off <= 2 * self.spread[1, i] + 1e-9 * self.sd[i] ** 2))
        return tuple(sets[possible[0]].tolist()) if len(possible) == 1 else ()


def _range(low: float, high: float) -> str:
    digits = max(math.ceil(math.log10(max(abs(low), abs(high), 1e-300) / max(high - low, 1e-300))) + 2, 3)
    return f"{low:.{min(digits, 9)}g} to {high:.{min(digits, 9)}g}"


Term = tuple[float, Gram]
"""A release and its factor in a combination: 1 for a whole, -1 for a part."""


def between(
    whole: Gram,
    parts: Sequence[Gram],
    fields: tuple[str, ...] | None = None,
    comparisons: int | None = 1,
    most: int = 9,
    key: int = 0,
) -> Between | None:
    """The records in `whole` that are in none of `parts`; None if the totals show no such relation.

    Args:
        whole: the release with more records.
        parts: releases of disjoint subsets of its records.
        fields, comparisons, most, key: as in `combined`.

    >>> from bayesrecon.attacks.differences.gram import gram_of
    >>> two = [((20.1852, 5e-5), (0.490695, 5e-7)), ((19.7264, 5e-5), (0.491053, 5e-7))]
    >>> se = [((3.44215, 5e-6), (0.0671696, 5e-8)), ((2.47118, 5e-6), (0.0482142, 5e-8))]
    >>> all_, rest = (gram_of("", ("age", "income"), b, e, (s, 5e-6), n=n)
    ...               for b, e, s, n in zip(two, se, (6.66755, 4.78594), (111, 110)))
    >>> found = between(all_, [rest])
    >>> found.count, found.estimate.round(2).tolist()
    (1, [50.3, 93.35])
    """
    return combined([(1.0, whole), *((-1.0, part) for part in parts)], fields, comparisons, most, key)


def combined(
    terms: Sequence[Term],
    fields: tuple[str, ...] | None = None,
    comparisons: int | None = 1,
    most: int = 9,
    key: int = 0,
) -> Between | None:
    """The records whose totals are a combination of those of releases; None if these are not totals of a few records.

    Args:
        terms: the combination. The first release describes the records.
        fields: those to compare, all shared ones by default.
        comparisons: number of combinations that are compared. The odds are required of all of them. None if the
            relation is known, and not tested.
        most: largest number of records.
        key: seed.
    """
    every = shared(terms[0][1], [gram for _, gram in terms[1:]])
    fields = every if fields is None else fields
    count = count_of(terms)
    if not fields or count is None or not 1 <= count <= most:
        return None
    posed = _posed(terms, fields, count)
    if posed is None:
        return None
    problem, mean, sd = posed
    records = sum(abs(factor) * gram.matrix[0, 0] for factor, gram in terms)
    names = in_words(terms)
    apart = problem.evidence_of_many(records, count)
    least = -math.inf if comparisons is None else math.log(_ODDS * comparisons)
    if count > 1:
        return _group(problem, names, fields, count, mean, sd, apart, least)
    v, covariance, misfit = problem.record()
    freedom = len(problem.difference) - len(v)
    evidence = problem.evidence(v, covariance, misfit) - apart
    if comparisons is not None and (chdtrc(freedom, misfit) < REJECTED or evidence < least):
        return None
    alone = np.sqrt(np.diag(problem.errors)[: len(v)])
    if (alone > _COARSE).any():  # squares may then have several solutions, and sums have one
        v, covariance = problem.difference[: len(v)], problem.errors[: len(v), : len(v)]
    half = -ndtri(LEVEL / 2 / len(v)) * np.sqrt(np.diag(covariance))
    excluded = _EXCLUDED if len(fields) == len(every) else _CHANGED
    lower, upper, open_ = problem.alternatives(v, covariance, misfit, half, excluded, np.random.default_rng(key))
    return Between(
        *names,
        1,
        fields,
        mean + sd * v,
        sd * half,
        mean + sd * lower,
        mean + sd * upper,
        np.zeros((2, len(v))),
        sd,
        evidence,
        open_,
    )


def _posed(
    terms: Sequence[Term], fields: Sequence[str], count: int
) -> tuple[TotalsDifference, np.ndarray, np.ndarray] | None:
    """The difference of totals, with means and standard deviations of the fields; None if one is constant."""
    (_, whole), *others = terms
    at = [whole.fields.index(f) for f in fields]
    mean, sd = (moment[at] for moment in whole.moments)
    if not (sd > 0).all():
        return None
    totals, errors = whole.standardised(fields, mean, sd)
    correlation = totals[1:, 1:] / whole.matrix[0, 0]
    totals, errors = terms[0][0] * totals, terms[0][0] ** 2 * errors
    for factor, part in others:
        more, its_errors = part.standardised(fields, mean, sd)
        totals, errors = totals + factor * more, errors + factor**2 * its_errors
    sums = totals[np.triu_indices(len(totals))]
    if errors[0, 0] > 0:  # the counts are not known, and it is assumed that they differ by one
        gain = errors[0] / errors[0, 0]
        sums, errors = sums + gain * (count - sums[0]), errors - np.outer(gain, errors[0])
    return TotalsDifference(sums[1:], errors[1:, 1:], len(fields), correlation), mean, sd


def agree(one: Gram, other: Gram) -> bool:
    """Whether releases of as many records may be of the same ones."""
    posed = _posed([(1.0, one), (-1.0, other)], shared(one, [other]), 0)
    return posed is None or posed[0].agrees


def exchanged(
    one: Gram, other: Gram, comparisons: int | None = 1, key: int = 0, fields: tuple[str, ...] | None = None
) -> tuple[Between, ...]:
    """The record that only `one` has, and the record that only `other` has instead; none if the totals show no such
    exchange, or are those of the same records. The evidence is compared with that for several exchanged records, and
    for different people.

    Args:
        one, other: releases of as many records.
        comparisons, key, fields: as in `combined`.
    """
    every = shared(one, [other])
    fields = every if fields is None else fields
    posed = _posed([(1.0, one), (-1.0, other)], fields, 0) if len(fields) > 1 and one.n == other.n is not None else None
    if posed is None:
        return ()
    problem, mean, sd = posed
    k = len(fields)
    moved, alone = problem.difference[:k], problem.errors[:k, :k]
    apart = float(moved @ np.linalg.pinv(alone, hermitian=True) @ moved)
    told = apart >= _MOVED**2 and np.abs(moved).max() >= _SAME and (np.diag(alone) <= _COARSE**2).all()
    if problem.agrees or not told:
        return ()
    others = max(problem.evidence_of_many(records, 0) for records in (*_FEW, 2 * one.matrix[0, 0]))
    least = -math.inf if comparisons is None else others + math.log(_ODDS * comparisons)
    evidence, sign = max((problem.evidence_of_exchange(sign), sign) for sign in (1.0, -1.0))
    excluded = _EXCLUDED if len(fields) == len(every) else _CHANGED
    found = problem.signed(sign).exchanged(excluded, np.random.default_rng(key)) if evidence >= least else None
    if found is None:
        return ()
    estimate, half, lower, upper, open_ = found
    order = (0, 1) if sign > 0 else (1, 0)
    return tuple(
        Between(
            a.name,
            (b.name,),
            1,
            fields,
            mean + sd * estimate[i],
            sd * half[i],
            mean + sd * lower[i],
            mean + sd * upper[i],
            np.zeros((2, k)),
            sd,
            evidence - others,
            open_,
            exchanged=True,
        )
        for i, (a, b) in zip(order, ((one, other), (other, one)), strict=True)
    )


def in_words(terms: Sequence[Term]) -> tuple[str, tuple[str, ...]]:
    """What a combination adds, and the names of what it subtracts."""

    def named(factor: float, gram: Gram) -> str:
        return gram.name if abs(factor) == 1 else f"{abs(factor):.3g} {gram.name}"

    added = " and ".join(named(*term) for term in terms if term[0] > 0)
    return added, tuple(named(*term) for term in terms if term[0] < 0)


def count_of(terms: Sequence[Term]) -> int | None:
    """The number of records; 1 if that is possible and errors leave others; else None."""
    if all(gram.n is not None for _, gram in terms):
        count = sum(factor * (gram.n or 0) for factor, gram in terms)
        return round(count) if abs(count - round(count)) < 1e-6 else None
    if any(gram.protected for _, gram in terms):
        return None
    count, whole = sum(factor * gram.matrix[0, 0] for factor, gram in terms), terms[0][1]
    open_ = sum(abs(factor) * gram.open for factor, gram in terms if gram.n is None)
    return 1 if abs(count - 1) <= open_ + 1e-6 and open_ < _CURVED * whole.matrix[0, 0] else None


def shared(whole: Gram, parts: Sequence[Gram]) -> tuple[str, ...]:
    """Fields that all releases have, in the order of the first one."""
    return tuple(f for f in whole.fields if all(f in part.fields for part in parts))


def other_units(one: Gram, other: Gram) -> dict[str, float]:
    """Fields that two releases give in different units, with the ratio of these.

    Mean and standard deviation differ by the same factor.
    """
    found = {}
    for name in shared(one, [other]):
        first, second = ([m[g.fields.index(name)] for m in g.moments] for g in (one, other))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.divide(first, second)
        factor = max(ratio[1], 1 / ratio[1]) if ratio[1] > 0 else math.nan
        if factor > _UNIT and abs(math.log(max(ratio[0] / ratio[1], 1e-9))) < 0.1 * max(math.log(factor), 1.0):
            found[name] = float(ratio[1])
    return found


def _group(
    problem: TotalsDifference,
    names: tuple[str, tuple[str, ...]],
    fields: tuple[str, ...],
    count: int,
    mean: np.ndarray,
    sd: np.ndarray,
    apart: float,
    least: float,
) -> Between | None:
    """Totals of several records."""
    evidence = float(np.logaddexp.reduce([problem.evidence_of_many(x * count, count) for x in _SPREADS]))
    evidence -= math.log(len(_SPREADS)) + apart
    if evidence < least or (math.isfinite(least) and not problem.possible(count)):
        return None
    k, level = len(fields), -ndtri(LEVEL / 2 / len(fields))
    half = level * np.sqrt(np.diag(problem.errors)[:k]) / count
    estimate = mean + sd * problem.difference[:k] / count
    ends = estimate - sd * half, estimate + sd * half
    sums, squares = problem.difference[:k], k + np.flatnonzero(np.equal(*problem.products))
    slopes = np.zeros((k, len(problem.difference)))
    slopes[range(k), range(k)], slopes[range(k), squares] = -2 * sums / count, 1.0
    error = level * np.sqrt(np.einsum("kq,qr,kr->k", slopes, problem.errors, slopes))
    spread = sd**2 * np.stack([problem.difference[squares] - sums**2 / count, error])
    return Between(*names, count, fields, estimate, sd * half, *ends, spread, sd, evidence)

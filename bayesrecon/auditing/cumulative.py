"""What several outputs determine only together: statistics of the same records, from all of them.

Exact statistics of the same records are intersected. Those of draws are averaged by inverse variance, which is right
only for errors that are independent: outputs that show the same draws count once, and so do outputs that have the same
measure added to their data. Files that `sanitise` wrote name their measure (`results.sanitised.MEASURE`); without a
name, measures count once unless they clearly differ. Draws with a guarantee of differential privacy are left out, since
epsilon bounds what they add.

Outputs are of the same records if exact statistics of both agree to a fraction of what one record adds to them, and
closer than those of other people would. Where they neither agree so well nor differ, that is a premise, which the
finding states. Outputs that differ are not pooled.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations, starmap
from typing import cast

import numpy as np
from scipy.spatial import KDTree
from scipy.special import chdtrc

from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.auditing.look import Asked, Determined, Released
from bayesrecon.auditing.sensitive_values import parameters_of
from bayesrecon.auditing.small_counts import counts_of, small, small_counts
from bayesrecon.auditing.stage import INCALCULABLE
from bayesrecon.auditing.wording import items
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.limits_pooling import pooled_limits
from bayesrecon.estimation.pooling import pooled_rows
from bayesrecon.estimation.recovered import recovered
from bayesrecon.knowledge import of_model
from bayesrecon.model import listed
from bayesrecon.posteriors.draws import Draws
from bayesrecon.releases import GuaranteedDraws, PosteriorDraws, Release
from bayesrecon.results.findings import Finding, Remedy, Severity
from bayesrecon.results.recovery import Recovery
from bayesrecon.results.row import Row
from bayesrecon.results.sanitised import ATTRIBUTE, MEASURE, NAME_OF_MEASURE

KIND = "outputs together"

_ONE = 0.25  # error of a total, in what one record adds to it, below which a record more or less would be seen
_ODDS = 200.0  # evidence against other people, for each comparison
_FAR = 2.0  # standard errors between the intervals of two outputs: they are of other records
_SAME = 1e-6  # relative, of exact statistics of the same records
_REJECTED = 1e-4  # p value below which outputs with a measure added do not have the same one
_WORTH, _LEAST = re.compile(r"worth ([0-9]+(?:[.][0-9]*)?(?:e[+]?[0-9]{1,3})?) draws"), 100.0  # the least there is
_COLUMNS, _SHOWN = 4, 300  # of draws that are kept, to see whether another output has the same ones
_NARROWER = 0.8  # ratio of intervals from which the finding names a statistic
_NAMED = 4  # statistics in a sentence
_TABLES = 12  # that are read together, with each pair of nested ones

_REMEDIES = (Remedy("publish it on other records, or without what is new", leaves="info"),)


def of_draws(recovery: Recovery, release: PosteriorDraws, draws: Draws | None) -> Determined:
    """What draws determine, and their first columns, by which copies of the same draws are recognised.

    Args:
        draws: as they are in the file, with its attributes.
    """
    marked = None if draws is None else draws.attributes.get(ATTRIBUTE)
    written = _WORTH.match(str(marked))
    worth = None if marked is None else max(float(written[1]), _LEAST) if written else _LEAST
    measure = None if draws is None or worth is None else str(draws.attributes.get(MEASURE))
    measure = measure if measure is not None and NAME_OF_MEASURE.fullmatch(measure) else None
    names = parameters_of(release.model) or ()
    columns = [  # as they are written, so that their digits can be seen
        np.asarray(values, float).reshape(draws.chains * draws.length, -1)
        for name, values in ({} if draws is None else dict(sorted(draws.values.items()))).items()
        if draws is not None and name in names
    ]
    columns = columns or [np.asarray(release.theta[:])]
    every = np.concatenate([c[:, :_COLUMNS] for c in columns], axis=1)[:, :_COLUMNS]
    every = every[np.isfinite(every).all(axis=1)]
    return Determined(tuple(recovery), every, worth, isinstance(release, GuaranteedDraws), measure)


def errors_of_measure(by: Determined) -> float:
    """How many times as large the errors of totals are, at most, because a measure was added to the data."""
    most = max((row.ess or 0.0 for row in by.rows), default=0.0)
    return 1.0 if by.worth is None else math.sqrt(1 + most / by.worth)


def shown(draws: np.ndarray) -> np.ndarray:
    """The draws that the ledger keeps, at random positions: those of a thinned copy are among them as well."""
    return draws[np.sort(np.random.default_rng(0).permutation(len(draws))[:_SHOWN])]


def examined(one: Released, asked: Asked) -> Released:
    """An output with what it determines."""
    if one.determined is not None or one.release is None:
        return one
    try:
        recovery = recovered(one.release, **of_model(asked.knows, one.release.about), key=asked.key).judged()
    except (BayesreconError, *INCALCULABLE) as error:
        return replace(one, determined=Determined((), error=str(error)))
    return replace(one, determined=Determined(tuple(recovery)))


@dataclass(frozen=True, eq=False)
class _Output:
    """An output with what it determines."""

    name: str
    part: str | None
    release: Release | None
    by: Determined
    rows: tuple[Row, ...]

    @cached_property
    def steps(self) -> np.ndarray:
        """`(d,)`, the largest rounding error of the draws that it shows."""
        assert self.by.draws is not None
        return np.array([0.5 * resolution(column).step.max(initial=0.0) for column in self.by.draws.T])

    @cached_property
    def spread(self) -> np.ndarray:
        """`(d,)`, standard deviations of the draws that it shows."""
        assert self.by.draws is not None
        return self.by.draws.std(axis=0)

    @cached_property
    def first(self) -> np.ndarray:
        """The first column of the draws that it shows, in ascending order."""
        assert self.by.draws is not None
        return np.sort(self.by.draws[:, 0])

    @cached_property
    def known(self) -> dict[str, Row]:
        return {r.name: r for r in self.rows if _is_known(r)}


def _is_known(row: Row) -> bool:
    return row.verdict == "determined" and row.estimate is not None and row.lower is not None and row.upper is not None


def _output(one: Released, asked: Asked) -> _Output | None:
    if (by := examined(one, asked).determined) is None or by.error:
        return None
    rows = by.rows if by.worth is None else tuple(_with_measure(row, by.worth) for row in by.rows)
    return _Output(one.name, one.part, one.release, by, rows)


def _with_measure(row: Row, worth: float) -> Row:
    """A statistic of draws from altered data, whose error is that of so many draws at least."""
    if not _is_known(row) or not row.se or not row.ess:
        return row
    return _wider(row, row.se * math.sqrt(row.ess / worth))


def _wider(row: Row, error: float) -> Row:
    """A sampled statistic with a further independent error."""
    if not _is_known(row) or not row.se:
        return row
    se = math.hypot(row.se, error)
    more = Z95 * (se - row.se)
    return replace(row, se=se, lower=cast(float, row.lower) - more, upper=cast(float, row.upper) + more)


def find(released: Sequence[Released], asked: Asked) -> list[Finding]:
    """Findings on each new output together with those before, or on all of them if none was before."""
    outputs = [o for one in released if (o := _output(one, asked)) is not None]
    guarded = [o for o in outputs if o.by.guaranteed]
    outputs = [o for o in outputs if not o.by.guaranteed]
    new, before = ([o for o in outputs if (o.name in asked.earlier) is there] for there in (False, True))
    if not before and len(new) > 1:
        best = max(new, key=lambda o: len(o.known))
        new, before = [best], [o for o in new if o is not best]
    pairs = _Pairs(outputs)
    found = [f for one in new if before for f in _together(one, before, pairs, asked)]
    if unknown := [o for o in released if o.name in asked.earlier and o.determined is None and o.release is None]:
        names = listed(tuple(o.name for o in unknown))
        text = f"{names}: the ledger does not know what they determine; enter them again, with their model"
        found.append(Finding(KIND, "info", "earlier outputs were not compared", (), text, "all outputs"))
    if guarded and len(released) > 1:
        names = listed(tuple(o.name for o in guarded))
        text = f"{names}: what they add to other outputs is bounded by the epsilon that the account has spent"
        found.append(
            Finding(KIND, "info", "draws with a guarantee are not pooled with others", (), text, "all outputs")
        )
    return found


def _together(one: _Output, before: Sequence[_Output], pairs: "_Pairs", asked: Asked) -> Iterator[Finding]:
    """What one output determines together with those before: of the same records, and of those that may be."""
    certain, reasons = [one], dict[str, str]()
    waiting = list(before)
    while joined := [o for o in waiting if any(frozenset((o.name, c.name)) in pairs.same for c in certain)]:
        certain += joined
        waiting = [o for o in waiting if o not in joined]
    possible = list(certain)
    for other in waiting:
        reason = next(filter(None, (apart(other, member) for member in possible)), "")
        if reason:
            reasons[other.name] = reason
        elif other.known or other.release is not None:
            possible.append(other)
    earlier = "earlier" if asked.earlier else "other"
    apart_ = ""
    if reasons:
        first = next(iter(reasons.values()))
        some = f"{len(reasons)} {earlier} output{'s are' if len(reasons) > 1 else ' is'}"
        apart_ = f"{some} of other records ({first}) and not pooled"
    ends = [group for group in (certain, possible) if len(group) > 1]
    if len(ends) == 2 and len(certain) == len(possible):
        ends = ends[:1]
    for group in ends:
        yield from _findings(one, group, group is not certain, pairs, earlier, apart_, asked)
    if not ends and reasons:
        yield Finding(KIND, "info", "no other output is of the same records", (one.name,), apart_, "all outputs")


def _findings(
    one: _Output,
    group: Sequence[_Output],
    presumed: bool,
    pairs: "_Pairs",
    earlier: str,
    rest: str,
    asked: Asked,
) -> Iterator[Finding]:
    """The finding on outputs of the same records, and those on small counts that only all of them tell.

    Args:
        presumed: whether that they are is a premise.
        rest: what is said of the other outputs.
    """
    where, needs = tuple(o.name for o in group), "the models, and all of these outputs"
    needs += ", and that they are of the same records" * presumed
    try:
        rows, once = _pooled(group, pairs, asked)
    except BayesreconError as error:
        yield Finding(KIND, "info", "the outputs are not pooled", where, str(error), needs)
        return
    before, after = one.known, {r.name: r for r in rows if _is_known(r)}
    new = [row for name, row in after.items() if name not in before]
    closer = [row for name, row in after.items() if name in before and _width(row) < _NARROWER * _width(before[name])]
    closer.sort(key=lambda row: (row.name != "n", _width(row) / _width(before[row.name])))
    k, total = len(group) - 1, len({r.name for r in (*one.rows, *rows)})
    those = f"the {earlier} output" if k == 1 else f"the {k} {earlier} outputs"
    alone = "this output" if asked.earlier else one.name
    counted = f"{len(after)} of {total} statistics are determined; {alone} alone determines {len(before)}"
    if presumed:
        sentence = f"if they are of the same records, which is not established, with {those} {counted}"
    else:
        sentence = f"with {those} of the same records {counted}"
    parts = [sentence]
    if new:
        parts.append("new: " + _listed(f"{row.name} = {_number(row)}" for row in new))
    if closer:
        parts.append("closer: " + _listed(f"{r.name} = {_number(r)}, before {_number(before[r.name])}" for r in closer))
    if once:
        shared = "shares its errors with another one and counts" if len(once) == 1 else "share errors and count"
        parts.append(f"{_listed(once)} {shared} once")
    parts += [rest] if rest else []
    level: Severity = "low" if new or closer else "info"
    sharp = [r for r in (*new, *closer) if r.name == "n" or r.name.startswith("n[")]
    if any(_is_exact(r, asked) and not (r.name in before and _is_exact(before[r.name], asked)) for r in sharp):
        level = "medium"
    if level == "info":
        title = f"{those} add{'s' * (k == 1)} nothing to what {one.name} determines"
    elif new:
        title = f"{one.name} with {those} determines {len(new)} statistic{'s' * (len(new) > 1)} that it does not alone"
    else:
        title = f"{one.name} with {those} determines statistics more closely than alone"
    premise = ", if they are of the same records" * presumed
    evidence, remedies = items([*new, *closer]), _REMEDIES if level != "info" else ()
    yield Finding(KIND, level, title + premise, where, "; ".join(parts), needs, evidence, remedies)
    model, limit = None if one.release is None else one.release.about, asked.thresholds
    told = {c.cell for o in group for c in small(counts_of(o.rows, model, ""), limit)}
    counts = [c for c in counts_of(after.values(), model, "by all of these outputs") if c.cell not in told]
    yield from small_counts(counts, limit, where, needs, premise)


def _is_exact(row: Row, asked: Asked) -> bool:
    """Whether a sampled count is known to the record."""
    return bool(row.se) and row.se < asked.thresholds.exact_count


def _number(row: Row) -> str:
    """A statistic with its error, or by itself if that is below the digits that are shown."""
    sure = _width(row) < 1e-3 * abs(cast(float, row.estimate))
    return f"{row.estimate:.5g}{'' if sure else row.error}"


def _listed(texts: Iterable[str]) -> str:
    return listed(tuple(texts), _NAMED)


def _width(row: Row) -> float:
    return cast(float, row.upper) - cast(float, row.lower)


def _pooled(group: Sequence[_Output], pairs: "_Pairs", asked: Asked) -> tuple[tuple[Row, ...], list[str]]:
    """The statistics of outputs of the same records, and the names of those that count once with others.

    Outputs that share errors count as one.
    """
    sources, once = list[Iterable[Row]](), list[str]()
    for alike in _with_common_errors(group, pairs):
        measures = {o.by.measure: o.name for o in reversed(alike) if o.by.measure is not None}  # the first of each
        once += [o.name for o in alike[1:] if o.name not in measures.values()]
        sources.append(_one_of(alike, pairs))
    tables = [o.release for o in group if o.release is not None and kind_of(o.release).states][:_TABLES]
    if len(tables) > 1:
        n = next((r.lower for o in group if (r := o.known.get("n")) is not None and r.lower == r.upper), None)
        knows = {**asked.knows, **({} if n is None else {"total": n})}
        with suppress(BayesreconError):  # what is stated does not fit all of them
            together = pooled_limits(tables, partial(recovered, key=asked.key), knows)
            sources.append(() if together.failures else tuple(together))
    return pooled_rows(sources), once


def _one_of(alike: Sequence[_Output], pairs: "_Pairs") -> Iterable[Row]:
    """The statistics of outputs with common errors: of each, the most precise.

    Outputs with the same measure added are averaged, and the error of the measure counts once. Independent measures
    that were added to the posterior of the same draws are averaged, and the error of these draws counts once.
    """
    measured: dict[str | None, list[_Output]] = {}
    for one in (o for o in alike if o.by.worth is not None):
        measured.setdefault(one.by.measure, []).append(one)
    each = [_of_measure(ones, pairs) for name, ones in measured.items() if name is not None or len(measured) == 1]
    common = {r.name: max(q.se or 0.0 for o in alike for q in o.by.rows if q.name == r.name) for r in alike[0].rows}
    pooled = each if len(each) < 2 else [[_wider(r, common.get(r.name, math.inf)) for r in pooled_rows(each)]]
    return _most_precise([*(o.rows for o in alike), *pooled])


def _of_measure(ones: Sequence[_Output], pairs: "_Pairs") -> Iterable[Row]:
    """The statistics of outputs with the same measure added, or that may have the same."""
    if len(ones) == 1 or any(starmap(pairs.may_share, combinations(ones, 2))):
        return _most_precise([o.rows for o in ones])
    worth = min(o.by.worth for o in ones if o.by.worth is not None)
    return [_with_measure(row, worth) for row in pooled_rows(o.by.rows for o in ones)]


def _most_precise(sources: Sequence[Iterable[Row]]) -> list[Row]:
    best: dict[str, Row] = {}
    for row in (row for rows in sources for row in rows):
        kept = best.get(row.name)
        if kept is None or (_is_known(row), -(row.se or 0.0)) > (_is_known(kept), -(kept.se or 0.0)):
            best[row.name] = row
    return list(best.values())


def _with_common_errors(group: Sequence[_Output], pairs: "_Pairs") -> list[list[_Output]]:
    """The outputs, together with those that may have the same errors.

    Different draws have independent errors. A table computed from draws does not say from which, so it may share the
    errors of any. Measures that are named are the same or independent. Draws from data with the same measure added
    differ by their Monte Carlo errors alone, which a chi-squared test examines.
    """
    found = list[list[_Output]]()
    for one in sorted(group, key=lambda o: o.by.measure is None):
        alike = [ones for ones in found if any(pairs.may_share(one, other) for other in ones)]
        if not alike and one.by.worth is not None:
            measured = [ones for ones in found if _may_have(ones, one.by.measure)]
            best = max(measured, key=lambda ones: _agreement(one, ones), default=None)
            alike = [best] if best is not None and _agreement(one, best) > _REJECTED else []
        found = [*(ones for ones in found if ones not in alike), [*(o for ones in alike for o in ones), one]]
    return found


def _may_have(ones: Sequence[_Output], measure: str | None) -> bool:
    """Whether these may have this measure; None for one that is not named."""
    named = {o.by.measure for o in ones}
    return all(o.by.worth is not None for o in ones) and (measure is None or bool(named & {measure, None}))


def _agreement(one: _Output, others: Sequence[_Output]) -> float:
    """p value of the difference to the mean of others, by the errors of the draws alone."""
    own = {r.name: r for r in one.by.rows if _is_known(r) and r.se}
    mean = {r.name: r for r in pooled_rows(o.by.rows for o in others) if _is_known(r) and r.se}
    shared = [(own[name], mean[name]) for name in own.keys() & mean.keys()]
    misfit = sum(
        (cast(float, a.estimate) - cast(float, b.estimate)) ** 2 / (cast(float, a.se) ** 2 + cast(float, b.se) ** 2)
        for a, b in shared
    )
    return float(chdtrc(max(len(shared), 1), misfit))


def _is_sampled(output: _Output) -> bool:
    return any(row.se for row in output.rows)


class _Pairs:
    """What pairs of outputs have in common.

    Attributes:
        common: the names of those that show the same draws.
        same: the names of those that are of the same records, by common draws, by the same measure, which belongs to
            one table, or by exact statistics that agree.
    """

    def __init__(self, outputs: Sequence[_Output]) -> None:
        drawn = [o for o in outputs if o.by.draws is not None]
        self.common = {frozenset((a.name, b.name)) for a, b in combinations(drawn, 2) if _have_common(a, b)}
        exact = [o for o in outputs if (n := o.known.get("n")) is not None and n.lower == n.upper]
        odds = math.log(_ODDS * max(len(outputs) - 1, 1))
        agreeing = {
            frozenset((a.name, b.name))
            for a, b in combinations(exact, 2)
            if a.known["n"].lower == b.known["n"].lower and not apart(a, b) and _agree(a.known, b.known, odds)
        }
        measured = (pair for pair in combinations(outputs, 2) if pair[0].by.measure == pair[1].by.measure is not None)
        self.same = self.common | agreeing | {frozenset((a.name, b.name)) for a, b in measured if not apart(a, b)}

    def may_share(self, one: _Output, other: _Output) -> bool:
        """Whether two outputs may show the same draws."""
        if not all(_is_sampled(o) and (o.by.draws is not None or o.by.measure is None) for o in (one, other)):
            return False  # the errors of a mode are those of its measure alone
        shown = one.by.draws is not None and other.by.draws is not None
        return frozenset((one.name, other.name)) in self.common if shown else True


def _have_common(one: _Output, other: _Output) -> bool:
    """Whether two outputs have at least two draws in common, up to the digits with which they are written."""
    first, second = one.by.draws, other.by.draws
    if first is None or second is None or first.shape[1] != second.shape[1]:
        return False
    tolerance = 1.01 * (one.steps + other.steps) + 1e-9 * one.spread + 1e-300
    near = np.searchsorted(one.first, [second[:, 0] - tolerance[0], second[:, 0] + tolerance[0]])
    second = second[near[0] < near[1]]  # by the first column alone, which is fast
    if len(second) < 2:
        return False
    distance = KDTree(first / tolerance).query(second / tolerance, p=math.inf, distance_upper_bound=1.0)[0]
    return int(np.isfinite(distance).sum()) > 1


def apart(one: _Output, other: _Output) -> str:
    """Why two outputs are not of the same records; empty if nothing shows it."""
    if one.part != other.part and None not in (one.part, other.part):
        return f"{one.name} is of part {one.part}, and {other.name} of part {other.part}"
    first, second = one.known, other.known
    for name in sorted(first.keys() & second.keys(), key=lambda name: (name != "n", name)):
        a, b = first[name], second[name]
        gap = max(cast(float, a.lower), cast(float, b.lower)) - min(cast(float, a.upper), cast(float, b.upper))
        if gap > _FAR * math.hypot(a.se or 0.0, b.se or 0.0) + _SAME * (1 + abs(cast(float, a.estimate))):
            return f"{name} is {a.estimate:.6g} in {one.name} and {b.estimate:.6g} in {other.name}"
    return ""


def _agree(one: Mapping[str, Row], other: Mapping[str, Row], odds: float) -> bool:
    """Whether a field agrees to a fraction of one record, and closer than that of other people, by these odds.

    Means of n other people differ by `sd (2 / n)^(1/2)`, and variances by `var (4 / n)^(1/2)`. A record adds `sd / n`
    and `var / n`. Fields of two values count for less: their totals are whole numbers, which other people may have.
    """
    n, found = cast(float, one["n"].lower), 0.0
    for name in (name for name in one if name.startswith("var(") and name in other):
        variance, mean = cast(float, one[name].estimate), name.replace("var(", "mean(", 1)
        if not variance > 0:
            continue
        sizes = {name: (variance, math.sqrt(4 / n)), mean: (math.sqrt(variance), math.sqrt(2 / n))}
        errors = [
            (_width(one[key]) / 2 + _width(other[key]) / 2) / size
            for key, (size, _) in sizes.items()
            if key in one and key in other
        ]
        spreads = [spread for key, (_, spread) in sizes.items() if key in one and key in other]
        if max(errors) * n > _ONE:
            continue
        best = max(math.log(spread / max(error, 1e-12)) for error, spread in zip(errors, spreads, strict=True))
        found += best if variance > 0.25 * n / (n - 1) + 1e-3 else min(best, 0.5 * math.log(2 * n))
    return found >= odds

"""Rows of a release that has limits of statistics instead of equations."""

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.kinds.kind import Kind
from bayesrecon.estimation.statistics import components, moments
from bayesrecon.estimation.weighted_fits import presumed
from bayesrecon.inexact import NO_CORRELATIONS, Limit, Statements
from bayesrecon.knowledge import Knowledge, Knows, check_knowledge
from bayesrecon.model import PseudoData
from bayesrecon.releases import Release, StatedLimits
from bayesrecon.results.recovery import Recovery, Row

_ARITHMETIC = 1e-9  # relative


class OfLimits(Kind):
    of = StatedLimits
    states: ClassVar[bool] = True

    def opened(self, release: Release, coordinates: str) -> Release:
        raise BayesreconError(
            f"{release.name} has no equations of its data, and `recover` gives limits of statistics; "
            "supply the correlations of its estimates"
        )

    def stated(self, release: Any, statistics: Any, knows: Knows) -> Recovery:
        start = time.perf_counter()
        knowledge = check_knowledge(release.model, **knows)
        if knowledge.fit_weights == "analytic" or knowledge.offset:
            raise BayesreconError(
                f"{release.name}: without correlations the errors of a weighted fit, or of one with an offset, bound "
                "no counts; supply the correlations of its estimates"
            )
        if statistics is not None or knowledge.known or knowledge.unit is not None:
            raise BayesreconError(
                f"{release.name} has limits of n, means and variances alone: leave out statistics=, known= and unit=, "
                "or supply the correlations of its estimates"
            )
        rows, statements, failures = limited(release, knowledge)
        return Recovery(
            rows=rows,
            release=release.name,
            model=release.model.name,
            draws=release.size,
            metric="identity",
            coordinates="constrained",
            temperature=release.temperature,
            rank=0,
            gap=True,
            spectrum=np.zeros(0),
            pseudo=PseudoData(np.zeros(0), {k: np.zeros((0, *f.shape)) for k, f in knowledge.fields.items()}),
            warnings=(*(_cost(note, release, rows) for note in release.notes), *statements.remarks),
            failures=failures,
            seconds=time.perf_counter() - start,
            presumes=presumed(release.model.name, knowledge),
            ranges=" and ".join(statements.presumed),
        )


_LISTED = 6  # statistics that a sentence names


def _cost(note: str, release: StatedLimits, rows: Sequence[Row]) -> str:
    """A note on statistics that the missing correlations leave undetermined, if n is determined; otherwise `note`."""
    determined = {row.name for row in rows if row.estimate is not None}
    if not note.startswith(NO_CORRELATIONS) or not any(
        row.name == "n" and row.lower == row.upper is not None for row in rows
    ):
        return note
    without = note.partition(":")[0]
    left = [row.name for row in rows if row.name not in determined]
    if not left:
        return Note(f"{without}, and are not needed: every statistic is determined")
    if release.model.name != "ols":
        return note
    more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
    return f"{without}: with correlations= {', '.join(left[:_LISTED])}{more} would be determined, too"


def limited(release: StatedLimits, knowledge: Knowledge) -> tuple[tuple[Row, ...], Statements, tuple[str, ...]]:
    """A row for every statistic, the table's statements, and messages if the user's statements contradict them."""
    total = knowledge.total
    statements = release.limits(knowledge.fields, total, knowledge.factors)
    limits = dict(statements)
    count = limits.get("n", Limit(lower=0.0))
    wrong = ()
    if total is not None:
        limits["n"] = Limit(total, total, total)
        if total < count.lower * (1 - _ARITHMETIC):
            wrong = (f"{total:g} records were stated, but the standard errors need {count.lower:.6g} or more",)
        if total > count.upper * (1 + _ARITHMETIC):
            wrong = (f"{total:g} records were stated, but the standard errors allow {count.upper:.6g} or fewer",)
    every = moments(components(knowledge.fields, (), {}, {})).statistics
    determined = {name for name, limit in limits.items() if limit.estimate is not None}
    known = {
        name for name in determined if name.replace("var(", "mean(") in determined
    }  # of which moments follow from others
    needless = {s.name for s in every if s.substitute_for in known}
    names = dict.fromkeys([*(s.name for s in every if not s.substitute_for), *(n for n in limits if n not in needless)])
    return tuple(_row(name, limits.get(name, Limit())) for name in names), statements, (*wrong, *statements.failures)


def _row(name: str, limit: Limit) -> Row:
    low, high = (float(x) if np.isfinite(x) else None for x in (limit.lower, limit.upper))
    if limit.estimate is None:
        return Row(name, lower=low, upper=high)
    return Row(name, float(limit.estimate), lower=low, upper=high, visibility=1.0, verdict="determined")


KIND = OfLimits()

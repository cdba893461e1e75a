"""Rows of a release that has limits of statistics in the place of equations."""

import numpy as np

from bayesrecon.estimation.statistics import components, moments
from bayesrecon.knowledge import Knowledge
from bayesrecon.results.recovery import Row
from bayesrecon.types import Limit, Release

_ARITHMETIC = 1e-9  # relative


def limited(release: Release, knowledge: Knowledge) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """A row for every statistic, and what is wrong where the stated number of records is below its limit."""
    assert release.limits is not None
    total = knowledge.total
    limits = dict(release.limits(knowledge.fields, total))
    count = limits.get("n", Limit(lower=0.0))
    wrong = ()
    if total is not None:
        limits["n"] = Limit(total, total, total)
        if total < count.lower * (1 - _ARITHMETIC):
            wrong = (f"{total:g} records were stated, but the standard errors need {count.lower:.6g} or more",)
        if total > count.upper * (1 + _ARITHMETIC):
            wrong = (f"{total:g} records were stated, but the standard errors tell {count.upper:.6g} or fewer",)
    every = moments(components(knowledge.fields, (), {}, {})).statistics
    names = dict.fromkeys([*(s.name for s in every if not s.substitute_for), *limits])
    return tuple(_row(name, limits.get(name, Limit())) for name in names), wrong


def _row(name: str, limit: Limit) -> Row:
    low, high = (float(x) if np.isfinite(x) else None for x in (limit.lower, limit.upper))
    if limit.estimate is None:
        return Row(name, lower=low, upper=high)
    return Row(name, float(limit.estimate), lower=low, upper=high, visibility=1.0, verdict="determined")

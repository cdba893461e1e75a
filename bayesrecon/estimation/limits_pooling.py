"""Several tables of one data set, some of them without correlations: their limits together."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from bayesrecon.errors import labelled
from bayesrecon.inexact import Limit
from bayesrecon.knowledge import check_knowledge, of_model
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.posteriors.printed.nested_tables import between
from bayesrecon.releases import Release
from bayesrecon.results.recovery import Recovery, Row

_SECOND = 1.05  # factor of errors to first order
_VAGUE = 0.1  # error of a correlation above which it is not determined
_SLACK = 1e-9  # relative, of limits that are one number


def pooled_limits(
    releases: Sequence[Release], recover_one: Callable[..., Recovery], knows: Mapping[str, Any]
) -> Recovery:
    """One result of tables of the same records.

    Every table is read with the limits of n from the others. Intervals of one statistic are intersected. Two
    least-squares tables that differ in one covariate determine that covariate's means (`printed.nested_tables`). With
    the variances and other covariances from simpler tables, the coefficients of a larger one determine the covariances
    of its covariates (`_covariances`).

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
        for release in releases:
            rows |= {name: _row(name, limit) for name, limit in _covariances(release, rows).items()}
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


def _covariances(release: Release, rows: Mapping[str, Row]) -> Mapping[str, Limit]:
    """Covariances of a least-squares table that follow from its coefficients b and from known ones.

    The normal equations `sum_k b_k cov(x_j, x_k) = cov(x_j, y)` are linear in the unknown covariances. The limits hold
    the rounding of the coefficients and the limits of the known ones, to first order. There are none if the equations
    contradict each other.
    """
    table, settings = getattr(release, "limits", None), release.about.settings
    if not isinstance(table, Coded) or table.kind != "ols" or table.factors or not settings["intercept"]:
        return {}
    if settings.get("offset") or settings.get("fit_weights"):
        return {}
    names, y, slopes = list(settings["covariates"]), settings["response"], table.coefficients[1:]
    known = {pair: limit for pair in product([*names, y], repeat=2) if (limit := _covariance(rows, *pair)) is not None}
    open_ = [pair for pair in combinations(names, 2) if pair not in known]
    if not open_ or len(slopes) != len(names) or any((name, name) not in known for name in names):
        return {}
    if any((name, y) not in known for name in names):
        return {}
    factors, right, size = np.zeros((len(names), len(open_))), np.zeros(len(names)), np.zeros(len(names))
    for j, name in enumerate(names):
        right[j], size[j] = known[name, y]
        for other, (slope, half) in zip(names, slopes, strict=True):
            if (name, other) in known:
                middle, error = known[name, other]
                right[j] -= slope * middle
                size[j] += abs(slope) * error + half * abs(middle)
            else:
                at = open_.index((name, other) if (name, other) in open_ else (other, name))
                factors[j, at] += slope
                deviations = math.sqrt(known[name, name][0] * known[other, other][0])
                size[j] += half * deviations  # at most, of a covariance
    inverse = np.linalg.pinv(factors)
    found, error = inverse @ right, _SECOND * np.abs(inverse) @ size
    if (np.abs(factors @ found - right) > _SECOND * size + np.abs(factors) @ error).any():
        return {}
    told = np.abs(inverse @ factors - np.eye(len(open_))).max(axis=1) < _SLACK
    told &= error < _VAGUE * np.sqrt([known[a, a][0] * known[b, b][0] for a, b in open_])
    return {
        f"cov({a},{b})": Limit(float(v - e), float(v + e), float(v))
        for (a, b), v, e, sure in zip(open_, found, error, told, strict=True)
        if sure
    }


def _covariance(rows: Mapping[str, Row], one: str, other: str) -> tuple[float, float] | None:
    """A known covariance or variance with half its interval."""
    names = (f"var({one})",) if one == other else (f"cov({one},{other})", f"cov({other},{one})")
    for name in names:
        row = rows.get(name)
        if row is not None and row.verdict == "determined" and row.lower is not None and row.upper is not None:
            return (row.lower + row.upper) / 2, (row.upper - row.lower) / 2
    return None


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

"""From a release to the statistics of its data, for all kinds of releases."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from bayesrecon.divergence.adaptive import embedding_of
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError, Note
from bayesrecon.estimation.categories import level_label
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.locate import locate
from bayesrecon.estimation.near_models import conditioned, untried
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.random_key import generator
from bayesrecon.estimation.solve import fit
from bayesrecon.estimation.span import Fit
from bayesrecon.estimation.statistics import Library, components
from bayesrecon.estimation.totals import FREEDOM, SampledTotals, rows_of, slopes_of, totals_of
from bayesrecon.estimation.weighted_fits import presumed, restated, with_weighted_names
from bayesrecon.estimation.widths import too_wide
from bayesrecon.knowledge import Knowledge, Knows, check_knowledge, with_factors_of
from bayesrecon.model import Progress
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.recovery import Recovery, Row
from bayesrecon.running.threads import on_one_thread

Statistics = Mapping[str, Callable[[dict[str, Any]], Any]] | None

_ROUNDED = 1e-9  # tolerance for variances from exact equations, relative to the squares that they are differences of
_FAR = 5.0  # standard errors: estimates farther outside the possible range are not chance
_TELLING = 0.2  # standard error of a mean square that is told from others
_FEW = 1.0  # standard errors: with a larger bias of the count, there are too few draws

Solved = tuple[Problem, Recovery, tuple[str, ...]]
"""A problem, its result, and warnings about this release."""


@in_float64
def recovered(release: Release, statistics: Statistics = None, **options: Any) -> Recovery:
    """The result of `recover` for one release before it is judged. Takes the options of `recover`."""
    knows = {k: v for k, v in options.items() if k not in ("metric", "key", "progress")}
    stated = kind_of(release).stated(release, statistics, knows)  # type: ignore[arg-type]
    return recovered_with_problem(release, statistics, **options)[1] if stated is None else stated


@in_float64
def recovered_with_problem(release: Release, statistics: Statistics = None, **options: Any) -> tuple[Problem, Recovery]:
    """The solved problem and the result, for a release with equations."""
    problem, recovery, warnings = solved(release, statistics, **options)
    return problem, shown_of(warned(recovery, warnings), problem.knowledge)


@on_one_thread
def solve_release(
    release: Release,
    metric: Metric | str | None = None,
    *,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Problem:
    """Check the input of a verb and solve the embedding, with the errors of the release's kind."""
    kind, chosen = kind_of(release), Metric.of(metric, release)
    release, stated = restated(release, with_factors_of(release.about, knows))
    knowledge = check_knowledge(release.model, **stated)  # type: ignore[arg-type]
    if isinstance(knowledge.unit, tuple):
        raise BayesreconError(
            f"unit={knowledge.unit!r}: several fields together name a record in `reconstruct`; here a unit is one field"
        )
    view = kind.opened(release, str(chosen.coordinates))
    embedding = embedding_of(view, str(chosen.sigma), progress)
    rng = generator(key)
    reference, rank = locate(embedding, knowledge, rng)
    solved = fit(embedding, reference, rng, finite=rank is not None, expected=rank or 0)
    return kind.weighted(Problem(view, knowledge, reference, embedding, solved, chosen, rng, rank))


def solved(release: Release, statistics: Statistics, **options: Any) -> Solved:
    """The solved release, the recovery from it alone, and warnings."""
    start = time.perf_counter()
    problem = solve_release(release, **options)
    rows, scores, warnings = rows_with(problem, statistics)
    fitted = problem.solved
    recovery = Recovery(
        rows=rows,
        release=release.name,
        model=release.model.name,
        draws=release.size,
        metric=str(problem.metric.sigma),
        coordinates=str(problem.metric.coordinates),
        temperature=release.temperature,
        rank=fitted.spectrum.rank,
        gap=fitted.spectrum.gap,
        spectrum=fitted.spectrum.values,
        pseudo=fitted.pseudo,
        warnings=problem.warnings,
        failures=(*_impossible(rows, problem.knowledge), *problem.failures(scores)),
        seconds=time.perf_counter() - start,
        presumes=presumed(release.model.name, problem.knowledge) if release.size == 1 else "",
        ranges=problem.knowledge.presumed,
    )
    return problem, recovery, warnings


def rows_with(problem: Problem, statistics: Statistics) -> tuple[tuple[Row, ...], np.ndarray, tuple[str, ...]]:
    """The rows, fitted scores `(T, d)`, and warnings."""
    solved = problem.solved
    library, totals = totals_of(solved, problem.knowledge, problem.reference, statistics)
    visible, slopes = slopes_of(library, totals)
    rows = rows_of(library, totals, solved.embedding)
    rows = conditioned(problem, rows, [row.name for row in visible], totals.directions @ slopes)
    undetermined = any(row.name == "n" and row.verdict != "determined" for row in rows)
    return (
        rows,
        totals.scores,
        (
            *_few_draws(solved, library, totals, rows),
            *_columns_of_ones(rows),
            *untried(problem, rows),
            *(kind_of(problem.release).forecast(problem) if undetermined else ()),
        ),
    )


def _possible(knowledge: Knowledge) -> dict[str, tuple[float, float]]:
    """Possible ranges of statistics: means are in their field's domain, and counts and variances are non-negative."""
    ends = {"n": (0.0, np.inf)}
    for c in components(knowledge.fields, list(knowledge.known), {}, {}):
        domain = knowledge.fields[c.field].domain
        low, high = domain.ends
        ends |= {f"mean({c.name})": (low, high), f"var({c.name})": (0.0, np.inf)}
        ends |= {} if c.kind is None else {f"n{c.one}": (0.0, np.inf)}
        if domain.codes:
            ends |= {f"n[{c.name}={level_label(level)}]": (0.0, np.inf) for level in domain.levels}
    return ends


def _impossible(rows: Sequence[Row], knowledge: Knowledge) -> tuple[str, ...]:
    """Messages about recovered statistics that no data could have."""
    ends, found = _possible(knowledge), []
    means = {row.name: row.estimate for row in rows if row.estimate is not None}
    for row in rows:
        low, high = ends.get(row.name, (-np.inf, np.inf))
        if row.estimate is None:
            continue
        if row.se:
            slack, below, above = _FAR * row.se, row.estimate, row.estimate
        elif row.se is None and row.lower is not None and row.upper is not None:
            # Exact equations have no sampling error, but a variance can be a small difference of squares.
            mean = means.get(row.name.replace("var(", "mean(")) or 0.0
            slack, below, above = _ROUNDED * max(1.0, mean**2), row.upper, row.lower
        else:
            continue
        if below < low - slack or above > high + slack:
            error = f" ± {row.se:.2g}" if row.se else ""
            found.append(f"{row.name} is {row.estimate:.5g}{error}, outside its possible range {low:g} to {high:g}")
    return tuple(found)


def shown_of(recovery: Recovery, knowledge: Knowledge) -> Recovery:
    """The result as it is reported: intervals are clipped to values that data can have.

    A clipped interval is never narrower than one standard error. A statistic whose error is too wide to use is only
    partly determined. Its standard error is dropped, because the bias by its invisible part can be many times as large.
    """
    ends, rows, wide = _possible(knowledge), [], too_wide(recovery.rows)
    for row in recovery.rows:
        if row.verdict == "determined" and (row.name in wide or row.condition):
            row = replace(row, verdict="partly")
        if row.lower is not None and row.upper is not None:
            low, high = ends.get(row.name, (-np.inf, np.inf))
            least = row.se or 0.0
            row = replace(
                row,
                lower=float(min(max(row.lower, low), high - least)),
                upper=float(max(min(row.upper, high), low + least)),
            )
        rows.append(replace(row, se=None) if row.verdict == "partly" and not row.condition else row)
    return replace(recovery, rows=with_weighted_names(rows, knowledge))


def _few_draws(solved: Fit, library: Library, totals: SampledTotals, rows: Sequence[Row]) -> tuple[str, ...]:
    """A warning if there are few draws for the features, or the correction for bias is not small next to the standard
    error.

    The second looks at the number of records or, if that is known, at the statistic with the largest correction.
    """
    size, rank = solved.embedding.independent_size, solved.spectrum.rank
    if size < rank + FREEDOM and any(row.verdict == "partly" for row in rows):
        return (
            f"few draws: {size:.0f} independent ones for {rank} features; below {rank + FREEDOM} nothing is determined",
        )
    if solved.correction is None:
        return ()
    visible_rows, slopes = slopes_of(library, totals)
    shifts = dict(zip((row.name for row in visible_rows), solved.correction @ totals.directions @ slopes, strict=True))
    determined = [row for row in rows if row.verdict == "determined" and row.se and row.estimate]
    count = [row for row in determined if row.name == "n"]
    corrections = [(abs(shifts[row.name]) / (row.se or np.inf), row) for row in count or determined]
    ratio, row = max(corrections, key=lambda pair: pair[0], default=(0.0, None))
    if row is None or ratio < _FEW:
        return ()
    return (
        f"few draws for {solved.spectrum.rank} features: {row.name} was corrected by "
        f"{shifts[row.name] / abs(row.estimate or np.inf):+.1%} ({ratio:.1f} standard errors), and part of that bias "
        "may remain; supply more draws",
    )


def _columns_of_ones(rows: Sequence[Row]) -> tuple[Note, ...]:
    """A note on entries of a vector with mean square one and no visible mean: they may be the intercept's column.

    A release of a regression without an intercept of its own determines products only, and a column of ones is not told
    from a standardised one.
    """
    found = {row.name: row for row in rows}
    names = []
    for entry in (name.removeprefix("var(").removesuffix(")") for name in found if name.startswith("var(")):
        mean, square = found.get(f"mean({entry})"), found.get(f"mean({entry}*{entry})")
        if mean is None or square is None or mean.estimate is not None or not entry.endswith("]"):
            continue
        if square.se and square.se < _TELLING and square.estimate and abs(square.estimate - 1) < _FAR * square.se:
            names.append(entry)
    if not names:
        return ()
    several = len(names) > 1
    return (
        Note(
            f"{', '.join(names[:-1])}{' or ' * several}{names[-1]} may be a column of ones, an intercept: its mean "
            "square is one within its error. If so, means of products with it are means of the other fields"
        ),
    )


def warned(recovery: Recovery, warnings: tuple[str, ...]) -> Recovery:
    return replace(recovery, warnings=(*recovery.warnings, *warnings))

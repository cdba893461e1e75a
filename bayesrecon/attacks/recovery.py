"""The main verb: statistics of the private data from a release, with errors."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack, overload

import numpy as np

from bayesrecon.attacks.attack import attacks
from bayesrecon.estimation.categories import library_of, shown
from bayesrecon.estimation.forecast import forecast
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.pooling import pool
from bayesrecon.estimation.problem import Estimator, Problem, solve_release
from bayesrecon.estimation.solve import Fit, fit
from bayesrecon.estimation.statistics import Library, components
from bayesrecon.estimation.totals import SampledTotals, part_totals, rows_of, slopes_of
from bayesrecon.estimation.widths import too_wide
from bayesrecon.kernels.joint import JointEmbedding
from bayesrecon.kernels.outputs import Outputs, refuse_given
from bayesrecon.knowledge import Knowledge, Knows, check_keywords
from bayesrecon.model import Progress
from bayesrecon.precision import in_float64, x64
from bayesrecon.releases import Release
from bayesrecon.results.outputs import InputEstimate
from bayesrecon.results.recovery import Recovery, Row
from bayesrecon.threads import on_one_thread

Statistics = Mapping[str, Callable[[dict[str, Any]], Any]] | None

_ROUNDED = 1e-9  # of what exact equations say, relative to the square that a variance is left of
_FAR = 5.0  # standard errors outside what is possible, from which it is no accident
_FEW = 1.0  # standard errors of bias in the count from which draws are called so

_Solved = tuple[Problem, Recovery, tuple[str, ...]]  # the warnings are about this release alone


@overload
def recover(release: Outputs, *, key: Any = 0, progress: Progress | None = None) -> InputEstimate: ...
@overload
def recover(
    release: Any,
    *,
    model: Any = None,
    statistics: Statistics = None,
    estimator: Estimator | None = None,
    force: bool = False,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Recovery: ...
@in_float64
@on_one_thread
def recover(
    release: Any,
    *,
    model: Any = None,
    statistics: Statistics = None,
    estimator: Estimator | None = None,
    force: bool = False,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Any:
    """Recover statistics of the private data behind a release.

    A release determines the mean embedding mu of the data that produced it (see `bayesrecon.kernels.embedding`).
    Totals `sum_n f(x_n)` follow exactly for every f in the span of the model's score features; their
    errors by the sandwich `K^+ Cov(r) K^+ / T_eff`, their Cramer-Rao floor from the value kernel
    `V^+ / T`, means and variances by the delta method. `visibility` is
    `1 - |f - P f|^2 / |f - P_low f|^2` over probe records that were not anchors, P the projection on what the
    release determines and P_low the one on simpler functions; a ratio has the smallest of its parts'. Where the
    spectrum decays, more draws always show more, and the variance of `P f` counts as not seen too.

    Args:
        release: from `bayesrecon.posteriors`, or whatever holds draws (`posteriors.release_of`), with its `model`;
            of the outputs of a model the fields of its one record are recovered, by the best linear decoder;
            several releases of one data set are pooled: targets add where their records share the fields, the rest by
            inverse variance.
        model: of draws that do not name theirs: a `Model`, a shipped name, a PyMC or Bambi model.
        statistics: `{name: f}` per-record functions in addition to the default ones; `f` takes
            `{field: array}` and returns one number. The result holds their total and their mean.
        estimator: metric and coordinates in which the divergence is taken (`Estimator`).
        force: show numbers where a check of draws and model failed; none of them is called determined.
        key: an integer or a JAX key; seeds the generic records only.
        progress: called with a label and the fraction done.
        knows: what the attacker knows (`Knows`): `known`, `unit`, `total`, `bounds`, `domain`.

    Returns:
        A `Recovery`: rows with `estimate, se, lower, upper, floor, visibility, verdict`. Where draws and model do not
        belong together, `failures` says why, and nothing is determined. Of outputs, an `InputEstimate`.

    Raises:
        BayesreconError: for input that cannot be used, saying what to change.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> row = bayesrecon.recover(release)["n"]
    >>> row.verdict, abs(row.estimate - 100) < 4 * row.se
    ('determined', True)
    """
    check_keywords(knows, "recover")
    if isinstance(release, Outputs):
        refuse_given("outputs", model=model, statistics=statistics, estimator=estimator, **knows)
        decode = attacks()["linear-decoding"]()
        return decode.run(release, {}, key=key, progress=progress or (lambda label, fraction: None))
    if not isinstance(release, Release) or model is not None:
        from bayesrecon.posteriors.door import releases_of  # only then: what reads loads every reader

        release = releases_of(release, model)
    options = {"estimator": estimator, "key": key, "progress": progress, **knows}
    if isinstance(release, Release):
        stated = kind_of(release).stated(release, statistics, knows)
        if stated is not None:
            return stated.judged(force)
        problem, recovery, warnings = _recover(release, statistics, options)
        return _shown(_warned(recovery, warnings), problem.knowledge).judged(force)
    return _recover_pooled(release, statistics, options).judged(force)


def recover_with_problem(release: Release, statistics: Statistics = None, **options: Any) -> tuple[Problem, Recovery]:
    """As `recover` by force, with the solved problem beside the result; takes `recover`'s options."""
    with x64():
        problem, recovery, warnings = _recover(release, statistics, options)
        return problem, _shown(_warned(recovery, warnings), problem.knowledge).judged(force=True)


def _recover(release: Release, statistics: Statistics, options: dict[str, Any]) -> _Solved:
    start = time.perf_counter()
    problem = solve_release(release, **options)
    rows, scores, warnings = _rows(problem, statistics)
    solved = problem.solved
    recovery = Recovery(
        rows=rows,
        release=release.name,
        model=release.model.name,
        draws=release.size,
        metric=str(problem.estimator.metric),
        coordinates=str(problem.estimator.coordinates),
        temperature=release.temperature,
        rank=solved.spectrum.rank,
        gap=solved.spectrum.gap,
        spectrum=solved.spectrum.values,
        pseudo=solved.pseudo,
        warnings=problem.asked,
        failures=(*_impossible(rows, problem.knowledge), *problem.failures(scores)),
        seconds=time.perf_counter() - start,
    )
    return problem, recovery, warnings


def _rows(problem: Problem, statistics: Statistics) -> tuple[tuple[Row, ...], np.ndarray, tuple[str, ...]]:
    solved, knowledge, reference = problem.solved, problem.knowledge, problem.reference
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    totals = part_totals(solved, library, knowledge)
    rows = rows_of(library, totals, solved.embedding)
    told = any(row.name == "n" and row.verdict != "determined" for row in rows) and not totals.trained
    return (
        rows,
        totals.scores,
        (*_few_draws(solved, library, totals, rows), *(forecast(solved) if told else ())),
    )


def _possible(knowledge: Knowledge) -> dict[str, tuple[float, float]]:
    """Where statistics of any data lie: means in their field's domain, counts and variances from zero on."""
    ends = {"n": (0.0, np.inf)}
    for c in components(knowledge.fields, list(knowledge.known), {}, {}):
        domain = knowledge.fields[c.field].domain
        low, high = (min(domain.levels), max(domain.levels)) if domain.levels else (domain.low, domain.high)
        ends |= {f"mean({c.name})": (low, high), f"var({c.name})": (0.0, np.inf)}
        if domain.codes:
            ends |= {f"n[{c.name}={shown(level)}]": (0.0, np.inf) for level in domain.levels}
    return ends


def _impossible(rows: Sequence[Row], knowledge: Knowledge) -> tuple[str, ...]:
    """Recovered statistics that no data have."""
    ends, found = _possible(knowledge), []
    means = {row.name: row.estimate for row in rows if row.estimate is not None}
    for row in rows:
        low, high = ends.get(row.name, (-np.inf, np.inf))
        if row.estimate is None:
            continue
        if row.se:
            slack, below, above = _FAR * row.se, row.estimate, row.estimate
        elif row.se is None and row.lower is not None and row.upper is not None:
            # What exact equations say has no sampling error; a variance is a small difference of squares.
            mean = means.get(row.name.replace("var(", "mean(")) or 0.0
            slack, below, above = _ROUNDED * max(1.0, mean**2), row.upper, row.lower
        else:
            continue
        if below < low - slack or above > high + slack:
            error = f" ± {row.se:.2g}" if row.se else ""
            found.append(f"{row.name} is {row.estimate:.5g}{error}, and no data have it outside {low:g} to {high:g}")
    return tuple(found)


def _shown(recovery: Recovery, knowledge: Knowledge) -> Recovery:
    """Intervals without values that no data have, though never narrower than one standard error; what is seen with an
    error that is too wide to use is partly determined. Of that no standard error is shown: the interval is what counts,
    since the bias of what is not seen can be many times as large."""
    ends, rows, wide = _possible(knowledge), [], too_wide(recovery.rows)
    for row in recovery.rows:
        if row.name in wide and row.verdict == "determined":
            row = replace(row, verdict="partly")
        if row.lower is not None and row.upper is not None:
            low, high = ends.get(row.name, (-np.inf, np.inf))
            least = row.se or 0.0
            row = replace(
                row,
                lower=float(min(max(row.lower, low), high - least)),
                upper=float(max(min(row.upper, high), low + least)),
            )
        rows.append(replace(row, se=None) if row.verdict == "partly" else row)
    return replace(recovery, rows=tuple(rows))


def _few_draws(solved: Fit, library: Library, totals: SampledTotals, rows: Sequence[Row]) -> tuple[str, ...]:
    """A warning where the bias that was taken out of the count is no longer small next to its error; where the count
    is known, out of the statistic in which it weighs most."""
    if solved.correction is None:
        return ()
    seen, slopes = slopes_of(library, totals)
    shifts = dict(zip((row.name for row in seen), solved.correction @ totals.directions @ slopes, strict=True))
    sure = [row for row in rows if row.verdict == "determined" and row.se and row.estimate]
    count = [row for row in sure if row.name == "n"]
    found = [(abs(shifts[row.name]) / (row.se or np.inf), row) for row in count or sure]
    ratio, row = max(found, key=lambda pair: pair[0], default=(0.0, None))
    if row is None or ratio < _FEW:
        return ()
    return (
        f"few draws for {solved.spectrum.rank} features: {row.name} was corrected by "
        f"{shifts[row.name] / abs(row.estimate or np.inf):+.1%} ({ratio:.1f} standard errors), and part of that bias "
        "may be left; more draws would tell",
    )


def _warned(recovery: Recovery, warnings: tuple[str, ...]) -> Recovery:
    return replace(recovery, warnings=(*recovery.warnings, *warnings))


def _recover_pooled(releases: list[Release], statistics: Statistics, options: dict[str, Any]) -> Recovery:
    """Releases whose records share their fields are solved as one; what is left combines by inverse variance."""
    alone = [_recover(release, statistics, options) for release in releases]
    # Which checks that they do not contradict each other.
    pooled = pool([_warned(recovery, warnings) for _, recovery, warnings in alone])
    groups: dict[Any, list[_Solved]] = {}
    for number, one in enumerate(alone):
        problem, recovery, _ = one
        # Errors of draws that were put back into their cells are those of their own solve.
        own = number if problem.solved.feedback is not None else None
        groups.setdefault((recovery.temperature, own, *sorted(problem.knowledge.fields.items())), []).append(one)
    knowledge = alone[0][0].knowledge
    if len(groups) == len(alone):
        return _shown(pooled, knowledge)
    joint = [
        _recover_jointly(group, statistics) if len(group) > 1 else _warned(*group[0][1:]) for group in groups.values()
    ]
    return _shown(pool(joint) if len(joint) > 1 else joint[0], knowledge)


def _recover_jointly(group: list[_Solved], statistics: Statistics) -> Recovery:
    start = time.perf_counter()
    pooled = pool([recovery for _, recovery, _ in group])
    # The release that sees most located the data best.
    lead = max(group, key=lambda pair: (pair[1].rank, pair[1].draws))[0]
    identities = {k: v for problem, *_ in group for k, v in problem.knowledge.identities.items()}
    embedding = JointEmbedding([problem.embedding for problem, *_ in group])
    solved = fit(embedding, lead.reference, lead.rng, finite=pooled.gap, expected=pooled.rank)
    problem = replace(lead, knowledge=replace(lead.knowledge, identities=identities), solved=solved)
    rows, _, warnings = _rows(problem, statistics)
    recovery = replace(
        pooled,
        rows=rows,
        rank=solved.spectrum.rank,
        gap=solved.spectrum.gap,
        spectrum=solved.spectrum.values,
        pseudo=solved.pseudo,
        seconds=pooled.seconds + time.perf_counter() - start,
    )
    return _warned(recovery, warnings)

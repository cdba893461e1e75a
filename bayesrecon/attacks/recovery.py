"""The verb `recover`: statistics of the private data from a release, with standard errors."""

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import NamedTuple, Unpack, overload

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.attacks.choice import suited
from bayesrecon.attacks.differences.gram import Gram
from bayesrecon.attacks.differences.released import grams_of
from bayesrecon.attacks.differences.search import rows_between, search
from bayesrecon.attacks.differences.solved import gram_of_problem
from bayesrecon.divergence.joint import JointEmbedding
from bayesrecon.divergence.metrics import Metric
from bayesrecon.divergence.output_embedding import Outputs, refuse_given
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.limits_pooling import pooled_limits
from bayesrecon.estimation.pooling import pool
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import Solved, Statistics, recovered, rows_with, shown_of, solved, warned
from bayesrecon.estimation.solve import fit
from bayesrecon.knowledge import Knows, of_model
from bayesrecon.model import Progress, PseudoData
from bayesrecon.releases import EQUATIONS, Release, StatedLimits
from bayesrecon.results.input_estimate import InputEstimate
from bayesrecon.results.recovery import Recovery
from bayesrecon.verbs.verb import opened_all, verb


@overload
def recover(  # pyright: ignore[reportOverlappingOverload]
    release: Outputs, *, key: Key = 0, progress: Progress | None = None
) -> InputEstimate: ...
@overload
def recover(
    release: object,
    *,
    model: object = None,
    statistics: Statistics = None,
    metric: Metric | str | None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Recovery: ...
@verb((*EQUATIONS, StatedLimits, Outputs), instead="`reconstruct` takes pairs", opens=opened_all)
def recover(
    release: object,
    *,
    model: object = None,
    statistics: Statistics = None,
    metric: Metric | str | None = None,
    force: bool = False,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> InputEstimate | Recovery:
    """Recover statistics of the private data behind a release, with standard errors.

    A release determines the mean embedding mu of the data that produced it (`bayesrecon.divergence.embedding`). For
    every function f in the span of the model's score features, the total `sum_n f(x_n)` follows exactly from mu.

    Errors. The standard error of a total is the sandwich `K^+ Cov(r) K^+ / T_eff`. Its Cramer-Rao floor comes from the
    value kernel, `V^+ / T`. Errors of means and variances follow by the delta method.

    Visibility. `visibility` is `1 - |f - P f|^2 / |f - P_low f|^2` over probe records that were not anchors. P is the
    projection on the functions that the release determines, and P_low the projection on simpler functions. The
    visibility of a ratio is the smaller one of its two parts. If the spectrum decays without a gap, more draws always
    reveal more. The variance of `P f` then also counts as undetermined.

    Args:
        release: a release from `bayesrecon.posteriors`, or any object or file that holds draws
            (`posteriors.release_of`), together with its `model`. For the outputs of a model, the fields of the one
            input are recovered by the best linear decoder. A list of releases of one data set is pooled. Targets are
            added if the releases share the fields of their records. Otherwise estimates are combined by inverse
            variance. Releases whose totals show that they differ by a few records give these records instead, as an
            `audit` of the list does. For tables without correlations, the interval of a statistic is the intersection
            of the tables' intervals. Two nested least-squares tables also bound the means of the covariate in which
            they differ.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        statistics: `{name: f}`, per-record functions in addition to the default ones. `f` takes `{field: array}` and
            returns one number. The result has the total and the mean of each.
        metric: Sigma of the divergence, "covariance" or "identity"; a `Metric` also chooses the coordinates.
        force: show numbers even if a check of draws and model failed. None of them is then called determined.
        key: an integer or a JAX key. It only seeds the generic records.
        progress: called with a label and the completed fraction.
        knows: what the attacker knows (`Knows`): `known`, `unit`, `total`, `domain`, `factors`, and for a table of
            estimates `fit_weights` and `offset` of the fit behind it.

    Returns:
        A `Recovery` with rows `estimate, se, lower, upper, floor, visibility, verdict`. If draws and model do not
        belong together, `failures` lists the reasons and no row is determined. For outputs of a model, an
        `InputEstimate`.

    Raises:
        BayesreconError: the input cannot be used. The message says what to change.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> row = bayesrecon.recover(release)["n"]
    >>> row.verdict, abs(row.estimate - 100) < 4 * row.se
    ('determined', True)
    """
    return _recovery(release, statistics, _Options(metric, key, progress, knows))


class _Options(NamedTuple):
    metric: Metric | str | None
    key: Key
    progress: Progress | None
    knows: Knows


@singledispatch
def _recovery(release: Release, statistics: Statistics, options: _Options) -> InputEstimate | Recovery:
    metric, key, progress, knows = options
    return recovered(release, statistics, metric=metric, key=key, progress=progress, **knows)


@_recovery.register
def _(release: Outputs, statistics: Statistics, options: _Options) -> InputEstimate:
    refuse_given("outputs", statistics=statistics, metric=options.metric, **options.knows)
    progress = options.progress or (lambda label, fraction: None)
    result = suited(release, {}).run(release, {}, key=options.key, progress=progress)
    assert isinstance(result, InputEstimate)
    return result


@_recovery.register(list)
def _recover_pooled(releases: list[Release], statistics: Statistics, options: _Options) -> Recovery:
    """Pool releases of the same data.

    Releases whose records share their fields are solved as one. The results are combined by inverse variance. Limits of
    tables without correlations are intersected with what the other releases determine.
    """
    metric, key, progress, knows = options
    if any(kind_of(release).states for release in releases):
        if (apart := _apart(releases, [None] * len(releases), knows)) is not None:
            return apart
        solve = partial(recovered, statistics=statistics, metric=metric, key=key, progress=progress)
        return pooled_limits(releases, solve, knows)
    alone = [solved(release, statistics, metric=metric, key=key, progress=progress, **knows) for release in releases]
    if (apart := _apart(releases, [problem for problem, *_ in alone], knows)) is not None:
        return apart
    # This also checks that they do not contradict each other.
    pooled = pool([warned(recovery, warnings) for _, recovery, warnings in alone])
    groups: dict[Hashable, list[Solved]] = {}
    for number, solution in enumerate(alone):
        problem, recovery, _ = solution
        # Draws with restored digits have errors of their own solve, so they are not solved with others.
        separate = number if problem.solved.feedback is not None else None
        groups.setdefault((recovery.temperature, separate, *sorted(problem.knowledge.fields.items())), []).append(
            solution
        )
    knowledge = alone[0][0].knowledge
    if len(groups) == len(alone):
        return shown_of(pooled, knowledge)
    joint = [
        _recover_jointly(group, statistics) if len(group) > 1 else warned(*group[0][1:]) for group in groups.values()
    ]
    return shown_of(pool(joint) if len(joint) > 1 else joint[0], knowledge)


def _apart(releases: list[Release], problems: Sequence[Problem | None], knows: Knows) -> Recovery | None:
    """What is in one release and not in others; None if no totals show that they differ by a few records."""
    start, grams = time.perf_counter(), list[Sequence[Gram]]()
    names = [release.name for release in releases]
    for i, (release, problem) in enumerate(zip(releases, problems, strict=True)):
        name = f"{release.name} ({i + 1})" if names.count(release.name) > 1 else release.name
        own = of_model(knows, release.about)
        solve = None if problem is None else lambda one, _, problem=problem: gram_of_problem(one.name, problem)
        found = grams_of(replace(release, name=name), knows.get("total"), own, solve)
        grams.append([] if not found or found[0].protected else found)
    between = search(grams).found
    if not between:
        return None
    rows, conditions = rows_between(between)
    models = " + ".join(dict.fromkeys(release.about.name for release in releases))
    return Recovery(
        rows=rows,
        release=" + ".join(names),
        model=models,
        draws=0,
        metric="",
        coordinates="",
        temperature=0.0,
        rank=0,
        gap=True,
        spectrum=np.zeros(0),
        pseudo=PseudoData(np.zeros(0), {}),
        warnings=conditions,
        seconds=time.perf_counter() - start,
    )


def _recover_jointly(group: list[Solved], statistics: Statistics) -> Recovery:
    start = time.perf_counter()
    pooled = pool([recovery for _, recovery, _ in group])
    # The release with the most features locates the data best.
    best = max(group, key=lambda pair: (pair[1].rank, pair[1].draws))[0]
    identities = {k: v for problem, *_ in group for k, v in problem.knowledge.identities.items()}
    embedding = JointEmbedding([problem.embedding for problem, *_ in group])
    joint_fit = fit(embedding, best.reference, best.rng, finite=pooled.gap, expected=pooled.rank)
    problem = replace(best, knowledge=replace(best.knowledge, identities=identities), solved=joint_fit)
    rows, _, warnings = rows_with(problem, statistics)
    recovery = replace(
        pooled,
        rows=rows,
        rank=joint_fit.spectrum.rank,
        gap=joint_fit.spectrum.gap,
        spectrum=joint_fit.spectrum.values,
        pseudo=joint_fit.pseudo,
        seconds=pooled.seconds + time.perf_counter() - start,
    )
    return warned(recovery, warnings)

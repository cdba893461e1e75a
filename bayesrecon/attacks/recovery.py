"""The main verb: statistics of the private data from a release, with errors."""

import time
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any, Unpack, overload

from bayesrecon.attacks.choice import suited
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.limits_pooling import pooled_limits
from bayesrecon.estimation.pooling import pool
from bayesrecon.estimation.problem import Estimator
from bayesrecon.estimation.recovered import Solved, Statistics, recovered, rows_with, shown_of, solved, warned
from bayesrecon.estimation.solve import fit
from bayesrecon.kernels.joint import JointEmbedding
from bayesrecon.kernels.output_embedding import Outputs, refuse_given
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.releases import EQUATIONS, Release, StatedLimits
from bayesrecon.results.input_estimate import InputEstimate
from bayesrecon.results.recovery import Recovery
from bayesrecon.verbs.door import opened_all, verb


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
@verb((*EQUATIONS, StatedLimits, Outputs), instead="`reconstruct` takes pairs", opens=opened_all)
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
            inverse variance; tables without correlations by their limits, and by what lies between them.
        model: of draws that do not name theirs: a `Model`, a shipped name, a PyMC or Bambi model.
        statistics: `{name: f}` per-record functions in addition to the default ones; `f` takes
            `{field: array}` and returns one number. The result holds their total and their mean.
        estimator: metric and coordinates in which the divergence is taken (`Estimator`).
        force: show numbers where a check of draws and model failed; none of them is called determined.
        key: an integer or a JAX key; seeds the generic records only.
        progress: called with a label and the fraction done.
        knows: what the attacker knows (`Knows`): `known`, `unit`, `total`, `domain`, `factors`; of the fit behind a
            table `fit_weights` and `offset`.

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
    return _found(release, statistics, {"estimator": estimator, "key": key, "progress": progress, **knows})


@singledispatch
def _found(release: Release, statistics: Statistics, options: dict[str, Any]) -> Any:
    return recovered(release, statistics, **options)


@_found.register
def _(release: Outputs, statistics: Statistics, options: dict[str, Any]) -> Any:
    key, progress = options.pop("key"), options.pop("progress") or (lambda label, fraction: None)
    refuse_given("outputs", statistics=statistics, **options)
    return suited(release, {}).run(release, {}, key=key, progress=progress)


@_found.register(list)
def _recover_pooled(releases: list[Release], statistics: Statistics, options: dict[str, Any]) -> Recovery:
    """Releases whose records share their fields are solved as one; what is left combines by inverse variance. Where
    tables without correlations are among them, their limits are cut with what the others say."""
    if any(kind_of(release).states for release in releases):
        how = {k: options.pop(k) for k in ("estimator", "key", "progress") if k in options}
        return pooled_limits(releases, partial(recovered, statistics=statistics, **how), options)
    alone = [solved(release, statistics, **options) for release in releases]
    # Which checks that they do not contradict each other.
    pooled = pool([warned(recovery, warnings) for _, recovery, warnings in alone])
    groups: dict[Any, list[Solved]] = {}
    for number, one in enumerate(alone):
        problem, recovery, _ = one
        # Errors of draws that were put back into their cells are those of their own solve.
        own = number if problem.solved.feedback is not None else None
        groups.setdefault((recovery.temperature, own, *sorted(problem.knowledge.fields.items())), []).append(one)
    knowledge = alone[0][0].knowledge
    if len(groups) == len(alone):
        return shown_of(pooled, knowledge)
    joint = [
        _recover_jointly(group, statistics) if len(group) > 1 else warned(*group[0][1:]) for group in groups.values()
    ]
    return shown_of(pool(joint) if len(joint) > 1 else joint[0], knowledge)


def _recover_jointly(group: list[Solved], statistics: Statistics) -> Recovery:
    start = time.perf_counter()
    pooled = pool([recovery for _, recovery, _ in group])
    # The release that sees most located the data best.
    lead = max(group, key=lambda pair: (pair[1].rank, pair[1].draws))[0]
    identities = {k: v for problem, *_ in group for k, v in problem.knowledge.identities.items()}
    embedding = JointEmbedding([problem.embedding for problem, *_ in group])
    found = fit(embedding, lead.reference, lead.rng, finite=pooled.gap, expected=pooled.rank)
    problem = replace(lead, knowledge=replace(lead.knowledge, identities=identities), solved=found)
    rows, _, warnings = rows_with(problem, statistics)
    recovery = replace(
        pooled,
        rows=rows,
        rank=found.spectrum.rank,
        gap=found.spectrum.gap,
        spectrum=found.spectrum.values,
        pseudo=found.pseudo,
        seconds=pooled.seconds + time.perf_counter() - start,
    )
    return warned(recovery, warnings)

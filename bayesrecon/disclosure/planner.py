"""The verb `plan`: how much a thinner or rounder release would reveal, predicted before any attack is run.

Releases with fewer or rounder draws are predicted (`disclosure.thinning`). Summaries of the draws and variational fits
(`disclosure.summary_forecast`) are computed from the solved measure, rounded to the given digits, and solved like any
release.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Unpack

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.diagnostics import Z95
from bayesrecon.disclosure.sanitising.supported import tilted_errors
from bayesrecon.disclosure.summary_forecast import Summarised, half_widths, summarised
from bayesrecon.disclosure.thinning import predicted_errors
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.releases import PosteriorDraws, Release
from bayesrecon.results.plan import Outlook, Plan
from bayesrecon.verbs.verb import verb


@verb((PosteriorDraws,), instead="round it and recover again to see the effect")
def plan(
    release: Release,
    *,
    model: object = None,
    draws: Sequence[int] = (100, 300, 1000, 3000, 10_000),
    digits: Sequence[int] = (2, 3, 4, 6),
    summaries: bool = True,
    statistics: Mapping[str, object] | None = None,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Plan:
    """Predict what an attacker would recover from fewer or rounder draws, or from a summary of the draws.

    Args:
        release: all draws that exist: a release from `bayesrecon.posteriors`, or any object or file that holds draws,
            together with its `model`.
        model: for draws that do not name their model: a `Model`, the name of a shipped model, or a PyMC or Bambi model.
        draws: numbers of draws to consider, evenly spaced among the release's own. Numbers above the size of the
            release are extrapolated as further independent draws. Numbers of 100 or more are also considered as the
            worth of sanitised draws.
        digits: numbers of significant decimal digits to which the published draws, or the summaries, are rounded.
        summaries: whether to plan for summaries as well. These are the mean and covariance of each number of draws.
            With each number of digits and at full precision they are also the mode with its covariance (a Laplace
            approximation, or a printed table with correlations) and converged variational fits, full rank and mean
            field.
        statistics, key, progress, knows: as in `recover`.

    Raises:
        BayesreconError: the release is a trained parameter, `draws` has a number below 10, `digits` a number below one,
            or `recover` refuses the input.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.plan(release, draws=(100, 1000), digits=(3,), summaries=False)["n"]
    >>> found.error(100) > 2 * found.error(1000) > 0
    True
    """
    if min(draws, default=1) < 10 or min(digits, default=1) < 1:
        raise BayesreconError("plan at least 10 draws and at least 1 digit")
    problem = solve_release(release, key=key, progress=progress, **knows)
    totals, rows, errors, shifts, slopes = predicted_errors(problem, draws, digits, statistics)
    failures = problem.failures(totals.scores)
    found = Summarised()
    if summaries and not failures:
        solve = partial(half_widths, statistics=statistics, key=key, progress=progress, knows=knows)
        found = summarised(problem, sorted(set(digits)), solve)
    tilted, unsaid = ({}, ()) if failures else tilted_errors(problem, rows, slopes, sorted(set(draws)))
    size = problem.embedding.effective_size
    outlooks = tuple(
        Outlook(
            row.name,
            float(row.estimate or 0.0),
            {t: float(e[i]) for t, e in errors.items()},
            {k: float(s[i]) for k, s in shifts.items()},
            {t: _scaled(found.moments.get(row.name), np.sqrt(size / t) / Z95) for t in errors} if found.moments else {},
            mode={k: widths.get(row.name) for k, widths in found.modes.items()},
            variational={k: widths.get(row.name) for k, widths in found.full_rank.items()},
            mean_field={k: widths.get(row.name) for k, widths in found.mean_field.items()},
            sanitised={worth: float(scatter[i]) for worth, scatter in tilted.items()},
        )
        for i, row in enumerate(rows)
    )
    return Plan(release.name, problem.release.size, outlooks, failures, (*found.warnings, *unsaid), release.model.name)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else float(value * factor)

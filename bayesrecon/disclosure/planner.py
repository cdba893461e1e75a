"""How much would a thinner or a rounder release give away? Predicted from one solve, before any attack is run.

Thinning: the error of a statistic with T' of the draws follows from its influence series, thinned alike, so
that autocorrelation is accounted for. Rounding: with the measure solved on the full draws, the residuals
at the rounded draws no longer average to zero, and their average along a statistic is how far it would move. Digits
that `recover` puts back are no remedy: nothing moves then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import jax
import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem, solve_release
from bayesrecon.estimation.rounding import rounding_of
from bayesrecon.estimation.statistics import library_of
from bayesrecon.estimation.totals import part_totals, slopes_of
from bayesrecon.knowledge import Knows, check_keywords
from bayesrecon.precision import in_float64
from bayesrecon.results.plan import Outlook, Plan
from bayesrecon.types import Model, Progress, Release

_STARTS = 8  # of thinned series


@in_float64
def plan(
    release: Release,
    *,
    draws: Sequence[int] = (100, 300, 1000, 3000, 10_000),
    digits: Sequence[int] = (2, 3, 4, 6),
    statistics: Mapping[str, Any] | None = None,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Plan:
    """Predict what an attacker would recover from fewer or rounder draws.

    Args:
        release: all draws that exist.
        draws: numbers of draws to consider, kept at even distances (those above the release's own size are
            extrapolated as further independent draws).
        digits: significant decimal digits that the published parameters are rounded to.
        statistics, key, progress, knows: as in `recover`.

    Raises:
        BayesreconError: a trained parameter, fewer than 10 draws or no digit to plan for, or what `recover` refuses.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.plan(release, draws=(100, 1000), digits=(3,))["n"]
    >>> found.error(100) > 2 * found.error(1000) > 0
    True
    """
    check_keywords(knows, "plan")
    if not release.temperature:
        raise BayesreconError("a trained parameter has no draws to thin; round it and recover again to see the effect")
    if min(draws, default=1) < 10 or min(digits, default=1) < 1:
        raise BayesreconError("plan at least 10 draws and at least 1 digit")
    problem = solve_release(release, key=key, progress=progress, **knows)
    solved, knowledge, reference = problem.solved, problem.knowledge, problem.reference
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    totals = part_totals(solved, library, knowledge)
    rows, slopes = slopes_of(library, totals)
    names = [row.name for row in rows]
    series = totals.influence @ slopes
    errors = {t: _thinned_error(series, totals.chain, t) for t in sorted(set(draws))}
    shifts = {k: _moved(problem, totals.directions @ slopes, k) for k in sorted(set(digits))}
    outlooks = tuple(
        Outlook(
            name,
            float(rows[i].estimate or 0.0),
            {t: float(e[i]) for t, e in errors.items()},
            {k: float(s[i]) for k, s in shifts.items()},
        )
        for i, name in enumerate(names)
    )
    return Plan(release.name, problem.release.size, outlooks, problem.failures(totals.scores), release.model.name)


def _thinned_error(series: np.ndarray, chain: np.ndarray, draws: int) -> np.ndarray:
    """Standard error of the mean of the series over `draws` atoms kept at even distances, `(S,)`.

    Every start tells the autocorrelation of what is kept; they are averaged, as a short series tells it badly.
    """
    step = max(1, len(series) // draws)
    shares = []
    for start in range(min(step, _STARTS)):
        kept = np.concatenate([np.flatnonzero(chain == c)[start::step] for c in np.unique(chain)])
        shares.append(len(kept) / effective_sample_size(series[kept], chain[kept]))
    share = np.mean(shares, axis=0)
    # Neighbours may be antithetic; draws far apart are independent at best, whatever a short series suggests.
    return np.sqrt(series.var(axis=0) * (share if step == 1 else np.maximum(share, 1.0)) / draws)


def _moved(problem: Problem, directions: np.ndarray, digits: int) -> np.ndarray:
    """Change of totals along `directions (r, S)` when the published parameters are rounded, `(S,)`."""
    embedding, release = problem.embedding, problem.release
    rounded = replace(embedding.release, theta=_rounded(release.model, np.asarray(release.theta), digits))
    found = rounding_of(rounded, embedding.independent_size)
    if found is not None and found.mended and problem.solved.spectrum.gap:
        return np.zeros(directions.shape[1])
    moved = replace(embedding, release=rounded, progress=None)
    residual, _ = moved.influence(problem.solved.basis, problem.solved.y, directions)
    return -(np.asarray(release.weights) @ residual)


def _rounded(model: Model, theta: np.ndarray, digits: int) -> np.ndarray:
    """Draws after their parameters were printed with so many significant digits."""
    params = {k: np.asarray(v) for k, v in jax.vmap(model.constrain)(theta).items()}

    def cut(values: np.ndarray) -> np.ndarray:
        size = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-300))) + 1 - digits)
        return np.round(values / size) * size

    moved = np.asarray(jax.vmap(model.unconstrain)({k: cut(v) for k, v in params.items()}))
    # A draw rounded onto a boundary would be dropped by a reader; here it keeps its place.
    return np.where(np.isfinite(moved), moved, theta)

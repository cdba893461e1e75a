"""Errors of statistics after thinning or rounding the draws, predicted from one solve.

Thinning: the error of a statistic with fewer draws follows from its influence series. The series is thinned in the same
way, which accounts for autocorrelation.

Rounding: take the measure that was solved on the full draws. Its residuals at the rounded draws do not average to zero.
Their average along a statistic is the statistic's shift. If `recover` can restore the digits, the shift is zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import jax
import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.digits import round_to
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.rounding import rounding_of
from bayesrecon.estimation.totals import SampledTotals, slopes_of, totals_of
from bayesrecon.model import Model
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.plan import Outlook
from bayesrecon.results.row import Row

_STARTS = 8  # thinned series that are averaged


def predicted_outlooks(problem: Problem, draws: Sequence[int], digits: Sequence[int]) -> dict[str, Outlook]:
    """Predicted errors by numbers of draws and shifts by numbers of digits, for each statistic of a solved release."""
    return {outlook.name: outlook for outlook in predicted(problem, draws, digits, None)[2]}


def predicted(
    problem: Problem, draws: Sequence[int], digits: Sequence[int], statistics: Mapping[str, object] | None
) -> tuple[SampledTotals, tuple[Row, ...], tuple[Outlook, ...], np.ndarray]:
    """Predict the S statistics of a solved release for fewer draws and fewer digits.

    Returns:
        The totals, the rows, the outlooks, and the slopes in the basis `(r, S)`.
    """
    library, totals = totals_of(problem.solved, problem.knowledge, problem.reference, statistics)
    rows, slopes = slopes_of(library, totals)
    series = totals.influence @ slopes
    errors = {t: _thinned_error(series, totals.chain, t) for t in sorted(set(draws))}
    shifts = {k: _moved(problem, totals.directions @ slopes, k) for k in sorted(set(digits))}
    outlooks = tuple(
        Outlook(
            row.name,
            float(row.estimate or 0.0),
            {t: float(by_statistic[i]) for t, by_statistic in errors.items()},
            {k: float(by_statistic[i]) for k, by_statistic in shifts.items()},
        )
        for i, row in enumerate(rows)
    )
    return totals, rows, outlooks, totals.directions @ slopes


def _thinned_error(series: np.ndarray, chain: np.ndarray, draws: int) -> np.ndarray:
    """Standard error of the mean of the series over `draws` evenly spaced atoms, `(S,)`.

    A single short series estimates autocorrelation badly, so the estimates from several starting points are averaged.
    """
    step = max(1, len(series) // draws)
    ratios = []
    for start in range(min(step, _STARTS)):
        positions = np.concatenate([np.flatnonzero(chain == c)[start::step] for c in np.unique(chain)])
        ratios.append(len(positions) / effective_sample_size(series[positions], chain[positions]))
    ratio = np.mean(ratios, axis=0)
    # Consecutive draws may be antithetic. Thinned draws are at best independent, even if a short series looks better.
    return np.sqrt(series.var(axis=0) * (ratio if step == 1 else np.maximum(ratio, 1.0)) / draws)


def _moved(problem: Problem, directions: np.ndarray, digits: int) -> np.ndarray:
    """Change of the totals along `directions (r, S)` when the published parameters are rounded, `(S,)`."""
    embedding, release = problem.embedding, cast(PosteriorDraws, problem.release)
    rounded = replace(release, theta=_rounded(release.model, np.asarray(release.theta), digits))
    rounding = rounding_of(rounded, embedding.independent_size)
    if rounding is not None and rounding.correctable and problem.solved.spectrum.gap:
        return np.zeros(directions.shape[1])
    moved = replace(embedding, release=rounded, progress=None)
    residual = np.asarray(moved.influence(problem.solved.basis, problem.solved.y, directions)[0])
    return -(np.asarray(release.weights) @ residual)


def _rounded(model: Model, theta: np.ndarray, digits: int) -> np.ndarray:
    """Unconstrained draws whose parameters were rounded to `digits` significant digits."""
    params = {k: np.asarray(v) for k, v in jax.vmap(model.constrain)(theta).items()}
    moved = np.asarray(jax.vmap(model.unconstrain)({k: round_to(v, digits) for k, v in params.items()}))
    # A reader would drop a draw that was rounded onto a boundary; here it is kept as it was.
    return np.where(np.isfinite(moved), moved, theta)

"""Errors of statistics after thinning or rounding the draws, predicted from one solve.

Thinning: the error of a statistic with fewer draws follows from its influence series. The series is thinned in the same
way, which accounts for autocorrelation.

Rounding: take the measure that was solved on the full draws. Its residuals at the rounded draws do not average to zero.
Their average along a statistic is the statistic's shift. If `recover` can restore the digits, the shift is zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.digits import round_to
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.rounding import rounding_of
from bayesrecon.estimation.totals import SampledTotals, slopes_of, totals_of
from bayesrecon.model import Model
from bayesrecon.results.plan import Outlook
from bayesrecon.results.row import Row

_STARTS = 8  # thinned series that are averaged


def predicted_outlooks(problem: Problem, draws: Sequence[int], digits: Sequence[int]) -> dict[str, Outlook]:
    """Predicted errors by numbers of draws and shifts by numbers of digits, for each statistic of a solved release."""
    _, rows, errors, shifts, _ = predicted_errors(problem, draws, digits, None)
    return {
        row.name: Outlook(
            row.name,
            float(row.estimate or 0.0),
            {t: float(e[i]) for t, e in errors.items()},
            {k: float(s[i]) for k, s in shifts.items()},
        )
        for i, row in enumerate(rows)
    }


def predicted_errors(
    problem: Problem, draws: Sequence[int], digits: Sequence[int], statistics: Mapping[str, object] | None
) -> tuple[SampledTotals, tuple[Row, ...], dict[int, np.ndarray], dict[int, np.ndarray], np.ndarray]:
    """Predict the S statistics of a solved release for fewer draws and fewer digits.

    Returns:
        The totals, the rows, `{draws: errors (S,)}`, `{digits: shifts (S,)}`, and the slopes in the basis `(r, S)`.
    """
    library, totals = totals_of(problem.solved, problem.knowledge, problem.reference, statistics)
    rows, slopes = slopes_of(library, totals)
    series = totals.influence @ slopes
    errors = {t: _thinned_error(series, totals.chain, t) for t in sorted(set(draws))}
    shifts = {k: _moved(problem, totals.directions @ slopes, k) for k in sorted(set(digits))}
    return totals, rows, errors, shifts, totals.directions @ slopes


def _thinned_error(series: np.ndarray, chain: np.ndarray, draws: int) -> np.ndarray:
    """Standard error of the mean of the series over `draws` evenly spaced atoms, `(S,)`.

    A single short series estimates autocorrelation badly, so the estimates from several starting points are averaged.
    """
    step = max(1, len(series) // draws)
    shares = []
    for start in range(min(step, _STARTS)):
        kept = np.concatenate([np.flatnonzero(chain == c)[start::step] for c in np.unique(chain)])
        shares.append(len(kept) / effective_sample_size(series[kept], chain[kept]))
    share = np.mean(shares, axis=0)
    # Consecutive draws may be antithetic. Thinned draws are at best independent, whatever a short series suggests.
    return np.sqrt(series.var(axis=0) * (share if step == 1 else np.maximum(share, 1.0)) / draws)


def _moved(problem: Problem, directions: np.ndarray, digits: int) -> np.ndarray:
    """Change of totals along `directions (r, S)` when the published parameters are rounded, `(S,)`."""
    embedding, release = problem.embedding, problem.release
    rounded: Any = replace(release, theta=_rounded(release.model, np.asarray(release.theta), digits))
    found = rounding_of(rounded, embedding.independent_size)
    if found is not None and found.correctable and problem.solved.spectrum.gap:
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

"""What thinner and rounder draws leave, predicted from one solve.

Thinning: the error of a statistic with T' of the draws follows from its influence series, thinned alike, so
that autocorrelation is accounted for. Rounding: with the measure solved on the full draws, the residuals
at the rounded draws no longer average to zero, and their average along a statistic is how far it would move. Digits
that `recover` puts back are no remedy: nothing moves then.
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

_STARTS = 8  # of thinned series


def planned(problem: Problem, draws: Sequence[int], digits: Sequence[int]) -> dict[str, Outlook]:
    """The same for draws and digits alone, by the name of a statistic, where the release is solved already."""
    _, rows, errors, shifts, _ = foreseen(problem, draws, digits, None)
    return {
        row.name: Outlook(
            row.name,
            float(row.estimate or 0.0),
            {t: float(e[i]) for t, e in errors.items()},
            {k: float(s[i]) for k, s in shifts.items()},
        )
        for i, row in enumerate(rows)
    }


def foreseen(
    problem: Problem, draws: Sequence[int], digits: Sequence[int], statistics: Mapping[str, Any] | None
) -> tuple[SampledTotals, tuple[Row, ...], dict[int, np.ndarray], dict[int, np.ndarray], np.ndarray]:
    """Totals, rows, by draws and digits the errors and shifts of the rows, and their slopes in the basis `(r, S)`."""
    library, totals = totals_of(problem.solved, problem.knowledge, problem.reference, statistics)
    rows, slopes = slopes_of(library, totals)
    series = totals.influence @ slopes
    errors = {t: _thinned_error(series, totals.chain, t) for t in sorted(set(draws))}
    shifts = {k: _moved(problem, totals.directions @ slopes, k) for k in sorted(set(digits))}
    return totals, rows, errors, shifts, totals.directions @ slopes


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
    rounded: Any = replace(release, theta=_rounded(release.model, np.asarray(release.theta), digits))
    found = rounding_of(rounded, embedding.independent_size)
    if found is not None and found.mended and problem.solved.spectrum.gap:
        return np.zeros(directions.shape[1])
    moved = replace(embedding, release=rounded, progress=None)
    residual = np.asarray(moved.influence(problem.solved.basis, problem.solved.y, directions)[0])
    return -(np.asarray(release.weights) @ residual)


def _rounded(model: Model, theta: np.ndarray, digits: int) -> np.ndarray:
    """Draws after their parameters were printed with so many significant digits."""
    params = {k: np.asarray(v) for k, v in jax.vmap(model.constrain)(theta).items()}
    moved = np.asarray(jax.vmap(model.unconstrain)({k: round_to(v, digits) for k, v in params.items()}))
    # A draw rounded onto a boundary would be dropped by a reader; here it keeps its place.
    return np.where(np.isfinite(moved), moved, theta)

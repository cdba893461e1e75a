"""How much would a thinner or a rounder release give away? Predicted from one solve, before any attack is run.

Thinning: the error of a statistic with T' of the draws follows from its influence series, thinned alike, so
that autocorrelation is accounted for. Rounding: with the measure solved on the full draws, the residuals
at the rounded draws no longer average to zero, and their average along a statistic is how far it would move. Digits
that `recover` puts back are no remedy: nothing moves then.
Summaries instead of draws: the mean and covariance of the draws, and the mode of the posterior of the solved measure
with the inverse of minus its Hessian, printed with so many digits, are solved like any release.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import jax
import numpy as np

from bayesrecon.diagnostics import Z95, effective_sample_size
from bayesrecon.digits import decimal_step
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem, solve_release
from bayesrecon.estimation.rounding import rounding_of
from bayesrecon.estimation.statistics import library_of
from bayesrecon.estimation.totals import SampledTotals, part_totals, rows_of, slopes_of
from bayesrecon.knowledge import Knows, check_keywords
from bayesrecon.models.normal import fitted_normal, pack, variational, whitening
from bayesrecon.posteriors.approximations import gaussian
from bayesrecon.posteriors.sources import at_parameter
from bayesrecon.precision import in_float64
from bayesrecon.results.plan import EXACT, Outlook, Plan
from bayesrecon.results.row import Row
from bayesrecon.threads import on_one_thread
from bayesrecon.types import Model, Progress, PseudoData, Release

_HalfWidths = dict[str, float | None]

_STARTS = 8  # of thinned series
_NEWTON, _SETTLED = 100, 1e-10  # steps to a mode, and the last one in standard deviations


@in_float64
@on_one_thread
def plan(
    release: Any,
    *,
    model: Any = None,
    draws: Sequence[int] = (100, 300, 1000, 3000, 10_000),
    digits: Sequence[int] = (2, 3, 4, 6),
    summaries: bool = True,
    statistics: Mapping[str, Any] | None = None,
    key: Any = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> Plan:
    """Predict what an attacker would recover from fewer or rounder draws, or from a summary instead of them.

    Args:
        release: all draws that exist: from `bayesrecon.posteriors`, or whatever holds draws, with its `model`.
        model: of draws that do not name theirs: a `Model`, a shipped name, a PyMC or Bambi model.
        draws: numbers of draws to consider, kept at even distances (those above the release's own size are
            extrapolated as further independent draws).
        digits: significant decimal digits that the published parameters are rounded to, and those of the summaries.
        summaries: also plan for the mean and covariance of so many draws, and for the mode with its covariance (a
            Laplace approximation, a printed table with correlations) at so many digits and at full precision.
        statistics, key, progress, knows: as in `recover`.

    Raises:
        BayesreconError: a trained parameter, fewer than 10 draws or no digit to plan for, or what `recover` refuses.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> found = bayesrecon.plan(release, draws=(100, 1000), digits=(3,), summaries=False)["n"]
    >>> found.error(100) > 2 * found.error(1000) > 0
    True
    """
    check_keywords(knows, "plan")
    if not isinstance(release, Release) or model is not None:
        from bayesrecon.posteriors.door import release_of  # only then: what reads loads every reader

        release = release_of(release, model)
    if not release.temperature:
        raise BayesreconError("a trained parameter has no draws to thin; round it and recover again to see the effect")
    if min(draws, default=1) < 10 or min(digits, default=1) < 1:
        raise BayesreconError("plan at least 10 draws and at least 1 digit")
    problem = solve_release(release, key=key, progress=progress, **knows)
    totals, rows, errors, shifts = _foreseen(problem, draws, digits, statistics)
    failures, warnings = problem.failures(totals.scores), []
    moments: _HalfWidths = {}
    modes: dict[int, _HalfWidths] = {}
    fits: dict[int, _HalfWidths] = {}
    if summaries and not failures:
        solve = partial(_half_widths, statistics=statistics, key=key, progress=progress, knows=knows)
        moments, modes, fits, warnings = _summaries(problem, sorted(set(digits)), solve)
    size = problem.embedding.effective_size
    outlooks = tuple(
        Outlook(
            row.name,
            float(row.estimate or 0.0),
            {t: float(e[i]) for t, e in errors.items()},
            {k: float(s[i]) for k, s in shifts.items()},
            {t: _scaled(moments.get(row.name), np.sqrt(size / t) / Z95) for t in errors} if moments else {},
            {k: found.get(row.name) for k, found in modes.items()},
            {k: found.get(row.name) for k, found in fits.items()},
        )
        for i, row in enumerate(rows)
    )
    return Plan(release.name, problem.release.size, outlooks, failures, tuple(warnings), release.model.name)


def planned(problem: Problem, draws: Sequence[int], digits: Sequence[int]) -> dict[str, Outlook]:
    """The same for draws and digits alone, by the name of a statistic, where the release is solved already."""
    _, rows, errors, shifts = _foreseen(problem, draws, digits, None)
    return {
        row.name: Outlook(
            row.name,
            float(row.estimate or 0.0),
            {t: float(e[i]) for t, e in errors.items()},
            {k: float(s[i]) for k, s in shifts.items()},
        )
        for i, row in enumerate(rows)
    }


def _foreseen(
    problem: Problem, draws: Sequence[int], digits: Sequence[int], statistics: Mapping[str, Any] | None
) -> tuple[SampledTotals, tuple[Row, ...], dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Totals, rows, and by draws and digits the errors and shifts of the rows."""
    solved, knowledge, reference = problem.solved, problem.knowledge, problem.reference
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    totals = part_totals(solved, library, knowledge)
    rows, slopes = slopes_of(library, totals)
    series = totals.influence @ slopes
    errors = {t: _thinned_error(series, totals.chain, t) for t in sorted(set(draws))}
    shifts = {k: _moved(problem, totals.directions @ slopes, k) for k in sorted(set(digits))}
    return totals, rows, errors, shifts


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else float(value * factor)


def _summaries(
    problem: Problem, digits: Sequence[int], solve: Callable[[Release], _HalfWidths]
) -> tuple[_HalfWidths, dict[int, _HalfWidths], dict[int, _HalfWidths], list[str]]:
    """What the mean and covariance of the draws leave, the mode with its covariance at so many digits, and a
    variational fit; and why something is missing."""
    release, model = problem.release, problem.release.model
    warnings: list[str] = []
    theta, weights = np.asarray(release.theta), np.asarray(release.weights)
    centre = weights @ theta
    covariance = (theta - centre).T @ ((theta - centre) * weights[:, None])
    moments: _HalfWidths = {}
    try:
        moments = solve(gaussian(model, centre, covariance, draws=problem.embedding.effective_size))
    except BayesreconError as error:
        warnings.append(f"mean and covariance of draws are not planned for: {error}")
    modes: dict[int, _HalfWidths] = {}
    try:
        mode, inverse = _mode(model, problem.solved.pseudo, centre, covariance)
        for k in (*digits, EXACT):
            printed = _printed(mode, inverse, k)
            modes[k] = solve(gaussian(model, *printed, jacobian=True, digits=None if k == EXACT else k))
    except BayesreconError as error:
        warnings.append(f"a mode with its covariance is not planned for: {error}")
    fits: dict[int, _HalfWidths] = {}
    try:
        fits[EXACT] = solve(_fit(model, problem.solved.pseudo, centre, covariance))
    except BayesreconError as error:
        warnings.append(f"a variational fit is not planned for: {error}")
    return moments, modes, fits, warnings


def _fit(model: Model, pseudo: PseudoData, mean: np.ndarray, covariance: np.ndarray) -> Release:
    """The normal law that maximises the ELBO of the pseudo-data."""
    derived = variational(model)
    phi = fitted_normal(model, derived, pack(model, mean, covariance), pseudo)
    if not np.isfinite(phi).all():
        raise BayesreconError(f"no normal law maximises the ELBO of {model.name} near the draws")
    return at_parameter(phi, derived, "variational fit", metric=whitening(model, phi))


def _half_widths(release: Release, statistics: Any, key: Any, progress: Any, knows: Any) -> _HalfWidths:
    """Of each statistic; None where it is not determined."""
    problem = solve_release(release, key=key, progress=progress, **knows)
    solved, knowledge, reference = problem.solved, problem.knowledge, problem.reference
    library = library_of(knowledge, reference.centre, reference.scale, statistics, solved.probes)
    rows = rows_of(library, part_totals(solved, library, knowledge), solved.embedding)
    found: _HalfWidths = {}
    for row in rows:
        told = not problem.unfit and row.lower is not None and row.upper is not None
        found[row.name] = 0.5 * (row.upper - row.lower) if told else None  # type: ignore[operator]
    return found


def _mode(model: Model, pseudo: PseudoData, start: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode of the pseudo-data's posterior and the inverse of minus the Hessian there, by Newton's method."""
    at, root = start, np.sqrt(np.diag(covariance))
    for _ in range(_NEWTON):
        slope, hessian = (np.asarray(x) for x in _derivatives(model, at, pseudo.records, pseudo.weights))
        if not (np.isfinite(slope).all() and np.isfinite(hessian).all()):
            break
        step = np.linalg.solve(hessian, slope)
        far = float(np.abs(step / root).max())
        at = at - step / max(1.0, far)
        if far < _SETTLED:
            inverse = np.linalg.inv(-np.asarray(_derivatives(model, at, pseudo.records, pseudo.weights)[1]))
            return at, 0.5 * (inverse + inverse.T)
    raise BayesreconError(f"no mode of {model.name} was found near the draws")


@partial(jax.jit, static_argnames="model")
def _derivatives(model: Model, theta: Any, records: Any, weights: Any) -> tuple[Any, Any]:
    def log_posterior(t: Any) -> Any:
        logs = jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)
        return weights @ logs + model.log_prior(t) + model.log_det(t)

    return jax.grad(log_posterior)(theta), jax.hessian(log_posterior)(theta)


def _printed(mean: np.ndarray, covariance: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """As a table prints them: mean and standard deviations with so many digits, correlations as many decimals."""
    if digits == EXACT:
        return mean, covariance
    sd = np.sqrt(np.diag(covariance))
    correlation = np.round(covariance / np.outer(sd, sd), digits)
    np.fill_diagonal(correlation, 1.0)
    sd = _cut(sd, digits)
    return _cut(mean, digits), correlation * np.outer(sd, sd)


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
    residual = np.asarray(moved.influence(problem.solved.basis, problem.solved.y, directions)[0])
    return -(np.asarray(release.weights) @ residual)


def _rounded(model: Model, theta: np.ndarray, digits: int) -> np.ndarray:
    """Draws after their parameters were printed with so many significant digits."""
    params = {k: np.asarray(v) for k, v in jax.vmap(model.constrain)(theta).items()}
    moved = np.asarray(jax.vmap(model.unconstrain)({k: _cut(v, digits) for k, v in params.items()}))
    # A draw rounded onto a boundary would be dropped by a reader; here it keeps its place.
    return np.where(np.isfinite(moved), moved, theta)


def _cut(values: np.ndarray, digits: int) -> np.ndarray:
    step = decimal_step(values, digits)
    return np.round(values / step) * step

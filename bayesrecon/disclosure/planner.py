"""The verb `plan`: how much a thinner or rounder release would reveal, predicted before any attack is run.

Releases with fewer or rounder draws are predicted (`disclosure.thinning`). Summaries of the draws and variational fits
(below) are computed from the solved measure, rounded to the given digits, and solved like any release.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack, cast

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array, Key
from bayesrecon.diagnostics import Z95
from bayesrecon.digits import round_to
from bayesrecon.disclosure.sanitising.guaranteed import Promise, price_of
from bayesrecon.disclosure.sanitising.ledger import EVERYBODY, Whose, ledger_path, opened_ledger
from bayesrecon.disclosure.sanitising.public_features import public_ranges
from bayesrecon.disclosure.sanitising.supported import (
    LEAST_WORTH,
    check_worth,
    is_supported,
    least_worth,
    planned_tilts,
    tilted_errors,
)
from bayesrecon.disclosure.sanitising.tilts import TiltDistribution
from bayesrecon.disclosure.thinning import predicted
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.totals import rows_of, totals_of
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress, PseudoData, Records
from bayesrecon.posteriors.approximated.approximations import FULL_RANK, MEAN_FIELD, gaussian
from bayesrecon.posteriors.approximated.normal import fitted_mean_field, fitted_normal, pack, unpack, variational
from bayesrecon.releases import PosteriorDraws, Release
from bayesrecon.results.plan import EXACT, Plan, Price, Series
from bayesrecon.verbs.verb import verb

# What summaries of draws would reveal: their mean and covariance, a mode with its covariance, and variational fits.
#
# Each summary is computed from the data that the draws determine, and solved like any other release.


HalfWidths = dict[str, float | None]
"""Half widths of the statistics' intervals, by name; None if a statistic is not determined."""

_Fit = Callable[[Model, PseudoData, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From a model, pseudo-data, and the draws' mean and covariance to the mean and covariance of a fit."""

_NEWTON, _CONVERGED = 100, 1e-10  # most steps to a mode, and the largest last step in standard deviations


@dataclass(frozen=True)
class Summarised:
    """Half widths of the statistics' intervals under each summary.

    Attributes:
        moments: mean and covariance of the draws.
        modes, full_rank, mean_field: the mode with its covariance and two variational fits, by significant digits.
        warnings: the reason for each summary that is missing.
    """

    moments: HalfWidths = field(default_factory=dict)
    modes: dict[int, HalfWidths] = field(default_factory=dict)
    full_rank: dict[int, HalfWidths] = field(default_factory=dict)
    mean_field: dict[int, HalfWidths] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def summarised(problem: Problem, digits: Sequence[int], solve: Callable[[Release], HalfWidths]) -> Summarised:
    """Attack each summary: mean and covariance, mode with covariance, and converged variational fits.

    Args:
        digits: numbers of significant digits to which modes and variational fits are rounded.
        solve: function that attacks a release.
    """
    release, model = problem.release, problem.release.model
    theta, weights = np.asarray(release.theta), np.asarray(release.weights)
    mean = weights @ theta
    covariance = (theta - mean).T @ ((theta - mean) * weights[:, None])
    pseudo, warnings = problem.solved.pseudo, []

    def by_digits(fit: _Fit, summary: str, read: Callable[..., Release]) -> dict[int, HalfWidths]:
        widths: dict[int, HalfWidths] = {}
        try:
            exact = fit(model, pseudo, mean, covariance)
            for k in (EXACT, *digits):
                widths[k] = solve(read(model, *_printed(*exact, k), digits=None if k == EXACT else k))
        except BayesreconError as error:
            warnings.append(f"{summary} is not planned for: {error}")
        return {k: widths[k] for k in (*digits, EXACT) if k in widths}

    moments: HalfWidths = {}
    try:
        moments = solve(gaussian(model, mean, covariance, draws=problem.embedding.effective_size))
    except BayesreconError as error:
        warnings.append(f"mean and covariance of draws are not planned for: {error}")
    modes = by_digits(_mode, "a mode with its covariance", partial(gaussian, jacobian=True))
    full_rank = by_digits(_full_rank, "a variational fit", partial(gaussian, fit=FULL_RANK))
    mean_field = by_digits(_mean_field, "a mean-field variational fit", partial(gaussian, fit=MEAN_FIELD))
    return Summarised(moments, modes, full_rank, mean_field, tuple(warnings))


def _full_rank(
    model: Model, pseudo: PseudoData, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the normal distribution that maximises the ELBO of the pseudo-data."""
    phi = fitted_normal(model, variational(model), pack(model, mean, covariance), pseudo)
    if not np.isfinite(phi).all():
        raise BayesreconError(
            f"no normal distribution was found that maximises the ELBO of {model.name} near the draws"
        )
    fitted, factor = (np.asarray(x) for x in unpack(model, phi))
    return fitted, factor @ factor.T


def _mean_field(
    model: Model, pseudo: PseudoData, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a mean field. It starts at the conditional variances of a normal posterior."""
    sd = 1 / np.sqrt(np.diag(np.linalg.inv(covariance)))
    mean, sd = fitted_mean_field(model, variational(model), mean, sd, pseudo)
    if not np.isfinite(sd).all():
        raise BayesreconError(f"no mean field was found that maximises the ELBO of {model.name} near the draws")
    return mean, np.diag(sd**2)


def half_widths(
    release: Release,
    statistics: Mapping[str, object] | None,
    key: Key,
    progress: Progress | None,
    knows: Knows,
) -> HalfWidths:
    """Half width of each statistic's interval; None if it is not determined."""
    problem = solve_release(release, key=key, progress=progress, **knows)
    rows = rows_of(
        *totals_of(problem.solved, problem.knowledge, problem.reference, statistics), problem.solved.embedding
    )
    widths: HalfWidths = {}
    for row in rows:
        if problem.unfit or row.lower is None or row.upper is None:
            widths[row.name] = None
        else:
            widths[row.name] = 0.5 * (row.upper - row.lower)
    return widths


def _mode(model: Model, pseudo: PseudoData, start: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode of the pseudo-data's posterior and the inverse of minus the Hessian there, by Newton's method."""
    theta, sd = start, np.sqrt(np.diag(covariance))
    for _ in range(_NEWTON):
        slope, hessian = (np.asarray(x) for x in _derivatives(model, theta, pseudo.records, pseudo.weights))
        if not (np.isfinite(slope).all() and np.isfinite(hessian).all()):
            break
        step = np.linalg.solve(hessian, slope)
        largest = float(np.abs(step / sd).max())
        theta = theta - step / max(1.0, largest)
        if largest < _CONVERGED:
            inverse = np.linalg.inv(-np.asarray(_derivatives(model, theta, pseudo.records, pseudo.weights)[1]))
            return theta, 0.5 * (inverse + inverse.T)
    raise BayesreconError(f"no mode of {model.name} was found near the draws")


@partial(jax.jit, static_argnames="model")
def _derivatives(model: Model, theta: Array, records: Records, weights: Array) -> tuple[jax.Array, jax.Array]:
    """Gradient `(d,)` and Hessian `(d, d)` of the log posterior in unconstrained coordinates."""

    def log_posterior(point: jax.Array) -> jax.Array:
        logs = jax.vmap(model.log_lik, in_axes=(None, 0))(point, records)
        return jnp.dot(weights, logs) + model.log_prior(point) + model.log_det(point)

    return jax.grad(log_posterior)(theta), jax.hessian(log_posterior)(theta)


def _printed(mean: np.ndarray, covariance: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance as a table prints them.

    Mean and standard deviations are rounded to `digits` significant digits, correlations to as many decimals.
    """
    if digits == EXACT:
        return mean, covariance
    sd = np.sqrt(np.diag(covariance))
    correlation = np.round(covariance / np.outer(sd, sd), digits)
    np.fill_diagonal(correlation, 1.0)
    sd = round_to(sd, digits)
    return round_to(mean, digits), correlation * np.outer(sd, sd)


class PlanKnows(Knows, total=False):
    """What an attacker knows, and the sanitised releases that are to come.

    Attributes:
        releases: number of sanitised releases that are to come, such as 60 of 60 months. The plan says what worth each
            may have.
        epsilon, delta: guarantees of differential privacy whose prices are predicted, with `domain`.
        budget, account, ledger: as in `sanitise`, with `releases`. If no budget is known, the smallest one is planned.
    """

    releases: int | None
    epsilon: float | Sequence[float] | None
    delta: float | None
    budget: float | None
    account: str | None
    ledger: str | Path | None


@verb((PosteriorDraws,), also=PlanKnows.__annotations__, instead="round it and recover again to see the effect")
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
    **knows: Unpack[PlanKnows],
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
        statistics, key, progress: as in `recover`.
        knows: as in `recover`; also `releases`, the number of sanitised releases that are to come, with their `budget`,
            `account` and `ledger` (`PlanKnows`).

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
    releases, budget = knows.pop("releases", None), knows.pop("budget", None)
    account, ledger = knows.pop("account", None), knows.pop("ledger", None)
    epsilons, delta = np.atleast_1d(knows.pop("epsilon", None) or []).tolist(), knows.pop("delta", None)
    if bool(epsilons) != (delta is not None):
        raise BayesreconError("epsilon= and delta= belong together, e.g. epsilon=(0.5, 1, 3) and delta=1e-6")
    promises = [Promise(epsilon, delta, knows.get("domain")) for epsilon in epsilons if delta is not None]
    for promise in promises[:1]:
        public_ranges(release.model, promise.domain)  # refused before anything is computed
    attacker = cast(Knows, knows)
    if releases is None and any(value is not None for value in (budget, account, ledger)):
        raise BayesreconError("budget=, account= and ledger= are for releases to come: state releases=, e.g. 12")
    if releases is not None and releases < 1:
        raise BayesreconError(f"releases={releases!r}: expected a number of releases to come, e.g. 12")
    state = None if releases is None else _state(budget, account, ledger)
    problem = solve_release(release, key=key, progress=progress, **attacker)
    totals, rows, thinned, slopes = predicted(problem, draws, digits, statistics)
    failures = problem.failures(totals.scores)
    found = Summarised()
    if summaries and not failures:
        solve = partial(half_widths, statistics=statistics, key=key, progress=progress, knows=attacker)
        found = summarised(problem, sorted(set(digits)), solve)
    tilts, series, unsaid, tilted = None, None, (), {}
    worths = sorted({t for t in draws if t >= LEAST_WORTH})
    if (worths or releases is not None) and not failures:
        try:
            tilts = planned_tilts(problem, rows)
        except BayesreconError as error:
            unsaid = (f"sanitised draws are not planned for: {error}",)
    if tilts is not None:
        if releases is not None and state is not None:
            series = _series(tilts, releases, *state)
            worths = sorted({*worths, *series.worths})
        tilted, unsaid = tilted_errors(problem, tilts, slopes, worths)
    size = problem.embedding.effective_size
    moments = found.moments
    outlooks = tuple(
        replace(
            outlook,
            moments={t: _scaled(moments.get(outlook.name), np.sqrt(size / t) / Z95) for t in outlook.se if moments},
            mode={k: widths.get(outlook.name) for k, widths in found.modes.items()},
            variational={k: widths.get(outlook.name) for k, widths in found.full_rank.items()},
            mean_field={k: widths.get(outlook.name) for k, widths in found.mean_field.items()},
            sanitised={worth: float(scatter[i]) for worth, scatter in tilted.items()},
        )
        for i, outlook in enumerate(thinned)
    )
    warnings = (*found.warnings, *unsaid)
    prices: tuple[Price, ...] = ()
    if promises and not failures:
        theta = np.asarray(problem.release.theta)
        prices = tuple(price_of(release.model, problem.solved.pseudo, theta, promise) for promise in promises)
    return Plan(release.name, problem.release.size, outlooks, failures, warnings, release.model.name, series, prices)


def _state(budget: float | None, account: str | None, ledger: str | Path | None) -> tuple[str, float, float | None]:
    """Name of an account, what it has spent, and its budget."""
    whose = Whose(EVERYBODY if account is None else account)
    budget = None if budget is None else check_worth(budget, "budget")
    with opened_ledger(ledger_path() if ledger is None else Path(ledger), only_read=True) as book:
        found = book.account(whose, budget=budget)
    return whose.account, found.spent, found.budget


def _series(tilts: TiltDistribution, releases: int, account: str, spent: float, budget: float | None) -> Series:
    """What each of several releases to come may be worth."""
    least = least_worth(tilts)
    if least is None:
        raise BayesreconError(f"{releases} releases cannot be planned: no worth up to a million is supported")
    limit = float(np.ceil(spent + releases * least)) if budget is None else budget
    left = max(0.0, limit - spent)
    each, alone = (
        worth if worth >= least and is_supported(tilts.with_size(worth**-0.5)) else None
        for worth in (float(np.floor(left / releases)), float(np.floor(left)))
    )
    return Series(releases, account, spent, limit, least, each, alone)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else float(value * factor)

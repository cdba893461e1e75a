"""What summaries of draws would reveal: their mean and covariance, a mode with its covariance, and variational fits.

Each summary is computed from the data that the draws determine, and solved like any other release.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array, Key
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.estimation.totals import rows_of, totals_of
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress, PseudoData, Records
from bayesrecon.posteriors.approximated.approximations import FULL_RANK, MEAN_FIELD, gaussian
from bayesrecon.posteriors.approximated.normal import fitted_mean_field, fitted_normal, pack, unpack, variational
from bayesrecon.releases import Release
from bayesrecon.results.plan import EXACT

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

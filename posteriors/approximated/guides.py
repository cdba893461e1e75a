"""Variational fits and modes as releases: NumPyro's autoguides, PyMC's ADVI, CmdStan's `variational` and `laplace`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.divergence.score import prior_score
from bayesrecon.errors import BayesreconError, check_memory
from bayesrecon.inexact import Ascent, Noise
from bayesrecon.model import Model
from bayesrecon.models.conversion import model_of
from bayesrecon.models.power import tempered
from bayesrecon.posteriors.approximated.autoguides import GUIDES, autoguide_distribution, is_autoguide
from bayesrecon.posteriors.approximated.cmdstan_distributions import cmdstan_distribution
from bayesrecon.posteriors.approximated.fitted_distribution import FittedDistribution
from bayesrecon.posteriors.approximated.normal import by_another_rule, laplace, variational, whitening
from bayesrecon.posteriors.approximated.prior_derivatives import check_smooth
from bayesrecon.posteriors.approximated.pymc_distributions import (
    APPROXIMATIONS,
    is_pymc_approximation,
    pymc_distribution,
)
from bayesrecon.posteriors.recognition import is_cmdstan_approximation, is_path
from bayesrecon.precision import in_float64
from bayesrecon.releases import (
    Approximation,
    OptimisedFit,
    OptimisedMode,
    Release,
    Summary,
    TrainedParameter,
    VariationalOptimum,
)

_REDUNDANT = 1e-9  # relative size of directions in which a guide's parameters do not move


@in_float64
def from_guide(
    model: Model,
    guide: object,
    params: Mapping[str, object] | None = None,
    *,
    residual: float | str | None = None,
    iterates: Sequence[Mapping[str, Array]] | None = None,
    power: float | None = None,
    name: str | None = None,
) -> Release:
    """A release from a variational fit, a Laplace approximation or a mode.

    An optimum of the ELBO over normal distributions `q = N(m, L L')` is stationary for `sum_n E_q[l(theta, x_n)] +
    E_q[log pi0 + log det] + log det L` in the parameters of the guide. These are d + d(d+1)/2 equations for a full-rank
    guide, 2d for mean field, and those of its own factors for low rank (Opper and Archambeau 2009; Kucukelbir et al.
    2017 for the coordinates). For modes see `posteriors.gaussian` and `posteriors.dirac`.

    | `guide` | `params` | the release |
    |---|---|---|
    | `AutoNormal`, `AutoDiagonalNormal`, `AutoMultivariateNormal` | `svi.get_params(state)` | an optimum of the ELBO |
    | `AutoLowRankMultivariateNormal` | the same | an optimum of the ELBO, with `residual` |
    | `AutoLaplaceApproximation` | the same | the mode with the Jacobian, and the Hessian there |
    | `AutoDelta` | the same | the mode of the density of the constrained values, without the Jacobian |
    | `pymc.fit(method="advi")`, `"fullrank_advi"` | None, or as a `Tracker` stores them | an optimum of the ELBO |
    | path of the CSV of CmdStan's `variational` or `laplace` | None | the normal distribution of its draws |

    Stochastic optimisation ends near the optimum, not at it. The distance is taken from `residual` or from `iterates`.
    If neither is given, it is estimated from the equations that hold for all data; in many models there are more
    equations than features of the data. The distance enters the standard errors. If it is large or cannot be estimated,
    nothing is reported as determined.

    A fit alone can mislead: if all its standard deviations are too large by one factor, it looks like the optimum for
    fewer records. It is therefore only used if its equations hold to a hundredth of a posterior standard deviation.
    That is the case at an optimum, but not on the way to it. Iterates are more informative: the error is computed from
    their fluctuation. This assumes an optimiser that scales each step by the size of its gradients (Adam, RMSprop,
    Adagrad).

    Args:
        model: model in the coordinates of the guide's program, with parameters named like its sites.
        guide: a guide that was run, so that its sites are known.
        params: the guide's parameters, constrained.
        residual: standard error of the equations in posterior standard deviations, one number or `(k,)`; 0 for an
            optimum to full precision. For a mode alone, that of the gradient of the log density.
        iterates: for an optimum of the ELBO: `params` at ten or more earlier late steps of the same run, evenly spaced
            and in order. They should cover many times the number of steps after which the optimiser has forgotten its
            position.
        power: power of the likelihood, if the posterior is tempered (`models.tempered`).
        name: name for display.

    Returns:
        An `OptimisedFit` of a derived model (`bayesrecon.posteriors.approximated.normal`), or an `OptimisedMode`. With
        residual=0 a `VariationalOptimum` or an `Approximation`, and for a mode alone a `TrainedParameter`. Every verb
        accepts them.

    Raises:
        BayesreconError: the guide is of another kind or for another model, parameters are missing or not finite, the
            density is not differentiable there, or the iterates do not determine their errors.

    >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
    >>> from bayesrecon.models import from_numpyro
    >>> from numpyro.infer.autoguide import AutoNormal
    >>> def program(y):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 10))
    ...     with numpyro.plate("records", y.shape[0]):
    ...         numpyro.sample("y", dist.Normal(mean, 1), obs=y)
    >>> guide = AutoNormal(program)
    >>> with numpyro.handlers.seed(rng_seed=0):
    ...     _ = guide(jnp.zeros(3))
    >>> fit = {"mean_auto_loc": 1.98, "mean_auto_scale": 0.1}
    >>> from_guide(from_numpyro(program, {"y": ()}), guide, fit, residual=0.0).model.name
    'program, normal approximation'
    """
    model = model if power is None else tempered(model, power)
    fit = _fitted(model, guide, params, tuple(iterates or ()))
    if fit.iterates and fit.kind != "variational":
        raise BayesreconError(
            f"{fit.name}: the gradients of a mode are exact, so iterates do not give its errors; supply residual="
        )
    build = {"variational": _variational, "laplace": _laplace, "mode": _mode}
    release = build[fit.kind](model, fit, residual, name or fit.name)
    if not np.isfinite(release.theta).all():
        raise BayesreconError("the parameters lie on or outside their support")
    directions = metric_factor(release, release.default_metric)
    if not np.isfinite(np.asarray(prior_score(release.model, directions, release.theta, 0.0))).all():
        raise BayesreconError(
            f"the prior of model {model.name} has no derivatives at these parameters, so they are not stationary"
        )
    return release


def release_of_approximation(source: object, model: object, power: float | None) -> Release | None:
    """The release of a file of CmdStan's `variational` or `laplace`; None for anything else.

    Raises:
        BayesreconError: the model is missing, or `from_guide` refuses the file.
    """
    if not is_cmdstan_approximation(source):
        return None
    if model is None:
        raise BayesreconError(f"{source} does not name its model; pass one (model=, or --model)")
    return from_guide(model_of(model), source, power=power)


def _fitted(
    model: Model, guide: object, params: object, iterates: tuple[Mapping[str, Array], ...]
) -> FittedDistribution:
    if is_autoguide(guide):
        return autoguide_distribution(model, guide, params, iterates)
    if is_pymc_approximation(guide):
        return pymc_distribution(model, guide, params, iterates)
    if is_path(guide):
        return cmdstan_distribution(model, guide, params, iterates)
    raise BayesreconError(
        f"a {type(guide).__name__} is not supported; expected one of NumPyro's {', '.join(GUIDES)}, of PyMC's "
        f"{', '.join(APPROXIMATIONS)}, or the path of CmdStan's output"
    )


def _variational(model: Model, fit: FittedDistribution, residual: float | str | None, name: str) -> Release:
    derived, points = variational(model), _distinct_points(fit)
    phis = np.array([np.asarray(fit.phi(x)) for x in points])
    phi = phis.mean(axis=0)
    white = whitening(model, phi)
    jacobian = np.asarray(_jacobian(fit.phi, points.mean(axis=0)))
    whitened = np.linalg.solve(white, jacobian)
    directions, lengths, _ = np.linalg.svd(
        whitened / np.linalg.norm(whitened, axis=0).clip(1e-300), full_matrices=False
    )
    spanned = directions[:, lengths > _REDUNDANT * lengths[0]]
    metric = white if spanned.shape[1] == len(phi) else white @ spanned
    if residual is None and fit.slow:
        raise BayesreconError(
            f"{fit.name}: {fit.slow}, so iterates do not show how far it is from its optimum; fit a "
            "full-rank guide, or supply residual= (0 at the optimum)"
        )
    no_columns = np.zeros((len(phi), 0))
    if residual is not None:
        ascent = _stated_residual(residual, metric)
    elif len(points) > 1:
        check_memory(8 * len(points) * len(phi) ** 2, f"slopes of {len(points)} iterates", "supply fewer iterates")
        inverse = np.linalg.pinv(jacobian, rcond=_REDUNDANT)
        turned = np.array([np.asarray(_jacobian(fit.phi, x)) @ inverse for x in points])
        ascent = Ascent(no_columns, white @ whitened, phis, turned)
    else:
        ascent = Ascent(no_columns, white @ whitened, freedom=0.0)
    normal = no_columns
    if fit.draws is not None:
        d = model.dimension
        normal = metric @ np.linalg.lstsq(metric, white[:, d:], rcond=None)[0] / np.sqrt(fit.draws)
        if fit.printed is not None:
            normal = np.column_stack([normal, np.eye(len(phi))[:, :d] * fit.printed / np.sqrt(3)])
    atom, other_rule, noise = phi[None], by_another_rule(model), _noise(normal)
    if ascent is not None:
        return OptimisedFit(atom, derived, metric, model, noise, ascent, other_rule, name=name)
    if normal.size:
        return Summary(atom, derived, metric, model, noise, other_rule, name=name)
    return VariationalOptimum(atom, derived, metric, model, other_rule, name=name)


@partial(jax.jit, static_argnames="phi")
def _jacobian(phi: Callable[[Array], Array], native: Array) -> jax.Array:
    return jax.jacfwd(phi)(native)


def _laplace(model: Model, fit: FittedDistribution, residual: float | str | None, name: str) -> Release:
    """The release of a mode with its covariance. The Hessian is exact, but the gradient may differ from zero."""
    phi, d = np.asarray(fit.phi(fit.native)), model.dimension
    check_smooth(model, phi[:d])
    metric, no_columns = whitening(model, phi), np.zeros((len(phi), 0))
    derived, atom = laplace(model, fit.jacobian), phi[None]
    normal = no_columns if fit.draws is None else metric / np.sqrt(fit.draws)
    if residual is not None:
        ascent = _stated_residual(residual, metric)
    elif fit.draws is None:
        ascent = Ascent(np.linalg.solve(metric.T, np.eye(len(phi))[:, :d]), no_columns, freedom=0.0)
    else:
        ascent = None
    if ascent is not None:
        return OptimisedFit(atom, derived, metric, model, _noise(normal), ascent, name=name)
    if normal.size:
        return Summary(atom, derived, metric, model, _noise(normal), name=name)
    return Approximation(atom, derived, metric, model, name=name)


def _mode(model: Model, fit: FittedDistribution, residual: float | str | None, name: str) -> Release:
    theta, directions = np.asarray(fit.native), np.eye(model.dimension)
    if np.isfinite(theta).all():
        check_smooth(model, theta)
    if residual is None:
        ascent = Ascent(directions, np.zeros((model.dimension, 0)), freedom=0.0)
    else:
        ascent = _stated_residual(residual, directions)
    if ascent is None:
        return TrainedParameter(theta[None], model, name=name)
    return OptimisedMode(theta[None], model, ascent, name=name)


def _distinct_points(fit: FittedDistribution) -> np.ndarray:
    """Distinct native parameters `(K, g)` of all steps; only the last ones if there are no iterates."""
    points = np.array([*fit.iterates, fit.native])
    if not fit.iterates:
        return points
    distinct = [i for i, x in enumerate(points) if not any(np.array_equal(x, other) for other in points[:i])]
    if len(distinct) == 1:
        raise BayesreconError("all iterates are equal; supply residual=0 if the fit is at its optimum")
    return points[distinct]


def _stated_residual(residual: float | str, metric: np.ndarray) -> Ascent | None:
    """The error of an optimiser that stopped with this residual; None if the residual is zero."""
    try:
        size = np.asarray(residual, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("residual= must be numeric") from None
    count = metric.shape[1]
    if size.shape not in ((), (count,)) or not np.isfinite(size).all() or (size < 0).any():
        raise BayesreconError(f"residual=: expected one number or ({count},), finite and non-negative")
    if not size.any():
        return None
    score = metric @ np.linalg.inv(metric.T @ metric) * size
    return Ascent(score, np.zeros((len(metric), 0)))


def _noise(normal: np.ndarray) -> Noise:
    """Sampling noise without rounding."""
    return Noise(normal, np.zeros((len(normal), 0)))


SOURCE = release_of_approximation

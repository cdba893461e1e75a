"""Means with covariances as releases: Laplace approximations, variational fits, and summaries of posterior draws."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.linalg import helmert

from bayesrecon.diagnostics import evenly
from bayesrecon.digits import decimal_step
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.inexact import Noise
from bayesrecon.model import Model, Parameter, Params, Records, entry
from bayesrecon.models.power import tempered
from bayesrecon.posteriors.approximated.normal import (
    by_another_rule,
    laplace,
    matching,
    moments_of_draws,
    pack,
    unconstrained_moments,
    variational,
    whitening,
)
from bayesrecon.posteriors.approximated.prior_derivatives import check_smooth
from bayesrecon.posteriors.sources import check_parameters
from bayesrecon.precision import in_float64
from bayesrecon.releases import Approximation, LogDensity, Release, Summary, VariationalOptimum

FULL_RANK, MEAN_FIELD = "full rank", "mean field"
"""Families of normal distributions that a variational fit optimises over."""

_SYMMETRIC = 1e-8  # largest accepted asymmetry of a correlation matrix
_FEWEST = 2  # smallest number of draws per entry of the mean and the covariance
_STEP = 1e-5  # step of finite differences, in half units of the last digit


@in_float64
def gaussian(
    model: Model,
    mean: object,
    covariance: object,
    *,
    draws: float | None = None,
    jacobian: bool | None = None,
    coordinates: str = "unconstrained",
    digits: int | None = None,
    power: float | None = None,
    fit: str | None = None,
    name: str | None = None,
) -> Release:
    """A release from a mean and a covariance: of a mode (Laplace approximation), a variational fit or posterior draws.

    Modes. Let m be a mode and V the inverse of minus the Hessian of the log density at m. Then `sum_n grad l = -grad p`
    and `sum_n Hess l = -V^-1 - Hess p` at m. If m is the mode of the density in unconstrained coordinates (NumPyro's
    `AutoLaplaceApproximation`, CmdStan's `laplace`), `p = log pi0 + log det`. Otherwise (maximum likelihood, most
    optimisers, modes in printed tables) `p = log pi0`.

    Draws. The mean and covariance of draws satisfy the equations of a normal approximation up to a relative error of
    about d / N, which `recover` corrects by matching. Their sampling noise follows the Wishart distribution.

    Variational fits. Mean and covariance are taken as the optimum. `posteriors.from_guide` takes the fit itself, and
    accounts for its distance from the optimum.

    Args:
        mean: `(d,)` in the order of `coordinates`, or `{parameter: value}`.
        covariance: `(d, d)`.
        draws: number of independent draws, or effective sample size, behind the mean and covariance; None for a mode.
        jacobian: for a mode in unconstrained coordinates: whether its density includes the Jacobian of the transforms.
            It must be stated if the model has transforms.
        coordinates: "unconstrained", with names `model.coordinates`, or "constrained", the parameters' own.
        digits: number of significant digits of the printed mean and standard deviations, and of decimals of the
            correlations. Exact by default.
        power: power of the likelihood, if the posterior is tempered (`models.tempered`).
        fit: "full rank" or "mean field" if they come from a converged variational fit. "mean field" needs a diagonal
            covariance.

    Returns:
        A stationary parameter of a derived model (`bayesrecon.posteriors.approximated.normal`): an `Approximation`, a
        `VariationalOptimum` or a `Summary`. Every verb accepts it.

    Raises:
        BayesreconError: parameters or shapes are wrong, the covariance is not symmetric and positive definite, values
            are outside the support, `jacobian` is missing, or there are fewer draws than the covariance needs.

    >>> from bayesrecon.models.registry import load
    >>> model = load("kidscore_momiq")
    >>> release = gaussian(model, [25.8, 0.61, 2.9], np.diag([36.0, 0.0036, 0.0012]), jacobian=True)
    >>> release.temperature, release.model.name
    (0.0, 'kidscore_momiq, mode and covariance')
    """
    model = in_coordinates_of(model if power is None else tempered(model, power), coordinates, draws)
    mean = _vector(model, mean)
    covariance = _covariance(model, covariance)
    if fit is not None:
        _check_fit(fit, covariance, coordinates, draws, jacobian)
    sd = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(sd, sd)
    half_units = np.zeros(0)
    if digits is not None:
        _check_digits(digits)
        correlation_half = np.full(len(sd) * (len(sd) - 1) // 2, 0.0 if fit == MEAN_FIELD else 10.0**-digits / 2)
        half_units = np.concatenate([decimal_step(mean, digits) / 2, decimal_step(sd, digits) / 2, correlation_half])
    return _release(model, mean, sd, correlation, half_units, coordinates, draws, jacobian, name, fit=fit)


def printed(
    model: Model,
    mean: np.ndarray,
    sd: np.ndarray,
    correlation: np.ndarray,
    mean_half: np.ndarray,
    sd_half: np.ndarray,
    correlation_half: np.ndarray,
    *,
    draws: float | None,
    jacobian: bool | None,
    coordinates: str,
    name: str | None,
    without_error: int = 0,
) -> Release:
    """The release of a printed mean, standard errors and correlations.

    Args:
        model: in the coordinates of the numbers.
        mean, sd, correlation: `(d,)`, `(d,)` and `(d, d)`.
        mean_half, sd_half, correlation_half: half units of their last digits: `(d,)`, `(d,)`, and one for each
            correlation below the diagonal, row by row.
        draws, jacobian, coordinates, name: as in `gaussian`.
        without_error: number of parameters whose standard errors were not released. They are the last ones, and the
            other errors are conditional on them.
    """
    half_units = np.concatenate([mean_half, sd_half, correlation_half])
    return _release(model, mean, sd, correlation, half_units, coordinates, draws, jacobian, name, without_error)


def _release(
    model: Model,
    mean: np.ndarray,
    sd: np.ndarray,
    correlation: np.ndarray,
    half_units: np.ndarray,
    coordinates: str,
    draws: float | None,
    jacobian: bool | None,
    name: str | None,
    without_error: int = 0,
    fit: str | None = None,
) -> Release:
    lower = np.tril_indices(len(mean), -1)
    constrained = coordinates == "constrained"

    def phi_of(numbers: np.ndarray) -> np.ndarray:
        centre, errors, correlations = np.split(numbers, [len(mean), 2 * len(mean)])
        r = np.eye(len(mean))
        r[lower] = correlations
        covariance = (r + np.tril(r, -1).T) * np.outer(errors, errors)
        if draws is not None and constrained:
            centre, covariance = unconstrained_moments(model, centre, covariance)
        return pack(model, centre, covariance)

    numbers = np.concatenate([mean, sd, correlation[lower]])
    try:
        phi = phi_of(numbers)
        columns = [
            (phi_of(numbers + step) - phi_of(numbers - step)) / (2 * _STEP)
            for step in np.diag(half_units * _STEP)
            if step.any()
        ]
    except np.linalg.LinAlgError:
        raise BayesreconError(
            "the covariance is not positive definite: are standard errors and correlations from one fit, and printed "
            "with enough digits?"
        ) from None
    if not np.isfinite(phi).all():
        raise BayesreconError(f"the mean lies on or outside the support of model {model.name}")
    if fit is None and draws is None:
        check_smooth(model, phi[: len(mean)])
    elif draws is not None:
        _check_draws(draws, len(phi))
    if fit is None and draws is None and jacobian is None and not constrained and _has_jacobian(model):
        transformed = next(p.name for p in model.parameters if _is_reparametrised(p))
        raise BayesreconError(
            "state jacobian=: True where the mode is that of the density in unconstrained coordinates, with the "
            f"Jacobian of the transform of {transformed} (NumPyro, Stan's laplace), False where it is not (maximum "
            "likelihood)"
        )
    metric = whitening(model, phi)
    if fit == MEAN_FIELD:
        metric = metric[:, np.concatenate([np.ones(len(mean), bool), np.equal(*np.tril_indices(len(mean)))])]
    if without_error:
        released = np.maximum(*np.tril_indices(len(mean))) < len(mean) - without_error
        metric = metric[:, np.concatenate([np.ones(len(mean), bool), released])]
    release: Release
    if fit is not None:
        derived = variational(model)
        release = VariationalOptimum(
            phi[None], derived, metric, model, by_another_rule(model), name=name or derived.name
        )
    elif draws is None:
        derived = laplace(model, bool(jacobian) and _has_jacobian(model))
        release = Approximation(phi[None], derived, metric, model, name=name or derived.name)
    else:
        derived = moments_of_draws(model)
        noise = Noise(whitening(model, phi) / np.sqrt(draws), np.zeros((len(phi), 0)))
        release = Summary(
            phi[None],
            derived,
            metric,
            model,
            noise,
            by_another_rule(model),
            matching(model, constrained),
            name=name or derived.name,
        )
    return release.printed(phi[None], metric, np.array(columns).T) if columns else release


def _check_fit(fit: str, covariance: np.ndarray, coordinates: str, draws: float | None, jacobian: bool | None) -> None:
    if fit not in (FULL_RANK, MEAN_FIELD):
        raise BayesreconError(f"fit={fit!r}: expected {FULL_RANK!r} or {MEAN_FIELD!r}")
    if draws is not None or jacobian is not None or coordinates != "unconstrained":
        raise BayesreconError(
            f"fit={fit!r}: a variational fit is normal in unconstrained coordinates with the Jacobian, and has no "
            "draws; omit draws=, jacobian= and coordinates="
        )
    if fit == MEAN_FIELD and np.any(covariance != np.diag(np.diag(covariance))):
        raise BayesreconError(f"fit={fit!r}: a mean-field covariance must be diagonal")


def _has_jacobian(model: Model) -> bool:
    return any(_is_reparametrised(p) for p in model.parameters)


def _is_reparametrised(parameter: Parameter) -> bool:
    low, high = parameter.bounds if parameter.bounds is not None else (0.0, 1.0)
    return bool(np.isfinite(low) or np.isfinite(high)) and type(parameter.transform).__name__ not in (
        "Identity",
        "IdentityTransform",
    )


def _check_digits(digits: object) -> None:
    if not isinstance(digits, int) or isinstance(digits, bool) or digits < 1:
        raise BayesreconError(f"digits={digits!r}: expected a positive whole number")


def _check_draws(draws: float, entries: int) -> None:
    if not (np.isfinite(draws) and draws > 0):
        raise BayesreconError(f"draws={draws!r}: expected the number of draws behind the mean and covariance")
    if draws < _FEWEST * entries:
        raise BayesreconError(
            f"{draws:g} draws are too few for a mean and covariance of {entries} entries; {_FEWEST * entries} or more "
            "are needed"
        )


def in_coordinates_of(model: Model, coordinates: str, draws: float | None) -> Model:
    """The model in the coordinates of the numbers. With `draws` it is unchanged: the moments are transformed later."""
    if coordinates not in ("unconstrained", "constrained"):
        raise BayesreconError(f"coordinates={coordinates!r}: expected 'unconstrained' or 'constrained'")
    if coordinates == "unconstrained":
        return model
    constrained = model.in_constrained_coordinates  # an error if a support is not a box
    return constrained if draws is None else model


def names_of(model: Model, constrained: bool) -> tuple[str, ...]:
    """Names of the coordinates, `(d,)`, with indices that start at one."""
    shapes = [(p.name, p.shape if constrained else p.free_shape) for p in model.parameters]
    return tuple(entry(name, index) for name, shape in shapes for index in np.ndindex(*shape))


def _vector(model: Model, mean: object) -> np.ndarray:
    if isinstance(mean, Mapping):
        check_parameters(model, mean)
        mean = np.concatenate([np.ravel(np.asarray(mean[p.name], float)) for p in model.parameters])
    mean = _numbers(mean, "the mean")
    if mean.shape != (model.dimension,):
        raise BayesreconError(
            f"a mean of shape {mean.shape} for {model.dimension} parameters ({', '.join(model.coordinates[:6])}"
            f"{' ...' if model.dimension > 6 else ''})"
        )
    return mean


def _covariance(model: Model, covariance: object) -> np.ndarray:
    covariance = _numbers(covariance, "the covariance")
    d = model.dimension
    if covariance.shape != (d, d):
        raise BayesreconError(f"a covariance of shape {covariance.shape} for {d} parameters")
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    if not (sd > 0).all():
        raise BayesreconError(f"the variance of {model.coordinates[int(np.argmin(sd))]} is not positive")
    correlation = covariance / np.outer(sd, sd)
    if np.abs(correlation - correlation.T).max() > _SYMMETRIC:
        raise BayesreconError("the covariance is not symmetric")
    if np.abs(correlation).max() > 1 + _SYMMETRIC:
        i, j = np.unravel_index(np.argmax(np.abs(correlation)), correlation.shape)
        raise BayesreconError(
            f"the correlation of {model.coordinates[i]} and {model.coordinates[j]} is {correlation[i, j]:.4g}, greater "
            "than one"
        )
    if np.linalg.eigvalsh(correlation)[0] <= 0:
        raise BayesreconError("the covariance is not positive definite")
    return 0.5 * (covariance + covariance.T)


def _numbers(values: object, label: str) -> np.ndarray:
    try:
        values = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"{label} must be numeric") from None
    if not np.isfinite(values).all():
        raise BayesreconError(f"{label} holds missing or infinite values")
    return values


# Densities that can be evaluated, as releases: normalising flows, neural posterior estimates.


_MOST = 1000  # largest number of points used: the error of a log density does not average out over more of them


@in_float64
def from_log_density(
    model: Model,
    log_q: Callable[[np.ndarray], npt.ArrayLike],
    points: object = None,
    *,
    power: float | None = None,
    name: str = "log density",
) -> Release:
    """A release from a density that can be evaluated, such as a normalising flow or a neural posterior estimate.

    If q is the posterior, `log q - log pi0 - log det = sum_n l(., x_n) + c` holds exactly at all points. If q only
    approximates the posterior, the equation has an error. Its size is estimated from the part that no data can explain,
    and it enters the standard errors (see `bayesrecon.estimation.noise`). If q is exactly the posterior of other data,
    the error cannot be noticed. An example is any normal distribution with a wrong covariance, for a model with a
    quadratic log likelihood.

    Args:
        log_q: log density of q in unconstrained coordinates, up to a constant. It maps an array of points `(T, d)` to
            `(T,)`, or one point `(d,)` to a number. It may use JAX or NumPy, because only its values are used.
        points: `(T, d)` in unconstrained coordinates, in the order of `model.coordinates`. Draws of q are best. Use at
            least three times as many as the data have features (a hundred for a simple regression). Of more than 1,000
            points, evenly spaced ones are used.
        power: power of the likelihood, if the posterior is tempered (`models.tempered`).

    Returns:
        A `LogDensity`, a stationary parameter of a derived model
        (`bayesrecon.posteriors.approximated.approximations`), which verbs accept.

    Raises:
        BayesreconError: there are fewer than three points, the points have another shape or do not vary, values are not
            finite or have another shape, or `log_q` fails.

    >>> import bayesrecon
    >>> from bayesrecon.models import load
    >>> model, rng = load("linear_predictor"), np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 40))  # the private records
    >>> def log_q(theta):  # slope and intercept
    ...     return -0.5 * ((y - theta[:, :1] * x - theta[:, 1:]) ** 2).sum(axis=1)
    >>> release = from_log_density(model, log_q, rng.normal(size=(100, 2)))
    >>> round(bayesrecon.recover(release)["n"].estimate, 8)
    40.0
    """
    model = model if power is None else tempered(model, power)
    used = _points(model, points)
    derived = evaluated(model, used, _values(log_q, used))
    return LogDensity(np.zeros((1, len(used))), derived, contrasts(len(used)), model, name=name)


def _points(model: Model, points: object) -> np.ndarray:
    """At most `_MOST` of the points, checked."""
    d = model.dimension
    coordinates = ", ".join(model.coordinates[:6]) + (" ..." if d > 6 else "")
    if points is None:
        raise BayesreconError(
            f"points= is missing: supply a few hundred draws of q, (T, {d}), in unconstrained coordinates "
            f"({coordinates})"
        )
    try:
        result = np.asarray(points, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError("points= must be numeric") from None
    if result.ndim != 2 or result.shape[1] != d:
        raise BayesreconError(f"points of shape {result.shape}: expected (T, {d}), the columns {coordinates}")
    if not np.isfinite(result).all():
        raise BayesreconError("points= holds missing or infinite values")
    distinct = np.unique(result, axis=0)
    result = distinct if len(distinct) < len(result) else result  # otherwise in the order of the caller
    if len(result) < max(3, d + 2):
        raise BayesreconError(f"{len(result)} different points are too few: supply a few hundred draws of q")
    constant = np.flatnonzero(np.ptp(result, axis=0) == 0)
    if constant.size:
        raise BayesreconError(f"all points have the same {model.coordinates[constant[0]]}: supply draws of q")
    return result[evenly(len(result), _MOST)]


def _values(log_q: Callable[[np.ndarray], npt.ArrayLike], points: np.ndarray) -> np.ndarray:
    """Values `(T,)` of a log density, by one call for all points, or one call per point if that fails."""
    if not callable(log_q):
        raise BayesreconError(f"log_q is a {type(log_q).__name__}: expected a function of points (T, d)")
    try:
        result = np.asarray(log_q(points), float)
    except Exception:  # a function of single points, or a broken one, which the next call shows
        result = np.zeros(0)
    if result.shape == (len(points), 1):
        result = result[:, 0]
    if result.shape != (len(points),):
        try:
            separate = [np.asarray(log_q(point), float) for point in points]
        except Exception as error:
            raise BayesreconError(f"log_q failed at a point: {first_line(error)}") from None
        if any(value.size != 1 for value in separate):
            raise BayesreconError(
                f"log_q gives an array of shape {result.shape} for points {points.shape}, and one of shape "
                f"{separate[0].shape} for one of them; expected one number per point"
            )
        result = np.array([value.item() for value in separate])
    infinite = int((~np.isfinite(result)).sum())
    if infinite:
        raise BayesreconError(
            f"log_q is not finite at {infinite} of {len(points)} points; supply points inside its support"
        )
    if np.ptp(result) == 0:
        raise BayesreconError("log_q is the same at all points: is it a log density?")
    return result


# Densities that can be evaluated as trained parameters of derived models.
#
# Where q is the posterior itself, its logarithm at any points theta_1 ... theta_T obeys
#
#     log q(theta_t) - log pi0(theta_t) - log det(theta_t) = sum_n l(theta_t, x_n) + c.
#
# Let e `(T,)` be the errors of log q at the points. These are the equations of a stationary point at e = 0 of
#
#     sum_n <e', l(., x_n)> + <e', log pi0 + log det - log q> - |e'|^2 / 2,      e' = e - mean(e).
#
# So the release is a trained parameter of a model whose record term is `<e', l(., z)>`. If log q has the error e, the
# stationary point is at e, whatever the data.


def evaluated(model: Model, points: np.ndarray, log_density: np.ndarray) -> Model:
    """The derived model of a log density `(T,)` at points `(T, d)` in unconstrained coordinates."""
    points = np.asarray(points, float)
    log_ratio = np.asarray(_log_prior(model, points)) - log_density

    def centred(params: Params) -> jax.Array:
        return params["error"] - jnp.mean(params["error"])

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        return centred(params) @ jax.vmap(model.log_lik, in_axes=(0, None))(jnp.asarray(points), record)

    def log_prior_at(params: Params) -> jax.Array:
        return centred(params) @ (log_ratio - log_ratio.mean()) - 0.5 * jnp.sum(centred(params) ** 2)

    return Model(
        name=f"{model.name}, log density",
        parameters=(Parameter("error", (len(points),)),),
        fields=model.fields,
        log_lik_at=log_lik_at,
        log_prior_at=log_prior_at,
        identities=model.identities,
    )


def contrasts(count: int) -> np.ndarray:
    """Orthonormal directions `(T, T - 1)` without the constant, which log densities do not have (Helmert)."""
    return helmert(count).T.copy()


def _log_prior(model: Model, points: np.ndarray) -> jax.Array:
    """Log prior density in unconstrained coordinates, `(T,)`."""
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(jnp.asarray(points))

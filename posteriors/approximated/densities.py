"""Densities that can be evaluated, as releases: normalising flows, neural posterior estimates."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.diagnostics import evenly
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.model import Model, Parameter, Params, Records
from bayesrecon.models.power import tempered
from bayesrecon.precision import in_float64
from bayesrecon.releases import LogDensity, Release

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
        (`bayesrecon.posteriors.approximated.densities`), which verbs accept.

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
    result = np.triu(np.ones((count, count - 1)))
    size = np.arange(1, count)
    result[size, size - 1] = -size
    return result / np.sqrt(size * (size + 1))


def _log_prior(model: Model, points: np.ndarray) -> jax.Array:
    """Log prior density in unconstrained coordinates, `(T,)`."""
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(jnp.asarray(points))

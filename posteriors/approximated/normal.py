"""Normal approximations of a posterior as trained parameters of derived models.

The parameter of a normal distribution `q = N(mean, Sigma)` over the d coordinates of a model is `phi = (mean, scale)`,
the scale being the lower triangle of the Cholesky factor L of Sigma, with the coordinates in the order `order_of`. With
`p = log pi0 + log det`, a converged variational fit is stationary for

    sum_n E_q[l(theta, x_n)] + E_q[p(theta)] + log det L                                            (the ELBO)

With the log posterior density `f = sum_n l + p`, its derivatives in `mean` and L are zero where `E_q[grad f] = 0` and
`E_q[Hess f] = -Sigma^-1` (Opper and Archambeau 2009, equations 6 and 7). A mode with the inverse of minus the Hessian
satisfies the same two equations at one point m, without the expectation:

    sum_n grad l(m, x_n) = -grad p(m),    sum_n Hess l(m, x_n) = -Sigma^-1 - Hess p(m)               (Laplace)

Both are Dirac releases: one atom phi at temperature 0. The mean and covariance of posterior draws satisfy the first
equations up to a relative error of about d / N, which `matching` removes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import roots_hermitenorm

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import GaussianPredictor, Model, Parameter, Params, PseudoData, Records

if TYPE_CHECKING:
    from scipy.stats import qmc

MOST = 40
"""Largest dimension of a posterior for which all entries of the covariance are used as equations."""

_REMEMBERED = 256  # derived models, so that compiled functions are reused
_FREEDOM, _NODES = 6.0, 2**13  # degrees of freedom and nodes of the t distribution that integrates moments
_EFFECTIVE = 0.1  # smallest effective sample size of the weighted nodes, as a share of them
_NEWTON = 60  # largest number of Newton steps
_CONVERGED, _FIELD_CONVERGED = 1e-12, 1e-10  # largest step at convergence, in standard deviations
_CHUNK = 2**22  # numbers per call


def order_of(model: Model) -> np.ndarray:
    """Positions `(d,)` of the coordinates in the order of the Cholesky factor: a regression's scale comes first."""
    order, gaussian = np.arange(model.dimension), model.gaussian
    if gaussian is None or gaussian.scale is None:
        return order
    return np.concatenate([[gaussian.scale], np.delete(order, gaussian.scale)])


def pack(model: Model, mean: Array, covariance: Array) -> np.ndarray:
    """phi `(k,)` of a mean `(d,)` and a covariance `(d, d)`."""
    order = order_of(model)
    factor = np.linalg.cholesky(np.asarray(covariance)[np.ix_(order, order)])
    return np.concatenate([np.asarray(mean, float), factor[np.tril_indices(len(order))]])


def unpack(model: Model, phi: Array) -> tuple[Array, jax.Array]:
    """Mean `(d,)` and factor `F (d, d)` with `F F' = Sigma`, its rows in the model's own order."""
    d, order = model.dimension, order_of(model)
    factor = jnp.zeros((d, d)).at[np.tril_indices(d)].set(phi[d:])
    return phi[:d], factor[np.argsort(order)]


def whitening(model: Model, phi: np.ndarray) -> np.ndarray:
    """Directions `(k, k)` in which the sampling noise of a mean and covariance of draws has equal size (Wishart).

    They are the derivatives of `mean = m0 + L0 u` and `L = L0 (1 + A)` at `u = 0`, `A = 0`. Those in the diagonal of A
    are divided by sqrt(2).
    """
    d, order = model.dimension, order_of(model)
    factor = np.zeros((d, d))
    factor[np.tril_indices(d)] = phi[d:]
    rows, columns = np.tril_indices(d)
    result = np.zeros((len(phi), len(phi)))
    result[np.ix_(order, np.arange(d))] = factor
    for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
        moved = np.zeros((d, d))
        moved[:, j] = factor[:, i]
        result[d:, d + k] = moved[rows, columns] / (np.sqrt(2) if i == j else 1.0)
    return result


def _derived(
    model: Model,
    name: str,
    log_lik_at: Callable[[Params, Records], jax.Array],
    log_prior_at: Callable[[Params], jax.Array],
) -> Model:
    d = model.dimension
    if d > MOST:
        raise BayesreconError(f"{model.name} has {d} parameters: covariances of more than {MOST} are not supported")
    return Model(
        name=f"{model.name}, {name}",
        parameters=(Parameter("mean", (d,)), Parameter("scale", (d * (d + 1) // 2,))),
        fields=model.fields,
        log_lik_at=log_lik_at,
        log_prior_at=log_prior_at,
        identities=model.identities,
    )


def _phi(params: Params) -> jax.Array:
    return jnp.concatenate([params["mean"], params["scale"]])


@lru_cache(_REMEMBERED)
def laplace(model: Model, jacobian: bool) -> Model:
    """The derived model of a mode and the inverse of minus the Hessian there.

    Args:
        jacobian: the mode is one of the density in unconstrained coordinates, with the Jacobian of the transforms.

    >>> from bayesrecon.models.registry import load
    >>> laplace(load("kidscore_momiq"), True).dimension
    9
    """

    def expanded(f: Callable[[Array], jax.Array], params: Params) -> jax.Array:
        mean, factor = unpack(model, _phi(params))
        # The second derivatives at the mode are constants here.
        hessian = jax.lax.stop_gradient(jax.hessian(f)(mean))
        return f(mean) + 0.5 * jnp.sum(factor * (hessian @ factor))

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        return expanded(lambda t: model.log_lik(t, record), params)

    def log_prior_at(params: Params) -> jax.Array:
        def log_base(t: Array) -> jax.Array:
            return model.log_prior(t) + (model.log_det(t) if jacobian else 0.0)

        return expanded(log_base, params) + _entropy(model, params)

    return _derived(model, "mode and covariance", log_lik_at, log_prior_at)


@lru_cache(_REMEMBERED)
def variational(model: Model) -> Model:
    """The derived model of a normal distribution that maximises the ELBO.

    Expectations are exact where the model is a Gaussian linear regression and its prior a polynomial of third order in
    the coefficients, and sums over fixed nodes elsewhere (`approximated.quadrature`).
    """
    return _variational(model, *rule(model.dimension, model.gaussian, other=False))


@lru_cache(_REMEMBERED)
def by_another_rule(model: Model) -> Model:
    """`variational(model)` with expectations by another quadrature rule, to estimate their error."""
    return _variational(model, *rule(model.dimension, model.gaussian, other=True))


def _variational(model: Model, nodes: np.ndarray, weights: np.ndarray) -> Model:
    def expectation(f: Callable[[Array], jax.Array], params: Params) -> jax.Array:
        mean, factor = unpack(model, _phi(params))
        return jnp.asarray(weights) @ jax.vmap(f)(mean + jnp.asarray(nodes) @ factor.T)

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        return expectation(lambda t: model.log_lik(t, record), params)

    def log_prior_at(params: Params) -> jax.Array:
        return expectation(lambda t: model.log_prior(t) + model.log_det(t), params) + _entropy(model, params)

    return _derived(model, "normal approximation", log_lik_at, log_prior_at)


def _entropy(model: Model, params: Params) -> jax.Array:
    """log det L, the entropy of the normal distribution up to a constant."""
    rows, columns = np.tril_indices(model.dimension)
    return jnp.sum(jnp.log(jnp.abs(params["scale"][rows == columns])))


@lru_cache(_REMEMBERED)
def moments_of_draws(model: Model) -> Model:
    """The derived model of a mean and covariance of posterior draws: `variational`, under another name.

    >>> from bayesrecon.models.registry import load
    >>> moments_of_draws(load("kidscore_momiq")).name
    'kidscore_momiq, mean and covariance of draws'
    """
    return replace(variational(model), name=f"{model.name}, mean and covariance of draws")


@lru_cache(_REMEMBERED)
def matching(model: Model, constrained: bool) -> Callable[[Array, Array, PseudoData], np.ndarray]:
    """A function `(target (d,), theta (d,), PseudoData) -> theta` that corrects a mean and covariance of draws.

    It returns the parameter for which the equations give data whose posterior has the target mean and covariance.

    Args:
        constrained: the mean and covariance are those of the constrained values.
    """
    return partial(_matched, model, variational(model), constrained)


def unconstrained_moments(model: Model, mean: Array, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First-order mean and covariance in unconstrained coordinates, from those of the constrained values."""
    inverse = partial(_from_stacked, model)
    jacobian = np.asarray(jax.jacfwd(inverse)(jnp.asarray(mean)))
    return np.asarray(inverse(jnp.asarray(mean))), jacobian @ covariance @ jacobian.T


def _from_stacked(model: Model, values: Array) -> jax.Array:
    """Unconstrained coordinates of the constrained values of all parameters, one after the other."""
    params, start = {}, 0
    for p in model.parameters:
        size = int(np.prod(p.shape))
        params[p.name] = values[start : start + size].reshape(p.shape)
        start += size
    return model.unconstrain(params)


def _stacked(model: Model, theta: Array) -> jax.Array:
    params = model.constrain(theta)
    return jnp.concatenate([jnp.reshape(params[p.name], (-1,)) for p in model.parameters])


def _matched(
    model: Model, derived: Model, constrained: bool, target: Array, phi: Array, pseudo: PseudoData
) -> np.ndarray:
    """`target + N(data) - M(data)`, an update of indirect inference (Gourieroux, Monfort and Renault 1993).

    N is the parameter of the normal approximation for the pseudo-data, and M that of their posterior. Both are computed
    with the same nodes, whose error cancels if the posterior is normal.
    """
    normal = fitted_normal(model, derived, phi, pseudo)
    nodes, log_t = student(model.dimension, _FREEDOM, _NODES)
    mean, factor = (np.asarray(x) for x in unpack(model, normal))
    theta = mean + nodes @ factor.T
    log_p, values = _posterior(model, constrained, theta, pseudo)
    usable = np.isfinite(log_p) & np.isfinite(values).all(axis=1)
    posterior = _moments(np.where(usable[:, None], values, 0.0), np.where(usable, log_p - log_t, -np.inf))
    if constrained:
        posterior = unconstrained_moments(model, *posterior)
    normal_moments = _moments(theta, -0.5 * (nodes**2).sum(axis=1) - log_t)
    return np.asarray(target) + pack(model, *normal_moments) - pack(model, *posterior)


def _moments(values: np.ndarray, log_w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean `(d,)` and covariance `(d, d)` of values `(S, d)`."""
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    if not 1 / np.sum(w**2) > _EFFECTIVE * len(w):
        raise BayesreconError(
            "the posterior of the fitted data is too far from a normal distribution for its mean and covariance to be "
            "matched; supply the draws themselves"
        )
    centre = w @ values
    return centre, (values - centre).T @ ((values - centre) * w[:, None])


def _posterior(model: Model, constrained: bool, theta: np.ndarray, pseudo: PseudoData) -> tuple[np.ndarray, np.ndarray]:
    """Log posterior density `(S,)` of the pseudo-data, and the values whose moments were released `(S, d)`."""
    chunk = max(1, _CHUNK // (len(pseudo.weights) * 16))
    parts = [
        _density(model, constrained, theta[i : i + chunk], pseudo.records, pseudo.weights)
        for i in range(0, len(theta), chunk)
    ]
    log_p, values = (np.concatenate([np.asarray(part[k]) for part in parts]) for k in (0, 1))
    return log_p, values


@partial(jax.jit, static_argnames=("model", "constrained"))
def _density(model: Model, constrained: bool, theta: Array, records: Records, weights: Array) -> tuple[Array, Array]:
    def at(t: Array) -> tuple[Array, Array]:
        logs = jax.vmap(model.log_lik, in_axes=(None, 0))(t, records)
        return weights @ logs + model.log_prior(t) + model.log_det(t), _stacked(model, t) if constrained else t

    return jax.vmap(at)(theta)


@partial(jax.jit, static_argnames="derived")
def _gradient(derived: Model, phi: Array, records: Records, weights: Array) -> jax.Array:
    def elbo(phi: Array) -> Array:
        return weights @ jax.vmap(derived.log_lik, in_axes=(None, 0))(phi, records) + derived.log_prior(phi)

    return jax.grad(elbo)(phi)


def fitted_normal(model: Model, derived: Model, phi: Array, pseudo: PseudoData) -> np.ndarray:
    """The parameter phi that solves the equations for the pseudo-data, from a starting value near it.

    Newton's method in whitened coordinates, with the Hessian of a normal posterior.
    """
    phi = np.asarray(phi)
    for _ in range(_NEWTON):
        metric = whitening(model, phi)
        step = metric.T @ np.asarray(_gradient(derived, phi, pseudo.records, pseudo.weights))
        if not np.isfinite(step).all() or np.abs(step).max() > 0.5:
            step = np.nan_to_num(step)
            step = step * 0.5 / max(0.5, np.abs(step).max())
        phi = phi + metric @ step
        if np.abs(step).max() < _CONVERGED:
            break
    return phi


def fitted_mean_field(
    model: Model, derived: Model, mean: Array, sd: Array, pseudo: PseudoData
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviations `(d,)` of the mean-field optimum of the ELBO for the pseudo-data.

    Newton's method from a starting value near it. The result is not finite if there is no optimum.
    """
    mean, log_sd = np.asarray(mean, float), np.log(np.asarray(sd, float))
    for _ in range(_NEWTON):
        gradient, hessian = (
            np.asarray(x) for x in _mean_field_derivatives(model, derived, mean, log_sd, pseudo.records, pseudo.weights)
        )
        if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
            break
        scale = np.concatenate([np.exp(log_sd), np.ones(len(mean))])
        step = -np.linalg.lstsq(hessian * np.outer(scale, scale), gradient * scale, rcond=None)[0]
        step = step * min(1.0, 0.5 / max(0.5, float(np.abs(step).max())))
        mean, log_sd = mean + np.exp(log_sd) * step[: len(mean)], log_sd + step[len(mean) :]
        if np.abs(step).max() < _FIELD_CONVERGED:
            return mean, np.exp(log_sd)
    return np.full(len(mean), np.nan), np.full(len(mean), np.nan)


@partial(jax.jit, static_argnames=("model", "derived"))
def _mean_field_derivatives(
    model: Model, derived: Model, mean: Array, log_sd: Array, records: Records, weights: Array
) -> tuple[jax.Array, jax.Array]:
    """Gradient and Hessian of the ELBO in the means and the logarithms of the standard deviations."""
    order, d = order_of(model), model.dimension

    def elbo(u: Array) -> Array:
        scale = jnp.diag(jnp.exp(u[d:])[order])[np.tril_indices(d)]
        phi = jnp.concatenate([u[:d], scale])
        return weights @ jax.vmap(derived.log_lik, in_axes=(None, 0))(phi, records) + derived.log_prior(phi)

    point = jnp.concatenate([mean, log_sd])
    return jax.grad(elbo)(point), jax.hessian(elbo)(point)


# Quadrature rules for a standard normal distribution: nodes and weights.

_TENSOR = 3  # largest dimension with a product of one-dimensional rules
_POINTS = {1: 32, 2: 24, 3: 16}  # points of these rules, by the dimension
_LOGARITHM = 24  # points along the logarithm of a scale
_QUASI_RANDOM = 2**10  # quasi-random nodes, and as many with the opposite sign

Rule = tuple[np.ndarray, np.ndarray]
"""Nodes `(S, d)` and weights `(S,)` that sum to one. The mean and covariance are exact."""


def rule(d: int, gaussian: GaussianPredictor | None = None, *, other: bool = False) -> Rule:
    """A rule in d dimensions.

    For a linear regression with the logarithm of its scale as first coordinate, the rule is exact to rounding. The log
    likelihood is a quadratic in the other coordinates, and Gauss-Hermite points are used for the first. Otherwise, few
    dimensions have products of Gauss-Hermite points. More dimensions have quasi-random points (Sobol) and their
    negatives, scaled to the covariance of the distribution.

    Args:
        d: number of dimensions.
        gaussian: the regression, if the model is one.
        other: whether to return a second rule of the same quality. The difference estimates the error of both.
    """
    if gaussian is not None and gaussian.scale is not None:
        return _along_scale(d, other)
    if d <= _TENSOR:
        return _tensor(d, _POINTS[d] - 2 * other)
    return _quasi_random(d, int(other))


def _hermite(points: int) -> Rule:
    nodes, weights = roots_hermitenorm(points)
    return np.asarray(nodes), np.asarray(weights) / np.sum(weights)


def _along_scale(d: int, other: bool) -> Rule:
    nodes, weights = _hermite(_LOGARITHM + 4 * other)
    count = d - 1
    if not count:
        return nodes[:, None], weights
    rotation = np.eye(count)
    if other:
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(count, count)))[0]
    others = np.sqrt(count) * np.concatenate([rotation, -rotation])
    grid = np.column_stack([np.repeat(nodes, len(others)), np.tile(others, (len(nodes), 1))])
    return grid, np.repeat(weights, len(others)) / len(others)


def _tensor(d: int, points: int) -> Rule:
    nodes, weights = _hermite(points)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    products = np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d).prod(axis=1)
    return grid, products


def _quasi_random(d: int, seed: int) -> Rule:
    from scipy.special import ndtri

    sobol = _sobol(d, seed=seed)
    half = ndtri(np.clip(sobol.random(max(_QUASI_RANDOM, 1 << d.bit_length() + 2)), 1e-12, 1 - 1e-12))
    nodes = np.concatenate([half, -half])
    nodes = nodes @ np.linalg.inv(np.linalg.cholesky(nodes.T @ nodes / len(nodes))).T
    return nodes, np.full(len(nodes), 1 / len(nodes))


def student(d: int, freedom: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Quasi-random nodes `(count, d)` of a multivariate t distribution, and its log density up to a constant."""
    from scipy.special import gammaincinv, ndtri

    sobol = _sobol(d + 1, seed=7)
    points = np.clip(sobol.random(count), 1e-12, 1 - 1e-12)
    stretch = np.sqrt(freedom / (2 * gammaincinv(freedom / 2, points[:, :1])))
    nodes = ndtri(points[:, 1:]) * stretch
    return nodes, -0.5 * (freedom + d) * np.log1p((nodes**2).sum(axis=1) / freedom)


def _sobol(d: int, seed: int) -> "qmc.Sobol":
    from scipy.stats import qmc  # this import takes a third of a second

    make: Any = qmc.Sobol  # whose stubs lack the argument `seed`
    return make(d, seed=seed)

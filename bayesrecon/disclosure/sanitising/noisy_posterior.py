"""The posterior given noisy totals, which knows the noise.

Let s be the totals of the features that do not contain the response (among them n), and t those of the features that
do. Given the covariates, t is a sum of independent terms, and its mean and covariance are linear in s for many models:
a Gaussian regression, a table of counts, a response without covariates. With s as the signed measure w(s) on public
points x_k that has these totals,

    t | s, theta ~ N(sum_k w_k m_k(theta), sum_k w_k C_k(theta)),

m_k and C_k being the mean and covariance of the features of a response at x_k under the model. So nothing is presumed
about the covariates except through s: the prior of s has density `det(G(s) / n)^(1/2)` over the totals whose matrix of
moments G is positive definite. The noise is N(0, v I), and t is integrated out:

    p(theta, s | noisy s, t) = prior(theta) prior(s) N(noisy s; s, v I) N(noisy t; sum w m, v I + sum w C).

The normal distribution of t is that of the central limit theorem (Bernstein and Sheldon 2018, 2019). They presume
normal covariates, too, where fourth moments are needed; here they are not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize

from bayesrecon.arrays import Array
from bayesrecon.disclosure.sanitising.public_features import Features
from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.domains import Field
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Parameter, Params, Progress, Records
from bayesrecon.posteriors.fitting.nuts import Settings, sampled

CHAINS, DRAWS, WARMUP = 4, 500, 150  # of NUTS
_ACCEPT = 0.8  # target acceptance
BARRIER = 0.5  # power of the determinant in the prior of totals
_NODES = 200  # of quadrature over the range of a response that is neither normal nor discrete
_MOST_LEVELS = 2000  # of a response that is enumerated
_FEW = 1e-3  # smallest eigenvalue of mean moments at which chains start
_INFINITE, _WIDEST = 1e300, 10.0  # an energy where there is no density; largest scale of a direction
_EXACT = 1e-6  # relative difference that counts as rounding
_STEP = 1e-5  # of central differences

_Moments = Callable[[Params], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the totals of a response, given those of its covariates. Everything is public.

    Attributes:
        moments: function from parameters to the mean `(K, q)` and the covariance `(K, q, q)` of the response's features
            at the K points.
        weights: `(K, p)`, the map from the totals s `(p,)` to weights of the points.
        gram: `(b, b, p)`, the map from s to a matrix of moments, which is positive definite.
        even: `(p,)`, mean features of a record drawn evenly from the ranges.
    """

    moments: _Moments
    weights: np.ndarray
    gram: np.ndarray
    even: np.ndarray


def law_of(model: Model, features: Features) -> Law:
    """The law of a model's totals.

    Raises:
        BayesreconError: mean and covariance are not linear in the released totals, or the response has too many levels.
    """
    rng, of_y = public_stream("points of a law"), features.of_response
    count = int((~of_y).sum())
    records = features.ranges.drawn(rng, 60 * count + 200)
    design = features.values(records)[:, ~of_y]
    *_, order = scipy.linalg.qr(design.T, pivoting=True, mode="economic")
    at, fresh = order[:count], np.setdiff1d(np.arange(len(design)), order[:count])[: 3 * count + 20]
    inverse = np.linalg.inv(design[at])
    points, others = ({k: v[i] for k, v in records.items()} for i in (at, fresh))
    moments, elsewhere = (_moments_at(model, features, some) for some in (points, others))
    constrained = jax.jit(model.constrain)
    for theta in rng.normal(size=(3, model.dimension)):
        params = constrained(theta)
        for here, there in zip(moments(params), elsewhere(params), strict=True):
            expected = np.tensordot(design[fresh] @ inverse, np.asarray(here), 1)
            if not np.abs(expected - np.asarray(there)).max() <= _EXACT * (np.abs(np.asarray(there)).max() + 1e-9):
                raise BayesreconError(
                    f"the totals of {model.name} do not determine the law of its response, so the posterior cannot "
                    "know the noise; epsilon is not available for it"
                )
    return Law(moments, inverse.T, _gram(design, np.linalg.pinv(design)), design.mean(axis=0))


def _gram(design: np.ndarray, solve: np.ndarray) -> np.ndarray:
    """Features whose products are features, too, as the map `(b, b, p)` from totals to their matrix of moments."""

    def product(i: int, j: int) -> np.ndarray | None:
        values = design[:, i] * design[:, j]
        found = solve @ values
        return found if np.abs(design @ found - values).max() < _EXACT else None

    chosen: list[int] = []
    for i in range(design.shape[1]):
        if all(product(i, j) is not None for j in (*chosen, i)):
            trial = [*chosen, i]
            matrix = design[:, trial].T @ design[:, trial] / len(design)
            if np.linalg.eigvalsh(matrix)[0] > _EXACT:
                chosen = trial
    return np.array([[product(i, j) for j in chosen] for i in chosen])


def _moments_at(model: Model, features: Features, points: Records) -> _Moments:
    """A function from parameters to mean and covariance of the response's features at these points."""
    field = features.ranges.fields[features.response]
    of_y = [p for p, has in zip(features.products, features.of_response, strict=True) if has]
    levels = [
        [features.components[i].level for i in p if features.components[i].field == features.response] for p in of_y
    ]
    ones = {**points, features.response: np.full(len(points[features.response]), _top(features))}
    others = [tuple(i for i in p if features.components[i].field != features.response) for p in of_y]
    beside = Features(features.ranges, features.components, tuple(others), features.response).values(ones)
    is_normal = not field.domain.discrete and not np.isfinite(model.fields[features.response].domain.width)
    is_normal &= any(len(one) == 2 and not rest for one, rest in zip(levels, others, strict=True))
    low, width = (min(field.domain.levels) if field.domain.kind == "levels" else field.domain.low), field.domain.width
    if field.domain.kind == "levels":
        responses = np.asarray(field.domain.levels, float)
    elif field.domain.kind == "integer":
        responses = np.arange(field.domain.low, field.domain.high + 1)
    else:
        responses = low + width * (np.polynomial.legendre.leggauss(_NODES)[0] + 1) / 2
    if len(responses) > _MOST_LEVELS:
        raise BayesreconError(f"the response {features.response} has more than {_MOST_LEVELS} levels in its range")
    mass = np.zeros(len(responses)) if field.domain.discrete else np.log(np.polynomial.legendre.leggauss(_NODES)[1])
    scaled = 2 * (responses - low) / width - 1
    # (J, q): the factor that the response contributes to each feature
    powers = np.stack(
        [np.prod([scaled if v is None else responses == v for v in one], axis=0) for one in levels], axis=1
    )
    exponents = np.array([len(one) for one in levels])
    dtype = model.fields[features.response].domain.dtype

    def logs(params: Params, values: np.ndarray) -> jax.Array:
        def at(point: Records, value: jax.Array) -> jax.Array:
            return model.log_lik_at(params, {**point, features.response: value})

        return jax.vmap(lambda point: jax.vmap(lambda value: at(point, value))(jnp.asarray(values, dtype)))(points)

    def normal(params: Params) -> tuple[Array, Array]:
        below, middle, above = logs(params, low + width * np.array([0.0, 0.5, 1.0])).T
        variance = 1 / (2 * middle - above - below)
        mean = variance * (above - below) / 2
        nodes = mean[:, None] + jnp.sqrt(3 * variance)[:, None] * jnp.array([-1.0, 0.0, 1.0])
        factor = nodes[..., None] ** exponents
        return _mean_and_covariance(beside[:, None] * factor, jnp.broadcast_to(jnp.array([1, 4, 1]) / 6, nodes.shape))

    def enumerated(params: Params) -> tuple[Array, Array]:
        weights = jax.nn.softmax(logs(params, responses) + mass, axis=1)
        return _mean_and_covariance(beside[:, None] * powers, weights)

    return jax.jit(normal if is_normal else enumerated)


def _top(features: Features) -> float:
    """The response whose scaled entry is 1."""
    domain = features.ranges.fields[features.response].domain
    return max(domain.levels) if domain.kind == "levels" else domain.high


def _mean_and_covariance(values: Array, weights: Array) -> tuple[Array, Array]:
    """Mean `(K, q)` and covariance `(K, q, q)` of values `(K, J, q)` with weights `(K, J)`."""
    mean = jnp.einsum("kjq,kj->kq", values, weights)
    rest = values - mean[:, None]
    return mean, jnp.einsum("kjq,kjr,kj->kqr", rest, rest, weights)


def normal_log_density(rest: Array, covariance: Array) -> jax.Array:
    """Log density of N(0, covariance), up to a constant. Not a number if the matrix is not positive definite."""
    root = jnp.linalg.cholesky(covariance)
    whitened = jax.scipy.linalg.solve_triangular(root, rest, lower=True)
    return -0.5 * whitened @ whitened - jnp.log(jnp.diagonal(root)).sum()


def barrier(moments: Array) -> jax.Array:
    """Log prior of totals with this matrix of mean moments, whose first entry is one."""
    return 2 * BARRIER * jnp.log(jnp.diagonal(jnp.linalg.cholesky(moments))).sum()


def positive_definite(centre: Array, steps: Array) -> tuple[jax.Array, jax.Array]:
    """A symmetric matrix near a positive definite one, and the log density of the prior of its steps up to a constant.

    With the Cholesky factor `R R' = centre`, the matrix is `R E E' R'`. E is lower triangular, with `exp(u)` in its
    diagonal and u below it, so all steps u keep the matrix positive definite. Its upper triangle has the density
    `det(matrix)^BARRIER`.

    Args:
        centre: `(b, b)`.
        steps: u by rows, `(b (b + 1) / 2,)`.
    """
    size = len(centre)
    u = jnp.zeros((size, size)).at[np.tril_indices(size)].set(steps)
    diagonal = jnp.diagonal(u)
    root = jnp.linalg.cholesky(centre) @ (jnp.tril(u, -1) + jnp.diag(jnp.exp(diagonal)))
    return root @ root.T, (size + 1 + 2 * BARRIER - jnp.arange(size)) @ diagonal


def with_totals(model: Model, features: Features, law: Law, knows_count: bool) -> Model:
    """The model of noisy totals: its parameters are those of the model and steps of the covariates' totals.

    Where the totals are all moments of some features, the steps are those of `positive_definite`. Otherwise they are in
    units of the noise.

    Args:
        knows_count: whether n is public.
    """
    of_y = features.of_response
    count, size = int((~of_y).sum()), len(law.gram)
    upper = law.gram[np.triu_indices(size)]
    in_moments = np.linalg.inv(upper) if len(upper) == count else None

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        sd = record["sd"]
        steps = jnp.concatenate([jnp.zeros(int(knows_count)), params["steps of totals"]])
        if in_moments is None:
            totals = record["centre"] + sd * steps
            prior = barrier(law.gram @ totals / totals[0])
        else:
            moments, prior = positive_definite(law.gram @ record["centre"], steps)
            totals = in_moments @ moments[np.triu_indices(size)]
            prior = prior - BARRIER * size * jnp.log(totals[0])
        mean, covariance = law.moments(params)
        weights = law.weights @ totals
        noisy_s, noisy_t = record["noisy"][~of_y], record["noisy"][of_y]
        of_s = -0.5 * jnp.sum(((noisy_s - totals)[int(knows_count) :] / sd) ** 2)
        spread = jnp.tensordot(weights, covariance, 1) + sd**2 * jnp.eye(int(of_y.sum()))
        return of_s + normal_log_density(noisy_t - weights @ mean, spread) + prior

    return Model(
        f"{model.name}, noisy totals",
        (*model.parameters, Parameter("steps of totals", (count - knows_count,))),
        {"noisy": Field((len(of_y),)), "centre": Field((count,)), "sd": Field()},
        log_lik_at,
        model.log_prior_at,
        forward=model.forward,
    )


def start_of(law: Law, noisy_s: np.ndarray, sd: float) -> np.ndarray:
    """Totals near the noisy ones whose moments are positive definite: mixed with records even over the ranges."""
    count = max(float(noisy_s[0]), sd, 1.0)
    for share in (0.0, *np.geomspace(1e-3, 1.0, 30)):
        mixed = (1 - share) * np.concatenate([[count], noisy_s[1:]]) + share * count * law.even
        if np.linalg.eigvalsh(law.gram @ mixed / count)[0] > _FEW * share**0.5 + 1e-9:
            return mixed
    return count * law.even


def drawn(
    whole: Model, record: Records, seed: int, progress: Progress | None = None, draws: int = DRAWS
) -> tuple[np.ndarray, int]:
    """Draws of a model of noisy totals, all its coordinates `(chains, draws, d)`, and the number of divergences.

    NUTS walks in the coordinates in which the density is standard normal to second order at its mode, so that a short
    warm-up is enough.

    Args:
        record: its one record, `{field: (1, *shape)}`.
    """
    value, whitened = _functions(whole)
    one = {name: jnp.asarray(values)[0] for name, values in record.items()}

    def to_minimise(theta: np.ndarray) -> tuple[float, np.ndarray]:
        found, slope = value(theta, one)
        is_finite = bool(np.isfinite(found) & np.isfinite(slope).all())
        return (float(found), np.asarray(slope)) if is_finite else (_INFINITE, np.zeros(len(theta)))

    best = scipy.optimize.minimize(
        to_minimise,
        np.zeros(whole.dimension),
        jac=True,
        hess=lambda theta: _curvature(whole, one, theta),
        method="trust-exact",
        options={"maxiter": 200, "gtol": 1e-3},
    )
    scales, vectors = np.linalg.eigh(_curvature(whole, one, best.x))
    root = vectors / np.sqrt(np.clip(scales, 1 / _WIDEST**2, None))
    theta, divergences = sampled(
        whitened,
        {**record, "mode": best.x[None], "root": root[None]},
        Settings(WARMUP, _ACCEPT, 8, dense=False),
        np.random.default_rng(seed),
        chains=CHAINS,
        draws=draws,
        thinning=1,
        method="auto",
        report_progress=lambda done: None if progress is None else progress("sampling", done),
        starts=np.random.default_rng(seed).normal(size=(64, whole.dimension)) / 2,
    )
    return best.x + theta @ root.T, divergences


def covariance_at(whole: Model, record: Records, theta: np.ndarray) -> np.ndarray:
    """Inverse of the curvature of minus the log density near its mode, `(d, d)`, as `drawn` starts from."""
    one = {name: jnp.asarray(values)[0] for name, values in record.items()}
    scales, vectors = np.linalg.eigh(_curvature(whole, one, theta))
    return vectors / np.clip(scales, 1 / _WIDEST**2, None) @ vectors.T


def _curvature(whole: Model, record: Records, theta: np.ndarray) -> np.ndarray:
    """Hessian of minus the log density, `(d, d)`, by central differences: compiling it would take ten times as long."""
    gradient, steps = _functions(whole)[0], _STEP * np.eye(len(theta))
    rows = [gradient(theta + step, record)[1] - gradient(theta - step, record)[1] for step in steps]
    found = np.nan_to_num(np.stack(rows)) / (2 * _STEP)
    return (found + found.T) / 2


@lru_cache(8)
def _functions(whole: Model) -> tuple[Callable[..., Any], Model]:
    """Minus the log density with its gradient, and the model in whitened coordinates."""

    def energy(theta: Array, record: Records) -> jax.Array:
        return -(whole.log_lik(theta, record) + whole.log_prior(theta) + whole.log_det(theta))

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        return -energy(record["mode"] + record["root"] @ params["whitened"], record)

    d = whole.dimension
    fields = {**whole.fields, "mode": Field((d,)), "root": Field((d, d))}
    model = Model(whole.name, (Parameter("whitened", (d,)),), fields, log_lik_at, lambda params: jnp.zeros(()))
    return jax.jit(jax.value_and_grad(energy)), model

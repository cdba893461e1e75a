"""A posterior that knows its noise for likelihoods that are not of finite rank: logistic and Poisson regressions.

Near a location theta_0 the data enter through the total gradient g and the total curvature H of the log likelihood
there. For a canonical link H depends on the covariates alone, and given these,

    g | H, theta ~ N(H (theta - theta_0), H)

to second order around theta_0. The location is found first, by noisy Newton steps, each with its share of the budget.
Then g and H get noise of variance v, and g is integrated out:

    p(theta, H | noisy g, H) = prior(theta) det(H)^(1/2) N(noisy H; H, v I) N(noisy g; H (theta - theta_0), H + v I).

Gradient and curvature are taken in a metric in which records drawn evenly from the ranges have mean curvature one. Each
record's vector is shortened to the largest length among records that the model draws there. Ranges, metric and lengths
are public; a location is, once it has been found.
"""

import math
from fractions import Fraction
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.disclosure.sanitising.discrete_noise import Below, discrete_gaussian
from bayesrecon.disclosure.sanitising.noisy_posterior import BARRIER, normal_log_density
from bayesrecon.disclosure.sanitising.public_features import GRID, Ranges
from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.domains import Field
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Parameter, Params, Records, simulated

STEPS, STEP_SHARE = 3, 1 / 12
"""Newton steps to the location, and the share of the budget that each takes."""

_POINTS = 2000  # public records that set metric and length
_FARTHEST = 1.0  # length of a step in the metric: a unit changes a record's linear predictor by about its own scale
_NEAR_ZERO = 1e-3  # size of the starting point
_SHARE = 0.5  # largest length of the curvature's part of a vector, in that of the gradient's
_MOST = 24  # coordinates: more of them have more totals than noise leaves room for
_EXACT = 1e-6  # relative difference that counts as rounding


class Place:
    """A location with its public metric and length.

    Attributes:
        theta: the location, `(d,)`.
        root: `(d, d)`, G^(-1/2) with G the mean curvature of public records.
        longest: length to which a record's vector is shortened.
        share: factor of the curvature in this vector, whose noise matters less.
    """

    def __init__(self, model: Model, ranges: Ranges, response: str, theta: np.ndarray):
        rng, self.theta = public_stream("metric of a location"), theta
        records = ranges.drawn(rng, _POINTS)
        keys = jax.random.split(jax.random.key(0), 1)
        drawn = simulated(model, theta[None], records, keys)
        records = {k: np.asarray(drawn[k][0]) if k == response else v for k, v in records.items()}
        records = ranges.clipped(records)
        _, curvature = _derivatives(model, theta, records)
        scales, vectors = np.linalg.eigh(np.asarray(curvature).mean(axis=0))
        if not scales[0] > _EXACT * scales[-1] > 0:
            raise BayesreconError(
                f"{model.name}: records in these ranges do not determine all its coordinates, so epsilon is not "
                "available for it"
            )
        self.root = vectors / np.sqrt(scales) @ vectors.T
        self.share, d = 1.0, len(theta)
        rows = self.vectors(model, records)
        slopes, curvatures = (float(np.linalg.norm(part, axis=1).max()) for part in (rows[:, :d], rows[:, d:]))
        self.share = _SHARE * slopes / curvatures
        self.longest = float(np.linalg.norm(self.vectors(model, records), axis=1).max())

    def vectors(self, model: Model, records: Records) -> np.ndarray:
        """Gradient and curvature of records in the metric, `(M, d (d + 3) / 2)`; zero where they are not finite."""
        gradient, curvature = _derivatives(model, self.theta, records)
        at = np.triu_indices(len(self.theta))
        rows = np.concatenate(
            [np.asarray(gradient) @ self.root, self.share * (self.root @ np.asarray(curvature) @ self.root)[:, *at]],
            axis=1,
        )
        return np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)

    def noisy(
        self, model: Model, records: Records, rho: float, times: int, below: Below | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Noisy totals of gradient and curvature, and the standard deviations `(2,)` of their noise.

        Sensitivity: a vector divided by `longest` has length at most one. Rounded to whole numbers in units of
        1 / GRID, its length is at most `GRID + sqrt(r) / 2` for r entries. `times` records change: as many as a unit
        has, or two if one is replaced.
        """
        rows = self.vectors(model, records) / self.longest
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        totals = np.rint(GRID * rows).astype(np.int64).sum(axis=0).tolist()
        most = times * (GRID + math.isqrt(len(totals)) + 1)
        variance = Fraction(math.ceil(most**2 / (2 * Fraction(rho))))
        noise = discrete_gaussian if below is None else partial(discrete_gaussian, below=below)
        units = self.longest / GRID * self.units
        noisy = np.array([total + noise(variance) for total in totals], float)
        return units * noisy, units[[0, -1]] * float(variance) ** 0.5

    @property
    def units(self) -> np.ndarray:
        """`(r,)`, what undoes the factor of the curvature."""
        d = len(self.theta)
        return np.concatenate([np.ones(d), np.full(d * (d + 1) // 2, 1 / self.share)])


@partial(jax.jit, static_argnames="model")
def _derivatives(model: Model, theta: Array, records: Records) -> tuple[jax.Array, jax.Array]:
    """Gradient `(M, d)` and minus the Hessian `(M, d, d)` of each record's log likelihood."""

    def one(record: Records) -> tuple[jax.Array, jax.Array]:
        return jax.grad(model.log_lik)(theta, record), -jax.hessian(model.log_lik)(theta, record)

    return jax.vmap(one)(records)


def check_canonical(model: Model, ranges: Ranges, response: str) -> None:
    """Refuse models whose curvature depends on the response, or that have too many coordinates."""
    rng = public_stream("curvature of a likelihood")
    records = ranges.drawn(rng, 64)
    others = {**records, response: ranges.drawn(rng, 64)[response]}
    for theta in rng.normal(size=(2, model.dimension)) / 4:
        one, other = (np.asarray(_derivatives(model, theta, some)[1]) for some in (records, others))
        if not np.abs(one - other).max() <= _EXACT * np.abs(one).max():
            raise BayesreconError(
                f"epsilon is available for Gaussian, logistic, Poisson and categorical models; the likelihood of "
                f"{model.name} is of another kind"
            )
    if model.dimension > _MOST:
        raise BayesreconError(f"{model.name} has {model.dimension} coordinates; epsilon is available for up to {_MOST}")


def found_place(
    model: Model, ranges: Ranges, response: str, records: Records, rho: float, times: int, below: Below | None = None
) -> Place:
    """A location near the mode, by Newton steps from noisy totals, which spend rho in equal shares."""
    # Not zero itself, where derivatives of `abs` and `max` in a density may be those of one side.
    theta = _NEAR_ZERO * public_stream("start of a location").normal(size=model.dimension)
    prior = jax.jit(lambda t: model.log_prior(t) + model.log_det(t))
    for _ in range(STEPS):
        place = Place(model, ranges, response, theta)
        totals, sd = place.noisy(model, records, rho / STEPS, times, below)
        gradient, curvature = _unpacked(totals, len(theta))
        scales, vectors = np.linalg.eigh(curvature)
        curvature = vectors * np.maximum(scales, 2 * sd[1] * len(theta) ** 0.5) @ vectors.T
        slope = gradient + place.root @ np.nan_to_num(np.asarray(jax.grad(prior)(theta)))
        curvature = curvature - place.root @ np.nan_to_num(np.asarray(jax.hessian(prior)(theta))) @ place.root
        step = np.linalg.lstsq(curvature, slope, rcond=None)[0]
        theta = theta + place.root @ (step * min(1.0, _FARTHEST / max(float(np.linalg.norm(step)), 1e-300)))
    return Place(model, ranges, response, theta)


def _unpacked(totals: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = totals[d:]
    return totals[:d], matrix + np.triu(matrix, 1).T


@lru_cache(8)
def with_curvature(model: Model) -> Model:
    """The model of a noisy gradient and curvature: its parameters are those of the model and H in units of noise."""
    d = model.dimension
    at, size = np.triu_indices(d), d * (d + 1) // 2

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        of_gradient, of_curvature = record["sd"]
        packed = record["centre"] + of_curvature * params["curvature in noise"]
        upper = jnp.zeros((d, d)).at[at].set(packed)
        curvature = upper + jnp.triu(upper, 1).T
        theta = model.unconstrain({name: params[name] for name in params if name != "curvature in noise"})
        moved = record["inverse root"] @ (theta - record["place"])
        rest = record["noisy"][:d] - curvature @ moved
        told = -0.5 * jnp.sum(((record["noisy"][d:] - packed) / of_curvature) ** 2)
        determinant = 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(curvature))).sum()
        known = normal_log_density(rest, curvature + of_gradient**2 * jnp.eye(d))
        return told + known + BARRIER * determinant

    return Model(
        f"{model.name}, noisy curvature",
        (*model.parameters, Parameter("curvature in noise", (size,))),
        {
            "noisy": Field((d + size,)),
            "centre": Field((size,)),
            "sd": Field((2,)),
            "place": Field((d,)),
            "inverse root": Field((d, d)),
        },
        log_lik_at,
        model.log_prior_at,
    )


def record_of(place: Place, totals: np.ndarray, sd: np.ndarray) -> Records:
    """The one record of `with_curvature`."""
    d = len(place.theta)
    _, curvature = _unpacked(totals, d)
    scales, vectors = np.linalg.eigh(curvature)
    near = vectors * np.maximum(scales, max(float(sd[1]), 1e-3 * scales[-1])) @ vectors.T
    return {
        "noisy": totals[None],
        "centre": near[np.triu_indices(d)][None],
        "sd": sd[None],
        "place": place.theta[None],
        "inverse root": np.linalg.inv(place.root)[None],
    }

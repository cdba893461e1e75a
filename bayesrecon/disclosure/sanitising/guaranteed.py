"""Draws with a guarantee of differential privacy: noisy totals of bounded features, and the posterior given these."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import effective_sample_size, split_r_hat
from bayesrecon.disclosure.sanitising.discrete_noise import (
    LARGE_EPSILON,
    Below,
    check_guarantee,
    discrete_gaussian,
    rho_of,
)
from bayesrecon.disclosure.sanitising.noisy_posterior import (
    CHAINS,
    DRAWS,
    Law,
    covariance_at,
    drawn,
    law_of,
    normal_log_density,
    positive_definite,
    start_of,
    with_totals,
)
from bayesrecon.disclosure.sanitising.public_features import (
    GRID,
    Features,
    Ranges,
    finite_features,
    public_ranges,
    response_of,
)
from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.domains import Field
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Parameter, Params, Progress, PseudoData, Records, simulated
from bayesrecon.releases import GuaranteedDraws
from bayesrecon.results.mechanism import Mechanism
from bayesrecon.results.plan import Price
from bayesrecon.results.sanitised import Guaranteed, entries_of, summaries

# A posterior that knows its noise for likelihoods that are not of finite rank: logistic and Poisson regressions.
#
# Near a location theta_0 the data enter through the total gradient g and the total curvature H of the log
# likelihood there. For a canonical link H depends on the covariates alone, and given these,
#
#     g | H, theta ~ N(H (theta - theta_0), H)
#
# to second order around theta_0. The location is found first, by noisy Newton steps, each with its share of the
# budget. Then g and H get noise of variance v, and g is integrated out:
#
#     p(theta, H | noisy g, H) = prior(theta) det(H)^(1/2) N(noisy H; H, v I) N(noisy g; H (theta - theta_0), H + v I).
#
# Gradient and curvature are taken in a metric in which records drawn evenly from the ranges have mean curvature
# one. Each record's vector is shortened to the largest length among records that the model draws there. Ranges,
# metric and lengths are public; a location is, once it has been found.


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
    """The model of a noisy gradient and curvature: its parameters are those of the model and steps of H."""
    d = model.dimension
    at, size = np.triu_indices(d), d * (d + 1) // 2

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        of_gradient, of_curvature = record["sd"]
        curvature, prior = positive_definite(record["centre"], params["steps of curvature"])
        theta = model.unconstrain({name: params[name] for name in params if name != "steps of curvature"})
        moved = record["inverse root"] @ (theta - record["place"])
        rest = record["noisy"][:d] - curvature @ moved
        told = -0.5 * jnp.sum(((record["noisy"][d:] - curvature[at]) / of_curvature) ** 2)
        known = normal_log_density(rest, curvature + of_gradient**2 * jnp.eye(d))
        return told + known + prior

    return Model(
        f"{model.name}, noisy curvature",
        (*model.parameters, Parameter("steps of curvature", (size,))),
        {
            "noisy": Field((d + size,)),
            "centre": Field((d, d)),
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
        "centre": near[None],
        "sd": sd[None],
        "place": place.theta[None],
        "inverse root": np.linalg.inv(place.root)[None],
    }


_Table = Mapping[str, ArrayLike]


@dataclass(frozen=True)
class Promise:
    """What is asked for, all of it public.

    Attributes:
        epsilon, delta: the guarantee.
        domain: ranges of the fields, as stated.
        replace: whether neighbours differ in the values of one record, so that n is public. Otherwise a record is added
            or removed.
        unit: column of the data whose value names a person or another unit that is protected as a whole.
        most_per_unit: largest number of records of a unit that count; further ones are left out.
    """

    epsilon: float
    delta: float
    domain: Mapping[str, object] | None = None
    replace: bool = False
    unit: str | None = None
    most_per_unit: int | None = None

    def __post_init__(self) -> None:
        check_guarantee(self.epsilon, self.delta)
        if (self.unit is None) != (self.most_per_unit is None):
            raise BayesreconError(
                "unit= and most_per_unit= belong together: the column that names a unit, and the number of its records "
                "that count, from public knowledge"
            )
        if self.most_per_unit is not None and self.most_per_unit < 1:
            raise BayesreconError(f"most_per_unit={self.most_per_unit!r}: expected a number of records, such as 5")
        if self.replace and self.unit is not None:
            raise BayesreconError("replace= takes n as public, and with unit= the number of records is not; omit it")

    @property
    def rho(self) -> float:
        return rho_of(self.epsilon, self.delta)

    @property
    def neighbours(self) -> str:
        """The pairs of data sets that are protected, in words."""
        if self.unit is not None:
            return f"add or remove all records of one {self.unit}, of which at most {self.most_per_unit} count"
        return "replace a record, n being public" if self.replace else "add or remove a record"

    def counted(self, table: _Table) -> _Table:
        """The table with at most `most_per_unit` rows of every unit, the first ones."""
        if self.unit is None or self.most_per_unit is None:
            return table
        if self.unit not in table:
            raise BayesreconError(f"there is no column {self.unit!r} in the data; they have {', '.join(table)}")
        _, codes = np.unique(np.asarray(table[self.unit]).astype(str), return_inverse=True)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], codes[order])
        kept = np.sort(order[np.arange(len(order)) - starts < self.most_per_unit])
        return {name: np.asarray(column)[kept] for name, column in table.items()}


def guaranteed(
    model: Model,
    table: _Table,
    asked: Promise,
    *,
    draws: int | None = None,
    noise: Callable[..., int] = discrete_gaussian,
    progress: Progress | None = None,
) -> Guaranteed:
    """Draws of the posterior given noisy totals (`noisy_posterior`).

    Args:
        draws: number of draws; 2000 by default. More of them cost no privacy.
        noise: a sampler of noise, for tests.

    Raises:
        BayesreconError: what is asked for is not available. No message depends on the values of the data.
    """
    if model.power != 1:
        raise BayesreconError(f"{model.name} is tempered, and noisy totals belong to a posterior; use a power of 1")
    ranges = public_ranges(model, asked.domain)
    stated = tuple(sorted(ranges.fields.items()))
    features, law, whole = _public(model, stated, asked.replace)
    table = asked.counted(table)
    if features is None or law is None:
        place, noisy, sd = _local_totals(model, ranges, asked, table)
        d, record = model.dimension, record_of(place, noisy, sd)
        at = zip(*np.triu_indices(d), strict=True)
        names = (*(f"gradient[{i + 1}]" for i in range(d)), *(f"curvature[{i + 1},{j + 1}]" for i, j in at))
        sds = np.repeat(sd, [d, len(noisy) - d])
    else:
        noisy, sd = noisy_totals(features, asked, table, noise)
        centre = start_of(law, noisy[~features.of_response], sd)
        centre = centre * (noisy[0] / centre[0]) if asked.replace else centre
        record, names = {"noisy": noisy[None], "centre": centre[None], "sd": np.array([sd])}, features.names
        sds = np.where([asked.replace and name == "1" for name in names], 0.0, sd)
    seed = int.from_bytes(hashlib.sha256(noisy.tobytes()).digest()[:4], "big")  # of the sampler, which is public
    theta, divergences = drawn(whole, record, seed, progress, DRAWS if draws is None else -(-draws // CHAINS))
    guarantee = asked.epsilon, asked.delta, asked.rho, asked.neighbours
    mechanism = Mechanism(*guarantee, names, _ends(ranges), tuple(noisy.tolist()), tuple(sds.tolist()))
    return result_of(model, theta[..., : model.dimension], divergences, mechanism, asked)


@lru_cache(8)
def _public(
    model: Model, stated: tuple[tuple[str, Field], ...], knows_count: bool
) -> tuple[Features | None, Law | None, Model]:
    """The features, the law of their totals and the model of noisy ones, all from public inputs."""
    ranges = Ranges(dict(stated))
    features = finite_features(model, ranges)
    if features is None:
        check_canonical(model, ranges, response_of(model, ranges))
        return None, None, with_curvature(model)
    law = law_of(model, features)
    return features, law, with_totals(model, features, law, knows_count)


def _local_totals(model: Model, ranges: Ranges, asked: Promise, table: _Table) -> tuple[Place, np.ndarray, np.ndarray]:
    """A location, and noisy gradient and curvature there. With `noisy_totals`, this alone reads the data."""
    records = {k: v.astype(ranges.fields[k].domain.dtype) for k, v in ranges.clipped(table).items()}
    times = asked.most_per_unit or (2 if asked.replace else 1)
    response, share = response_of(model, ranges), STEPS * STEP_SHARE
    place = found_place(model, ranges, response, records, share * asked.rho, times)
    return place, *place.noisy(model, records, (1 - share) * asked.rho, times)


def noisy_totals(
    features: Features, asked: Promise, table: _Table, noise: Callable[..., int]
) -> tuple[np.ndarray, float]:
    """Totals with noise, `(r,)`, and the noise's standard deviation. This alone reads the data."""
    per_unit = 1 if asked.most_per_unit is None else asked.most_per_unit
    squared = features.squared_sensitivity(asked.replace) * per_unit**2
    variance = features.variance(asked.rho, squared)
    totals = features.totals(features.ranges.clipped(table))
    if asked.replace:  # n is public, and counts records with missing values as well
        totals[0] = GRID * len(np.asarray(table[features.response]))
    exact = [asked.replace and name == "1" for name in features.names]
    noisy = [total + (0 if is_exact else noise(variance)) for total, is_exact in zip(totals, exact, strict=True)]
    return np.array(noisy, float) / GRID, float(variance) ** 0.5 / GRID


def result_of(model: Model, theta: np.ndarray, divergences: int, mechanism: Mechanism, asked: Promise) -> Guaranteed:
    """The result of draws `(chains, draws, d)`."""
    chains, length, d = theta.shape
    flat, chain = theta.reshape(-1, d), np.repeat(np.arange(1, chains + 1), length)
    warnings = []
    if (worst := float(split_r_hat(flat, chain).max())) > 1.01 or divergences:
        warnings.append(
            f"the sampler did not converge: largest R-hat {worst:.3f}, {divergences} divergences; sampling again "
            "from the published totals costs no privacy"
        )
    if effective_sample_size(flat, chain).min() < 400:
        warnings.append("few effective draws (below 400); more draws cost no privacy")
    if asked.epsilon > LARGE_EPSILON:
        warnings.append(f"epsilon={asked.epsilon:g} guarantees hardly anything; it is usually at most 10")
    weights, name = np.full(len(flat), 1 / len(flat)), f"{model.name}, with a guarantee"
    release = GuaranteedDraws(flat, model, weights, chain, name=name, mechanism=mechanism.to_json())
    means, deviations = summaries(entries_of(model, flat))
    result = Guaranteed(model.name, mechanism, len(flat), means, deviations, warnings=tuple(warnings))
    return result.having(release)


def price_of(model: Model, data: PseudoData, theta: np.ndarray, asked: Promise) -> Price:
    """What a guarantee would cost, predicted from records like the private ones (Laplace approximation).

    The divergence is that of the plain posterior from the published one, both taken as normal.

    Args:
        data: weighted records, such as those behind a posterior.
        theta: `(T, d)`, draws of the plain posterior.
    """
    ranges, mean, d = public_ranges(model, asked.domain), theta.mean(axis=0), model.dimension
    features, law, whole = _public(model, tuple(sorted(ranges.fields.items())), asked.replace)
    records, weights = ranges.clipped(data.records), np.asarray(data.weights)
    if features is None or law is None:
        place = Place(model, ranges, response_of(model, ranges), mean)
        share, times = 1 - STEPS * STEP_SHARE, asked.most_per_unit or (2 if asked.replace else 1)
        typed = {k: v.astype(ranges.fields[k].domain.dtype) for k, v in records.items()}
        sd = place.longest * times / (2 * share * asked.rho) ** 0.5 * place.units[[0, -1]]
        record = record_of(place, place.units * (weights @ place.vectors(model, typed)), sd)
    else:
        squared = features.squared_sensitivity(asked.replace) * (asked.most_per_unit or 1) ** 2
        sd, totals = (squared / (2 * asked.rho)) ** 0.5, weights @ features.values(records)
        record = {"noisy": totals[None], "centre": totals[~features.of_response][None], "sd": np.array([sd])}
    start = np.concatenate([mean, np.zeros(whole.dimension - d)])
    private, plain = covariance_at(whole, record, start)[:d, :d], np.atleast_2d(np.cov(theta.T))
    nats = np.trace(np.linalg.solve(private, plain)) - d + np.linalg.slogdet(private)[1] - np.linalg.slogdet(plain)[1]
    ratios = np.sqrt(np.diag(private) / np.diag(plain))
    return Price(
        asked.epsilon, asked.delta, dict(zip(model.coordinates, ratios.tolist(), strict=True)), float(nats / 2)
    )


def _ends(ranges: Ranges) -> dict[str, tuple[float, float]]:
    ends = {name: field.domain.ends for name, field in ranges.fields.items()}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}

"""Draws with a guarantee of differential privacy: noisy totals of bounded features, and the posterior given these."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.diagnostics import effective_sample_size, split_r_hat
from bayesrecon.disclosure.sanitising.discrete_noise import (
    LARGE_EPSILON,
    check_guarantee,
    discrete_gaussian,
    rho_of,
)
from bayesrecon.disclosure.sanitising.local_posterior import (
    STEP_SHARE,
    STEPS,
    Place,
    check_canonical,
    found_place,
    record_of,
    with_curvature,
)
from bayesrecon.disclosure.sanitising.noisy_posterior import (
    CHAINS,
    DRAWS,
    Law,
    covariance_at,
    drawn,
    law_of,
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
from bayesrecon.domains import Field
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Progress, PseudoData, entry
from bayesrecon.releases import GuaranteedDraws
from bayesrecon.results.guaranteed import Guaranteed, summaries
from bayesrecon.results.mechanism import Mechanism
from bayesrecon.results.plan import Price

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
    params = {k: np.asarray(v) for k, v in jax.vmap(model.constrain)(flat).items()}
    values = {
        entry(p.name, index): params[p.name][(slice(None), *index)]
        for p in model.parameters
        for index in np.ndindex(p.shape)
    }
    weights, name = np.full(len(flat), 1 / len(flat)), f"{model.name}, with a guarantee"
    release = GuaranteedDraws(flat, model, weights, chain, name=name, mechanism=mechanism.to_json())
    means, deviations = summaries(values)
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
    found: dict[str, Any] = {}
    for name, field in ranges.fields.items():
        levels = field.domain.levels
        found[name] = (min(levels), max(levels)) if levels else (field.domain.low, field.domain.high)
    return {name: (float(low), float(high)) for name, (low, high) in found.items()}

"""Bounded features of a record whose totals are all that a posterior needs, found from public inputs alone.

Many likelihoods have finite rank: `l(theta, z) = c(theta)' phi(z) + h(z)`. Here phi are products of the record's
entries, each scaled from its public range to [-1, 1], or of indicators of its levels. Whether a model is of this kind
is tried on records drawn from the ranges and on parameters drawn from no data. Nothing here ever sees private records
except `totals`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax
import numpy as np

from bayesrecon.disclosure.sanitising.random_streams import public_stream
from bayesrecon.domains import Domain, Field, records_in
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records, entry, simulated
from bayesrecon.results.mechanism import LEVEL, TIMES
from bayesrecon.stated_domains import domains_of

GRID = 2**16
"""A feature of one is this whole number: sums of rounding errors are then far below the noise."""

_DEGREES = (2, 3, 4)  # of products: a regression with products of two covariates has degree 4
_MOST = 700  # products that are tried: more features than that need too much noise
_THETAS = 12  # parameters at which a likelihood is tried
_SPREAD = 1.5  # of these parameters, in unconstrained coordinates
_EXACT = 1e-8  # relative difference that counts as rounding


class Component(NamedTuple):
    """One factor of a product: an entry of a field, scaled, or the indicator of one of its levels.

    Attributes:
        field: name of the field.
        index: index of the entry.
        level: the level; None for a scaled entry.
    """

    field: str
    index: tuple[int, ...]  # pyright: ignore[reportIncompatibleMethodOverride]
    level: float | None = None


@dataclass(frozen=True, eq=False)
class Ranges:
    """Public ranges of a record's fields."""

    fields: Mapping[str, Field]

    def clipped(self, records: Mapping[str, object]) -> dict[str, np.ndarray]:
        """Records with every value moved into its range; records with a missing value are left out.

        Both are decided record by record, so that one record changes nothing but itself.

        Raises:
            BayesreconError: a field is missing, or has another shape or values that are no numbers.
        """
        columns: dict[str, np.ndarray] = {}
        held = records_in(self.fields, records)
        for name, field in self.fields.items():
            if name not in held:
                raise BayesreconError(f"the data lack field {name!r} (they hold {', '.join(records)})")
            try:
                columns[name] = np.asarray(held[name], float)
            except (TypeError, ValueError, OverflowError):
                raise BayesreconError(
                    f"field {name!r} holds values that are not numbers; code categories as numbers"
                ) from None
            if columns[name].ndim != 1 + len(field.shape) or columns[name].shape[1:] != field.shape:
                raise BayesreconError(
                    f"field {name!r} has shape {columns[name].shape}, expected (N,{str(field.shape)[1:-1]})"
                )
        if len({len(column) for column in columns.values()}) > 1:
            raise BayesreconError("the fields of the data differ in length")
        present = np.all([~np.isnan(c).reshape(len(c), -1).any(axis=1) for c in columns.values()], axis=0)
        return {name: _into(self.fields[name].domain, column[present]) for name, column in columns.items()}

    def drawn(self, rng: np.random.Generator, count: int) -> Records:
        """Records with entries evenly from their ranges."""
        result: Records = {}
        for name, field in self.fields.items():
            domain = field.domain
            if domain.kind == "levels":
                values = rng.choice(np.asarray(domain.levels), (count, *field.shape))
            else:
                values = rng.uniform(domain.low, domain.high, (count, *field.shape))
            result[name] = _into(domain, values).astype(domain.dtype)
        return result


def public_ranges(model: Model, stated: Mapping[str, object] | None) -> Ranges:
    """The ranges of a model's fields: those that are stated, and the levels that the model itself states.

    Raises:
        BayesreconError: a field has no finite range. The message names all of them.
    """
    given, fields, missing = domains_of(stated, model.fields), {}, []
    for name, field in model.fields.items():
        domain = given.get(name, field.domain)
        if field.domain.discrete and domain.kind == "interval":
            low, high = max(domain.low, field.domain.low), min(domain.high, field.domain.high)
            levels = [v for v in field.domain.levels if low <= v <= high]
            domain = Domain("levels", levels=tuple(levels)) if levels else Domain("integer", np.ceil(low), high // 1)
        if not 0 < domain.width < np.inf or domain.presumed:
            missing.append(name)
        fields[name] = Field(field.shape, domain)
    if missing:
        stated_as = ", ".join(f"{name!r}: (LOW, HIGH)" for name in missing)
        raise BayesreconError(
            f"a guarantee needs the range of {' and '.join(missing)}: state domain={{{stated_as}}} from public "
            "knowledge, never from these data"
        )
    return Ranges(fields)


def response_of(model: Model, ranges: Ranges) -> str:
    """The field that the model draws given the others.

    Raises:
        BayesreconError: it is not one field with one entry.
    """
    if model.linear is not None:
        found = [model.linear.y]
    elif model.simulate is None:
        raise BayesreconError(f"{model.name} does not say which field is its response, so epsilon is not available")
    else:
        rng = public_stream("response of a model")
        records = ranges.drawn(rng, 64)
        theta = rng.normal(size=(1, model.dimension))
        after = simulated(model, theta, records, jax.random.split(jax.random.key(0), 1))
        found = [k for k in records if not np.array_equal(np.asarray(after[k])[0], np.asarray(records[k]))]
    if len(found) != 1 or ranges.fields[found[0]].shape:
        raise BayesreconError(f"epsilon needs a model of one response with one entry; {model.name} draws {found}")
    return found[0]


@dataclass(frozen=True, eq=False)
class Features:
    """Features phi of a record, `(r,)`, all between -1 and 1. The first one is the constant 1.

    Attributes:
        ranges: of the fields.
        components: factors of the products.
        products: each a sorted tuple of positions of components; the empty one is the constant.
        response: name of the response.
    """

    ranges: Ranges
    components: tuple[Component, ...]
    products: tuple[tuple[int, ...], ...]
    response: str

    def values(self, records: Records) -> np.ndarray:
        """Features of M records, `(M, r)`."""
        return _products(_factors(self.ranges, self.components, records), self.products)

    def totals(self, records: Records) -> list[int]:
        """Totals over records in units of 1 / GRID, each record rounded by itself, so that sums are exact."""
        return np.rint(GRID * self.values(records)).astype(np.int64).sum(axis=0).tolist()

    @property
    def of_response(self) -> np.ndarray:
        """`(r,)`, which features contain the response."""
        return np.array([any(self.components[i].field == self.response for i in p) for p in self.products])

    @property
    def names(self) -> tuple[str, ...]:
        """Names such as `1`, `x`, `x * x` or `y * g = 2`, of scaled entries."""
        return tuple(TIMES.join(_name(self.components[i]) for i in p) or "1" for p in self.products)

    def squared_sensitivity(self, replace: bool) -> int:
        """Square of the largest change of the totals when one record is added or removed, or replaced.

        A product of scaled entries lies in [-1, 1], and in [0, 1] if all its powers are even. So adding a record
        changes its total by at most 1, and replacing one by at most 2 or 1. The products that differ only in the levels
        of the same entries are exclusive: at most one of them is not zero. Adding a record changes the sum of their
        squares by at most 1, and replacing one by at most 4, or by 2 if all powers of scaled entries are even. The
        constant does not change if a record is replaced. Rounding to the grid keeps all of this, as 1 is on the grid.

        The square of the sensitivity is the sum over these groups.
        """
        groups: dict[tuple[tuple[str, tuple[int, ...]], ...], int] = {}
        for product in self.products:
            parts = [self.components[i] for i in product]
            scaled = [(c.field, c.index) for c in parts if c.level is None]
            even = all(scaled.count(one) % 2 == 0 for one in scaled)
            has_levels = any(c.level is not None for c in parts)
            if not replace:
                change = 1
            elif even:
                change = 2 if has_levels else int(bool(parts))
            else:
                change = 4
            groups[tuple(sorted((c.field, c.index) for c in parts))] = change
        return sum(groups.values())

    def variance(self, rho: float, squared_sensitivity: int) -> Fraction:
        """Variance of the noise, in units of 1 / GRID^2, that gives rho-zCDP: `squared_sensitivity / (2 rho)`."""
        return Fraction(math.ceil(GRID**2 * squared_sensitivity / (2 * Fraction(rho))))


def finite_features(model: Model, ranges: Ranges) -> Features | None:
    """The features of a likelihood of finite rank; None if it is not of finite rank in products of up to four entries.

    A product is a feature if some parameter gives it a coefficient that is not zero.
    """
    response, rng = response_of(model, ranges), public_stream("features of a likelihood")
    components = tuple(
        Component(name, index, level)
        for name, field in ranges.fields.items()
        for index in np.ndindex(field.shape)
        for level in _levels(field.domain)
    )
    for degree in _DEGREES:
        tried = [p for d in range(degree + 1) for p in combinations_with_replacement(range(len(components)), d)]
        if len(tried) > _MOST:
            return None
        records = _possible(model, ranges, rng, 3 * len(tried) + 20)
        values = _products(_factors(ranges, components, records), tried)
        kept = _independent(values)
        thetas = _SPREAD * rng.normal(size=(_THETAS, model.dimension))
        logs = np.asarray(_log_liks(model, thetas, records))
        logs = (logs - logs[:1])[1:].T
        scale = np.abs(logs).max(axis=0)
        if not np.isfinite(scale).all():
            return None
        coefficients, *_ = np.linalg.lstsq(values[:, kept], logs / scale, rcond=None)
        if np.abs(values[:, kept] @ coefficients - logs / scale).max() < _EXACT:
            used = np.abs(coefficients).max(axis=1) > _EXACT
            products = tuple(tried[k] for k, is_used in zip(kept, used, strict=True) if is_used or not tried[k])
            return Features(ranges, components, products, response)
    return None


def _levels(domain: Domain) -> list[float | None]:
    """The levels that need an indicator of their own; None stands for the scaled entry, which is enough for two."""
    return list(domain.levels[1:]) if domain.kind == "levels" and len(domain.levels) > 2 else [None]


def _possible(model: Model, ranges: Ranges, rng: np.random.Generator, count: int) -> Records:
    """Records drawn from the ranges that are possible under the model."""
    records = ranges.drawn(rng, 8 * count)
    finite = np.isfinite(np.asarray(_log_liks(model, 0.1 * rng.normal(size=(1, model.dimension)), records))[0])
    at = np.flatnonzero(finite)[:count]
    if len(at) < count:
        raise BayesreconError(f"{model.name} has hardly any possible record in these ranges; check domain=")
    return {name: values[at] for name, values in records.items()}


def _independent(values: np.ndarray) -> list[int]:
    """Columns that are not combinations of the columns before them."""
    basis = np.zeros((0, len(values)))
    kept = []
    for i, column in enumerate(values.T):
        rest = column - basis.T @ (basis @ column)
        rest = rest - basis.T @ (basis @ rest)
        if np.linalg.norm(rest) > _EXACT * max(np.linalg.norm(column), 1e-300):
            basis = np.vstack([basis, rest / np.linalg.norm(rest)])
            kept.append(i)
    return kept


def _into(domain: Domain, values: np.ndarray) -> np.ndarray:
    """Values moved to the nearest legal one."""
    if domain.kind == "levels":
        levels = np.asarray(domain.levels)
        return levels[np.abs(values[..., None] - levels).argmin(axis=-1)]
    values = np.clip(values, domain.low, domain.high)
    return np.rint(values) if domain.kind == "integer" else values


def _factors(ranges: Ranges, components: tuple[Component, ...], records: Records) -> np.ndarray:
    """`(M, C)`, values of the components."""
    columns = []
    for name, index, level in components:
        values, domain = np.asarray(records[name], float)[(slice(None), *index)], ranges.fields[name].domain
        if level is not None:
            columns.append((values == level).astype(float))
        else:
            low = min(domain.levels) if domain.kind == "levels" else domain.low
            columns.append(np.clip(2 * (values - low) / domain.width - 1, -1.0, 1.0))
    return np.stack(columns, axis=1)


def _products(factors: np.ndarray, products: tuple[tuple[int, ...], ...] | list[tuple[int, ...]]) -> np.ndarray:
    return np.stack([factors[:, list(p)].prod(axis=1) for p in products], axis=1)


def _name(component: Component) -> str:
    name = entry(component.field, component.index)
    return name if component.level is None else f"{name}{LEVEL}{component.level:g}"


@partial(jax.jit, static_argnames="model")
def _log_liks(model: Model, thetas: np.ndarray, records: Records) -> jax.Array:
    """`(S, M)`."""
    return jax.vmap(lambda theta: jax.vmap(lambda z: model.log_lik(theta, z))(records))(thetas)

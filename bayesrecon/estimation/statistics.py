"""Statistics of the private data as smooth functions of totals `sum_n f(x_n)`.

A statistic is built from *parts* (1, a field, a product of two fields, a user's function, an indicator of
a unit); the release determines the parts' totals, and ratios follow by the delta method. Fields are
standardised by their recovered moments, so that no part is large because a field is far from zero.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.domains import RecordKind
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.model import Field, Records, entry

_PAIRED = 40  # components up to which every pair has its covariance


@dataclass(frozen=True)
class Component:
    """One scalar entry of a field, with the location and scale that standardise it."""

    field: str
    index: tuple[int, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    kind: RecordKind | None = None
    column: str = ""

    @property
    def name(self) -> str:
        return self.column or entry(self.field, self.index)

    @property
    def one(self) -> str:
        """The part that counts the records that have it."""
        return "1" if self.kind is None else f"[{self.kind.name}]"

    def values(self, records: Records) -> Float[np.ndarray, " M"]:
        """Standardised values `(M,)`."""
        raw = np.asarray(records[self.field], float)[(slice(None), *self.index)]
        values = (raw - self.centre) / self.scale
        return values if self.kind is None else values * self.kind.has(records)


@dataclass(frozen=True)
class Part:
    """A function of one record whose total over the data is sought; `lower` are the simpler ones it builds on."""

    name: str
    values: Callable[[Records], np.ndarray]
    lower: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statistic:
    """A named function of part totals.

    Attributes:
        parts: names of the parts it needs.
        value: `{part: total} -> float`.
        gradient: `{part: total} -> {part: derivative}`.
        substitute_for: the statistic that this one replaces if it is not determined.
        unless: statistics that this one replaces, unless all of them are determined.
    """

    name: str
    parts: tuple[str, ...]
    value: Callable[[Mapping[str, float]], float]
    gradient: Callable[[Mapping[str, float]], dict[str, float]]
    substitute_for: str | None = None
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """The parts to recover and the statistics made of them."""

    parts: dict[str, Part] = field(default_factory=dict)
    statistics: list[Statistic] = field(default_factory=list)

    def evaluate(self, records: Records) -> Float[np.ndarray, "M P"]:
        """All parts at the records, `(M, P)`."""
        return np.stack([p.values(records) for p in self.parts.values()], axis=1)

    def visibility(
        self,
        values: Float[np.ndarray, "Q P"],
        fitted: Float[np.ndarray, "Q P"],
        rank: int,
        variance: Float[np.ndarray, " P"] | None = None,
    ) -> Float[np.ndarray, " P"]:
        """`1 - (|f - P f|^2 + variance) / |f - P_low f|^2` for every part, `(P,)`.

        Both norms are per degree of freedom left at the probes: a basis of `rank` functions explains a share
        `rank / Q` of anything.

        Args:
            values, fitted: `(Q, P)` the parts and their projections at probe records.
            variance: `(P,)` variance of the projections' totals, per squared number of records. If the spectrum decays,
                infinitely many draws would determine nearly everything, but these draws only what exceeds their noise.
        """
        lost, total = ((values - fitted) ** 2).sum(axis=0), (values**2).sum(axis=0)
        rest = values.copy()
        # Parts that share their lower ones are cleared of them in one solve.
        groups: dict[tuple[str, ...], list[int]] = {}
        for i, part in enumerate(self.parts.values()):
            groups.setdefault(part.lower, []).append(i)
        for lower, members in groups.items():
            if lower:
                low = values[:, self.index(lower)]
                rest[:, members] -= low @ np.linalg.lstsq(low, values[:, members], rcond=1e-12)[0]
        size = (rest**2).sum(axis=0)
        freedom = np.array([len(values) - len(part.lower) for part in self.parts.values()], float)
        lost = lost * freedom / (len(values) - rank)
        if variance is not None:
            lost = lost + len(values) * variance
        # A part that simpler ones explain entirely (the square of a field that is 0 or 1) is seen as far as they are.
        for norm in (((values - values.mean(axis=0)) ** 2).sum(axis=0), total):
            size = np.where(size <= 1e-16 * total, norm, size)
        return np.clip(1 - lost / np.maximum(size, 1e-300), 0, 1)

    def index(self, names: Sequence[str]) -> list[int]:
        order = {name: i for i, name in enumerate(self.parts)}
        return [order[n] for n in names]


def components(
    fields: Mapping[str, Field],
    known: Sequence[str],
    centre: Mapping[str, np.ndarray],
    scale: Mapping[str, np.ndarray],
) -> list[Component]:
    """The scalar entries of all fields that are not known, but of what tells kinds apart and of single records."""
    result = []
    tags = {spec.kind.field for spec in fields.values() if spec.kind is not None}
    for name, spec in fields.items():
        if name in known or name in tags or (spec.kind is not None and spec.kind.single):
            continue
        for index in np.ndindex(spec.shape):
            c = np.broadcast_to(centre.get(name, 0.0), spec.shape)[index]
            s = np.broadcast_to(scale.get(name, 1.0), spec.shape)[index]
            column = spec.columns[index[0]] if spec.columns else ""
            result.append(Component(name, index, float(c), float(s), spec.kind, column))
    return result


def _one(records: Records) -> np.ndarray:
    return np.ones(len(next(iter(records.values()))))


def count_of(name: str, part: str) -> Statistic:
    return Statistic(name, (part,), lambda t: t[part], lambda t: {part: 1.0})


def sum_of(name: str, top: str, bottom: str, centre: float, scale: float) -> Statistic:
    return Statistic(
        name,
        (bottom, top),
        lambda t: centre * t[bottom] + scale * t[top],
        lambda t: {top: scale, bottom: centre},
    )


def ratio_of(name: str, top: str, bottom: str, centre: float, scale: float) -> Statistic:
    return Statistic(
        name,
        (bottom, top),
        lambda t: centre + scale * t[top] / t[bottom],
        lambda t: {top: scale / t[bottom], bottom: -scale * t[top] / t[bottom] ** 2},
    )


def _covariance(name: str, a: Component, b: Component, product: str) -> Statistic:
    def value(t: Mapping[str, float]) -> float:
        return a.scale * b.scale * (t[product] / t[a.one] - t[a.name] * t[b.name] / t[a.one] ** 2)

    def gradient(t: Mapping[str, float]) -> dict[str, float]:
        n, s = t[a.one], a.scale * b.scale
        parts = {product: s / n, a.one: s * (2 * t[a.name] * t[b.name] / n - t[product]) / n**2}
        for this, other in ((a, b), (b, a)):
            parts[this.name] = parts.get(this.name, 0.0) - s * t[other.name] / n**2
        return parts

    names = (a.one, a.name, product) if a is b else (a.one, a.name, b.name, product)
    return Statistic(name, names, value, gradient)


def _product(a: Component, b: Component, product: str, instead_of: str) -> Statistic:
    """The raw second moment, for a field whose mean is not determined (a regression without intercept)."""
    # E[ab] for a = centre + scale * standardised; terms with a zero centre need no mean.
    slope = {product: a.scale * b.scale}
    for this, other in ((a, b), (b, a)):
        if other.centre:
            slope[this.name] = slope.get(this.name, 0.0) + this.scale * other.centre

    def value(t: Mapping[str, float]) -> float:
        return a.centre * b.centre + sum(s * t[part] for part, s in slope.items()) / t[a.one]

    def gradient(t: Mapping[str, float]) -> dict[str, float]:
        rest = sum(s * t[part] for part, s in slope.items())
        return {a.one: -rest / t[a.one] ** 2, **{part: s / t[a.one] for part, s in slope.items()}}

    return Statistic(f"mean({a.name}*{b.name})", (a.one, *slope), value, gradient, instead_of)


def moments(found: Sequence[Component], *, order: int = 2) -> Library:
    """n, means and (order 2) population variances of the components, and covariances where they are not too many.

    Each is over the records that have the components; kinds of records are counted.
    """
    library = Library()
    library.parts["1"] = Part("1", _one)
    library.statistics.append(count_of("n", "1"))
    for one, kind in {c.one: c.kind for c in found}.items():
        if kind is not None:
            library.parts[one] = Part(one, kind.has, ("1",))
            library.statistics.append(count_of(f"n{one}", one))
    for c in found:
        library.parts[c.name] = Part(c.name, c.values, (c.one,))
        library.statistics.append(ratio_of(f"mean({c.name})", c.name, c.one, c.centre, c.scale))
    if order < 2:
        return library
    lower = {one: (one, *(c.name for c in found if c.one == one)) for one in {c.one for c in found}}
    pairs = (
        list(itertools.combinations_with_replacement(found, 2)) if len(found) <= _PAIRED else [(c, c) for c in found]
    )
    for a, b in sorted((p for p in pairs if p[0].kind == p[1].kind), key=lambda pair: pair[0] is not pair[1]):
        product = f"{a.name}*{b.name}"

        def values(records: Records, a: Component = a, b: Component = b) -> np.ndarray:
            return a.values(records) * b.values(records)

        library.parts[product] = Part(product, values, lower[a.one])
        name = f"var({a.name})" if a is b else f"cov({a.name},{b.name})"
        library.statistics.append(_covariance(name, a, b, product))
        library.statistics.append(_product(a, b, product, name))
    return library


def function_part(name: str, f: Callable[[Records], Any], lower: tuple[str, ...] = ()) -> Part:
    """A part from a per-record function `{field: array} -> number`."""
    return Part(name, lambda records: np.asarray(jax.vmap(lambda r: jnp.asarray(f(r), float))(records)), lower)


def add_functions(library: Library, functions: Mapping[str, Callable[[Records], Any]], example: Records) -> None:
    """The user's per-record functions: `total(name)` and `mean(name)` of each.

    Raises `BayesreconError` when a function fails on a record or does not return one number.
    """
    record = {k: v[0] for k, v in example.items()}
    for name, f in functions.items():
        try:
            shape = jax.eval_shape(lambda r, f=f: jnp.asarray(f(r), float), record).shape
        except Exception as error:
            raise BayesreconError(
                f"statistic {name!r} cannot be evaluated on a record with fields {', '.join(record)}: "
                f"{first_line(error)}"
            ) from error
        if shape != ():
            raise BayesreconError(f"statistic {name!r} must return one number per record, got shape {shape}")
        part = f"f:{name}"
        library.parts[part] = function_part(part, f, ("1",))
        library.statistics.append(count_of(f"total({name})", part))
        library.statistics.append(ratio_of(f"mean({name})", part, "1", 0.0, 1.0))

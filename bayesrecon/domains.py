"""Domains of a record's fields, and how to draw generic values from them."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

_ENDS = 1 / 16  # share of the values of a closed interval on its ends: few enough to leave the rest what they are
_LISTED = 6  # levels that a sentence names

Kind = Literal["real", "interval", "integer", "levels"]


@dataclass(frozen=True)
class Domain:
    """The set of legal values of one field.

    `kind` is "real" (the real line), "interval" (`low` to `high`, one end may be infinite), "integer" (whole numbers
    from `low` to `high`) or "levels" (the finite set `levels`). The entries of a field of whole numbers may have a
    fixed sum `total`, as counts of several kinds do. An interval is `closed` if values may lie on a finite end, as
    censored values do. A domain that was not stated is `presumed`, and results say so.
    """

    kind: Kind = "real"
    low: float = -math.inf
    high: float = math.inf
    levels: tuple[float, ...] = ()
    total: int | None = None
    closed: bool = False
    presumed: bool = field(default=False, compare=False)

    @property
    def discrete(self) -> bool:
        return self.kind in ("integer", "levels")

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return (min(self.levels), max(self.levels)) if self.levels else (self.low, self.high)

    @property
    def words(self) -> str:
        """The allowed values, in words.

        >>> Domain().words, COUNT.words, Domain("interval", 0.0, 1.0).words, Domain("levels", levels=(1.0, 2.5)).words
        ('any number', 'whole numbers from 0 on', 'numbers from 0 to 1', 'one of 1, 2.5')
        """
        if self.kind == "levels":
            listed = ", ".join(f"{v:g}" for v in self.levels[:_LISTED])
            return f"one of {listed}" + (f", ... {self.levels[-1]:g}" if len(self.levels) > _LISTED else "")
        kind = "whole numbers" if self.kind == "integer" else "numbers"
        if math.isinf(self.low) and math.isinf(self.high):
            return "any whole number" if self.kind == "integer" else "any number"
        low = f" from {self.low:g}" if math.isfinite(self.low) else ""
        return kind + low + (f" to {self.high:g}" if math.isfinite(self.high) else " on")

    @property
    def codes(self) -> bool:
        """Whether values name categories, so that their mean says little: finitely many values other than just 0 and 1.

        >>> Domain("levels", levels=(0.0, 1.0, 2.0)).codes, BINARY.codes
        (True, False)
        """
        return self.kind == "levels" and len(self.levels) > 1 and set(self.levels) != {0.0, 1.0}

    @property
    def dtype(self) -> type:
        whole = self.kind == "integer" or (self.kind == "levels" and all(v == int(v) for v in self.levels))
        return np.int64 if whole else np.float64

    def typed(self, values: Any) -> Any:
        """Values in the type that a program takes: integers, which can index, if the levels are whole numbers.

        >>> Domain("levels", levels=(0.0, 1.0)).typed(np.array([1.0, 0.0])).tolist()
        [1, 0]
        """
        values = values if hasattr(values, "dtype") else np.asarray(values)
        whole = self.kind == "levels" and self.dtype is np.int64
        return values.round().astype(int) if whole and values.dtype.kind == "f" else values

    @property
    def width(self) -> float:
        """Distance from the smallest to the largest legal value; infinite if one end is open."""
        return max(self.levels) - min(self.levels) if self.kind == "levels" else self.high - self.low

    def contains(self, values: np.ndarray) -> np.ndarray:
        """Elementwise membership, same shape as `values`."""
        values = np.asarray(values, float)
        if self.kind == "levels":
            return np.isin(values, self.levels)
        inside = (values >= self.low) & (values <= self.high) & np.isfinite(values)
        return inside & (values == np.round(values)) if self.kind == "integer" else inside

    def draw(
        self, rng: np.random.Generator, shape: tuple[int, ...], centre: np.ndarray | float, scale: np.ndarray | float
    ) -> np.ndarray:
        """Random values of the given shape inside the domain, around `centre` with standard deviation `scale`.

        Finite sets are drawn uniformly, because every level must occur for the kernel to reach its rank.
        """
        if self.kind == "levels":
            # In turn, in random order: of many levels none may be left out by chance.
            levels, size = np.asarray(self.levels, self.dtype), math.prod(shape)
            rounds = -(-size // len(levels))
            drawn = [rng.permutation(levels) for _ in range(rounds)] or [levels[:0]]
            return rng.permutation(np.concatenate(drawn)[:size]).reshape(shape)
        if self.total is not None:
            return self._counts(rng, shape)
        if self.low == self.high:
            return np.full(shape, self.low, self.dtype)
        centre, scale = np.asarray(centre, float), np.asarray(scale, float)
        if self.kind == "integer":
            # At least one neighbour on each side, or a narrow field would collapse to one value.
            values = np.round(self._continuous(rng, shape, centre, np.maximum(scale, 1.0)))
            return np.clip(values, self.low, self.high).astype(np.int64)
        return self._with_ends(rng, self._continuous(rng, shape, centre, scale))

    def draw_broad(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random values over many orders of magnitude, for a field whose location and scale are unknown."""
        if self.kind == "levels":
            return self.draw(rng, shape, 0.0, 1.0)
        if self.total is not None:
            return self._counts(rng, shape)
        low, high = self.low, self.high
        if math.isfinite(low) and math.isfinite(high):
            # Half of them evenly, half over the orders of magnitude next to either end.
            near = (high - low) * 10.0 ** rng.uniform(-5.0, 0.0, size=shape)
            near = np.where(rng.random(shape) < 0.5, low + near, high - near)
            values = np.where(rng.random(shape) < 0.5, rng.uniform(low, high, size=shape), near)
        else:
            exponent = rng.uniform(-2.0, 5.0, size=shape)
            if len(shape) > 1:
                # Half with entries of one size: products of entries that differ too much are lost in rounding.
                entries = exponent.reshape(shape[0], math.prod(shape[1:]))
                exponent = np.where(rng.random((shape[0], 1)) < 0.5, entries[:, :1], entries).reshape(shape)
            size = 10.0**exponent
            if math.isinf(low) and math.isinf(high):
                values = size * rng.choice([-1.0, 1.0], size=shape)
            else:
                values = low + size if math.isfinite(low) else high - size
        return np.round(values).astype(np.int64) if self.kind == "integer" else self._with_ends(rng, values)

    def _with_ends(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        """Values of a closed interval, some of them on its finite ends."""
        ends = [end for end in (self.low, self.high) if math.isfinite(end)]
        if not (self.closed and ends):
            return values
        return np.where(rng.random(values.shape) < _ENDS, rng.choice(ends, size=values.shape), values)

    def _counts(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Counts along the last axis, all their combinations equally likely."""
        if not shape or shape[-1] < 2:
            return np.full(shape, self.total, np.int64)
        shares = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
        return rng.multinomial(np.full(shape[:-1], self.total), shares).astype(np.int64)

    def _continuous(
        self, rng: np.random.Generator, shape: tuple[int, ...], centre: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        low, high = self.low, self.high
        if math.isinf(low) and math.isinf(high):
            return centre + scale * rng.standard_normal(shape)
        if math.isfinite(low) and math.isfinite(high):
            # A beta distribution with the wanted moments, flattened so that it never becomes a spike.
            m = np.clip((centre - low) / (high - low), 0.02, 0.98)
            v = np.clip((scale / (high - low)) ** 2, 1e-8, 0.3 * m * (1 - m))
            strength = m * (1 - m) / v - 1
            return np.clip(low + (high - low) * rng.beta(m * strength, (1 - m) * strength, size=shape), low, high)
        # A gamma distribution with the wanted moments: no heavy tail that would rule every average over the records.
        sign, end = (1.0, low) if math.isfinite(low) else (-1.0, high)
        m = np.maximum(sign * (centre - end), 0.3 * np.abs(scale) + 1e-12)
        strength = np.clip((m / np.maximum(scale, 1e-12)) ** 2, 0.1, 1e6)
        return np.clip(end + sign * rng.gamma(strength, m / strength, size=shape), low, high)


REAL = Domain()
POSITIVE = Domain("interval", low=0.0)
BINARY = Domain("levels", levels=(0.0, 1.0))
COUNT = Domain("integer", low=0.0)

Records = dict[str, Any]
"""`{field: (M, *shape)}`, the same number of entries in every field."""


@dataclass(frozen=True)
class RecordKind:
    """Records of one kind, in data of several: those whose field `field` has the value `level`.

    Of a kind that is known to have a `single` record there are no moments.
    """

    field: str
    level: float
    name: str
    single: bool = False

    def has(self, records: Records) -> np.ndarray:
        """One for each record of the kind, and zero for others, `(M,)`."""
        return (np.asarray(records[self.field]) == self.level).astype(float)


@dataclass(frozen=True)
class Field:
    """One field of a record: its shape and the domain of its entries.

    A field of a `kind` matters in records of that kind only; in others it may have any value of its domain. The entries
    of a vector may have names, `columns`, such as those of the DataFrame that a model was fitted to.
    """

    shape: tuple[int, ...] = ()
    domain: Domain = REAL
    kind: RecordKind | None = None
    columns: tuple[str, ...] = ()


def records_in(fields: Mapping[str, Field], table: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a table holds, `{field: (N, *shape)}`.

    A field of several entries is a column of arrays of its own name, or a column for each entry: its `columns`, or
    `x[1]`, `x.1`, `x_1` or `x1`, counted from one or from zero.

    >>> records_in({"x": Field((2,)), "y": Field()}, {"x1": [0.0, 2.0], "x2": [1.0, 3.0]})["x"].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    found: dict[str, Any] = {}
    others = [c for c in table if c not in fields]
    for name, one in fields.items():
        form = re.compile(rf"{re.escape(name)}[\[._]?(\d+(?:[,._]\d+)*)\]?")
        by_index = {tuple(map(int, re.findall(r"\d+", m[1]))): c for c in others if (m := form.fullmatch(str(c)))}
        if one.columns and set(one.columns) <= set(table):
            by_index = {(k + 1,): c for k, c in enumerate(one.columns)}
        whole = [[tuple(k + start for k in index) for index in np.ndindex(*one.shape)] for start in (1, 0)]
        if name in table:
            found[name] = table[name]
        elif one.shape and (order := next((w for w in whole if set(w) == set(by_index)), None)):
            columns = [np.asarray(table[by_index[index]]) for index in order]
            if len({c.shape for c in columns}) == 1:
                found[name] = np.stack(columns, axis=-1).reshape(*columns[0].shape, *one.shape)
    return found

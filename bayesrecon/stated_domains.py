"""Domains as users state them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bayesrecon.domains import BINARY, COUNT, POSITIVE, REAL, Domain
from bayesrecon.errors import BayesreconError, near

Stated = Domain | str | Sequence[float]
"""A domain as a user may state it; see `parse`."""


def whole_numbers(low: float, high: float, field: str) -> Domain:
    """The whole numbers between two ends, which need not be whole themselves."""
    first, last = np.ceil(low), np.floor(high)
    if first > last:
        raise BayesreconError(f"the bounds {low:g} and {high:g} of field {field!r} leave nothing: no whole number")
    return Domain("integer", float(first), float(last))


_NAMED = {
    "real": REAL,
    "positive": POSITIVE,
    "unit": Domain("interval", 0.0, 1.0, closed=True),
    "binary": BINARY,
    "count": COUNT,
    "integer": Domain("integer"),
}


def domains_of(stated: Mapping[str, Any] | None, record: Iterable[str]) -> dict[str, Domain]:
    """Stated domains by field, each one of the record's.

    Raises:
        BayesreconError: what `parse` refuses, or a name that is not a field.

    >>> domains_of({"age": "positive"}, ["age", "sex"])["age"].low
    0.0
    """
    fields = tuple(record)
    for name in stated or {}:
        if name not in fields:
            raise BayesreconError(
                f"domain: {name!r} is not a field of the record ({', '.join(fields)}){near(name, fields)}"
            )
    return {name: parse(spec, name) for name, spec in (stated or {}).items()}


def parse(spec: Stated, field: str) -> Domain:
    """A `Domain` from what a user writes.

    A name ("real", "positive", "unit", "binary", "count", "integer"), a tuple `(low, high)` of two numbers
    for an interval, or a list of the legal values. Raises `BayesreconError` for anything else.

    >>> parse([1, 2, 3], "group").levels
    (1.0, 2.0, 3.0)
    """
    if isinstance(spec, Domain):
        return spec
    if isinstance(spec, str):
        if spec not in _NAMED:
            raise BayesreconError(
                f"domain of field {field!r}: {spec!r} is not one of {', '.join(_NAMED)}, (low, high) or [values]"
                f"{near(spec, _NAMED)}"
            )
        return _NAMED[spec]
    try:
        values = tuple(float(v) for v in spec)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(
            f"domain of field {field!r}: expected a name ({', '.join(_NAMED)}), (low, high) or [values], got {spec!r}"
        ) from None
    if isinstance(spec, tuple):
        if len(values) != 2 or not values[0] < values[1]:
            raise BayesreconError(f"domain of field {field!r}: an interval is (low, high) with low < high, got {spec}")
        return Domain("interval", *values, closed=True)
    if not np.isfinite(values).all():
        raise BayesreconError(f"domain of field {field!r}: the values must be finite numbers, got {spec!r}")
    if not values:
        raise BayesreconError(f"domain of field {field!r}: the list of values is empty")
    return Domain("levels", levels=tuple(sorted(set(values))))

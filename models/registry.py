"""What is shipped: every model by name, with the data it can be fitted to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from bayesrecon.errors import BayesreconError, near
from bayesrecon.types import Model, Records


@dataclass(frozen=True)
class Shipped:
    """One shipped model.

    Attributes:
        name: posteriordb's model name, or a generic name.
        build: makes the `Model`; generic models take settings, posteriordb models the public constants.
        records: turns posteriordb's data into records, `{field: (N, *shape)}`; None for generic models.
        posteriors: the posteriordb posteriors it belongs to.
        constants: picks from posteriordb's data what is public to the attacker, as settings of `build`.
        design: fields that whoever attacks this model is taken to know, the unit of a record first; empty
            where the whole record is private.
        response: the field that is private in any case.
        summary: one line for the table.
    """

    name: str
    build: Callable[..., Model]
    summary: str
    records: Callable[[Mapping[str, Any]], Records] | None = None
    posteriors: tuple[str, ...] = ()
    constants: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    design: tuple[str, ...] = ()
    response: str | None = None


@cache
def shipped() -> Mapping[str, Shipped]:
    """All shipped models by name (read-only)."""
    from bayesrecon.models import (
        curves,
        gaussian_linear,
        glm,
        grouped_glm,
        item_response,
        logistic,
        mixtures,
        occupancy,
        radon,
        rates,
        series,
        smooth,
        trained,
        trends,
    )

    families = (
        gaussian_linear,
        logistic,
        glm,
        rates,
        grouped_glm,
        radon,
        item_response,
        occupancy,
        mixtures,
        series,
        curves,
        smooth,
        trends,
        trained,
    )
    entries = [entry for family in families for entry in family.MODELS]
    return MappingProxyType({entry.name: entry for entry in entries})


def find(name: str) -> Shipped:
    """The entry of a shipped model; `BayesreconError` with near names when there is none."""
    table = shipped()
    if name not in table:
        raise BayesreconError(
            f"no shipped model {name!r}{near(name, table)} (bayesrecon models lists them; "
            "a model of your own is given as file.py:function)"
        )
    return table[name]


def load(name: str, **settings: Any) -> Model:
    """A shipped model by name, with the settings that its family takes.

    The same name and settings give the same object, so that compiled functions are reused.

    >>> load("kidscore_momiq").coordinates
    ('beta[1]', 'beta[2]', 'sigma')
    """
    entry = find(name)
    try:
        frozen = tuple(sorted((k, _frozen(v)) for k, v in settings.items()))
        return _build(entry, frozen)
    except TypeError as error:
        raise BayesreconError(f"settings of model {name!r}: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


@cache
def _build(entry: Shipped, settings: tuple[tuple[str, Any], ...]) -> Model:
    return entry.build(**dict(settings))

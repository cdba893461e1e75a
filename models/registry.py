"""The registry of shipped models. A module of this package or of a plug-in that defines `MODELS` is a family."""

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from bayesrecon.discovery import discover, plugins
from bayesrecon.errors import BayesreconError, near
from bayesrecon.model import Model
from bayesrecon.models.entry import Shipped


@cache
def shipped() -> Mapping[str, Shipped]:
    """All shipped models, by name (a read-only mapping).

    >>> "kidscore_momiq" in shipped()
    True
    """
    builtin = [entry for family in discover("bayesrecon.models", "MODELS") for entry in family]
    names = {entry.name for entry in builtin}

    def problem(name: str, family: object, accepted: Mapping[str, Sequence[Shipped]]) -> str:
        if not isinstance(family, tuple | list) or not all(isinstance(entry, Shipped) for entry in family):
            return "it is not a tuple of Shipped"
        taken = names | {entry.name for other in accepted.values() for entry in other}
        duplicates = [entry.name for entry in family if entry.name in taken]
        return f"a model {duplicates[0]!r} exists already" if duplicates else ""

    entries = builtin + [entry for family in plugins("models", problem).by_name.values() for entry in family]
    return MappingProxyType({entry.name: entry for entry in sorted(entries, key=lambda e: e.name.casefold())})


def find(name: str) -> Shipped:
    """The entry of a shipped model.

    Raises:
        BayesreconError: no shipped model has this name. The message lists similar names.

    >>> find("kidscore_momiq").posteriors
    ('kidiq-kidscore_momiq',)
    """
    table = shipped()
    if name not in table:
        raise BayesreconError(
            f"no shipped model {name!r}{near(name, table)} (bayesrecon models lists them; "
            "name your own model as file.py:function)"
        )
    return table[name]


def load(name: str, **settings: object) -> Model:
    """A shipped model, by name and settings.

    The same name and settings return the same object, so that compiled functions are reused.

    Raises:
        BayesreconError: no shipped model has this name, or its family does not take these settings.

    >>> load("kidscore_momiq").coordinates
    ('beta[1]', 'beta[2]', 'sigma')
    """
    entry = find(name)
    try:
        bound = inspect.signature(entry.build).bind(**settings)
        bound.apply_defaults()  # settings at their defaults give the same object
        frozen = tuple(sorted((k, _frozen(v)) for k, v in bound.arguments.items()))
        return _build(entry, frozen)
    except TypeError as error:
        raise BayesreconError(f"settings of model {name!r}: {error}") from None


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


@cache
def _build(entry: Shipped, settings: tuple[tuple[str, object], ...]) -> Model:
    return entry.build(**dict(settings))

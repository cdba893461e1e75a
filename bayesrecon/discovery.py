"""Discovery of extensions: modules of this package that define a certain name, and *plug-ins* of other packages."""

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from bayesrecon.errors import first_line

GROUPS = ("models", "formats", "kinds", "channels", "attacks", "commands")
"""Groups of entry points by which a plug-in adds something. Their full names begin with `bayesrecon.`."""


def discover(package: str, name: str) -> list[Any]:
    """The values of `name` in all modules of a package and of its sub-packages, in the order of the modules' names.

    Modules are not loaded if their name begins with an underscore or their source does not contain `name`.

    >>> families = discover("bayesrecon.models", "MODELS")
    >>> "kidscore_momiq" in {model.name for family in families for model in family}
    True
    """
    modules = map(importlib.import_module, _modules_with(package, importlib.import_module(package).__path__, name))
    return [getattr(module, name) for module in modules if getattr(module, name, None) is not None]


def _modules_with(package: str, path: Iterable[str], name: str) -> Iterator[str]:
    """Names of the modules whose source contains `name`."""
    for info in pkgutil.iter_modules(path):
        if info.name.startswith("_"):
            continue
        full = f"{package}.{info.name}"
        spec: Any = info.module_finder.find_spec(full, None)
        if info.ispkg:
            yield from _modules_with(
                full, getattr(sys.modules.get(full), "__path__", spec.submodule_search_locations), name
            )
        elif not hasattr(spec.loader, "get_source") or name in (spec.loader.get_source(full) or name):
            yield full


@dataclass(frozen=True)
class Skipped:
    """A plug-in that cannot be used.

    Attributes:
        name: name of its entry point.
        package: the outermost package that it is written in.
        reason: what is wrong, naming the plug-in.
    """

    name: str
    package: str
    reason: str


K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Plugins(Generic[K, V]):
    """What plug-ins add to a group.

    Attributes:
        by_name: the objects, by the names of their entry points or by names of their own.
        skipped: plug-ins that cannot be used.
    """

    by_name: Mapping[K, V]
    skipped: tuple[Skipped, ...]


def plugins(group: str, problem: Callable[[str, Any, Mapping[str, Any]], str]) -> Plugins[str, Any]:
    """The objects that entry points of other packages add to a group, by name in alphabetical order.

    A plug-in that cannot be imported or used is skipped with a warning.

    Args:
        group: one of `GROUPS`.
        problem: function `(name, value, values accepted before) -> reason` for which a value cannot be used; an empty
            text if it can.

    >>> plugins("attacks", lambda name, value, before: "").skipped
    ()
    """
    values: dict[str, Any] = {}
    skipped: list[Skipped] = []
    for entry in _declared().get(group, ()):
        try:
            value = entry.load()
            reason = f"there are two named {entry.name}" if entry.name in values else problem(entry.name, value, values)
        except Exception as error:  # foreign code may raise anything
            value, reason = None, f"it cannot be loaded ({first_line(error)})"
        if not reason:
            values[entry.name] = value
            continue
        distribution = entry.dist.name if entry.dist is not None else "unknown"
        text = f"the plug-in {entry.name} ({entry.value}, of {distribution}) is skipped: {reason}"
        skipped.append(Skipped(entry.name, _outermost(entry), text))
        warnings.warn(text, stacklevel=3)
    return Plugins(MappingProxyType(values), tuple(skipped))


def added(
    group: str, noun: str, is_valid: Callable[[Any], bool], name_of: Callable[[V], K], builtin: Iterable[V]
) -> Plugins[K, V]:
    """The objects of a group by name: first those of this package, then those of plug-ins, which cannot replace any.

    Args:
        noun: what the objects are, for messages.
        is_valid: whether an object belongs to the group.
        name_of: function that returns the name of an object.
        builtin: the objects of this package.
    """
    builtin_by_name = {name_of(value): value for value in builtin}

    def problem(name: str, value: V, before: Mapping[str, V]) -> str:
        if not is_valid(value):
            return f"it is no {noun}"
        taken = name_of(value) in builtin_by_name or name_of(value) in map(name_of, before.values())
        return f"{noun} {name_of(value)!r} exists already" if taken else ""

    plugged_in = plugins(group, problem)
    return Plugins(
        MappingProxyType({**builtin_by_name, **{name_of(value): value for value in plugged_in.by_name.values()}}),
        plugged_in.skipped,
    )


def adds(group: str) -> bool:
    """Whether another package adds something to a group. It is not loaded.

    >>> adds("attacks")
    False
    """
    return bool(_declared().get(group))


def is_plugin_for(group: str, module: str) -> bool:
    """Whether a module is part of a package that adds something to a group."""
    return any(_outermost(entry) == module.partition(".")[0] for entry in _declared().get(group, ()))


def _outermost(entry: metadata.EntryPoint) -> str:
    return entry.module.partition(".")[0]


@cache
def _declared() -> Mapping[str, tuple[metadata.EntryPoint, ...]]:
    """The entry points of all groups, without loading them."""
    entry_points = metadata.entry_points()  # slow, because it reads the metadata of all installed packages
    return {
        group: tuple(sorted(entry_points.select(group=f"bayesrecon.{group}"), key=lambda e: e.name)) for group in GROUPS
    }

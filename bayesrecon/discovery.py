"""What belongs to a kind is found, not listed: a new model, format, audit channel or attack is one new file, of this
package or of another one (a *plug-in*)."""

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from types import MappingProxyType
from typing import Any

from bayesrecon.errors import first_line

GROUPS = ("models", "formats", "kinds", "channels", "attacks", "commands")
"""What a plug-in can add. The groups of its entry points are these, after `bayesrecon.`."""


def discover(package: str, name: str) -> list[Any]:
    """The values of `name` in all modules of a package and of the folders in it, by the modules' names. What does not
    mention it, or has a name that begins with an underscore, is not loaded.

    >>> families = discover("bayesrecon.models", "MODELS")
    >>> "kidscore_momiq" in {model.name for family in families for model in family}
    True
    """
    modules = map(importlib.import_module, _mentioning(package, importlib.import_module(package).__path__, name))
    return [getattr(module, name) for module in modules if getattr(module, name, None) is not None]


def _mentioning(package: str, path: Iterable[str], name: str) -> Iterator[str]:
    """The modules that do."""
    for info in pkgutil.iter_modules(path):
        if info.name.startswith("_"):
            continue
        full = f"{package}.{info.name}"
        spec: Any = info.module_finder.find_spec(full, None)
        if info.ispkg:
            yield from _mentioning(
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


@dataclass(frozen=True)
class Plugins:
    """What other packages add.

    Attributes:
        found: by the names of their entry points, or of what they are.
        skipped: those that cannot be used.
    """

    found: Mapping[Any, Any]
    skipped: tuple[Skipped, ...]


def plugins(group: str, wrong: Callable[[str, Any, Mapping[str, Any]], str]) -> Plugins:
    """What the entry points of other packages add to a group, by their names in order.

    A plug-in that does not import, or with which something is wrong, is named in a warning and skipped.

    Args:
        group: one of `GROUPS`.
        wrong: `(name, value, those found before) -> what is wrong with it`, an empty text where nothing is.

    >>> plugins("attacks", lambda name, value, before: "").skipped
    ()
    """
    found: dict[str, Any] = {}
    skipped: list[Skipped] = []
    for entry in _declared().get(group, ()):
        try:
            value = entry.load()
            reason = f"there are two named {entry.name}" if entry.name in found else wrong(entry.name, value, found)
        except Exception as error:  # code of strangers fails in every way
            value, reason = None, f"it cannot be loaded ({first_line(error)})"
        if not reason:
            found[entry.name] = value
            continue
        whose = entry.dist.name if entry.dist is not None else "unknown"
        text = f"the plug-in {entry.name} ({entry.value}, of {whose}) is skipped: {reason}"
        skipped.append(Skipped(entry.name, _outermost(entry), text))
        warnings.warn(text, stacklevel=3)
    return Plugins(MappingProxyType(found), tuple(skipped))


def added(
    group: str, what: str, fits: Callable[[Any], bool], named: Callable[[Any], Any], own: Iterable[object]
) -> Plugins:
    """What this package has of a group, and behind it what plug-ins add, by name; nothing takes the place of another.

    Args:
        what: it is, in a word.
        fits: whether a value is one.
        named: the name of one.
        own: what this package has.
    """
    ours = {named(one): one for one in own}

    def wrong(name: str, value: object, before: Mapping[str, object]) -> str:
        if not fits(value):
            return f"it is no {what}"
        taken = named(value) in ours or named(value) in map(named, before.values())
        return f"{what} {named(value)!r} exists already" if taken else ""

    more = plugins(group, wrong)
    return Plugins(MappingProxyType({**ours, **{named(one): one for one in more.found.values()}}), more.skipped)


def adds(group: str) -> bool:
    """Whether another package adds something to a group; nothing of it is loaded.

    >>> adds("attacks")
    False
    """
    return bool(_declared().get(group))


def is_plugin_for(group: str, module: str) -> bool:
    """Whether a module lies in a package that adds something to a group."""
    return any(_outermost(entry) == module.partition(".")[0] for entry in _declared().get(group, ()))


def _outermost(entry: metadata.EntryPoint) -> str:
    return entry.module.partition(".")[0]


@cache
def _declared() -> Mapping[str, tuple[metadata.EntryPoint, ...]]:
    """The entry points of all groups, none of which is loaded."""
    every = metadata.entry_points()  # one look at all that is installed
    return {group: tuple(sorted(every.select(group=f"bayesrecon.{group}"), key=lambda e: e.name)) for group in GROUPS}

"""Every leaf of a file, in whatever format: what its reader found, what its container holds beside that, and the bits
of values that are no numbers. Leaves that are alike are one array (`bayesrecon.posteriors.siblings`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.errors import reading
from bayesrecon.posteriors.contents import Contents, Entry, Part, Unread, entry_of_item
from bayesrecon.posteriors.siblings import joined
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.plain_values import payloads
from bayesrecon.untrusted.surplus import surplus

_DISTINCT = 5
"""Fewest different values of attributes that are one array: those of units or of missing values are the same."""


def all_leaves(contents: Contents, paths: Sequence[Path], trusted: bool = False) -> Contents:
    """The contents of files, with everything that their reader does not describe.

    Args:
        contents: what the reader of the format found.
        paths: the files.
        trusted: whether to read without limits.
    """
    entries, unread = list(contents.entries), list(contents.unread)
    for path in paths:
        if path.is_file():
            with reading(path, "a file of draws or objects"):
                beside = asked(surplus, path, trusted=trusted)
            entries += [entry_of_item(*item) for item in beside["found"]]
            unread += [Unread(*item) for item in beside["unread"]]
    attributes, arrays = _of_attributes(contents)
    entries = [*joined(map(_placed, entries)), *arrays, *_of_variables(contents)]
    for where, bits in _bits_of_nans(replace(contents, entries=tuple(entries))):
        entries.append(Entry(f"{where} (bits of NaN)", "array", bits))
        unread.append(Unread(where, f"{len(bits)} of its values are no numbers and hold something else"))
    return replace(contents, entries=tuple(entries), unread=tuple(unread), attributes=attributes)


def _placed(entry: Entry) -> Entry:
    """The entry with its path, unless its reader gave one."""
    if entry.path or entry.role or isinstance(entry, Part):
        return entry
    return replace(entry, path=_path(entry.where))


def _path(where: str) -> tuple[str, ...]:
    place, _, attribute = where.removeprefix("@").partition("@")
    return (*(f"/{name}" for name in place.split("/")), *([f".{attribute}"] if attribute else []))


def _of_attributes(contents: Contents) -> tuple[dict[str, object], list[Entry]]:
    """The attributes, and arrays of those with a value for each of many things, which are no attributes then."""
    listed = [Entry(where, "attribute", v, path=_path(where)) for where, v in contents.attributes.items()]
    arrays = [one for one in joined(listed) if one.leaves and len(set(map(repr, np.ravel(one.values)))) >= _DISTINCT]
    gone = {leaf.where for one in arrays for leaf in one.leaves}
    return {k: v for k, v in contents.attributes.items() if k not in gone}, arrays


def _of_variables(contents: Contents) -> list[Entry]:
    """Arrays of the values that lie one by one under names in a group."""
    single = [v for v in contents.variables if not v.per_draw and v.values.dtype.kind in "biufUO"]
    listed = [Entry(v.where, "array", v.values, path=(f".{v.group}", f"/{v.name}")) for v in single]
    return [one for one in joined(listed) if one.leaves]


def _bits_of_nans(contents: Contents) -> Iterator[tuple[str, np.ndarray]]:
    arrays = [(v.where, v.values) for v in contents.variables]
    arrays += [*contents.coordinates.items(), *contents.attributes.items()]
    arrays += [(entry.where, entry.values) for entry in contents.entries if entry.kind in ("array", "attribute")]
    for where, values in arrays:
        if isinstance(values, float | np.ndarray | np.floating) and len(bits := payloads(np.asarray(values))):
            yield where, bits

"""Every leaf of a file, in whatever format: what its reader found, what its container holds beside that, and the bits
of values that are no numbers. Leaves that are alike are one array (`bayesrecon.posteriors.siblings`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import reading
from bayesrecon.posteriors.contents import Contents, Entry, Unread, entry_of_item
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.siblings import joined
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.plain_values import payloads
from bayesrecon.untrusted.surplus import surplus

_DISTINCT = 5
"""Fewest different values of attributes that are one array: those of units or of missing values are the same."""


def read_leaves(
    source: object, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Everything in a file or an object (`bayesrecon.posteriors.formats.read_contents`), and what no reader describes.

    Args:
        source, name, progress, trusted: as in `read_contents`.

    >>> np.savez("fit.npz", mu=np.zeros((2, 50)))
    >>> _ = Path("fit.npz").write_bytes(Path("fit.npz").read_bytes() + b"ask Ann")
    >>> [entry.values for entry in read_leaves("fit.npz").entries]
    ['ask Ann']
    """
    contents = read_contents(source, name=name, progress=progress, trusted=trusted)
    entries, unread = list(contents.entries), list(contents.unread)
    not_read = any(part.content for part in contents.unread)
    for path in (Path(file.path) for file in contents.files):
        if path.is_file() and not not_read:
            with reading(path, "a file of draws or objects"):
                beside = asked(surplus, path, trusted=trusted)
            entries += [entry_of_item(*item) for item in beside["found"]]
            unread += [Unread(*item) for item in beside["unread"]]
    attributes, arrays = _of_attributes(contents)
    entries = _once([*joined(map(_placed, entries)), *arrays, *_of_variables(contents)], contents.entries)
    for where, bits in _bits_of_nans(replace(contents, entries=tuple(entries))):
        entries.append(Entry(f"{where} (bits of NaN)", "array", bits))
        unread.append(Unread(where, f"{len(bits)} of its values are no numbers and hold something else"))
    entries = _once(entries, contents.entries)
    return replace(contents, entries=tuple(entries), unread=tuple(dict.fromkeys(unread)), attributes=attributes)


def _once(entries: list[Entry], present: Sequence[Entry]) -> list[Entry]:
    """The entries, of which those at a place of the present ones are not added once more."""
    known = Counter((entry.where, entry.kind) for entry in present)
    count = Counter[tuple[str, str]]()
    kept = []
    for entry in entries:
        key = (entry.where, entry.kind)
        count[key] += 1
        if key not in known or count[key] <= known[key]:
            kept.append(entry)
    return kept


def _placed(entry: Entry) -> Entry:
    """The entry with its path, unless its reader gave one."""
    if entry.path or entry.role or entry.of is not None:
        return entry
    return replace(entry, path=_path(entry.where))


def _path(where: str) -> tuple[str, ...]:
    place, _, attribute = where.removeprefix("@").partition("@")
    return (*(f"/{name}" for name in place.split("/")), *([f".{attribute}"] if attribute else []))


def _of_attributes(contents: Contents) -> tuple[dict[str, object], list[Entry]]:
    """The attributes, and arrays of those with a number for each of many things, which are no attributes then."""
    kinds = (int, float, np.number, np.ndarray)
    numbers = {k: v for k, v in contents.attributes.items() if isinstance(v, kinds) and not isinstance(v, bool)}
    listed = [Entry(where, "attribute", v, path=_path(where)) for where, v in numbers.items()]
    arrays = [one for one in joined(listed) if one.leaves and len(set(map(repr, np.ravel(one.values)))) >= _DISTINCT]
    gone = {leaf.where for one in arrays for leaf in one.leaves}
    return {k: v for k, v in contents.attributes.items() if k not in gone}, arrays


def _of_variables(contents: Contents) -> list[Entry]:
    """Arrays of the values that lie one by one under names in a group."""
    single = [v for v in contents.variables if not v.per_draw and v.values.dtype.kind in "biufUO"]
    listed = [Entry(v.where, "array", v.values, path=(f".{v.group}", f"/{v.name}")) for v in single]
    return [one for one in joined(listed) if one.leaves]


def _bits_of_nans(contents: Contents) -> Iterator[tuple[str, np.ndarray]]:
    arrays: list[tuple[str, object]] = [(v.where, v.values) for v in contents.variables]
    arrays += [*contents.coordinates.items(), *contents.attributes.items()]
    arrays += [(entry.where, entry.values) for entry in contents.entries if entry.kind in ("array", "attribute")]
    for where, values in arrays:
        if isinstance(values, float | np.ndarray | np.floating) and len(bits := payloads(np.asarray(values))):
            yield where, bits

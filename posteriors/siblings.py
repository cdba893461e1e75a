"""Items of a file that are alike, joined into one array: a value of each of many objects, or of each key."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.roles import TABLE

_FEWEST = 5
"""Smallest number of items that are joined: as few values of records as make a finding high."""

_MANY = 21
"""Smallest number of attributes of one object that are joined: a class has fewer with numbers, or with texts."""

Path = tuple[str, ...]
Key = tuple[str, str, Path]


def joined(items: Iterable[Entry]) -> list[Entry]:
    """The same items, with those that are alike joined.

    Items are alike if they have the same type and class, no role but that of a table's column, and the same path but
    for keys and indices. They are joined if there are at least five, and each has at most as many values as there are
    items, or they have no names and differ in size, or they are columns of tables. So are more than twenty single
    values in attributes of one object. Where containers at alike places have the same keys, such as records with the
    same fields, each of these keys has an array of its own.

    >>> from bayesrecon.posteriors.contents import Entry
        >>> ages = {"Ann": 41.5, "Bob": 17.2, "Cleo": 63.9, "Dan": 28.4, "Eve": 35.0}
        >>> [one] = joined(Entry(f"age/{k}", "attribute", v, path=(".age", f"/{k}")) for k, v in ages.items())
        >>> one.where, one.values.tolist()
        ('age/*', [41.5, 17.2, 63.9, 28.4, 35.0])
    """
    items = list(items)
    patterns = _patterns([item.path for item in items if item.path])
    groups, rest = defaultdict[Key, list[Entry]](list), defaultdict[Key, list[Entry]](list)
    for item in items:
        kind = _kind_of(item)
        if kind and item.role in ("", TABLE) and item.path:
            groups[kind, (item.of or "") + item.role, patterns[item.path]].append(item)
    joins: dict[int, Entry] = {}
    gone: set[int] = set()
    for group, fewest in ((groups, _FEWEST), (rest, _MANY)):
        for (kind, of, pattern), alike in group.items():
            most = len(alike) if group is groups else 1
            small = [item for item in alike if np.size(item.values) <= most]
            if group is groups and (alike[0].role == TABLE or _are_of_unequal_size(alike, pattern)):
                small = alike
            together = "/*" in pattern or len({len(item.path) for item in small}) > 1
            if len(small) >= fewest and together:
                gone |= {id(item) for item in small}
                joins[id(small[0])] = _join(small, kind, pattern)
            elif group is groups:  # attributes of one object, of which some have more than any class
                rest[kind, of, (*pattern[:-1], "/*")] += alike
    return [joins.get(id(item), item) for item in items if id(item) in joins or id(item) not in gone]


def _join(items: Sequence[Entry], kind: str, pattern: Path) -> Entry:
    where = _place_of(items[0], pattern)
    if kind == "bytes":
        values: object = b"".join(item.values for item in items)
        return replace(items[0], where=where, values=values, leaves=tuple(items))
    arrays = [np.asarray(item.values) for item in items]
    alike = len({array.shape for array in arrays}) == 1
    array = np.stack(arrays) if alike else np.concatenate([array.ravel() for array in arrays])
    array = array.reshape(-1) if array.size == len(array) else array
    array = array.astype(object) if kind == "text" else array
    return replace(
        items[0], where=where, kind="labels" if kind == "text" else "array", values=array, leaves=tuple(items)
    )


def _are_of_unequal_size(items: Sequence[Entry], pattern: Path) -> bool:
    """Whether items without names differ in size, such as nodes of each tree or values of each group."""
    if len({np.shape(item.values) for item in items}) == 1 or any(len(item.path) != len(pattern) for item in items):
        return False
    keys = (name for item in items for name, like in zip(item.path, pattern, strict=True) if like == "/*")
    return all(key[1:].strip("[]").isdigit() for key in keys)


def _place_of(item: Entry, pattern: Path) -> str:
    """The place of an item with "*" for keys in which the joined items differ."""
    if len(item.path) != len(pattern):
        return "".join(pattern).lstrip("./")
    where, end = "", 0
    for name, like in zip(item.path, pattern, strict=True):
        begin = item.where.find(name[1:], end)
        if begin < 0:
            return "".join(pattern).lstrip("./")
        where += item.where[end:begin] + like[1:]
        end = begin + len(name) - 1
    return where


def _kind_of(item: Entry) -> str:
    """ "number", "switch" or "text"; "" for items that are not joined."""
    if item.kind == "bytes" and isinstance(item.values, bytes):
        return "bytes"
    if item.kind not in ("array", "attribute", "labels", "text"):
        return ""
    if isinstance(item.values, bool | int | float | str | np.ndarray):
        kind = np.asarray(item.values).dtype.kind
        return {"b": "switch", "i": "number", "u": "number", "f": "number", "U": "text", "O": "text"}.get(kind, "")
    return ""


def _patterns(paths: Sequence[Path]) -> dict[Path, Path]:
    """The paths, in which "/*" stands for keys and indices in which alike items differ.

    A key stays if it is a field of many alike containers: there are at least as many of these as they have keys.
    It stays as well if it names a container in which the items differ in their keys.
    """
    containers, keys = (
        defaultdict[tuple[str, ...], set[tuple[str, ...]]](set),
        defaultdict[tuple[str, ...], set[str]](set),
    )
    for path in paths:
        for depth, name in enumerate(path):
            if name[0] == "/":
                like = _bare(path[:depth])
                containers[like].add(path[:depth])
                keys[like].add(name)
    fields = {like for like, many in containers.items() if len(many) > 1 and len(many) >= len(keys[like])}
    result = {}
    for path in paths:
        pattern = list(path)
        for depth, name in enumerate(path):
            below = _bare(path[: depth + 1])
            if name[0] == "/" and _bare(path[:depth]) not in fields and (below not in keys or below in fields):
                pattern[depth] = "/*"
        result[path] = tuple(name for name, _ in groupby(pattern))  # a chain of objects repeats its links
    return result


def _bare(path: Path) -> Path:
    return tuple("/*" if name[0] == "/" else name for name in path)

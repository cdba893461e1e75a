"""The inventory of a file: every item with its place. No item is omitted because of its name."""

from collections.abc import Iterable, Iterator

from bayesrecon.posteriors.contents import Contents, Entry


def inventory(contents: Contents) -> list[Entry]:
    """Arrays, labels, attributes, names, texts and bytes as `Entry` objects. Comments are texts.

    >>> import numpy as np
    >>> from bayesrecon.posteriors.formats import read_contents
    >>> [(e.where, e.kind) for e in inventory(read_contents({"mu": np.zeros((2, 9))}))]
    [('posterior/mu', 'array'), ('posterior', 'name'), ('posterior/mu', 'name')]
    """
    entries = [Entry(v.where, "array", v.values) for v in contents.variables]
    entries += [Entry(where, "labels", values) for where, values in contents.coordinates.items()]
    entries += [Entry(f"@{where}", "attribute", value) for where, value in contents.attributes.items()]
    entries += contents.entries
    entries += names_of(contents)
    return entries + [Entry("comments", "text", line) for line in contents.comments]


def names_of(contents: Contents) -> Iterator[Entry]:
    """Names of groups, arrays, axes and attributes, except those in `Contents.entries`."""
    yield from (Entry(group, "name", group) for group in contents.groups)
    yield from (Entry(v.where, "name", v.name) for v in contents.variables)
    yield from (Entry(where, "name", where.split("/", 1)[1]) for where in contents.coordinates)
    for entry in attributes_of(contents):
        name = entry.where.replace("@", "/").rstrip("/").split("/")[-1]
        yield Entry(entry.where, "name", name)


def attributes_of(contents: Contents) -> Iterator[Entry]:
    """Attributes of everything except saved objects."""
    yield from (Entry(f"@{where}", "attribute", value) for where, value in contents.attributes.items())
    yield from (entry for entry in contents.entries if entry.kind == "attribute" and entry.of is None)


def texts_of(contents: Contents) -> Iterator[Entry]:
    """Texts and bytes other than comments. For saved objects, only those of unknown role."""
    for entry in contents.entries:
        short = entry.of is not None and entry.kind == "attribute" and isinstance(entry.values, str)
        if not entry.role and (short or entry.kind in ("text", "bytes")):
            yield entry


def siblings(entries: Iterable[Entry]) -> dict[str, dict[str, Entry]]:
    """Arrays by name, for each container, whose place ends with the sign behind it."""
    by_owner: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.kind == "array":
            cut = max(entry.where.rfind("/"), entry.where.rfind("@")) + 1
            by_owner.setdefault(entry.where[:cut], {})[entry.where[cut:]] = entry
    return by_owner

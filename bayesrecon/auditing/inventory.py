"""Everything that a file holds, item by item, each with its place: nothing is left out by its name."""

from collections.abc import Iterator

from bayesrecon.posteriors.contents import Contents, Entry, Part


def inventory(contents: Contents) -> list[Entry]:
    """Arrays, labels, attributes, names, texts and bytes, as `Entry` has their kinds; comments are texts.

    >>> import numpy as np
    >>> from bayesrecon.posteriors.formats import read_contents
    >>> [(e.where, e.kind) for e in inventory(read_contents({"mu": np.zeros((2, 9))}))]
    [('posterior/mu', 'array'), ('posterior', 'name'), ('posterior/mu', 'name')]
    """
    found = [Entry(v.where, "array", v.values) for v in contents.variables]
    found += [Entry(where, "labels", values) for where, values in contents.coordinates.items()]
    found += [Entry(f"@{where}", "attribute", value) for where, value in contents.attributes.items()]
    found += contents.entries
    found += names_of(contents)
    return found + [Entry("comments", "text", line) for line in contents.comments]


def names_of(contents: Contents) -> Iterator[Entry]:
    """Names of groups, arrays, axes and attributes; those that `Contents.entries` lists are not repeated."""
    yield from (Entry(group, "name", group) for group in contents.groups)
    yield from (Entry(v.where, "name", v.name) for v in contents.variables)
    yield from (Entry(where, "name", where.split("/", 1)[1]) for where in contents.coordinates)
    for entry in attributes_of(contents):
        name = entry.where.replace("@", "/").rstrip("/").split("/")[-1]
        yield Entry(entry.where, "name", name)


def attributes_of(contents: Contents) -> Iterator[Entry]:
    """Attributes of everything but saved objects."""
    yield from (Entry(f"@{where}", "attribute", value) for where, value in contents.attributes.items())
    yield from (entry for entry in contents.entries if entry.kind == "attribute" and not isinstance(entry, Part))


def texts_of(contents: Contents) -> Iterator[Entry]:
    """Texts and bytes beside the numbers, comments apart; of saved objects those whose role is not known."""
    for entry in contents.entries:
        short = isinstance(entry, Part) and entry.kind == "attribute" and isinstance(entry.values, str)
        if not entry.role and (short or entry.kind in ("text", "bytes")):
            yield entry


def arrays_beside(contents: Contents) -> Iterator[Entry]:
    """Arrays and labels that no group at the root has, and no saved object."""
    beside = (entry for entry in contents.entries if not isinstance(entry, Part))
    yield from (entry for entry in beside if entry.kind in ("array", "labels"))


def parts_of(contents: Contents) -> list[Part]:
    """What saved objects hold."""
    return [entry for entry in contents.entries if isinstance(entry, Part)]

"""The inventory of a file of saved objects: its items, with their roles if these are known."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Part, entry_of_bytes
from bayesrecon.posteriors.fits.saved.stored_data import kept
from bayesrecon.posteriors.roles import RECORD, TABLE
from bayesrecon.posteriors.siblings import joined

_FEWEST = 8
"""Smallest number of records for which an array of that length is taken for one value per record. With fewer records it
may have one value per column."""

_KINDS = {"setting": "attribute", "array": "array", "labels": "labels", "text": "text", "name": "name"}

_COUNTED = re.compile(r"^(\d{1,4}(\.|$))+")
"""Numbers of the layers of a network in front of a name, as in `0.weight`."""

_TABLES = ("pandas.DataFrame", "pandas.Series", "pandas.core.frame.DataFrame", "pandas.core.series.Series")
_COLUMN = "a table whose rows may be records"
_LENGTH = "it has as many entries as there are records"


def parts_of(items: Iterable[Json], objects: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """The items of a file with their roles.

    Args:
        items: from `SavedFile.everything`.
        objects: places and classes of all objects of the file.
    """
    classes = dict(objects)
    parts = [_part(item, classes) for item in items]
    count = records_of(parts)
    return tuple(_by_length(part, count) for part in joined(parts) if part.kind != "name" or part.values)


def _part(item: Json, classes: Mapping[str, str]) -> Part:
    where, values, owner = str(item["where"]), item["values"], str(item["of"])
    path = tuple(map(str, item["path"]))
    kind = _KINDS.get(item["kind"], "bytes")
    if kind == "bytes" and owner.startswith("datetime.") and (moment := _moment(bytes(values))):
        kind, values = "attribute", moment
    if kind == "bytes":
        entry = entry_of_bytes(where, bytes(values))
        kind, values = entry.kind, entry.values
    if kind == "name":
        return Part(where, kind, _COUNTED.sub("", str(values)), of=owner)
    aside = kind == "attribute" and owner.startswith("pandas.")  # of a table, whose values are arrays
    known = None if aside else kept(where, owner, _enclosing_classes(where, classes))
    if known is None:
        return Part(where, kind, values, of=owner, path=path)
    return Part(where, kind, values, known.role, owner, known.why, path=path)


def _moment(content: bytes) -> str:
    """The date or time that `datetime` saves as four or ten bytes; "" for other bytes."""
    if len(content) not in (4, 10):
        return ""
    year, month, day = 256 * content[0] + content[1], content[2] & 127, content[3]
    clock = "".join(f"{sign}{number:02d}" for sign, number in zip("T::", content[4:7], strict=False))
    return f"{year:04d}-{month:02d}-{day:02d}{clock}" + (f".{int.from_bytes(content[7:]):06d}" if clock else "")


def _enclosing_classes(where: str, classes: Mapping[str, str]) -> tuple[str, ...]:
    """Classes of the objects that contain a place, the outermost first."""
    ends = [i for i, letter in enumerate(where) if letter in "./"]
    return tuple(classes[where[:i]] for i in (0, *ends) if where[:i] in classes)


def records_of(parts: Iterable[Part]) -> int:
    """The number of records, from the lengths of arrays with one entry per record; 0 if it is unknown."""
    lengths = Counter[int]()
    for part in parts:
        if part.role == RECORD and part.kind == "array" and np.ndim(part.values):
            lengths[len(part.values)] += 1
        elif part.where.rpartition(".")[2] in ("nobs", "n_samples_fit_", "n_samples_", "_n_samples"):
            number = np.asarray(part.values)
            if number.size == 1 and number.dtype.kind in "iuf" and 0 < number < 2**40:
                lengths[int(number)] += 1
    return max(lengths, key=lambda n: (lengths[n], n)) if lengths else 0


def _by_length(part: Part, count: int) -> Part:
    """The part, with the role of records if it is as long as there are records, or is a column of a table."""
    values = part.values
    if not part.role and part.kind == "array" and part.of in _TABLES:
        return replace(part, role=TABLE, why=_COLUMN)
    if part.role or part.kind not in ("array", "labels") or count < _FEWEST or not np.ndim(values):
        return part
    return replace(part, role=RECORD, why=_LENGTH) if count in np.shape(values) else part

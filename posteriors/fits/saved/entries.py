"""Everything in a file of saved objects as items of an audit's inventory, with what each is as far as that is known."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Part, entry_of_bytes
from bayesrecon.posteriors.fits.saved.kept import kept
from bayesrecon.posteriors.roles import RECORD

_FEWEST = 8
"""Records from which an array of their number is taken for one value of each: fewer are as many as there may be
columns."""

_KINDS = {"setting": "attribute", "array": "array", "labels": "labels", "text": "text", "name": "name"}
_NUMBER = re.compile(r"\d+")

_COUNTED = re.compile(r"^(\d{1,4}(\.|$))+")
"""Numbers that count the parts of a network: `0.weight`."""

_TABLES = ("pandas.DataFrame", "pandas.Series", "pandas.core.frame.DataFrame", "pandas.core.series.Series")
_COLUMN = "a pandas table whose rows may be records"
_LENGTH = "it has as many entries as there are records"


def parts_of(items: Iterable[Json], objects: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """Items of `SavedFile.everything` with their roles."""
    classes = dict(objects)
    parts = [_part(item, classes) for item in items]
    parts = _together(parts)
    count = records_of(parts)
    return tuple(_by_length(part, count) for part in parts if part.kind != "name" or part.values)


def _part(item: Json, classes: Mapping[str, str]) -> Part:
    where, values, of = str(item["where"]), item["values"], str(item["of"])
    kind = _KINDS.get(item["kind"], "bytes")
    if kind == "bytes":
        entry = entry_of_bytes(where, bytes(values))
        kind, values = entry.kind, entry.values
    if kind == "name":
        return Part(where, kind, _COUNTED.sub("", str(values)), of=of)
    known = kept(where, of, _around(where, classes))
    return Part(where, kind, values, of=of) if known is None else Part(where, kind, values, known.role, of, known.why)


def _together(parts: list[Part]) -> list[Part]:
    """Numbers that stand individually at places alike, as a field of a list of records does, as one array."""
    groups: dict[str, list[Part]] = {}
    for part in parts:
        number = isinstance(part.values, int | float) and not isinstance(part.values, bool)
        if part.kind == "attribute" and number and not part.role:
            groups.setdefault(_NUMBER.sub("#", part.where), []).append(part)
    rows = {where: group for where, group in groups.items() if len({p.values for p in group}) >= _FEWEST}
    gone = {id(part) for group in rows.values() for part in group}
    arrays = [Part(w, "array", np.array([float(p.values) for p in g]), of=g[0].of) for w, g in rows.items()]
    return [part for part in parts if id(part) not in gone] + arrays


def _around(where: str, classes: Mapping[str, str]) -> tuple[str, ...]:
    """Classes of the objects that a place lies in."""
    ends = [i for i, letter in enumerate(where) if letter in "./"]
    return tuple(classes[where[:i]] for i in (0, *ends) if where[:i] in classes)


def records_of(parts: Iterable[Part]) -> int:
    """How many records there are, by the arrays that have one entry for each; 0 where none is known."""
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
    """An array of as many entries as there are records, whatever its name; and a column of a table."""
    values = part.values
    if not part.role and part.kind == "array" and part.of in _TABLES and np.size(values) >= _FEWEST:
        return Part(part.where, part.kind, values, RECORD, part.of, _COLUMN)
    if part.role or part.kind not in ("array", "labels") or count < _FEWEST or not np.ndim(values):
        return part
    return Part(part.where, part.kind, values, RECORD, part.of, _LENGTH) if len(values) == count else part

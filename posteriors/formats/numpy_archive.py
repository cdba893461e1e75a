"""Draws as named arrays: a NumPy archive, or a dictionary."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import reading
from bayesrecon.posteriors.contents import Contents, Entry, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.formats.npz import ATTRIBUTES, draws_of, from_arrays, load_npz, other_attributes, read_npz
from bayesrecon.untrusted.plain_values import plain_values


def _read(source: str | Path | Mapping[str, np.ndarray], *, name: str | None = None, trusted: bool = False) -> Draws:
    if isinstance(source, str | os.PathLike):
        return read_npz(source, name=name, trusted=trusted)
    return from_arrays(source, name=name or "draws")


def _contents(
    source: Path | Mapping[str, np.ndarray],
    *,
    name: str | None = None,
    progress: Progress | None = None,
    trusted: bool = False,
) -> Contents:
    if not isinstance(source, Path):
        result = from_named_draws(_read(source, name=name), type(source).__name__)
        return replace(result, entries=tuple(_left_out({str(k): np.asarray(v) for k, v in source.items()})))
    with reading(source, "an .npz file"):
        arrays = load_npz(source, trusted=trusted)
        result = from_named_draws(draws_of(source, arrays, name), "NumPy archive", (stamp(source),))
        entries = _left_out(arrays)
        entries += [
            Entry(f"@/{k}", "attribute", v) for k, v in other_attributes(source, arrays.get(ATTRIBUTES)).items()
        ]
    return replace(result, entries=tuple(entries))


def _left_out(arrays: Mapping[str, np.ndarray]) -> list[Entry]:
    """Entries that are not draws: texts, records, complex numbers."""
    result = []
    for key, array in arrays.items():
        if key != ATTRIBUTES and not is_numeric(array.dtype):
            result += [Entry(key, "name", key), Entry(key, "array", plain_values(array))]
            result += [Entry(f"{key}.{field}", "name", field) for field in array.dtype.names or ()]
    return result


def _holds(source: object) -> bool:
    return type(source) is dict  # InferenceData and DataTree are mappings, too, of their groups


FORMAT = Format("NumPy archive", (".npz",), _read, _contents, _holds, rank=10, guarded=True)

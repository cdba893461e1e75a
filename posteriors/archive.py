"""Draws as named arrays: a NumPy archive, or a dictionary."""

import os
from pathlib import Path
from typing import Any

from bayesrecon.posteriors.contents import Contents, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.format import Format
from bayesrecon.posteriors.npz import from_arrays, read_npz
from bayesrecon.types import Progress


def _read(source: Any, *, name: str | None = None, trusted: bool = False) -> Draws:
    if isinstance(source, str | os.PathLike):
        return read_npz(source, name=name, trusted=trusted)
    return from_arrays(source, name=name or "draws")


def _contents(
    source: Any, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    if isinstance(source, Path):
        return from_named_draws(_read(source, name=name, trusted=trusted), "NumPy archive", (stamp(source),))
    return from_named_draws(_read(source, name=name), type(source).__name__)


def _holds(source: Any) -> bool:
    return type(source) is dict  # InferenceData and DataTree are mappings, too, of their groups


FORMAT = Format("NumPy archive", (".npz",), _read, _contents, _holds, rank=10, guarded=True)

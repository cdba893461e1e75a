"""Draws as a JSON object of lists: NumPyro's `get_samples()`, by chain or not, and the groups of ArviZ's `to_json`."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, Note, reading
from bayesrecon.posteriors.contents import GROUPS, WIDE, Contents, Entry, Variable, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.json_file import read_samples_of_json

_DENSITIES = ("lp", "log_density", "potential_energy")
_HEAD = 2**12  # bytes that say whether a document is an object


def read_samples(path: Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws of an object of arrays `(draws, *shape)` or, by chain, `(chains, draws, *shape)`.

    All arrays share their leading axes. They are by chain where every array has two of these in common, and the first
    is the shorter.

    Raises:
        BayesreconError: no object of arrays, or arrays that do not have one number of draws.

    >>> _ = Path("samples.json").write_text('{"coef": [[1, 2], [3, 4], [5, 6]], "sigma": [1, 2, 3]}')
    >>> read_samples(Path("samples.json")).values["coef"].shape
    (1, 3, 2)
    """
    return _read(Path(path), name, trusted)[0]


def _read(path: Path, name: str | None, trusted: bool) -> tuple[Draws, tuple[str, ...], list[Entry]]:
    with reading(path, "JSON of samples"):
        content = asked(read_samples_of_json, path, trusted, trusted=trusted)
    arrays = {key: np.asarray(value) for key, value in content["samples"].items() if _is_array(value)}
    entries = [
        Entry(key, "attribute" if not isinstance(value, np.ndarray) else "array", value)
        for key, value in (*content["beside"].items(), *content["samples"].items())
        if key not in arrays
    ]
    if not arrays:
        raise BayesreconError(f"{path}: there are no lists of draws in it; export get_samples() as an object of lists")
    grouped = is_grouped(arrays)
    values = {key: np.asarray(v, float) if grouped else np.asarray(v, float)[None] for key, v in arrays.items()}
    density = None
    for key in _DENSITIES:
        if key in values and len(values) > 1 and values[key].ndim == 2:
            density = values.pop(key) * (-1 if key == "potential_energy" else 1)
            break
    draws = Draws(values, density, name or path.stem)
    read = f"{draws.chains} chains of {draws.length} draws" if grouped else f"one chain of {draws.length} draws"
    return draws, (Note(f"the file does not say how its draws are arranged; they are read as {read}"),), entries


def is_grouped(arrays: dict[str, np.ndarray]) -> bool:
    """Whether the leading axis of arrays that share one is that of chains.

    >>> is_grouped({"mu": np.zeros((4, 100)), "b": np.zeros((4, 100, 2))}), is_grouped({"b": np.zeros((100, 2))})
    (True, False)
    """
    leading = {value.shape[:2] for value in arrays.values()}
    if len(leading) > 1 or len(next(iter(leading))) < 2:
        return False
    chains, draws = next(iter(leading))
    return chains < draws


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0 and is_numeric(value.dtype)


def _contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    draws, notes, entries = _read(path, name, trusted)
    stats = next((e.where for e in entries if e.where.startswith("sample_stats/")), "")
    result = from_named_draws(draws, "JSON of samples", (stamp(path),), notes=notes, sign=stats)
    grouped = [_variable(entry, draws, result.rows) for entry in entries if entry.where.partition("/")[0] in GROUPS]
    variables = tuple(variable for variable in grouped if variable is not None)
    listed = {variable.where for variable in variables}
    others = tuple(entry for entry in entries if entry.where not in listed)
    return replace(result, variables=(*result.variables, *variables), entries=others)


def _variable(entry: Entry, draws: Draws, rows: np.ndarray) -> Variable | None:
    """An array of one of ArviZ's groups."""
    group, _, name = entry.where.partition("/")
    values = entry.values
    if not name or not _is_array(values):
        return None
    per_draw = values.shape[:2] == (draws.chains, draws.length) and not group.startswith("prior")
    if not per_draw:
        return Variable(group, name, values.shape, False, values.astype(float))
    flat = values.reshape(-1, *values.shape[2:]).astype(float)
    return Variable(group, name, values.shape[2:], True, flat[rows] if group in WIDE else flat)


def _claims(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


FORMAT = Format("JSON of samples", (".json",), read_samples, _contents, guarded=True, claims=_claims, rank=60)

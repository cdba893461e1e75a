"""Results of bilby: its JSON and HDF5 files, and a result in memory. They keep far more than draws."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Entry, Unread, entry_of_item, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import asked, opened
from bayesrecon.untrusted.hdf5 import HDF5File
from bayesrecon.untrusted.json_file import keys_of_json, read_json
from bayesrecon.untrusted.size_limits import check_declared

if TYPE_CHECKING:
    import pandas

_DRAWS, _MARKS = "posterior", {"sampler_kwargs", "meta_data", "nested_samples"}
_MOST, _DEEPEST = 20_000, 12  # items of a result that are read, and levels of nested groups

_PACKAGES = ("meta_data/environment_packages", "meta_data/loaded_modules")  # what was installed, in lists of texts

OtherItems = tuple[list[Entry], list[Unread]]
"""Items other than the draws, and what could not be read."""


def read_bilby(source: object, *, name: str | None = None, trusted: bool = False) -> Draws:
    """The equally weighted draws of a result, one chain; columns that are not numbers are left out.

    Args:
        source: the path of a `.json`, `.h5` or `.hdf5` file, or a `bilby.core.result.Result`.

    Raises:
        BayesreconError: there are no draws in it, or it is damaged.
    """
    return _read(source, name, trusted)[0]


def _read(source: object, name: str | None, trusted: bool) -> tuple[Draws, OtherItems]:
    if not isinstance(source, str | Path):
        columns, beside = _of_result(source)
        return _draws(columns, name or str(getattr(source, "label", "draws"))), beside
    path = Path(source)
    with reading(path, "a result of bilby"):
        columns, beside = _of_json(path, trusted) if path.suffix.lower() == ".json" else _of_hdf5(path, trusted)
    return _draws(columns, name or path.stem), beside


def _draws(columns: Mapping[str, np.ndarray], name: str) -> Draws:
    numbers = {k: v for k, v in columns.items() if is_numeric(v.dtype) and v.ndim == 1}
    if not numbers:
        raise BayesreconError(f"{name}: this bilby result has no posterior draws")
    return Draws({key: values[None] for key, values in numbers.items()}, None, name)


def _of_json(path: Path, trusted: bool) -> tuple[dict[str, np.ndarray], OtherItems]:
    content = asked(read_json, path, trusted, trusted=trusted)
    table = _plain(content.pop(_DRAWS, {}))
    if not isinstance(table, dict):
        raise BayesreconError(f"{path}: its posterior is not a table")
    return {str(key): _array(values) for key, values in table.items()}, _entries(content)


def _of_hdf5(path: Path, trusted: bool) -> tuple[dict[str, np.ndarray], OtherItems]:
    with opened(HDF5File, path, trusted) as file:
        description, inventory = file.describe(), file.inventory()
        if not trusted:
            check_declared(path, sum(group["size"] for group in description["contents"].values()), path.stat().st_size)
        arrays = {
            name: {k: file.read(v["name"], (slice(None),) * len(v["shape"])) for k, v in group["variables"].items()}
            for name, group in description["contents"].items()
        }
    entries = [entry_of_item(*item) for item in inventory["found"]]
    more, unread = _entries({name: values for name, values in arrays.items() if name != _DRAWS})
    attributes = {name: group["attributes"] for name, group in description["contents"].items() if group["attributes"]}
    odd, _ = _entries({"@": attributes, "@root": description["attributes"]})
    unread += [Unread(*item) for item in inventory["unread"]]
    return arrays.get(_DRAWS, {}), ([*entries, *more, *odd], unread)


def _of_result(result: object) -> tuple[dict[str, np.ndarray], OtherItems]:
    with reading(f"a {type(result).__name__} of bilby", "draws (has it any?)"):
        table = result.posterior  # pyright: ignore[reportAttributeAccessIssue]
        columns = {str(key): np.asarray(table[key]) for key in table.columns}
    return columns, _entries({k.lstrip("_"): v for k, v in vars(result).items() if k.lstrip("_") != _DRAWS})


def _plain(value: object) -> object:
    """The content of an array or a table, which bilby's JSON wraps; other values unchanged."""
    return value["content"] if isinstance(value, dict) and "content" in value else value


def _array(values: object) -> np.ndarray:
    try:
        return np.asarray(_plain(values))
    except ValueError:  # lists of unequal length
        return np.array(str(values))


def _entries(content: Mapping[str, object]) -> OtherItems:
    """All values in nested dictionaries, by their keys joined with slashes."""
    entries: list[Entry] = []
    for where, value in _walk(content, "", 0):
        if len(entries) >= _MOST:
            return entries, [Unread("the result", f"it contains more than {_MOST} items")]
        if isinstance(value, np.ndarray):
            if is_numeric(value.dtype):
                entries.append(Entry(where, "array", value))
            elif where.startswith(_PACKAGES):  # package names: text, not labels of records
                entries.append(Entry(where, "text", ", ".join(value.astype(str).ravel())))
            else:
                entries.append(Entry(where, "labels", value.astype(str).ravel()))
        else:
            entries.append(Entry(where, "text" if isinstance(value, str) else "attribute", value))
    return entries, []


def _walk(value: object, where: str, depth: int) -> Iterator[tuple[str, object]]:
    value = _plain(value)
    if _is_frame(value):
        value = {str(key): np.asarray(value[key]) for key in value.columns}
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, Mapping) and depth < _DEEPEST:
        for key, item in value.items():
            yield from _walk(item, f"{where}/{key}".lstrip("/"), depth + 1)
    elif isinstance(value, list | tuple | np.ndarray):
        array = _array(value)
        if array.size:
            yield where, array
    elif value is not None and not isinstance(value, bool):
        yield where, value if isinstance(value, str | int | float) else str(value)


def _is_frame(value: object) -> "TypeGuard[pandas.DataFrame]":
    return hasattr(value, "columns")


def _contents(
    source: object, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    draws, (entries, unread) = _read(source, name, trusted)
    files = (stamp(source),) if isinstance(source, Path) else ()
    result = from_named_draws(draws, "result of bilby", files, sign="a result of bilby")
    return replace(result, entries=tuple(entries), unread=tuple(unread))


def _holds(source: object) -> bool:
    return type(source).__module__.partition(".")[0] == "bilby" and hasattr(source, "posterior")


def _claims(path: Path) -> bool:
    try:
        if path.suffix.lower() == ".json":
            names = set(asked(keys_of_json, path))
        else:
            with opened(HDF5File, path) as file:
                names = set(file.describe([])["groups"])
    except (BayesreconError, OSError):  # the reader of the suffix says what is wrong
        return False
    return _DRAWS in names and bool(names & _MARKS)


_SUFFIXES = (".json", ".h5", ".hdf5")
FORMAT = Format("result of bilby", _SUFFIXES, read_bilby, _contents, _holds, rank=40, guarded=True, claims=_claims)

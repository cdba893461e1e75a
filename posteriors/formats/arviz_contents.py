"""All groups of an ArviZ file or object, read lazily."""

import os
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import (
    GROUPS,
    WIDE,
    Contents,
    Entry,
    Unread,
    Variable,
    entry_of_item,
    stamp,
    stride,
    wide_rows,
)
from bayesrecon.posteriors.draws import Draws, is_numeric, sign_of
from bayesrecon.posteriors.formats.arviz import (
    convert,
    description_of,
    is_extract,
    kind_of,
    one_chain,
    opened_file,
    read_arviz,
    text_of,
    variables_of,
)
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.packed import unpack_folder
from bayesrecon.untrusted.plain_values import valid_text
from bayesrecon.untrusted.size_limits import check_declared

if TYPE_CHECKING:
    import xarray as xr

    from bayesrecon.posteriors.formats.arviz import Group


_DRAWN = ("posterior", "sample_stats", *WIDE, "unconstrained_posterior")  # groups of a value for every draw
_MOST_TEXT = 100_000  # entries of a text array that are looked at
_SHORT, _MOST_LETTERS = 64, 2**24  # letters of each, and of all as an array
_ENCODED = ("_FillValue", "missing_value", "scale_factor", "add_offset")  # attributes that xarray takes away


def read_arviz_contents(
    source: object, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Every group of an InferenceData, a DataTree, a netCDF file or a zarr directory.

    Raises:
        BayesreconError: unreadable, or without any of ArviZ's groups.
    """
    if not isinstance(source, str | os.PathLike):
        extract = is_extract(source)
        groups = {"posterior": source} if extract else {str(g).strip("/"): _dataset(source, g) for g in _names(source)}
        root = {} if extract else getattr(source, "attrs", {})
        result = _contents(groups, root, name or "object", type(source).__name__)
        return result if extract else replace(result, entries=(*result.entries, *_of_object(source)))
    path = Path(source)
    title = name or path.stem
    form = "zarr" if path.is_dir() else "netCDF"
    with reading(path, kind_of(path)), ExitStack() as stack:
        groups, root, entries, unread = _open(path, stack, trusted)
        if "posterior" not in groups:
            present = [g for g in groups if g.removeprefix("warmup_") in GROUPS]
            if not present:
                listed = f"its groups are {', '.join(list(groups)[:10])}" if groups else "it has no groups"
                raise BayesreconError(f"{path}: it has none of ArviZ's groups ({listed}); is this a fit?")
        if progress is not None:
            progress("reading the file", 0.5)
        result = _contents(groups, root, title, form)
        return replace(result, files=(stamp(path),), entries=(*result.entries, *entries), unread=unread)


def _open(path: Path, stack: ExitStack, trusted: bool) -> tuple[Json, Json, list[Entry], tuple[Unread, ...]]:
    """Groups as datasets, attributes of the root, other items, and what could not be read."""
    from bayesrecon.posteriors.formats.hdf5 import dataset_of

    file = stack.enter_context(opened_file(path, trusted))
    result = description_of(file)
    names, described = result["groups"], result["contents"]
    if not trusted and not path.is_dir():
        stored = path.stat().st_size
        check_declared(path, sum(described[g]["size"] for g in names if g not in WIDE), stored)
        # Of wide groups some draws are read: what they declare has no limit but what their bytes could hold.
        wide = sum(described[g]["size"] for g in names if g in WIDE)
        check_declared(path, wide, stored, most=wide)
    inventory = file.inventory()
    entries = [entry_of_item(*item) for item in inventory["found"] if _place(item[0]) not in result.get("root", ())]
    unread = tuple(Unread(*item) for item in inventory["unread"])
    groups = {g: stack.enter_context(dataset_of(file, described[g], g not in WIDE)) for g in names}
    loaded = {g: dataset if g in WIDE else dataset.load() for g, dataset in groups.items()}
    return loaded, result["attributes"], entries, unread


def _place(where: str) -> str:
    """The item at the root that an item of the inventory is, or belongs to."""
    return where.removeprefix("@").partition("@")[0]


def _of_object(source: object) -> list[Entry]:
    """Arrays at the root and groups within groups of a DataTree."""
    result = []
    for key, variable in dict(getattr(source, "variables", None) or {}).items():
        result += [Entry(str(key), "name", str(key)), Entry(str(key), "array", np.asarray(variable.values))]
    for node in getattr(source, "subtree", ()):
        place = str(node.path).strip("/")
        if "/" not in place:
            continue
        result.append(Entry(place, "name", place.rpartition("/")[2]))
        result += [Entry(f"@{place}/{k}", "attribute", v) for k, v in node.attrs.items()]
        for key, variable in node.dataset.variables.items():
            result += [Entry(f"{place}/{key}", "name", str(key))]
            result += [Entry(f"{place}/{key}", "array", np.asarray(variable.values))]
            result += [Entry(f"@{place}/{key}@{k}", "attribute", v) for k, v in variable.attrs.items()]
    return result


def _contents(groups: "Mapping[str, Group]", root: Mapping[str, object], name: str, form: str) -> Contents:
    draws, chains, length, sign = None, 1, 1, ""
    if "posterior" in groups:
        dataset = groups["posterior"]
        counted = {*map(str, dataset.dims), *map(str, dataset.coords), *map(str, groups.get("sample_stats", ()))}
        sign = "chain and draw" if {"chain", "draw"} <= counted else sign_of(counted)
        with reading(name, "draws"):
            draws = convert(groups["posterior"], groups.get("sample_stats"), root, name)
        chains, length = draws.chains, draws.length
    variables, coordinates, entries = [], {}, []
    attributes: Json = {f"/{k}": text_of(v) for k, v in dict(root).items()}
    wide = sum(_per_draw_size(v) for g in WIDE if g in groups for v in variables_of(groups[g]).values())
    drawn = {g: one_chain(dataset) if g in _DRAWN else dataset for g, dataset in groups.items()}
    step = stride(chains * length, wide)
    for group, dataset in groups.items():
        attributes |= {f"{group}/{k}": text_of(v) for k, v in dataset.attrs.items()}
        for key in dataset.coords:
            coordinate = dataset.variables[key]
            coordinates[f"{group}/{key}"] = valid_text(np.asarray(coordinate.values))
            attributes |= {f"{group}/{key}@{k}": text_of(v) for k, v in _attributes(coordinate).items()}
        entries += [Entry(f"{group}/{key}", "name", str(key)) for key in dict.fromkeys(map(str, dataset.dims))]
        for key, variable in variables_of(drawn[group]).items():
            attributes |= {f"{group}/{key}@{k}": text_of(v) for k, v in _attributes(variable).items()}
            variables.append(_variable(group, str(key), variable, (chains, length), step))
    rows = wide_rows(chains, length, step)
    return Contents(
        name, form, (), tuple(variables), coordinates, attributes, (), draws, rows, entries=tuple(entries), sign=sign
    )


def _attributes(variable: "xr.Variable") -> dict[str, object]:
    """Attributes as they stand in the file."""
    return {k: v for k, v in variable.encoding.items() if k in _ENCODED} | dict(variable.attrs)


def _variable(group: str, key: str, variable: "xr.Variable", leading: tuple[int, int], step: int) -> Variable:
    per_draw = {"chain", "draw"} <= set(variable.dims) and not group.startswith(("warmup_", "prior"))
    if per_draw:
        variable = variable.transpose("chain", "draw", ...)
        per_draw = variable.shape[:2] == leading
    attributes = {str(k): text_of(v) for k, v in variable.attrs.items()}

    taken = variable.isel(draw=slice(None, None, step)) if per_draw and group in WIDE else variable
    values = valid_text(np.asarray(taken.values))
    if not is_numeric(values.dtype):
        values, per_draw = _texts(values.ravel()[:_MOST_TEXT]), False
    else:
        values = values.astype(float, copy=False)
        values = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:]) if per_draw else values
    shape = tuple(variable.shape[2:] if per_draw else variable.shape)
    dimensions = tuple(map(str, variable.dims[2:] if per_draw else variable.dims))
    return Variable(group, key, shape, per_draw, values, attributes, dimensions)


def _texts(values: np.ndarray) -> np.ndarray:
    """Texts as an array of fixed width, whose size one long text must not blow up."""
    width = max(_SHORT, _MOST_LETTERS // max(len(values), 1))
    return np.array([str(text)[:width] for text in values], str)


def _per_draw_size(variable: "xr.Variable") -> int:
    sizes = [n for d, n in zip(variable.dims, variable.shape, strict=True) if d not in ("chain", "draw", "sample")]
    return int(np.prod(sizes, dtype=int))


def _names(source: object) -> Iterator[str]:
    """Names of groups of an InferenceData (a method), or paths of groups of a DataTree (a property)."""
    groups = getattr(source, "groups", ())
    groups = groups() if callable(groups) else groups
    yield from (g for g in groups if str(g).strip("/") and "/" not in str(g).strip("/"))


def _dataset(source: object, group: str) -> "xr.Dataset":
    dataset = source[group]  # pyright: ignore[reportIndexIssue]
    return dataset.to_dataset() if hasattr(dataset, "to_dataset") and not hasattr(dataset, "to_array") else dataset


def _holds(source: object) -> bool:
    return hasattr(source, "posterior") or hasattr(source, "data_vars") or hasattr(source, "groups")


@contextmanager
def _unpacked(path: Path, trusted: bool) -> Generator[Path]:
    """The unpacked folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="bayesrecon-") as parent:
        folder = Path(parent, path.name.split(".")[0] + ".zarr")
        folder.mkdir()
        with reading(path, "a zip archive"):
            asked(unpack_folder, path, str(folder), trusted, trusted=trusted)
        inner = sorted(folder.iterdir())
        nested = len(inner) == 1 and inner[0].is_dir() and inner[0].suffix == ".zarr"  # zipped with its own name
        yield inner[0] if nested else folder


def read_zarr_zip(source: str | Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws as `read_arviz` reads them from the folder.

    Raises:
        BayesreconError: an archive that reaches out of its folder or holds more than it could, or what `read_arviz`
            refuses.
        MissingExtraError: zarr is not installed.
    """
    path = Path(source)
    with reading(path, "a zipped zarr folder"), _unpacked(path, trusted) as folder:
        return read_arviz(folder, name=name or path.name.split(".")[0], trusted=trusted)


def _zipped_contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    with reading(path, "a zipped zarr folder"), _unpacked(path, trusted) as folder:
        title = name or path.name.split(".")[0]
        result = read_arviz_contents(folder, name=title, progress=progress, trusted=trusted)
    return replace(result, format="zipped zarr", files=(stamp(path),))


_SUFFIXES = (".nc", ".netcdf", ".h5", ".hdf5")
FORMAT = (
    Format("netCDF", _SUFFIXES, read_arviz, read_arviz_contents, _holds, rank=90, guarded=True),
    Format("zarr", (".zarr",), read_arviz, read_arviz_contents, directory=True, guarded=True),
    Format("zipped zarr", (".zarr.zip",), read_zarr_zip, _zipped_contents, guarded=True),
)

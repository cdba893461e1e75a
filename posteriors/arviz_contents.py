"""All groups of an ArviZ file or object, read lazily."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.arviz import (
    convert,
    open_zarr,
    open_zarr_root,
    opened_hdf5,
    read_arviz,
    text_of,
    variables_of,
)
from bayesrecon.posteriors.contents import GROUPS, WIDE, Contents, Variable, stamp, stride, wide_rows
from bayesrecon.posteriors.draws import is_numeric, sound
from bayesrecon.posteriors.format import Format
from bayesrecon.types import Progress
from bayesrecon.untrusted.limits import check_declared

_MOST_TEXT = 100_000  # entries of a text array that are looked at
_SHORT, _MOST_LETTERS = 64, 2**24  # letters of each, and of all as an array


def read_arviz_contents(
    source: Any, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Every group of an InferenceData, a DataTree, a netCDF file or a zarr directory.

    Raises:
        BayesreconError: unreadable, or without any of ArviZ's groups.
    """
    if not isinstance(source, str | os.PathLike):
        groups = {str(g).strip("/"): _dataset(source, g) for g in _names(source)}
        return _contents(groups, getattr(source, "attrs", {}), name or "object", type(source).__name__, None)
    path = Path(source)
    title = name or path.stem
    form = "zarr" if path.is_dir() else "netCDF"
    with reading(path, f"a {form} {'directory' if path.is_dir() else 'file'}"), ExitStack() as stack:
        groups, root = _open(path, stack, trusted)
        if "posterior" not in groups:
            present = [g for g in groups if g.removeprefix("warmup_") in GROUPS]
            if not present:
                listed = f"its groups are {', '.join(list(groups)[:10])}" if groups else "it has no groups"
                raise BayesreconError(f"{path}: none of ArviZ's groups is in it ({listed}); is this a fit?")
        if progress is not None:
            progress("reading", 0.5)
        found = _contents(groups, root, title, form, path)
        return replace(found, files=(stamp(path),))


def _open(path: Path, stack: ExitStack, trusted: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    opened: Callable[[str], Any]
    if path.is_dir():
        names, root = open_zarr_root(path, trusted)
        opened = lambda g: open_zarr(path, g)  # noqa: E731
    else:
        file = stack.enter_context(opened_hdf5(path, trusted))
        from bayesrecon.posteriors.hdf5 import dataset_of

        found = file.describe()
        names, root, described = found["groups"], found["attributes"], found["contents"]
        if not trusted:
            stored = path.stat().st_size
            check_declared(path, sum(described[g]["size"] for g in names if g not in WIDE), stored)
            # Of wide groups some draws are read: what they declare has no limit but what their bytes could hold.
            wide = sum(described[g]["size"] for g in names if g in WIDE)
            check_declared(path, wide, stored, most=wide)
        opened = lambda g: dataset_of(file, described[g])  # noqa: E731
    groups = {g: stack.enter_context(opened(g)) for g in names}
    return {g: dataset if g in WIDE else dataset.load() for g, dataset in groups.items()}, root


def _contents(groups: dict[str, Any], root: Any, name: str, form: str, path: Path | None) -> Contents:
    draws, chains, length = None, 1, 1
    if "posterior" in groups:
        with reading(name, "draws"):
            draws = convert(groups["posterior"], groups.get("sample_stats"), root, name)
        chains, length = draws.chains, draws.length
    variables, coordinates = [], {}
    attributes: dict[str, Any] = {f"/{k}": text_of(v) for k, v in dict(root).items()}
    wide = sum(_per_draw_size(v) for g in WIDE if g in groups for v in variables_of(groups[g]).values())
    step = stride(chains * length, wide)
    for group, dataset in groups.items():
        attributes |= {f"{group}/{k}": text_of(v) for k, v in dataset.attrs.items()}
        for key, coordinate in dataset.coords.items():
            if key not in ("chain", "draw"):
                coordinates[f"{group}/{key}"] = sound(np.asarray(coordinate.values))
        for key, variable in variables_of(dataset).items():
            attributes |= {f"{group}/{key}@{k}": text_of(v) for k, v in variable.attrs.items()}
            variables.append(_variable(group, str(key), variable, (chains, length), step))
    rows = wide_rows(chains, length, step)
    return Contents(name, form, (), tuple(variables), coordinates, attributes, (), draws, rows)


def _variable(group: str, key: str, variable: Any, leading: tuple[int, int], step: int) -> Variable:
    per_draw = {"chain", "draw"} <= set(variable.dims) and not group.startswith(("warmup_", "prior"))
    if per_draw:
        variable = variable.transpose("chain", "draw", ...)
        per_draw = variable.shape[:2] == leading
    attributes = {str(k): text_of(v) for k, v in variable.attrs.items()}

    taken = variable.isel(draw=slice(None, None, step)) if per_draw and group in WIDE else variable
    values = sound(np.asarray(taken.values))
    if not is_numeric(values.dtype):
        values, per_draw = _texts(values.ravel()[:_MOST_TEXT]), False
    else:
        values = values.astype(float, copy=False)
        values = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:]) if per_draw else values
    shape = tuple(variable.shape[2:] if per_draw else variable.shape)
    return Variable(group, key, shape, per_draw, values, attributes)


def _texts(values: np.ndarray) -> np.ndarray:
    """As an array of equally wide texts, which one long text must not make huge."""
    width = max(_SHORT, _MOST_LETTERS // max(len(values), 1))
    return np.array([str(text)[:width] for text in values], str)


def _per_draw_size(variable: Any) -> int:
    sizes = [n for d, n in zip(variable.dims, variable.shape, strict=True) if d not in ("chain", "draw")]
    return int(np.prod(sizes, dtype=int))


def _names(source: Any) -> Iterator[str]:
    """Groups of an InferenceData (a method) or of a DataTree (a property with paths)."""
    groups = source.groups() if callable(getattr(source, "groups", None)) else getattr(source, "groups", ())
    yield from (g for g in groups if str(g).strip("/") and "/" not in str(g).strip("/"))


def _dataset(source: Any, group: str) -> Any:
    found = source[group]
    return found.to_dataset() if hasattr(found, "to_dataset") and not hasattr(found, "to_array") else found


def _holds(source: Any) -> bool:
    return hasattr(source, "posterior") or hasattr(source, "data_vars") or hasattr(source, "groups")


FORMAT = Format("netCDF", (".nc", ".netcdf", ".h5"), read_arviz, read_arviz_contents, _holds, rank=90, guarded=True)

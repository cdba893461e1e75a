"""Releases whose draws stay in a file, so that memory is bounded for any number of draws."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.errors import BayesreconError, beside, reading
from bayesrecon.json_types import Json
from bayesrecon.model import Model
from bayesrecon.posteriors.draws import Draws, assemble, check_names
from bayesrecon.posteriors.formats.arviz import (
    description_of,
    kind_of,
    log_density_of,
    one_chain,
    opened_file,
    variables_of,
)
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.posteriors.weights import weight_names
from bayesrecon.releases import PosteriorDraws
from bayesrecon.running.scratch import RowWriter, Scratch
from bayesrecon.untrusted.cmdstan_file import CmdStanFile, saved_warmup
from bayesrecon.untrusted.guarded import opened

if TYPE_CHECKING:
    import xarray as xr

    from bayesrecon.posteriors.formats.arviz import Group


_LARGE = 2**28  # bytes of files
_KINDS = {".nc", ".csv"}
_NUMBERS = 2**21  # of draws that are read at once


def from_file(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    model: Model,
    store: str | Path | None = None,
    *,
    name: str | None = None,
    trusted: bool = False,
) -> PosteriorDraws:
    """A release whose draws stay on disk, for files with any number of draws.

    The draws are read once in chunks, checked like in `from_draws`, and written to `store` in the model's unconstrained
    coordinates: an HDF5 file of shape `(T, d)`. All later computations read it in chunks, in any worker process. On a
    cluster it must be on a shared file system.

    Args:
        source: path of a netCDF file or zarr folder of ArviZ, or of CmdStan CSV files (one path, or one per chain).
        model: the model of the draws.
        store: path of the file to write. It must exist as long as the release is used. Defaults to a temporary file
            that is deleted with the release. TMPDIR sets its folder, which needs enough space.
        name: name for display.
        trusted: the netCDF file is your own and is read without limits.

    Raises:
        BayesreconError: the source cannot be read, `from_draws` refuses the draws, or the store exists already.

    >>> import numpy as np, xarray as xr
    >>> from bayesrecon.models import load
    >>> rng, dims = np.random.default_rng(0), ("chain", "draw", "k")
    >>> values = {"beta": (dims, rng.normal(size=(2, 50, 2))), "sigma": (dims[:2], rng.gamma(5, size=(2, 50)))}
    >>> xr.DataTree.from_dict({"posterior": xr.Dataset(values)}).to_netcdf("long.nc")
    >>> from_file("long.nc", load("kidscore_momiq"), "long.h5").size
    100
    """
    path = None if store is None else Path(store)
    if path is not None and path.exists():
        raise BayesreconError(f"{path} exists already; name another file for the draws, or remove it")
    if model.prepare is not None:
        raise BayesreconError(
            f"model {model.name} computes its coordinates from all draws at once; read the draws into memory"
        )
    paths = [Path(p) for p in ([source] if isinstance(source, str | os.PathLike) else source)]
    for file_path in paths:
        if not file_path.exists():
            raise BayesreconError(f"{file_path}: no such file{beside(file_path)}")
    try:
        return _written(_pieces(paths, model, trusted), model, path, name or paths[0].stem)
    except BaseException:
        if path is not None:
            path.unlink(missing_ok=True)
        raise


def release_of_large(source: object, model: Model, trusted: bool) -> PosteriorDraws | None:
    """A release whose draws stay on disk, if the source is files larger than `_LARGE`; else None."""
    if model.prepare is not None or not isinstance(source, str | os.PathLike | list | tuple):
        return None
    paths = [Path(p) for p in ([source] if isinstance(source, str | os.PathLike) else source)]
    if not all(path.is_dir() or path.suffix.lower() in _KINDS for path in paths):
        return None
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    large = sum(file.stat().st_size for file in files if file.is_file()) > _LARGE
    return from_file(source, model, trusted=trusted) if large else None


def _written(pieces: Iterator[tuple[int, Draws]], model: Model, path: Path | None, name: str) -> PosteriorDraws:
    chains: list[np.ndarray] = []
    density: list[np.ndarray] | None = []
    lost = total = 0
    rows = Scratch(model.dimension) if path is None else RowWriter(path, model.dimension)
    with closing(rows):
        for chain, piece in pieces:
            accepted, kept = accepted_draws(piece, model, name=name, ignore_unknown=True)
            rows.write(np.asarray(accepted.theta))
            chains.append(np.full(len(kept), chain))
            total += piece.length
            lost += piece.length - len(kept)
            if density is not None:
                density = None if accepted.log_density is None else [*density, np.asarray(accepted.log_density)]
    count = total - lost
    if count < 2:
        raise BayesreconError(f"{name}: {count} draw is too few; for a trained parameter use posteriors.dirac")
    notes = [f"{lost} of {total} draws lie on a boundary of the support and were dropped"] if lost else []
    return PosteriorDraws(
        theta=rows.done(),
        weights=np.full(count, 1.0 / count),
        chain=np.concatenate(chains),
        log_density=None if density is None else np.concatenate(density),
        model=model,
        name=name,
        notes=tuple(notes),
    )


def _pieces(paths: Sequence[Path], model: Model, trusted: bool) -> Iterator[tuple[int, Draws]]:
    """Successive draws of one chain after another, with its number from one."""
    if paths[0].suffix.lower() == ".csv":
        for number, path in enumerate(paths, 1):
            for piece in _csv_pieces(path, model, trusted):
                yield number, piece
    elif len(paths) > 1:
        raise BayesreconError(f"{paths[1]}: only CmdStan CSV files can be combined into one release")
    else:
        with reading(paths[0], kind_of(paths[0])), opened_file(paths[0], trusted) as file:
            from bayesrecon.posteriors.formats.hdf5 import dataset_of

            described = description_of(file, ["posterior", "sample_stats"])
            groups, contents = described["groups"], described["contents"]
            _check_groups(paths[0], groups)
            yield from _group_pieces(groups, lambda key: dataset_of(file, contents[key]), model, paths[0])


def _refuse_weights(path: Path, names: Iterable[str], parameters: Iterable[str]) -> None:
    if candidates := weight_names(names, parameters):
        raise BayesreconError(
            f"{path}: {candidates[0]} may be the weights of the draws, which cannot be read in blocks; remove it, or "
            "read the file into memory with posteriors.from_cmdstan or from_arviz"
        )


def _check_groups(path: Path, groups: Sequence[str]) -> None:
    if "posterior" not in groups:
        raise BayesreconError(f"{path}: there is no group 'posterior'")


def _group_pieces(
    groups: Sequence[str], opened: "Callable[[str], xr.Dataset]", model: Model, path: Path
) -> Iterator[tuple[int, Draws]]:
    with opened("posterior") as group:
        posterior = one_chain(group)
        if "sample_stats" not in groups:
            yield from _array_pieces(posterior, None, model, path)
            return
        with opened("sample_stats") as stats:
            yield from _array_pieces(posterior, one_chain(stats), model, path)


def _array_pieces(posterior: "Group", stats: "Group | None", model: Model, path: Path) -> Iterator[tuple[int, Draws]]:
    parameters = {p.name for p in model.parameters}
    _refuse_weights(path, map(str, variables_of(posterior)), parameters)
    variables = {str(k): v for k, v in variables_of(posterior).items() if str(k) in parameters}
    for key in parameters - set(variables):
        raise BayesreconError(f"{path}: the draws lack parameter {key} of model {model.name}")
    for key, variable in variables.items():
        if not {"chain", "draw"} <= set(variable.dims):
            raise BayesreconError(f"{path}: {key!r} has no dimensions chain and draw")
    chains, length = (next(iter(variables.values())).sizes[k] for k in ("chain", "draw"))
    density = log_density_of(posterior, stats, (chains, length))
    step = max(2, _NUMBERS // max(1, sum(v.size // (chains * length) for v in variables.values())))
    edges = np.linspace(0, length, -(-length // step) + 1).astype(int)  # pieces alike: none of one draw
    for chain in range(chains):
        for start, stop in pairwise(edges.tolist()):
            at = {"chain": slice(chain, chain + 1), "draw": slice(start, stop)}
            values = {
                k: np.asarray(v.isel(at).transpose("chain", "draw", ...).values, float) for k, v in variables.items()
            }
            log_density = None if density is None else density[chain : chain + 1, start:stop]
            yield chain + 1, Draws(values, log_density, path.stem)


def _csv_pieces(path: Path, model: Model, trusted: bool) -> Iterator[Draws]:
    parameters = {p.name for p in model.parameters}
    with reading(path, "a CmdStan CSV file"), opened(CmdStanFile, path, trusted) as file:
        settings, header = file.heading()
        base = [re.split(r"[.\[]", column, maxsplit=1)[0] for column in header]
        check_names(base, path)
        if file.is_cut(settings):
            raise BayesreconError(f"{path}: the last row is cut off (was the chain killed?); remove that row")
        columns = [k for k, name in enumerate(base) if name in parameters]
        if not columns:
            raise BayesreconError(f"{path}: it has no parameter of model {model.name}")
        _refuse_weights(path, base, parameters)
        parsed = [*columns, *([header.index("lp__")] if "lp__" in header else [])]
        exact = settings.get("algorithm") == "fixed_param"
        skip = 0 if exact else saved_warmup(path, settings)
        plan = {"columns": len(header), "narrow": parsed, "wide": [], "keep": 1, "step": 1, "skip": skip}
        for rows in _without_single_draws(_blocks(file, plan)):
            values = {header[k]: rows[None, :, place] for place, k in enumerate(columns)}
            density = rows[None, :, -1] if "lp__" in header and not exact else None
            yield Draws(assemble(values), density, path.stem)


def _blocks(file: CmdStanFile, plan: Json) -> Iterator[np.ndarray]:
    at: Json = {}
    while not at.get("end"):
        block = file.block(plan, at)
        at = block["at"]
        yield from np.array_split(block["narrow"], max(1, len(block["narrow"]) * plan["columns"] // _NUMBERS))


def _without_single_draws(pieces: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Blocks of rows in order, joined so that none has a single row unless that is all there is."""
    pending: list[np.ndarray] = []
    for rows in pieces:
        if pending and len(rows) > 1 and sum(map(len, pending)) > 1:
            yield np.concatenate(pending)
            pending = []
        pending.append(rows)
    if sum(map(len, pending)):
        yield np.concatenate(pending)


LARGE = release_of_large

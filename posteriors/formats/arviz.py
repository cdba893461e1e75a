"""Draws from ArviZ: an InferenceData, an xarray DataTree, or a netCDF or zarr file of either."""

import os
import re
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar

import numpy as np

from bayesrecon.errors import BayesreconError, beside, library, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.draws import Draws, assembled, is_numeric
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.hdf5 import HDF5File
from bayesrecon.untrusted.netcdf3_file import MAGIC, NetCDF3File
from bayesrecon.untrusted.size_limits import check_declared
from bayesrecon.untrusted.zarr_folder import ZarrFolder

if TYPE_CHECKING:
    import xarray as xr

    Group = xr.Dataset | xr.DataTree
    """Variables, of a Dataset or of a node of a DataTree."""

PREFIX = "bayesrecon_"
"""Of the attributes of a file that this package wrote."""

READ = {"posterior", "sample_stats"}
"""Groups that draws are read from."""

_OF_MCMCCHAINS = {"parameters": "posterior", "internals": "sample_stats"}
"""Groups of Julia's MCMCChains, and ArviZ's names of them."""

T = TypeVar("T")


def read_arviz(source: object, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws from the group `posterior`, and the log density from `sample_stats` where it is there.

    Args:
        source: an InferenceData, a DataTree, or the path of a netCDF file or zarr directory. Variables have
            the dimensions chain and draw, in any position; those that are not numeric are left out.
        name: for display; the file's name without its suffix unless given.
        trusted: read a netCDF file in this process, without limits on time and memory.

    Returns:
        Draws with arrays `(chains, draws, *shape)`. The log density is `lp`, or minus `potential_energy`.
        Attributes of the file and of its posterior that start with `bayesrecon_` are kept.

    Raises:
        BayesreconError: no such file, an unreadable one, no group `posterior`, or no numeric variables with
            chain and draw in it.
        MissingExtraError: a zarr directory, and zarr is not installed.

    Example:
        >>> import numpy as np, xarray as xr
        >>> mu = xr.Dataset({"mu": (("chain", "draw"), np.zeros((4, 100)))})
        >>> read_arviz(xr.DataTree.from_dict({"posterior": mu})).values["mu"].shape
        (4, 100)
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.exists():
            raise BayesreconError(f"{path}: no such file{beside(path)}")
        return _read_path(path, name or path.stem, trusted)
    posterior = _group(source, "posterior")
    if posterior is None and is_extract(source):
        return convert(source, None, source.attrs, name or "draws")
    if posterior is None:
        raise BayesreconError(f"a {type(source).__name__} without a group 'posterior' holds no draws")
    root = getattr(source, "attrs", None) or {}
    return convert(posterior, _group(source, "sample_stats"), root, name or "draws")


def is_extract(source: object) -> "TypeGuard[xr.Dataset]":
    """Whether this is a Dataset as `az.extract` returns it."""
    return _is_dataset(source) and one_chain(source) is not source


def _is_dataset(source: object) -> "TypeGuard[xr.Dataset]":
    return hasattr(source, "data_vars") and not hasattr(source, "children")


def _read_path(path: Path, name: str, trusted: bool) -> Draws:
    with reading(path, kind_of(path)), opened_file(path, trusted) as file:
        from bayesrecon.posteriors.formats.hdf5 import dataset_of

        description = description_of(file, sorted(READ))
        contents = description["contents"]
        root = {key: value for key, value in description["attributes"].items() if key.startswith(PREFIX)}
        if not trusted and path.is_file():
            check_declared(path, sum(group["size"] for group in contents.values()), path.stat().st_size)
        return _read_groups(path, name, description["groups"], root, lambda key: dataset_of(file, contents[key]))


def kind_of(path: Path) -> str:
    """What a file or folder of ArviZ is, for messages."""
    return "a zarr directory" if path.is_dir() else "a netCDF file"


@contextmanager
def opened_file(path: Path, trusted: bool = False) -> Generator[HDF5File | NetCDF3File | ZarrFolder]:
    """A zarr directory or a netCDF file of version 4, which is HDF5, or a classic one; closed afterwards.

    Raises:
        BayesreconError: what `bayesrecon.untrusted.zarr_folder.check_folder` refuses, and, unless it is trusted, more
            than it could hold.
        MissingExtraError: it is a zarr directory, and zarr is not installed.
    """
    if path.is_dir():
        library("zarr", "reading a zarr directory", "arviz")
        with opened(ZarrFolder, path, trusted) as folder:
            if not trusted:
                folder.check()
            yield folder
        return
    classic = False
    if path.is_file():
        with path.open("rb") as stream:
            classic = stream.read(len(MAGIC)) == MAGIC
    with opened(NetCDF3File, path, trusted) if classic else opened(HDF5File, path, trusted) as file:
        yield file


def description_of(file: HDF5File | NetCDF3File | ZarrFolder, groups: list[str] | None = None) -> Json:
    """The description of a file. If it has no groups, variables with draws at the root are its posterior.

    `az.extract(fit)` and `fit.posterior` are saved without groups. Julia's MCMCChains names its groups otherwise, and
    writes arrays `(chains, draws)` without names of dimensions.
    """
    result = file.describe(groups)
    names = result["groups"]
    if {*_OF_MCMCCHAINS} <= {*names} and "posterior" not in names:
        contents = {ours: _by_chain(file.describe_group(theirs)) for theirs, ours in _OF_MCMCCHAINS.items()}
        others = [name for name in names if name not in _OF_MCMCCHAINS]
        return {**result, "groups": [*contents, *others], "contents": {**result["contents"], **contents}}
    if names:
        return result
    root = file.describe_group("/")
    dimensions = {d for variable in root["variables"].values() for d in variable["dimensions"]}
    if "sample" not in dimensions and not {"chain", "draw"} <= dimensions:
        return result
    return {**result, "groups": ["posterior"], "contents": {"posterior": root}, "root": list(root["variables"])}


def _by_chain(group: Json) -> Json:
    """The description of a group whose arrays have no named dimensions, the first two of which are chain and draw."""
    named = {
        key: {**variable, "dimensions": ["chain", "draw", *variable["dimensions"][2:]]}
        for key, variable in group["variables"].items()
        if len(variable["shape"]) >= 2
    }
    return {**group, "variables": named}


def _read_groups(path: Path, name: str, groups: list[str], root: Json, open_: "Callable[[str], xr.Dataset]") -> Draws:
    if "posterior" not in groups:
        available = f"its groups are {', '.join(groups[:10])}" if groups else "it has no groups"
        raise BayesreconError(f"{path}: there is no group 'posterior' ({available})")
    with open_("posterior") as posterior:
        if "sample_stats" not in groups:
            return convert(posterior, None, root, name)
        with open_("sample_stats") as stats:
            return convert(posterior, stats, root, name)


def variables_of(dataset: "Group") -> "dict[Hashable, xr.Variable]":
    """Data variables by name, without coordinates, which xarray collects slowly for many variables."""
    return {key: dataset.variables[key] for key in dataset.data_vars}


def one_chain(dataset: "Group") -> "Group":
    """The dataset with dimensions chain and draw, if its draws lie along `sample`, as those of `az.extract` do.

    Other datasets are returned unchanged.

    >>> import xarray as xr
    >>> draws = one_chain(xr.Dataset({"mu": ("sample", np.zeros(100))}))
    >>> draws["mu"].dims, draws["mu"].shape
    (('chain', 'draw'), (1, 100))
    """
    dimensions = {d for variable in variables_of(dataset).values() for d in variable.dims}
    if "sample" not in dimensions or dimensions & {"chain", "draw"}:
        return dataset
    dataset = dataset.to_dataset() if hasattr(dataset, "children") else dataset
    along = [key for key in dataset.coords if "sample" in dataset.variables[key].dims]
    return dataset.drop_vars(along).rename_dims(sample="draw").expand_dims("chain")


def text_of(value: T) -> T | str:
    """The value, decoded if it is bytes: the netCDF C library stores text as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _group(source: object, key: str) -> "Group | None":
    """The group of this name, or None."""
    try:
        group = source[key]  # pyright: ignore[reportIndexIssue]
    except (KeyError, TypeError):
        group = getattr(source, key, None)
    return group if hasattr(group, "data_vars") else None


def convert(posterior: "Group", stats: "Group | None", root: Mapping[str, object], name: str) -> Draws:
    """Draws of the group `posterior`, with attributes of the root and the log density in `sample_stats`."""
    posterior, stats = one_chain(posterior), None if stats is None else one_chain(stats)
    variables = {str(key): value for key, value in variables_of(posterior).items() if is_numeric(value.dtype)}
    if not variables:
        raise BayesreconError(f"{name}: the group 'posterior' has no numeric variables")
    for key, variable in variables.items():
        if not {"chain", "draw"} <= set(variable.dims):
            dims = ", ".join(map(str, variable.dims))
            raise BayesreconError(f"{name}: {key!r} has the dimensions ({dims}); chain and draw are needed")
    values = {key: _array(variable) for key, variable in variables.items()}
    if any("[" in key for key in values):  # Julia writes every entry of a vector by itself
        entries = {key: value for key, value in values.items() if value.ndim == 2}
        values = {**{k: v for k, v in values.items() if k not in entries}, **assembled(entries)}
    attributes = {
        str(key): str(value)
        for attrs in (root, posterior.attrs)
        for key, value in attrs.items()
        if str(key).startswith(PREFIX) and isinstance(value, str)
    }
    leading = next(iter(values.values())).shape[:2]
    return Draws(values, log_density_of(posterior, stats, leading), name, attributes)


def _array(variable: "xr.Variable | xr.DataArray") -> np.ndarray:
    return np.asarray(variable.transpose("chain", "draw", ...).values, np.float64)


def log_density_of(posterior: "Group", stats: "Group | None", leading: tuple[int, ...]) -> np.ndarray | None:
    """`lp` or minus `potential_energy`, `(chains, draws)`. None if there is neither, or its shape is not `leading`."""
    if stats is None:
        return None
    for key in ("lp", "potential_energy"):
        variable = stats.data_vars.get(key)
        if variable is None or set(variable.dims) != {"chain", "draw"} or not is_numeric(variable.dtype):
            continue
        if variable.transpose("chain", "draw").shape == leading:
            negative = key == "potential_energy" or _is_energy({**posterior.attrs, **stats.attrs})
            return -_array(variable) if negative else _array(variable)
    return None


def _is_energy(attrs: Mapping[Hashable, object]) -> bool:
    """Whether `lp` holds NumPyro's potential energy with its own sign.

    ArviZ before 0.23 and arviz-base before 1.3 renamed it without negating it (arviz issue 2468, arviz-base
    pull request 207); files keep the name of the sampler and the version of the writer.
    """
    if attrs.get("inference_library") != "numpyro":
        return False
    for key, fixed in (("arviz_version", (0, 23)), ("creation_library_version", (1, 3))):
        if match := re.match(r"([0-9]{1,4})\.([0-9]{1,4})", str(attrs.get(key, ""))):
            return (int(match[1]), int(match[2])) < fixed
    return False

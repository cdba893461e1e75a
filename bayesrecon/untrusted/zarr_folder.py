"""A zarr folder as plain descriptions and arrays, after its metadata were checked.

It has the interface of `bayesrecon.untrusted.hdf5.HDF5File`.
"""

import base64
import struct
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_values import Inventory, Key, text_of
from bayesrecon.untrusted.size_limits import check_declared
from bayesrecon.untrusted.zarr_inventory import zarr_inventory
from bayesrecon.untrusted.zarr_metadata import check_folder

if TYPE_CHECKING:
    import zarr

_DIMENSIONS = "_ARRAY_DIMENSIONS"  # where zarr 2 keeps their names, as xarray writes it
_NUMBERS, _TEXTS = "biufc", "OTUS"  # kinds of NumPy's types that are read as arrays of groups

_FREE_CHUNKS, _CHUNKS_A_FILE = 10_000, 10  # those that are not there are looked for all the same
_BYTES_A_CHUNK = 256  # of those within shards, which take zarr about 0.1 ms each


class ZarrFolder:
    """An open folder.

    Raises:
        BayesreconError: what `bayesrecon.untrusted.zarr_metadata.check_folder` refuses.

    >>> import zarr
    >>> group = zarr.create_group("fit.zarr", path="posterior", zarr_format=2)
    >>> group["mu"] = np.array([[1.0, 2.0]])
    >>> folder = ZarrFolder(Path("fit.zarr"))
    >>> folder.describe()["contents"]["posterior"]["variables"]["mu"]["shape"]
    [1, 2]
    """

    def __init__(self, path: Path) -> None:
        self._path, self._declared = path, check_folder(path)
        import zarr

        with _files_beside():
            # Metadata that were gathered may be stale or absent; a folder on disk is quick to walk.
            self._root = zarr.open_group(str(path), mode="r", use_consolidated=False)
        self._arrays: dict[str, dict[str, zarr.Array[Any]]] = {}  # of groups that were looked at

    def close(self) -> None:
        """Do nothing: the file is opened for each call."""

    def check(self) -> None:
        """Raise an error if far more is declared than the folder holds. Each chunk takes time, even a missing one.

        Raises:
            BayesreconError: arrays or chunks beyond any measure.
        """
        found = self._declared
        check_declared(self._path, found.arrays, found.stored)
        if found.chunks > max(_FREE_CHUNKS, _CHUNKS_A_FILE * found.files):
            raise BayesreconError(f"{self._path}: declares {found.chunks:.1e} chunks in {found.files} files, refused")
        if found.inner > max(_FREE_CHUNKS, found.stored // _BYTES_A_CHUNK):
            raise BayesreconError(
                f"{self._path}: declares {found.inner:.1e} chunks within shards in {found.stored / 2**20:.1f} MiB, "
                "refused; save it anew with larger chunks"
            )

    def describe(self, groups: Sequence[str] | None = None) -> Json:
        """The contents of the folder, without the values (`HDF5File.describe`)."""
        with _files_beside():
            names = sorted(map(str, self._root.group_keys()))
            wanted = names if groups is None else [name for name in names if name in groups]
            contents = {name: self.describe_group(name) for name in wanted}
        return {"attributes": dict(self._root.attrs), "groups": names, "contents": contents}

    def describe_group(self, name: str) -> Json:
        """One group, as in `describe`; the root is "/"."""
        name = name.strip("/")
        with _files_beside():
            arrays = {key: item for key, item in sorted(self._arrays_of(name).items()) if is_readable(item.dtype)}
        variables = {key: _variable(f"{name}/{key}", item) for key, item in arrays.items()}
        return {"attributes": dict(self._group(name).attrs), "variables": variables}

    def _group(self, name: str) -> "zarr.Group":
        import zarr

        group = self._root[name] if name else self._root
        assert isinstance(group, zarr.Group)
        return group

    def _arrays_of(self, name: str) -> "dict[str, zarr.Array[Any]]":
        if name not in self._arrays:
            self._arrays[name] = dict(self._group(name).arrays())
        return self._arrays[name]

    def inventory(self) -> Inventory:
        """Everything that `describe` omits (`bayesrecon.untrusted.zarr_inventory`)."""
        with _files_beside():
            arrays = {name: self._arrays_of(name) for name in map(str, self._root.group_keys())}
            odd = {f"{g}/{key}" for g, items in arrays.items() for key, a in items.items() if not is_readable(a.dtype)}
            return zarr_inventory(self._path, odd)

    def read(self, name: str, key: Key) -> np.ndarray:
        """Values of the array with this name. Text is an array of objects."""
        with _files_beside():
            group, _, key_in_group = name.partition("/")
            item = self._arrays_of(group)[key_in_group]
            values = np.asarray(item[tuple(key)] if item.ndim else item[()])
        if values.dtype.kind not in "OT":
            return values
        texts = np.empty(values.shape, object)
        texts.ravel()[:] = [text_of(one) for one in values.ravel()]
        return texts


def is_readable(dtype: np.dtype) -> bool:
    """Whether an array contains numbers or texts."""
    return dtype.kind in _NUMBERS + _TEXTS


def _variable(name: str, item: "zarr.Array[Any]") -> Json:
    attributes: dict[str, object] = dict(item.attrs)
    fill = None
    named = getattr(item.metadata, "dimension_names", None)
    if item.metadata.zarr_format == 2:  # where what is filled in stands for missing values, as in netCDF
        named, fill = attributes.pop(_DIMENSIONS, None), item.fill_value
        attributes = {key: value for key, value in attributes.items() if not key.lower().startswith("_nc")}
    elif "_FillValue" in attributes:
        fill = _fill(attributes.pop("_FillValue"), item.dtype)
    if fill is not None and item.dtype.kind in _NUMBERS:
        attributes["_FillValue"] = np.asarray(fill, item.dtype)[()]
    named = named if isinstance(named, list | tuple) and len(named) == item.ndim else [None] * item.ndim
    return {
        "name": name,
        "shape": list(item.shape),
        "dtype": None if item.dtype.kind in "OT" else item.dtype.str,
        "dimensions": [str(one) if one else f"dim_{k}" for k, one in enumerate(named)],
        "attributes": attributes,
    }


def _fill(value: object, dtype: np.dtype) -> object:
    """A fill value as xarray writes it to zarr 3: eight bytes in base 64 for a float."""
    if dtype.kind == "f" and isinstance(value, str):
        return struct.unpack("<d", base64.standard_b64decode(value))[0]
    return value if dtype.kind in "biuf" and isinstance(value, bool | int | float) else None


@contextmanager
def _files_beside() -> Generator[None, None, None]:
    """Suppress warnings about files that are not part of zarr, since an audit lists them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Object at .* is not recognized")
        yield

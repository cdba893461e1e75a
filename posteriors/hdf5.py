"""Groups of a netCDF-4 file as lazy xarray datasets, in time linear in the number of variables.

The usual backends look dimensions up by name for every variable, which takes minutes for a file of thousands; here each
is looked up once, by its address.
"""

from typing import Any

import h5py
import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

# What the formats below (HDF5's dimension scales, netCDF-4) keep for themselves.
_INTERNAL = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_NCProperties", "_nc3_strict"}
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
_RENAMED = "_nc4_non_coord_"  # a variable that bears the name of a dimension it does not belong to


def group_names(file: Any) -> list[str]:
    """The groups at the root of an open file."""
    return [str(key) for key in file if file.get(key, getclass=True) is h5py.Group]


def size_of(group: Any) -> int:
    """Numbers that the arrays of a group declare."""
    return sum(item.size or 0 for item in group.values() if isinstance(item, h5py.Dataset))


def open_group(group: Any) -> xr.Dataset:
    """The variables of an HDF5 group, not yet read; times are left as the numbers they are.

    Args:
        group: an open `h5py.Group`, which must stay open as long as the dataset is read.

    Returns:
        a Dataset with fill values, scales and offsets decoded. A variable without named dimensions gets
        `dim_0`, `dim_1`, ...; what is neither a number nor text is left out.
    """
    names = _scales(group)
    variables = {}
    for key, item in group.items():
        if isinstance(item, h5py.Dataset) and _is_variable(item) and _is_readable(item):
            array = indexing.LazilyIndexedArray(_Array(item))
            variables[key.removeprefix(_RENAMED)] = xr.Variable(_dimensions(item, names), array, attributes(item))
    dataset = xr.Dataset(variables, attrs=attributes(group))
    return xr.decode_cf(dataset, decode_times=False, decode_timedelta=False)


def attributes(item: Any) -> dict[str, Any]:
    """Attributes of a group or dataset that are not part of the file format."""
    found = {}
    for key in item.attrs:
        if key not in _INTERNAL and not key.startswith(("_Netcdf4", "_nc4_")):
            value = item.attrs[key]
            if isinstance(value, h5py.Empty):
                value = ""
            elif isinstance(value, np.ndarray) and value.size == 1:
                value = value.reshape(-1)[0]
            found[key] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return found


def _scales(group: Any) -> dict[int, str]:
    """Names of the dimensions that the group and its parents declare, by address."""
    names: dict[int, str] = {}
    while True:
        for key, item in group.items():
            if isinstance(item, h5py.Dataset) and item.attrs.get("CLASS") == b"DIMENSION_SCALE":
                names[_address(item)] = key.removeprefix(_RENAMED)
        if group.name == "/":
            return names
        group = group.parent


def _address(item: Any) -> int:
    return h5py.h5o.get_info(item.id).addr  # pyright: ignore[reportAttributeAccessIssue]


def _is_variable(item: Any) -> bool:
    name = item.attrs.get("NAME", b"")
    return not (isinstance(name, bytes) and name.startswith(_NO_VARIABLE))


def _is_readable(item: Any) -> bool:
    return item.shape is not None and (item.dtype.kind in "biufcSU" or h5py.check_string_dtype(item.dtype) is not None)


def _dimensions(item: Any, names: dict[int, str]) -> tuple[str, ...]:
    if "DIMENSION_LIST" in item.attrs:
        listed = [group[0] if len(group) else None for group in item.attrs["DIMENSION_LIST"]]
        found = [names.get(_address(item.file[ref])) if ref else None for ref in listed]
    else:  # a scale lies along itself
        found = [names.get(_address(item))] if item.ndim == 1 else [None] * item.ndim
    return tuple(name or f"dim_{k}" for k, name in enumerate(found))


class _Array(BackendArray):
    """An HDF5 dataset that xarray reads when it is indexed."""

    def __init__(self, item: Any) -> None:
        text = h5py.check_string_dtype(item.dtype)
        self._text = text is not None and text.length is None
        self._item = item
        self.shape = item.shape
        self.dtype = np.dtype(object) if self._text else item.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read)

    def _read(self, key: Any) -> Any:
        return self._item.asstr(errors="replace")[key] if self._text else self._item[key]

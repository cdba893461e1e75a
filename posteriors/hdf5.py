"""Groups of a netCDF-4 file as lazy xarray datasets, in time linear in the number of variables.

The usual backends look dimensions up by name for every variable, which takes minutes for a file of thousands; here each
is looked up once, by its address.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing


class Source(Protocol):
    """What reads arrays of an HDF5 file: `bayesrecon.untrusted.hdf5.HDF5File`, here or in another process."""

    def read(self, name: str, key: tuple[Any, ...]) -> np.ndarray:
        """Values of an array, by its name in the file."""
        ...


def dataset_of(source: Source, description: Mapping[str, Any]) -> xr.Dataset:
    """The variables of an HDF5 group, not yet read; times are left as the numbers they are.

    Args:
        source: must stay open as long as the dataset is read.
        description: of the group, from `HDF5File.describe`.

    Returns:
        a Dataset with fill values, scales and offsets decoded. A variable without named dimensions gets
        `dim_0`, `dim_1`, ...; what is neither a number nor text is left out.
    """
    variables = {}
    for key, one in description["variables"].items():
        array = indexing.LazilyIndexedArray(_Array(source, one))
        variables[key] = xr.Variable(tuple(one["dimensions"]), array, one["attributes"])
    dataset = xr.Dataset(variables, attrs=description["attributes"])
    return xr.decode_cf(dataset, decode_times=False, decode_timedelta=False)


class _Array(BackendArray):
    """An HDF5 dataset that xarray reads when it is indexed."""

    def __init__(self, source: Source, description: Mapping[str, Any]) -> None:
        self._source, self._name = source, description["name"]
        self.shape = tuple(description["shape"])
        self.dtype = np.dtype(description["dtype"] or object)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return self._source.read(self._name, key)

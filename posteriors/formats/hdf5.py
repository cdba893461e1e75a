"""Groups of a netCDF-4 file as lazy xarray datasets, in time linear in the number of variables.

The usual backends look dimensions up by name for every variable, which takes minutes for a file of thousands; here each
is looked up once, by its address.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core.indexing import ExplicitIndexer, LazilyIndexedArray

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_values import ArrayReader

_LARGE, _SMALL = 2**25, 2**20
"""Bytes of an array that are read at once, and of one that is read together with others."""


def dataset_of(source: ArrayReader, description: Json, whole: bool = False) -> xr.Dataset:
    """The variables of an HDF5 group; times are left as the numbers they are.

    Args:
        source: the open file. It must stay open as long as the dataset is read.
        description: a group of `HDF5File.describe`.
        whole: whether small arrays are read now, because all will be. Others are read when they are indexed.

    Returns:
        A Dataset with fill values, scales and offsets decoded. A variable without named dimensions gets
        `dim_0`, `dim_1`, ...; what is neither a number nor text is left out.
    """
    described = description["variables"]
    values = dict(_small(source, described.values())) if whole else {}
    variables = {key: _variable(source, one, values.get(one["name"])) for key, one in described.items()}
    dataset = xr.Dataset(variables, attrs=description["attributes"])
    if all(not v.attrs and v.dtype.kind in "biuf" for v in variables.values()) and not dataset.attrs:
        return dataset  # decoding takes long if there are thousands
    return xr.decode_cf(dataset, decode_times=False, decode_timedelta=False)


def _small(source: ArrayReader, described: Iterable[Json]) -> Iterator[tuple[str, np.ndarray]]:
    """Names and values of small arrays of numbers, read some hundreds at a time."""
    names, size = list[str](), 0
    for one in described:
        taken = math.prod(one["shape"]) * np.dtype(one["dtype"] or object).itemsize
        if one["dtype"] is not None and taken <= _SMALL:
            if size + taken > _LARGE:
                yield from zip(names, source.read_whole(names), strict=True)
                names, size = [], 0
            names.append(one["name"])
            size += taken
    yield from zip(names, source.read_whole(names), strict=True) if names else ()


def _variable(source: ArrayReader, description: Json, values: np.ndarray | None) -> xr.Variable:
    """A variable with its values, or not yet read. What is missing is NaN already where NaN stands for it."""
    attributes = dict(description["attributes"])
    fill, encoding = attributes.get("_FillValue"), {}
    if isinstance(fill, float | np.floating) and np.isnan(fill) and "missing_value" not in attributes:
        encoding = {"_FillValue": attributes.pop("_FillValue")}
    # A part of a part is read in one go.
    data = LazilyIndexedArray(_Array(source, description)) if values is None else values
    return xr.Variable(tuple(description["dimensions"]), data, attributes, encoding)


class _Array(BackendArray):
    """An HDF5 dataset that xarray reads when it is indexed: by integers, slices and a vector, or, once its dimensions
    were exchanged, by open grids."""

    def __init__(self, source: ArrayReader, description: Json) -> None:
        self._source, self._name = source, description["name"]
        self.shape = tuple(description["shape"])
        self.dtype = np.dtype(description["dtype"] or object)

    def __getitem__(self, key: ExplicitIndexer) -> np.ndarray:
        arrays = [k for k in key.tuple if isinstance(k, np.ndarray)]
        if len(arrays) > 1 and max(k.ndim for k in arrays) == 1:  # a grid or points: the key does not say which
            raise BayesreconError(f"{self._name}: index at most one dimension by a list, or load() the array first")
        parts = [_part(k, size) for k, size in zip(key.tuple, self.shape, strict=True)]
        values = self._read(tuple(read for read, _ in parts))
        return values[tuple(index for read, index in parts if isinstance(read, slice))]

    def _read(self, key: tuple[slice | int, ...]) -> np.ndarray:
        """The values, of large arrays in parts, so that the reader's process has but one of them."""
        chosen = [range(*k.indices(n)) if isinstance(k, slice) else k for k, n in zip(key, self.shape, strict=True)]
        shape = tuple(len(k) for k in chosen if isinstance(k, range))
        size, axis = int(np.prod(shape, dtype=float)) * self.dtype.itemsize, int(np.argmax(shape)) if shape else 0
        if self.dtype.kind == "O" or size <= _LARGE or not shape:
            return self._source.read(self._name, key)
        values, place = np.empty(shape, self.dtype), [i for i, k in enumerate(chosen) if isinstance(k, range)][axis]
        step = max(1, shape[axis] * _LARGE // size)
        for begin in range(0, shape[axis], step):
            some = chosen[place][begin : begin + step]  # type: ignore[index]
            within = slice(some.start, some.stop, some.step)
            values[(slice(None),) * axis + (slice(begin, begin + step),)] = self._source.read(
                self._name, (*key[:place], within, *key[place + 1 :])
            )
        return values


def _part(key: slice | int | np.integer | np.ndarray, size: int) -> tuple[slice | int, slice | np.ndarray | None]:
    """The increasing integer or slice to read along one dimension, and the index of the requested part in it."""
    if isinstance(key, np.ndarray):
        if not key.size:
            return slice(0, 0), key
        low, high = int(key.min()), int(key.max())
        step = int(np.gcd.reduce(np.diff(np.unique(key)))) or 1  # draws that are left out are not read
        return slice(low, high + 1, step), (key - low) // step
    if not isinstance(key, slice):
        return int(key), None
    chosen = range(*key.indices(size))
    if not chosen:
        return slice(0, 0), slice(None)
    up = chosen if chosen.step > 0 else chosen[::-1]
    return slice(up.start, up.stop, up.step), slice(None) if up is chosen else slice(None, None, -1)

"""A classic netCDF file as plain descriptions and arrays, with the bytes that neither of these uses.

The format is that of the netCDF library's versions before 4 (CDF-1), with large offsets (CDF-2) or large sizes (CDF-5);
xarray writes it where SciPy is the only engine, and R's `ncdf4` unless it is told otherwise. Source: the grammar in
"NetCDF Classic Format Specification", Unidata.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_values import ArrayReader, Found, Inventory, Key

MAGIC = b"CDF"
_VERSIONS = {1: 4, 2: 4, 5: 8}  # bytes of a count, by version
_OFFSETS = {1: 4, 2: 8, 5: 8}  # bytes of an offset, by version
_DIMENSION, _VARIABLE, _ATTRIBUTE, _ABSENT = 10, 11, 12, 0
_TYPES = dict(enumerate(("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8"), 1))
_FILLS = {"i1": b"\x81", ">i2": b"\x80\x01", "u1": b"\xff", ">u2": b"\xff\xff"}  # what the library pads arrays with
_ENCODING, _UTF8 = "_Encoding", "utf-8"  # name of the attribute with a text's encoding, and its default
_MOST_BYTES = 2**16  # largest number of unused bytes that are kept from one gap


@dataclass(frozen=True)
class Variable:
    """One array of the file.

    Attributes:
        dimensions, shape: names and sizes of the dimensions; for text, the last one is the characters of a string.
        dtype: data type in the file.
        begin: position of the first value in the file, in bytes.
        step: distance of two records, in bytes; 0 for an array in one piece.
        attributes: attributes of the array.
    """

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    begin: int
    step: int
    attributes: dict[str, object]

    @property
    def text(self) -> bool:
        """Whether it contains characters, which are joined to strings along the last dimension."""
        return self.dtype.kind == "S" and bool(self.shape)

    @property
    def piece(self) -> int:
        """Size of a contiguous piece, in bytes: one record, or the whole array."""
        return math.prod(self.shape[1:] if self.step else self.shape) * self.dtype.itemsize


class NetCDF3File(ArrayReader):
    """An open file with the interface of `bayesrecon.untrusted.hdf5.HDF5File`.

    Raises:
        BayesreconError: the file is not a classic netCDF file, or it is truncated.

    >>> import xarray as xr
    >>> _ = xr.Dataset({"mu": (("chain", "draw"), [[1.0, 2.0]])}).to_netcdf("classic.nc", engine="scipy")
    >>> file = NetCDF3File(Path("classic.nc"))
    >>> file.describe_group("/")["variables"]["mu"]["dimensions"], file.read("mu", (0, slice(None)))
    (['chain', 'draw'], array([1., 2.]))
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        self._used: list[tuple[int, int]] = []
        self._at = 0
        self._header()

    def close(self) -> None:
        """Close the file."""
        del self._bytes

    def describe(self, groups: Sequence[str] | None = None) -> Json:
        """Attributes of the file. The format has no groups: all arrays are at the root, "/"."""
        return {"attributes": self._attributes, "groups": [], "contents": {}}

    def describe_group(self, name: str) -> Json:
        """The description of all arrays, as in `HDF5File.describe`."""
        described = {}
        for key, variable in self._variables.items():
            cut = slice(-1) if variable.text else slice(None)
            described[key] = {
                "name": key,
                "shape": list(variable.shape[cut]),
                "dtype": None if variable.dtype.kind == "S" else variable.dtype.newbyteorder("=").str,
                "dimensions": list(variable.dimensions[cut]),
                # Texts are decoded here, so xarray must not do it again.
                "attributes": {
                    k: v for k, v in variable.attributes.items() if k != _ENCODING or variable.dtype.kind != "S"
                },
            }
        size = sum(math.prod(variable.shape) * 8 for variable in self._variables.values())
        return {"attributes": self._attributes, "variables": described, "size": size}

    def inventory(self) -> Inventory:
        """Everything else in the file: names of dimensions that no array has, and unused bytes."""
        along = {d for variable in self._variables.values() for d in variable.dimensions}
        items: list[Found] = [(d, "name", d) for d, _ in self._sizes if d not in along]
        for name, variable in self._variables.items():
            if variable.dtype.kind == "S" and (encoding := variable.attributes.get(_ENCODING, _UTF8)) != _UTF8:
                items.append((f"encoding of the text {name}", "text", str(encoding)))
        unused = self._unused()
        unread = [(where, f"{len(values)} bytes that nothing in the file accounts for") for where, _, values in unused]
        return {"found": [*items, *unused], "unread": unread}

    def read(self, name: str, key: Key) -> np.ndarray:
        """Values of the array with this name. Text is an array of objects."""
        variable = self._variables[name]
        if variable.step:
            starts = variable.begin + variable.step * np.arange(variable.shape[0])
            stored = np.stack([self._bytes[a : a + variable.piece] for a in starts]) if len(starts) else self._bytes[:0]
        else:
            stored = self._bytes[variable.begin : variable.begin + variable.piece]
        values = np.ascontiguousarray(stored).reshape(-1).view(variable.dtype).reshape(variable.shape)
        if variable.dtype.kind != "S":
            return np.asarray(values[tuple(key)], variable.dtype.newbyteorder("="))
        joined = _joined(values) if variable.text else values
        return np.asarray(np.vectorize(_text, otypes=[object])(joined)[tuple(key)], object)

    def _header(self) -> None:
        if bytes(self._take(3)) != MAGIC or (version := int(self._take(1)[0])) not in _VERSIONS:
            raise BayesreconError(f"{self._path}: not a classic netCDF file")
        self._count_bytes, self._offset_bytes = _VERSIONS[version], _OFFSETS[version]
        records = self._number(self._count_bytes)
        self._sizes = [(self._name(), self._number(self._count_bytes)) for _ in range(self._length(_DIMENSION))]
        self._attributes = self._read_attributes()
        listed = [self._variable() for _ in range(self._length(_VARIABLE))]
        along = [self._is_record(places) for _, places, *_ in listed]
        records_of = [(places, dtype) for _, places, _, dtype, _ in listed if self._is_record(places)]
        step = sum(self._padded(*record) for record in records_of)
        if len(records_of) == 1:  # a single record variable is stored without padding
            step = self._bare(*records_of[0])
        # In a file written as a stream, the number of records follows from the size of the file.
        if records == 2 ** (8 * self._count_bytes) - 1:
            first = min((described[4] for described, a in zip(listed, along, strict=True) if a), default=0)
            records = (len(self._bytes) - first) // step if step else 0
        self._variables: dict[str, Variable] = {}
        for (name, places, attributes, dtype, begin), a in zip(listed, along, strict=True):
            shape = tuple(records if a and k == 0 else self._sizes[p][1] for k, p in enumerate(places))
            names = tuple(self._sizes[p][0] for p in places)
            variable = Variable(names, shape, dtype, begin, step if a else 0, attributes)
            self._claim(name, variable)
            self._variables[name] = variable

    def _claim(self, name: str, variable: Variable) -> None:
        """Record which bytes an array uses."""
        count = variable.shape[0] if variable.step else 1
        end = variable.begin + variable.step * (count - 1) + variable.piece
        if count and variable.piece and not 0 < variable.begin <= end <= len(self._bytes):
            raise BayesreconError(f"{self._path}: the file ends before the last value of {name[:80]!r}; it is cut off")
        if variable.piece and count > len(self._bytes):
            raise BayesreconError(f"{self._path}: {name[:80]!r} has more records than the file has bytes, damaged")
        fill = _FILLS.get(variable.dtype.str if variable.dtype.str in _FILLS else variable.dtype.str.lstrip("|"), b"")
        for k in range(count if variable.piece else 0):
            begin = variable.begin + k * variable.step
            stop = begin + variable.piece
            pad = -variable.piece % 4
            filled = fill and bytes(self._bytes[stop : stop + pad]) == fill * (pad // len(fill))
            self._used.append((begin, stop + pad if filled else stop))

    def _is_record(self, places: tuple[int, ...]) -> bool:
        return bool(places) and self._sizes[places[0]][1] == 0

    def _bare(self, places: tuple[int, ...], dtype: np.dtype) -> int:
        sizes = [self._sizes[p][1] for p in places]
        return math.prod(sizes[1:] if self._is_record(places) else sizes) * dtype.itemsize

    def _padded(self, places: tuple[int, ...], dtype: np.dtype) -> int:
        return -(-self._bare(places, dtype) // 4) * 4

    def _variable(self) -> tuple[str, tuple[int, ...], dict[str, object], np.dtype, int]:
        name = self._name()
        places = tuple(self._number(self._count_bytes) for _ in range(self._number(self._count_bytes)))
        if any(p >= len(self._sizes) for p in places):
            raise BayesreconError(f"{self._path}: {name[:80]!r} lies along a dimension that is not there, damaged")
        attributes = self._read_attributes()
        dtype = self._type()
        stated = self._number(self._count_bytes)  # its size, which the rest determines
        size = self._bare(places, dtype)
        if stated not in (size, self._padded(places, dtype), 2 ** (8 * self._count_bytes) - 1):
            self._used.pop()
        return name, places, attributes, dtype, self._number(self._offset_bytes)

    def _read_attributes(self) -> dict[str, object]:
        attributes: dict[str, object] = {}
        for _ in range(self._length(_ATTRIBUTE)):
            name, dtype = self._name(), self._type()
            count = self._number(self._count_bytes)
            stored = bytes(self._take(count * dtype.itemsize))
            self._skip(-len(stored) % 4)
            values = np.frombuffer(stored, dtype)
            text = stored.decode("utf-8", "backslashreplace")
            value = values.astype(dtype.newbyteorder("=")) if count != 1 else values[0].item()
            attributes[name] = text if dtype.kind == "S" else value
        return attributes

    def _length(self, tag: int) -> int:
        stored_tag, count = self._number(4), self._number(self._count_bytes)
        if stored_tag != tag and (stored_tag, count) != (_ABSENT, 0):
            raise BayesreconError(f"{self._path}: damaged: a list of its header begins with {stored_tag}")
        return count

    def _type(self) -> np.dtype:
        code = self._number(4)
        if code not in _TYPES:
            raise BayesreconError(f"{self._path}: damaged: {code} is no type of classic netCDF")
        return np.dtype(_TYPES[code])

    def _name(self) -> str:
        stored = bytes(self._take(self._number(self._count_bytes)))
        self._skip(-len(stored) % 4)
        return stored.decode("utf-8", "backslashreplace")

    def _number(self, size: int) -> int:
        return int.from_bytes(bytes(self._take(size)))

    def _take(self, count: int) -> np.ndarray:
        """The next bytes of the header."""
        begin, self._at = self._at, self._at + count
        if self._at > len(self._bytes):
            raise BayesreconError(f"{self._path}: the file ends within its header; it is cut off")
        self._used.append((begin, self._at))
        return self._bytes[begin : self._at]

    def _skip(self, count: int) -> None:
        self._at += count

    def _unused(self) -> list[tuple[str, str, np.ndarray]]:
        """Bytes in the gaps between used ones, if they are not all zero."""
        size = len(self._bytes)
        spans = [(0, 0), *sorted(self._used), (size, size)]
        last, gaps = 0, []
        for (_, a), (b, _) in pairwise(spans):
            last = max(last, a)
            if last < b:
                gaps.append((last, b))
        held = [bytes(self._bytes[a : min(b, a + _MOST_BYTES)]) for a, b in gaps]
        used = [piece for piece in held if piece.strip(b"\0")]
        long, short = [piece for piece in used if len(piece) > 3], b"".join(piece for piece in used if len(piece) <= 3)
        pieces = [*long, *([short] if short else [])]
        return [
            (f"bytes that nothing in the file uses ({k})", "bytes", np.frombuffer(piece, np.uint8))
            for k, piece in enumerate(pieces, 1)
        ]


def _joined(letters: np.ndarray) -> np.ndarray:
    """Strings from an array of characters, joined along its last dimension."""
    width = letters.shape[-1]
    if not width:
        return np.full(letters.shape[:-1], b"", "S1")
    return np.ascontiguousarray(letters).view(f"S{width}").reshape(letters.shape[:-1])


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")

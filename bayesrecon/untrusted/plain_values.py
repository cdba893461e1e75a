"""Values of any type as numbers or texts."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

Key = tuple[int | slice | np.ndarray, ...]
"""Index of an array: integers, slices and vectors of integers."""

Found = tuple[str, str, object]
"""Place, kind and values, as of `bayesrecon.posteriors.contents.Entry`."""


_MISSING = 1954
"""The bits of R's missing value."""

_SIGNS = 16
"""Fewest zeros whose signs are told."""

_EXTENDED, _EXTENDED_BITS, _LONG_DOUBLE = 10, 63, np.dtype(np.longdouble).itemsize
"""Bytes of a long double of Intel that are not padding, bits of its mantissa, and bytes that it takes."""


class ArrayReader(ABC):
    """A reader of the arrays of a file, by name."""

    @abstractmethod
    def read(self, name: str, key: Key) -> np.ndarray:
        """Values of the array with this name. Text is an array of objects."""

    def read_whole(self, names: Sequence[str]) -> list[np.ndarray]:
        """Arrays as a whole, in one answer of the process that reads them."""
        return [self.read(name, ()) for name in names]


class Inventory(TypedDict):
    """What a file holds besides the arrays that its readers describe. `unread` are pairs of a place and a reason."""

    found: list[Found]
    unread: list[tuple[str, str]]


def plain_values(content: object) -> np.ndarray:
    """Numbers or texts, whatever they were stored as: columns of a table side by side, lists one after another."""
    values = np.asarray(content)
    if values.dtype.names:
        parts = [plain_values(values[name]).ravel() for name in values.dtype.names]
        if all(part.dtype.kind in "biuf" for part in parts):
            return np.concatenate([part.astype(float) for part in parts]) if parts else np.zeros(0)
        return np.concatenate([part.astype(str) for part in parts])
    if values.dtype.kind == "O" and not values.ndim:  # a reference, or whatever else is no array
        return np.array(text_of(values.item()))
    if values.dtype.kind == "O":
        parts = [plain_values(value).ravel() for value in values.ravel() if not isinstance(value, bytes | str)]
        if parts and len(parts) == values.size:
            return np.concatenate([p.astype(float) if p.dtype.kind in "biuf" else p.astype(str) for p in parts])
        return np.array([text_of(value) for value in values.ravel()], dtype=str)
    if values.dtype.kind == "V":
        raw = values.tobytes()
        return np.frombuffer(raw, float) if len(raw) % 8 == 0 else np.frombuffer(raw, np.uint8)
    if values.dtype.kind == "S":
        return np.array([text_of(value) for value in values.ravel()], dtype=str)
    if values.dtype.kind == "c":
        return np.stack([np.real(values), np.imag(values)], axis=-1)
    return values


def payloads(values: np.ndarray) -> np.ndarray:
    """The bits of values that are no numbers, beyond those of an ordinary NaN and of R's missing value; and signs of
    zeros, if there is nothing else.

    >>> payloads(np.array([1.0, np.nan])).tolist()
    []
    >>> payloads(np.array([0x7FF8000000000029], np.uint64).view(float)).tolist()
    [41.0]
    """
    if values.dtype.kind == "c" and values.dtype.itemsize in (8, 16):
        values = np.stack([np.real(values), np.imag(values)])
    if values.dtype.kind != "f" or values.dtype.itemsize not in (2, 4, 8) or not values.size:
        return np.zeros(0)
    with np.errstate(invalid="ignore"):  # of signalling ones
        if values.size >= _SIGNS and not values.any() and 0 < np.signbit(values).mean() < 1:
            return np.packbits(np.signbit(values)).astype(float)
        missing = np.isnan(values)
        if not missing.any():
            return np.zeros(0)
        bits = values[missing].astype(np.float64).view(np.uint64) & np.uint64(2**51 - 1)
    return bits[(bits != 0) & (bits != _MISSING)].astype(float)


def unused_bytes(values: np.ndarray) -> np.ndarray:
    """The bytes of an array that its values do not say, unless they are zero: between and behind the fields of records,
    in the padding of long doubles, and of truth values that are neither 0 nor 1.

    >>> unused_bytes(np.array([1.0, 2.0])).tolist(), unused_bytes(np.array([0, 41], np.uint8).view(bool)).tolist()
    ([], [41])
    """
    if not (kept := _kept_bytes(values.dtype)).size or values.dtype.hasobject:
        return np.zeros(0, np.uint8)
    raw = np.frombuffer(values.tobytes(), np.uint8).reshape(-1, values.dtype.itemsize)
    return raw[(raw & ~kept) != 0]


def _kept_bytes(dtype: np.dtype) -> np.ndarray:
    """The bits of one entry that its value may set, byte by byte; empty if these are all."""
    if not may_have_unused_bytes(dtype):
        return np.zeros(0, np.uint8)
    kept = np.zeros(dtype.itemsize, np.uint8)
    if dtype.subdtype is not None:
        base = _kept_bytes(dtype.base)
        return np.tile(base if base.size else np.full(dtype.base.itemsize, 255, np.uint8), math.prod(dtype.shape))
    for field, at, *_ in (dtype.fields or {}).values():
        inner = _kept_bytes(field)
        kept[at : at + field.itemsize] |= inner if inner.size else np.uint8(255)
    if dtype.kind == "b":
        kept[:] = 1
    elif dtype.kind in "fc":
        kept.reshape(-1, _LONG_DOUBLE)[:, :_EXTENDED] = 255
    return kept


def may_have_unused_bytes(dtype: np.dtype) -> bool:
    """Whether entries of a type have bits that no value sets."""
    if dtype.subdtype is not None:
        return may_have_unused_bytes(dtype.base)
    if dtype.fields is not None:
        inner = any(may_have_unused_bytes(field) for field, *_ in dtype.fields.values())
        return inner or sum(field.itemsize for field, *_ in dtype.fields.values()) < dtype.itemsize
    extended = dtype.kind in "fc" and dtype.char.lower() == "g" and np.finfo(np.longdouble).nmant == _EXTENDED_BITS
    return dtype.kind == "b" or extended


_DISTINCT = 5
"""Fewest different sizes that are reported: a file has a few of them, whatever it holds."""


def differing(name: str, sizes: list[tuple[object, ...]]) -> Inventory:
    """Sizes and settings of arrays that say nothing of their values, if many differ: they may be values themselves.

    >>> differing("shapes of empty arrays", [(0, 3), (0, 3)])["unread"]
    []
    """
    unique = {repr(one): one for one in sizes}
    if len(unique) < _DISTINCT:
        return {"found": [], "unread": []}
    numbers = [float(x) for one in unique.values() for x in one if isinstance(x, int | float | np.number)]
    return {"found": [(name, "array", np.array(numbers))], "unread": [(name, f"{len(unique)} of them differ")]}


def text_of(value: object) -> str:
    """A text, which some libraries give as bytes."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def valid_text(values: np.ndarray) -> np.ndarray:
    """An array from a file, unchanged, after a check that its texts are Unicode.

    Raises:
        ValueError: numbers that are no characters.
    """
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        codes = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="))).view(np.uint32)
        if codes.max() > 0x10FFFF:
            raise ValueError("a text holds what is no character, damaged")
    return values

"""Plain data as bytes: a JSON text with the structure, followed by the memory of the arrays."""

import json
from typing import Any

import numpy as np

_HEAD = 8  # bytes of the length of the JSON text
_ALIGNED = 64  # arrays begin at multiples of so many bytes


def pack(value: object) -> bytes:
    """Pack dictionaries, lists, texts, bytes, numbers and arrays. Other objects become texts.

    >>> unpack(pack({"mu": np.arange(2), "of": ["a", None, 2.5, b"x"]}))
    {'mu': array([0, 1]), 'of': ['a', None, 2.5, b'x']}
    """
    return b"".join(pieces(value))


def pieces(value: object) -> list[bytes | memoryview]:
    """The packed bytes in pieces, without copies of arrays."""
    parts = _Parts()
    tree = json.dumps(_packed(value, parts)).encode()
    tree += b" " * (-(len(tree) + _HEAD) % _ALIGNED)
    return [len(tree).to_bytes(_HEAD), tree, *parts.pieces]


def unpack(content: bytes | bytearray) -> Any:
    """The data in packed bytes. Arrays are parts of a `bytearray`, without copies."""
    start = _HEAD + int.from_bytes(content[:_HEAD])
    return _unpacked(json.loads(content[_HEAD:start]), memoryview(content)[start:])


class _Parts:
    """A sequence of pieces of bytes."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self._size = 0

    def add(self, content: bytes | memoryview) -> list[int]:
        """Where it begins and ends."""
        padding = -len(content) % _ALIGNED
        self.pieces += [content, b"\0" * padding]
        begin, self._size = self._size, self._size + len(content) + padding
        return [begin, begin + len(content)]


def _packed(value: object, parts: _Parts) -> object:
    if isinstance(value, float) and value != value:  # which JSON would write without its bits
        value = np.float64(value)
    if isinstance(value, dict):
        return {"dict": [[str(key), _packed(item, parts)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_packed(item, parts) for item in value]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, bytes):
        return {"bytes": parts.add(value)}
    if isinstance(value, np.ndarray) and value.dtype.hasobject:  # texts of any length
        return {"texts": [str(item) for item in value.ravel()], "shape": list(value.shape)}
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        kind = np.lib.format.dtype_to_descr(array.dtype)
        name = "array" if isinstance(value, np.ndarray) else "scalar"
        return {name: parts.add(array.reshape(-1).view(np.uint8).data if array.nbytes else b""), "type": kind,
                "shape": list(value.shape)}  # fmt: skip
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _unpacked(value: object, arrays: memoryview) -> object:
    if not isinstance(value, dict):
        return value
    (kind, *_) = value
    inner = value[kind]
    if kind == "dict":
        return {key: _unpacked(item, arrays) for key, item in inner}
    if kind == "list":
        return [_unpacked(item, arrays) for item in inner]
    if kind == "slice":
        return slice(*inner)
    if kind == "texts":
        texts = np.empty(len(inner), object)
        texts[:] = inner
        return texts.reshape(value["shape"])
    begin, end = inner
    if kind == "bytes":
        return bytes(arrays[begin:end])
    dtype = _type(value["type"])
    if begin == end:
        array = np.empty(value["shape"], dtype)
    else:
        array = np.frombuffer(arrays[begin:end], np.uint8).view(dtype).reshape(value["shape"])
    return array if kind == "array" else array[()]


def _type(description: str | list[list[Any]]) -> np.dtype:
    """A data type of NumPy from its description in JSON, where tuples are lists."""
    if isinstance(description, str):
        dtype = np.dtype(description)
    else:
        dtype = np.lib.format.descr_to_dtype([_field(field) for field in description])
    if dtype.hasobject:
        raise ValueError("objects are no plain data")
    return dtype


def _field(description: list[Any]) -> tuple[Any, ...]:
    name, kind, *shape = description
    name = tuple(name) if isinstance(name, list) else name
    kind = [_field(field) for field in kind] if isinstance(kind, list) else kind
    return (name, kind, *(tuple(sizes) for sizes in shape))

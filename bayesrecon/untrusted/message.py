"""Plain data as bytes: a NumPy archive without pickles, with a JSON text that says how its arrays hang together."""

import io
import json
from typing import Any

import numpy as np

_TREE = "tree"


def pack(value: Any) -> bytes:
    """Dictionaries, lists, texts, bytes, numbers and arrays as bytes; other objects become their text.

    >>> unpack(pack({"mu": np.arange(2), "of": ["a", None, 2.5, b"x"]}))
    {'mu': array([0, 1]), 'of': ['a', None, 2.5, b'x']}
    """
    arrays: dict[str, np.ndarray] = {}
    tree = json.dumps(_packed(value, arrays)).encode()
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_TREE: np.frombuffer(tree, np.uint8)}, **arrays)
    return content.getvalue()


def unpack(content: bytes) -> Any:
    """What was packed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return _unpacked(json.loads(archive[_TREE].tobytes()), archive)


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        return {"dict": [[str(key), _packed(each, arrays)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_packed(each, arrays) for each in value]}
    if isinstance(value, bytes):
        name = f"a{len(arrays)}"
        arrays[name] = np.frombuffer(value, np.uint8)
        return {"bytes": name}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, np.ndarray) and value.dtype.hasobject:  # texts of any length
        return {"texts": [str(each) for each in value.ravel()], "shape": list(value.shape)}
    if isinstance(value, np.ndarray | np.generic):
        name = f"a{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array" if isinstance(value, np.ndarray) else "scalar": name}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _unpacked(value: Any, archive: Any) -> Any:
    if not isinstance(value, dict):
        return value
    (kind, *_) = value
    inner = value[kind]
    if kind == "dict":
        return {key: _unpacked(each, archive) for key, each in inner}
    if kind == "list":
        return [_unpacked(each, archive) for each in inner]
    if kind == "slice":
        return slice(*inner)
    if kind == "texts":
        texts = np.empty(len(inner), object)
        texts[:] = inner
        return texts.reshape(value["shape"])
    array = archive[inner]
    if kind == "bytes":
        return array.tobytes()
    return array if kind == "array" else array[()]

"""A description of a game as plain data, which is equal for games that are played in the same way."""

import dataclasses
import functools
import hashlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np


def described(value: Any) -> Any:
    """A value as plain JSON: dataclasses and estimators by their fields, arrays by their hash, functions by their code.

    Globals that a function uses are not part of its description.

    >>> described((1, np.zeros(2)))[0]
    1
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        text = str(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
        return {"array": [list(value.shape), value.dtype.str, hashlib.sha256(text).hexdigest()]}
    if isinstance(value, Mapping):
        return {"items": [[described(k), described(v)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        return [described(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted(str(described(v)) for v in value)
    if isinstance(value, functools.partial):
        return {"partial": described([value.func, value.args, value.keywords])}
    if isinstance(value, types.MethodType):
        return {"method": described([value.__self__, value.__func__])}
    if isinstance(value, types.FunctionType):
        enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
        return {"function": [value.__qualname__, _code(value.__code__), described([enclosed, value.__defaults__])]}
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if dataclasses.is_dataclass(value):
        return {"kind": name, "fields": {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if hasattr(value, "get_params"):
        return {"kind": name, "fields": described(value.get_params(deep=False))}
    return {"kind": name, "fields": described(vars(value)) if hasattr(value, "__dict__") else None}


def _code(code: types.CodeType) -> list[object]:
    """The hash of the bytecode, the names and the constants."""
    constants = [_code(c) if isinstance(c, types.CodeType) else str(c) for c in code.co_consts]
    return [hashlib.sha256(code.co_code).hexdigest(), list(code.co_names), constants]

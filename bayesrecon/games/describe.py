"""What identifies a game: plain data that are equal where two games are played alike."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def described(value: Any) -> Any:
    """A value as plain JSON: dataclasses and estimators by their fields, arrays and code by their hash.

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
    kind: Any = value if isinstance(value, type) or hasattr(value, "__code__") else type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"kind": name, "fields": {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if hasattr(value, "get_params") and not isinstance(value, type):
        return {"kind": name, "fields": described(value.get_params(deep=False))}
    if kind is value and not isinstance(value, type):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        return {"code": [name, hashlib.sha256(value.__code__.co_code).hexdigest(), described(held)]}
    return {
        "kind": name,
        "fields": described(vars(value)) if hasattr(value, "__dict__") and kind is not value else None,
    }

"""Plain types, as JSON has them."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

Json = dict[str, Any]
"""A JSON object, or what becomes one: its values are text, numbers, booleans, None, lists and further objects."""


def plain(value: Any) -> Any:
    """The value in JSON types: objects for dataclasses, lists for arrays, None for numbers that are not finite."""
    if is_dataclass(value):
        if hasattr(value, "to_dict"):
            return cast(Any, value).to_dict()
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__jax_array__") or hasattr(value, "tolist"):
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)

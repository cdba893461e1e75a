"""Values in plain types, as JSON has them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: object) -> Any:
    """The value in JSON types: lists for sequences and arrays, None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__jax_array__") or hasattr(value, "tolist"):
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)

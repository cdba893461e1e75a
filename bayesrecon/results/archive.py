"""Results as files that can be loaded again: one NumPy archive of plain arrays and a JSON text, without pickles.

The JSON text may only name classes of results. Nothing else is ever built from a file.
"""

import dataclasses
import importlib
import json
import math
import pkgutil

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError, Note

ABOUT = "__bayesrecon__"
"""The name of the JSON text in an archive."""


def packed(result: object) -> dict[str, np.ndarray]:
    """A result as named arrays, one of which is a JSON text.

    Raises `BayesreconError` if the result holds something that is not data.
    """
    arrays: dict[str, np.ndarray] = {}
    document = json.dumps(
        {"version": __version__, "result": _packed(result, arrays, classes_of_results())}, allow_nan=False
    )
    return {ABOUT: np.array(document), **arrays}


def classes_of_results() -> dict[str, type]:
    """Dataclasses that results consist of: those of this package and those defined elsewhere."""
    package = importlib.import_module("bayesrecon.results")
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    named = {name: value for module in modules for name, value in vars(module).items()}
    values = [v for v in named.values() if str(getattr(v, "__module__", "")).startswith("bayesrecon.")]
    pending = [named["Result"]]
    while pending:
        values.append(pending.pop())
        pending += values[-1].__subclasses__()
    return {value.__name__: value for value in values if isinstance(value, type) and dataclasses.is_dataclass(value)}


def _packed(value: object, arrays: dict[str, np.ndarray], classes: dict[str, type]) -> object:
    if dataclasses.is_dataclass(value) and classes.get(type(value).__name__) is type(value):
        fields = {f.name: _packed(getattr(value, f.name), arrays, classes) for f in dataclasses.fields(value) if f.init}
        return {"class": type(value).__name__, "fields": fields}
    if isinstance(value, Note):
        return {"note": str(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "tolist"):
        array = np.asarray(value)
        if array.dtype == object:
            array = array.astype(str)
        name = f"a{len(arrays)}"
        arrays[name] = array
        return {"array": name}
    if isinstance(value, dict):
        return {"items": [[_packed(k, arrays, classes), _packed(v, arrays, classes)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(v, arrays, classes) for v in value]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BayesreconError(f"a {type(value).__name__} is not data and cannot be saved; use to_dict()")

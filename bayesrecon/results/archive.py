"""Results as files that give them back: one NumPy archive of plain arrays and a JSON text, without pickles.

The text names classes of results alone; nothing else is ever built from a file.
"""

import dataclasses
import importlib
import json
import lzma
import math
import pkgutil
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.errors import BayesreconError

_ABOUT = "__bayesrecon__"
_UNPACKED, _SMALL = 2, 2**20  # times a file's size that its members may have, and bytes that are no harm


def packed(result: Any) -> dict[str, np.ndarray]:
    """A result as named arrays, one of which is a JSON text.

    Raises `BayesreconError` when it holds something that is no data.
    """
    arrays: dict[str, np.ndarray] = {}
    about = json.dumps({"version": __version__, "result": _packed(result, arrays, _classes())}, allow_nan=False)
    return {_ABOUT: np.array(about), **arrays}


def load_archive(path: Path) -> Any:
    """Read a result that was written as `packed`.

    Raises `BayesreconError` for other files.
    """
    # Whatever NumPy's reader and those of compressed members raise where bytes are missing or another program's.
    damage = (
        *(OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, RuntimeError, MemoryError),
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, SyntaxError),
    )
    try:
        _check_size(path)
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            content = {k: archive[k] for k in archive.files}
        return _unpacked(json.loads(str(content[_ABOUT]))["result"], content, _classes())
    except FileNotFoundError:
        raise BayesreconError(f"no such file: {path}") from None
    except BayesreconError:
        raise
    except damage as error:
        raise BayesreconError(f"{path} is not a saved bayesrecon result ({type(error).__name__})") from None


def _check_size(path: Path) -> None:
    """Refuse members that unpack to far more than the file: results are written without compression.

    Raises `BayesreconError`.
    """
    with zipfile.ZipFile(path) as archive:
        declared = sum(member.file_size for member in archive.infolist())
    if declared > _UNPACKED * path.stat().st_size + _SMALL:
        raise BayesreconError(f"{path} declares {declared:,} bytes in a file of {path.stat().st_size:,}: not read")


def _classes() -> dict[str, type]:
    """Dataclasses that results are made of: those of this package, and results that are defined elsewhere."""
    package = importlib.import_module("bayesrecon.results")
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    named = {name: value for module in modules for name, value in vars(module).items()}
    found = [v for v in named.values() if str(getattr(v, "__module__", "")).startswith("bayesrecon.")]
    waiting = [named["Result"]]
    while waiting:
        found.append(waiting.pop())
        waiting += found[-1].__subclasses__()
    return {value.__name__: value for value in found if isinstance(value, type) and dataclasses.is_dataclass(value)}


def _packed(value: Any, arrays: dict[str, np.ndarray], classes: dict[str, type]) -> Any:
    if dataclasses.is_dataclass(value) and classes.get(type(value).__name__) is type(value):
        fields = {f.name: _packed(getattr(value, f.name), arrays, classes) for f in dataclasses.fields(value) if f.init}
        return {"class": type(value).__name__, "fields": fields}
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
    raise BayesreconError(f"a {type(value).__name__} is no data and cannot be saved; use to_dict()")


def _unpacked(value: Any, content: dict[str, np.ndarray], classes: dict[str, type]) -> Any:
    if not isinstance(value, dict):
        return value
    (kind, *_) = value
    inner = value[kind]
    if kind == "class":
        fields = {k: _unpacked(v, content, classes) for k, v in value["fields"].items()}
        return classes[inner](**fields)
    if kind == "array":
        return content[inner]
    if kind == "items":
        return {_unpacked(k, content, classes): _unpacked(v, content, classes) for k, v in inner}
    if kind == "float":
        return float(inner)
    found = [_unpacked(v, content, classes) for v in inner]
    return {"list": list, "tuple": tuple}[kind](found)

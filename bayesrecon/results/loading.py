"""Load saved results. Files may come from strangers, so they are opened in the guarded process."""

import dataclasses
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, Note
from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData
from bayesrecon.results.base import ABOUT, Result, classes_of_results
from bayesrecon.results.recovery import META, NUMBERS, Recovery
from bayesrecon.results.row import Row
from bayesrecon.untrusted.guarded import asked, opened
from bayesrecon.untrusted.hdf5 import HDF5File
from bayesrecon.untrusted.numpy_file import read_arrays, with_stored
from bayesrecon.untrusted.size_limits import check_declared

# Results are written without compression: most bytes that one byte may unpack to, and bytes that any file may have.
_RATIO, _SMALL = 2, 2**20


class _OtherFields(Exception):
    """A result whose class has other fields in this version."""


def load_result(path: str | Path) -> Any:
    """Load a result that its method `save` wrote: any result from `.npz`, a `Recovery` from `.nc`.

    Raises:
        BayesreconError: the file does not hold such a result, or another version saved it with other fields.

    >>> import pathlib, tempfile
    >>> from bayesrecon.results.diagnosis import Bounds, Interval
    >>> found = Bounds("draws", 0.99, {"y": (0.0, 1.0)}, (Interval("n", 40.0, None),))
    >>> load_result(found.save(pathlib.Path(tempfile.mkdtemp()) / "bounds.npz"))["n"].lower
    40.0
    """
    if Path(path).suffix.lower() == ".npz":
        return _archive(Path(path))
    return _recovery(Path(path))


def _recovery(path: Path) -> Recovery:
    with _one_line_errors(path), opened(HDF5File, path) as file:
        description = file.describe_group("/")
        check_declared(path, description["size"], path.stat().st_size)
        variables, attributes = description["variables"], description["attributes"]
        data = {key: file.read(v["name"], (slice(None),) * len(v["shape"])) for key, v in variables.items()}
        rows = tuple(
            Row(str(name), **_numbers(data, i), verdict=str(data["verdict"][i]))
            for i, name in enumerate(data["statistic"])
        )
        prefix = "record_"
        records = {key[len(prefix) :]: values for key, values in data.items() if key.startswith(prefix)}
        meta: Json = {name: attributes[f"bayesrecon_{name}"] for name in META}
        meta = {k: v.item() if isinstance(v, np.generic) else v for k, v in meta.items()}
        meta["gap"] = bool(meta["gap"])
        warnings = tuple(str(w) for w in json.loads(attributes["bayesrecon_warnings"]))
        warnings += tuple(Note(n) for n in json.loads(attributes.get("bayesrecon_notes", "[]")))
        failures = tuple(str(f) for f in json.loads(attributes.get("bayesrecon_failures", "[]")))
        return Recovery(
            rows=rows,
            spectrum=data["spectrum"],
            pseudo=PseudoData(data["weight"], records),
            warnings=warnings,
            failures=failures,
            **meta,
        )


def _archive(path: Path) -> Result:
    with _one_line_errors(path):
        content = with_stored(path, asked(read_arrays, path, False, _SMALL, _RATIO))
        document = json.loads(str(content[ABOUT]))
        result = _unpacked(document["result"], content, classes_of_results(), str(document["version"])[:20])
        if not isinstance(result, Result):
            raise TypeError(f"a {type(result).__name__}")
        result.check_types()
        return result


@contextmanager
def _one_line_errors(path: Path) -> Generator[None, None, None]:
    """Turn every error of the block into a one-line error that names the file."""
    if not path.exists():
        raise BayesreconError(f"no such file: {path}")
    if not path.is_file():
        raise BayesreconError(f"{path} is not a saved bayesrecon result (not a regular file)")
    try:
        yield
    except _OtherFields as error:
        raise BayesreconError(f"{path} was saved {error}") from None
    except Exception as error:
        message = " ".join(str(error).split()).removeprefix(f"{path.absolute()}: ").removeprefix(f"{path}: ")
        message = f"{type(error).__name__} {message}" if isinstance(error, KeyError) or not message else message
        raise BayesreconError(f"{path} is not a saved bayesrecon result ({message[:200]})") from None


def _numbers(data: Mapping[str, np.ndarray], i: int) -> Json:
    """The numbers of statistic i; None if they are not finite."""
    return {name: float(data[name][i]) if np.isfinite(data[name][i]) else None for name in NUMBERS}


def _unpacked(value: object, content: dict[str, np.ndarray], classes: dict[str, type], version: str) -> Any:
    if not isinstance(value, dict):
        return value
    (kind, *_) = value
    inner = value[kind]
    if kind == "class":
        fields = {k: _unpacked(v, content, classes, version) for k, v in value["fields"].items()}
        if unknown := sorted(set(fields) - {f.name for f in dataclasses.fields(classes[inner])}):
            raise _OtherFields(
                f"by bayesrecon {version}, whose {inner} has a field {unknown[0][:40]!r} that this version does not "
                "have: load it with that version, or compute the result again"
            )
        return classes[inner](**fields)
    if kind == "array":
        return content[inner]
    if kind == "items":
        return {_unpacked(k, content, classes, version): _unpacked(v, content, classes, version) for k, v in inner}
    if kind == "float":
        return float(inner)
    if kind == "note":
        return Note(inner)
    result = [_unpacked(v, content, classes, version) for v in inner]
    return {"list": list, "tuple": tuple}[kind](result)

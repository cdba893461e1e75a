"""Draws as plain arrays: a dictionary of them, or a NumPy `.npz` file."""

import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import MOST_BYTES
from bayesrecon.posteriors.draws import Draws, is_numeric, sound
from bayesrecon.untrusted.limits import check_declared

LOG_DENSITY = "__log_density__"
ATTRIBUTES = "__attributes__"


def from_arrays(
    arrays: Mapping[str, Any], *, name: str = "draws", attributes: Mapping[str, str] | None = None
) -> Draws:
    """Draws from named arrays.

    Args:
        arrays: parameter name -> `(chains, draws, *shape)`. When at least one array has a single dimension
            and all share the first one, every array is `(draws, *shape)` of a single chain instead. The key
            `__log_density__` holds the log density, `(chains, draws)` or `(draws,)`. Arrays that are not
            numeric are left out.
        name: for display.
        attributes: string attributes to keep.

    Raises:
        BayesreconError: no numeric array, or leading dimensions that do not agree.

    Example:
        >>> import numpy as np
        >>> from_arrays({"mu": np.zeros(50), "beta": np.zeros((50, 3))}).values["beta"].shape
        (1, 50, 3)
    """
    with reading(name, "named arrays"):
        given = {str(key): np.asarray(value) for key, value in arrays.items()}
    numeric = {key: value for key, value in given.items() if is_numeric(value.dtype)}
    if not numeric.keys() - {LOG_DENSITY}:
        raise BayesreconError(f"{name}: there are no numeric arrays")
    if scalars := [key for key, value in numeric.items() if value.ndim == 0]:
        raise BayesreconError(f"{name}: {scalars[0]!r} is a single number; (chains, draws, ...) is needed")
    if any(value.ndim == 1 for value in numeric.values()):
        if len({len(value) for value in numeric.values()}) > 1:
            shapes = ", ".join(f"{key} {value.shape}" for key, value in list(numeric.items())[:5])
            raise BayesreconError(f"{name}: with one-dimensional arrays all must share the first dimension ({shapes})")
        numeric = {key: value[None] for key, value in numeric.items()}
    log_density = numeric.pop(LOG_DENSITY, None)
    return Draws(numeric, log_density, name, dict(attributes or {}))


def read_npz(path: str | os.PathLike[str], *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws from a NumPy `.npz` file of arrays laid out as in `from_arrays`.

    The optional key `__attributes__` holds a JSON object in a zero-dimensional text array; its string values
    become the attributes. Pickled arrays are never loaded.

    Raises:
        BayesreconError: no such file, not an `.npz` file, damaged, pickled arrays, more declared than its
            bytes could hold (unless `trusted`), or arrays that `from_arrays` refuses.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.npz"
        >>> np.savez(path, mu=np.zeros((4, 100)), beta=np.zeros((4, 100, 3)))
        >>> sorted(read_npz(path).values)
        ['beta', 'mu']
    """
    path = Path(path)
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file")
    with reading(path, "an .npz file"):
        arrays = load_npz(path, trusted=trusted)
    attributes = _attributes(path, arrays.pop(ATTRIBUTES, None))
    return from_arrays(arrays, name=name or path.stem, attributes=attributes)


def load_npz(path: Path, *, trusted: bool = False) -> dict[str, np.ndarray]:
    """The arrays of an archive, after a look at what it declares.

    Raises:
        BayesreconError: not an `.npz` file, pickled arrays, or more declared than its bytes could hold.
    """
    _check_members(path, trusted)
    with np.load(path, allow_pickle=False) as archive:
        return {key: sound(archive[key]) for key in archive.files}


def read_array(path: str | os.PathLike[str], *, name: str = "x", trusted: bool = False) -> np.ndarray:
    """The one array of a NumPy file: of an `.npy`, or of an `.npz` the only one, or the one of this name.

    Raises:
        BayesreconError: no such file, not one of NumPy's, damaged, pickled, shorter or much larger than its bytes say,
            several arrays none of which has the name, or no numbers.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "z.npy"
    >>> np.save(path, np.arange(3.0))
    >>> read_array(path).tolist()
    [0.0, 1.0, 2.0]
    """
    path = Path(path)
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file")
    with reading(path, "an array of NumPy"):
        if path.suffix.lower() == ".npz":
            arrays = load_npz(path, trusted=trusted)
            if len(arrays) != 1 and name not in arrays:
                raise BayesreconError(f"{path}: holds {', '.join(sorted(arrays)[:6])}; name one {name!r}, or keep one")
            found = arrays[name] if name in arrays else next(iter(arrays.values()))
        else:
            with path.open("rb") as stream:
                shape, dtype = _header(stream)
                start = stream.tell()
            if dtype.hasobject:
                raise BayesreconError(f"{path}: it is pickled; save a plain numeric array")
            if math.prod(shape) * dtype.itemsize > path.stat().st_size - start:
                raise BayesreconError(f"{path}: shorter than its header says")
            found = sound(np.load(path, allow_pickle=False))
    if not is_numeric(found.dtype):
        raise BayesreconError(f"{path}: holds {found.dtype}, no numbers")
    return found


def _check_members(path: Path, trusted: bool) -> None:
    """Refuse what would allocate or unpickle before NumPy touches it: headers alone are read."""
    if not zipfile.is_zipfile(path):
        raise BayesreconError(f"{path}: not an .npz file")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = 0
        for member in members:
            with archive.open(member) as stream:
                shape, dtype = _header(stream)
            if dtype.hasobject:
                raise BayesreconError(f"{path}: {member.filename!r} is pickled; save plain numeric arrays")
            # NumPy allocates what the header asks for, which a zip member's size does not bound.
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise BayesreconError(f"{path}: {member.filename!r} is shorter than its header says")
            total += max(member.file_size, 8 * math.prod(shape))  # numbers are kept in eight bytes
        if not trusted:
            check_declared(path, total, path.stat().st_size)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:  # version 3.0 exists for structured types with non-Latin field names, which no draws have
        raise BayesreconError(f"an array in format {version} is not a plain numeric array")
    if any(size < 0 for size in shape):
        raise BayesreconError(f"an array of shape {shape} cannot be")
    return shape, dtype


def after_the_arrays(path: Path) -> list[tuple[str, bytes]]:
    """Bytes in members after the arrays that their headers describe."""
    found = []
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                shape, dtype = _header(stream)
                stream.seek(math.prod(shape) * dtype.itemsize, os.SEEK_CUR)
                rest = stream.read(MOST_BYTES)
            found += [(f"bytes after the array in {member.filename}", rest)] if rest.strip(b"\0") else []
    return found


def other_attributes(path: Path, array: np.ndarray | None) -> dict[str, Any]:
    """Attributes that are no texts, which nothing reads."""
    return {} if array is None else {k: v for k, v in _document(path, array).items() if not isinstance(v, str)}


def _attributes(path: Path, array: np.ndarray | None) -> dict[str, str]:
    return {} if array is None else {k: v for k, v in _document(path, array).items() if isinstance(v, str)}


def _document(path: Path, array: np.ndarray) -> dict[str, Any]:
    if array.dtype.kind != "U" or array.ndim:
        raise BayesreconError(f"{path}: {ATTRIBUTES} is not one JSON text")
    with reading(path, f"JSON in {ATTRIBUTES}"):
        content = json.loads(str(array))
    if not isinstance(content, dict):
        raise BayesreconError(f"{path}: {ATTRIBUTES} is not a JSON object")
    return content

"""Draws as plain arrays: a dictionary of them, or a NumPy `.npz` file."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, beside, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Contents, Entry, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted import size_limits
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.numpy_file import read_arrays, with_stored
from bayesrecon.untrusted.plain_values import plain_values

LOG_DENSITY = "__log_density__"
ATTRIBUTES = "__attributes__"
_MANY, _LONGER = 50, 10  # chains, and how many to a draw, from which they are draws of a vector


def from_arrays(
    arrays: Mapping[str, np.ndarray], *, name: str = "draws", attributes: Mapping[str, str] | None = None
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
        named = {str(key): np.asarray(value) for key, value in arrays.items()}
    numeric = {key: value for key, value in named.items() if is_numeric(value.dtype)}
    if not numeric.keys() - {LOG_DENSITY}:
        raise BayesreconError(f"{name}: there are no numeric arrays")
    if scalars := [key for key, value in numeric.items() if value.ndim == 0]:
        raise BayesreconError(f"{name}: {scalars[0]!r} is a single number; (chains, draws, ...) is needed")
    if any(value.ndim == 1 for value in numeric.values()):
        if len({len(value) for value in numeric.values()}) > 1:
            shapes = ", ".join(f"{key} {value.shape}" for key, value in list(numeric.items())[:5])
            raise BayesreconError(f"{name}: with one-dimensional arrays all must share the first dimension ({shapes})")
        numeric = {key: value[None] for key, value in numeric.items()}
    else:
        _check_layout(numeric, name)
    log_density = numeric.pop(LOG_DENSITY, None)
    return Draws(numeric, log_density, name, dict(attributes or {}))


def _check_layout(arrays: Mapping[str, np.ndarray], name: str) -> None:
    """Refuse two-dimensional arrays of one chain, which would be many chains of a few draws."""
    if any(value.ndim != 2 for value in arrays.values()):
        return
    key, (chains, draws) = next((key, value.shape) for key, value in arrays.items())
    if chains < _MANY or draws * _LONGER > chains:
        return
    if set(arrays) in ({"mean", "std"}, {"mean", "cov"}):
        raise BayesreconError(
            f"{name}: this looks like the history of an approximation (PyMC's Tracker), which has no draws; "
            "posteriors.from_guide(model, fit, params={name: history[-1]}) reads the last step"
        )
    raise BayesreconError(
        f"{name}: {key!r} {arrays[key].shape} would be {chains} chains of {draws} draws; arrays are "
        "(chains, draws, *shape): write values[None] for one chain of vectors"
    )


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
        raise BayesreconError(f"{path}: no such file{beside(path)}")
    with reading(path, "an .npz file"):
        arrays = load_npz(path, trusted=trusted)
    return draws_of(path, arrays, name)


def draws_of(path: Path, arrays: Mapping[str, np.ndarray], name: str | None = None) -> Draws:
    """The draws among the arrays of a file."""
    others = {key: array for key, array in arrays.items() if key != ATTRIBUTES}
    return from_arrays(others, name=name or path.stem, attributes=_attributes(path, arrays.get(ATTRIBUTES)))


def load_npz(path: Path, *, trusted: bool = False) -> dict[str, np.ndarray]:
    """The arrays of an archive, once its declared size is checked.

    Raises:
        BayesreconError: not an `.npz` file, pickled arrays, or more declared than its bytes could hold.
    """
    return with_stored(path, asked(read_arrays, path, trusted, size_limits.FREE, size_limits.RATIO, trusted=trusted))


def read_array(path: str | os.PathLike[str], *, name: str = "x", trusted: bool = False) -> np.ndarray:
    """The array of an `.npy` file; of an `.npz` file its only array, or the one called `name`.

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
        raise BayesreconError(f"{path}: no such file{beside(path)}")
    with reading(path, "an array of NumPy"):
        arrays = load_npz(path, trusted=trusted)
        if len(arrays) != 1 and name not in arrays:
            raise BayesreconError(
                f"{path}: holds {', '.join(sorted(arrays)[:6])}; name one of them {name!r}, or keep only one"
            )
        result = arrays[name] if name in arrays else next(iter(arrays.values()))
    if not is_numeric(result.dtype):
        raise BayesreconError(f"{path}: holds {result.dtype}, not numbers")
    return result


def other_attributes(path: Path, array: np.ndarray | None) -> Json:
    """Attributes other than text, which no reader uses."""
    return {} if array is None else {k: v for k, v in _document(path, array).items() if not isinstance(v, str)}


def _attributes(path: Path, array: np.ndarray | None) -> dict[str, str]:
    return {} if array is None else {k: v for k, v in _document(path, array).items() if isinstance(v, str)}


def _document(path: Path, array: np.ndarray) -> Json:
    if array.dtype.kind != "U" or array.ndim:
        raise BayesreconError(f"{path}: {ATTRIBUTES} is not valid JSON")
    with reading(path, f"JSON in {ATTRIBUTES}"):
        content = json.loads(str(array))
    if not isinstance(content, dict):
        raise BayesreconError(f"{path}: {ATTRIBUTES} is not a JSON object")
    return content


def _read(source: str | Path | Mapping[str, np.ndarray], *, name: str | None = None, trusted: bool = False) -> Draws:
    if isinstance(source, str | os.PathLike):
        return read_npz(source, name=name, trusted=trusted)
    return from_arrays(source, name=name or "draws")


def _contents(
    source: Path | Mapping[str, np.ndarray],
    *,
    name: str | None = None,
    progress: Progress | None = None,
    trusted: bool = False,
) -> Contents:
    if not isinstance(source, Path):
        result = from_named_draws(_read(source, name=name), type(source).__name__)
        return replace(result, entries=tuple(_left_out({str(k): np.asarray(v) for k, v in source.items()})))
    with reading(source, "an .npz file"):
        arrays = load_npz(source, trusted=trusted)
        result = from_named_draws(draws_of(source, arrays, name), "NumPy archive", (stamp(source),))
        entries = _left_out(arrays)
        entries += [
            Entry(f"@/{k}", "attribute", v) for k, v in other_attributes(source, arrays.get(ATTRIBUTES)).items()
        ]
    return replace(result, entries=tuple(entries))


def _left_out(arrays: Mapping[str, np.ndarray]) -> list[Entry]:
    """Entries that are not draws: texts, records, complex numbers."""
    result = []
    for key, array in arrays.items():
        if key != ATTRIBUTES and not is_numeric(array.dtype):
            result += [Entry(key, "name", key), Entry(key, "array", plain_values(array))]
            result += [Entry(f"{key}.{field}", "name", field) for field in array.dtype.names or ()]
    return result


def _holds(source: object) -> bool:
    return type(source) is dict  # InferenceData and DataTree are mappings, too, of their groups


FORMAT = Format("NumPy archive", (".npz",), _read, _contents, _holds, rank=10, guarded=True)

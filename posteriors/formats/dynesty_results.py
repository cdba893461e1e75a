"""Results of dynesty, in memory, or what their `asdict()` holds as `.npz` or JSON. It gives its parameters no names.

Draws of nested sampling are weighted: by their likelihood and the volume between one point and the next. dynesty keeps
the logarithm of that as `logwt`: the weight of a draw is exp(logwt - logz[-1]).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, Note, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Contents, Entry, Variable, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.formats.npz import load_npz
from bayesrecon.posteriors.roles import STRUCTURE
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.json_file import keys_of_json, read_json
from bayesrecon.untrusted.numpy_file import names_of_arrays

NAME, WEIGHT = "x", "log_weight"
"""The one parameter, a vector, and the logarithm of the weights of its draws."""

_SAMPLES, _LOGS = "samples", "logwt"
_MARKS = {_SAMPLES, _LOGS, "logl", "logvol"}
_COUNTS, _BOUNDS = {"nlive", "niter", "eff"}, {"samples_bound", "bound_iter"}


class Results(Protocol):
    """Results of dynesty."""

    def asdict(self) -> Json:
        """Arrays and numbers by name."""
        ...


_NOTES = (
    Note(
        "dynesty does not name parameters, so the columns of its samples are the vector x; to use them with a model, "
        "pass {name: samples[None, :, k], 'log_weight': logwt[None]}"
    ),
)


def read_dynesty(source: Results | str | Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """The weighted draws of a run, one chain: `x` `(1, draws, dimensions)`, and `log_weight`.

    Args:
        source: `Results`, or the path of a `.npz` or `.json` file of its arrays.

    Raises:
        BayesreconError: no samples, or another number of weights.

    >>> arrays = {"samples": np.ones((3, 2)), "logwt": np.zeros(3), "logl": np.zeros(3), "logvol": -np.arange(3.0)}
    >>> np.savez("run.npz", **arrays)
    >>> {key: values.shape for key, values in read_dynesty("run.npz").values.items()}
    {'x': (1, 3, 2), 'log_weight': (1, 3)}
    """
    source = Path(source) if isinstance(source, str) else source
    title = name or (source.stem if isinstance(source, Path) else "draws")
    with reading(source if isinstance(source, Path) else "results", "results of dynesty"):
        return _draws(_parts(source, trusted), title)


def _parts(source: Results | Path, trusted: bool) -> Json:
    """Arrays and numbers of the results by name."""
    if not isinstance(source, Path):
        return dict(source.asdict())
    if source.suffix.lower() == ".npz":
        return dict(load_npz(source, trusted=trusted))
    return asked(read_json, source, trusted, trusted=trusted)


def _draws(parts: Mapping[str, object], name: str) -> Draws:
    samples, logs = np.asarray(parts[_SAMPLES]), np.asarray(parts[_LOGS])
    if samples.ndim != 2 or not samples.size or not is_numeric(samples.dtype) or not is_numeric(logs.dtype):
        raise BayesreconError(f"{name}: dynesty's samples have the shape {samples.shape}, not (draws, dimensions)")
    if logs.shape != samples.shape[:1]:
        raise BayesreconError(f"{name}: {logs.size} weights of {len(samples)} draws")
    logs = np.where(np.isfinite(logs), logs - logs[np.isfinite(logs)].max(initial=-np.inf), -np.inf)
    return Draws({NAME: samples[None].astype(float), WEIGHT: logs[None]}, None, name)


def _contents(
    source: Results | Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    path = source if isinstance(source, Path) else None
    with reading(path or "results", "results of dynesty"):
        parts: Json = _parts(source, trusted)
        entries: list[Entry] = []
        draws = _draws(parts, name or (path.stem if path else "draws"))
    result = from_named_draws(draws, "results of dynesty", (stamp(path),) if path else (), notes=_NOTES, sign=_LOGS)
    variables = [v for v in result.variables if v.name == NAME]
    for key, value in parts.items():
        array = _numbers(value)
        if array is None:
            entries += (
                [] if value is None else [Entry(key, "attribute", value if isinstance(value, str) else str(value))]
            )
        elif key != _SAMPLES and array.shape[:1] == (draws.length,):
            variables.append(Variable("sample_stats", key, array.shape[1:], True, array.astype(float)))
        elif key != _SAMPLES:
            kind = "array" if array.ndim else "attribute"
            entries.append(Entry(key, kind, array if array.ndim else array.item(), _role(key, array, draws.length)))
    return replace(result, variables=tuple(variables), entries=tuple(entries))


def _numbers(value: object) -> np.ndarray | None:
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal length
        return None
    return array if is_numeric(array.dtype) else None


def _role(key: str, array: np.ndarray, draws: int) -> str:
    """Counts of the run, and which bound each live point came from."""
    if key in _COUNTS and not array.ndim:
        return STRUCTURE
    if key not in _BOUNDS or array.dtype.kind not in "iu":
        return ""
    return STRUCTURE if array.min(initial=0) >= 0 and array.max(initial=0) <= draws else ""


def _holds(source: object) -> bool:
    return type(source).__module__.partition(".")[0] == "dynesty" and hasattr(source, "asdict")


def _claims(path: Path) -> bool:
    try:
        if path.suffix.lower() == ".npz":
            names = set(asked(names_of_arrays, path))
        else:
            names = set(asked(keys_of_json, path))
    except (BayesreconError, OSError):  # the reader of the suffix says what is wrong
        return False
    return names >= _MARKS


FORMAT = Format(
    "results of dynesty", (".npz", ".json"), read_dynesty, _contents, _holds, rank=45, guarded=True, claims=_claims
)

"""Draws of emcee: its HDF5 backend, and a sampler or a backend in memory. emcee gives its parameters no names."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, Note, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Contents, Entry, Unread, Variable, entry_of_item, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.hdf5 import HDF5File
from bayesrecon.untrusted.size_limits import check_declared

NAME = "x"
"""The one parameter, a vector, that the columns of a chain without names are."""

_CHAIN, _DENSITY, _BLOBS, _ITERATION, _GROUP = "chain", "log_prob", "blobs", "iteration", "mcmc"
_NOTES = (
    Note(
        "emcee does not name parameters, so the columns of its chain are the vector x; "
        "to use them with a model, pass {name: chain[:, :, k].T}"
    ),
    "every walker is one chain that starts at its first step; emcee keeps the burn-in, so remove it first",
)


class EmceeChains(Protocol):
    """A sampler or a backend of emcee."""

    def get_chain(self) -> np.ndarray:
        """Draws `(steps, walkers, dimensions)`."""
        ...

    def get_log_prob(self) -> np.ndarray:
        """Log densities `(steps, walkers)`."""
        ...

    def get_blobs(self) -> np.ndarray | None:
        """Further values that the log density returned (blobs), `(steps, walkers, ...)`."""
        ...


def read_emcee(source: EmceeChains | str | Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Walkers as chains: `x` is `(walkers, steps, dimensions)`.

    Args:
        source: a file of emcee's HDF5 backend, an `EnsembleSampler` that has run, or a backend.

    Raises:
        BayesreconError: no steps, or a damaged file.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        with reading(path, "emcee's HDF5 file"), opened(HDF5File, path, trusted) as file:
            return _draws(_arrays(path, file, trusted)[0], name or path.stem)
    with reading(f"a {type(source).__name__} of emcee", "draws (has it run?)"):
        return _draws(np.asarray(source.get_chain()), name or "draws")


def _draws(chain: np.ndarray, name: str) -> Draws:
    """Draws of a chain `(steps, walkers, dimensions)`."""
    if chain.ndim != 3 or not chain.size:
        raise BayesreconError(f"{name}: emcee's chain has the shape {chain.shape}, not (steps, walkers, dimensions)")
    return Draws({NAME: chain.swapaxes(0, 1)}, None, name)


def _arrays(
    path: Path, file: HDF5File, trusted: bool
) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray], Json]:
    """The chain, its log densities, other arrays, and attributes of the group."""
    group = file.describe([_GROUP])["contents"][_GROUP]
    if not trusted:
        check_declared(path, group["size"], path.stat().st_size)
    result = {
        key: file.read(variable["name"], (slice(None),) * len(variable["shape"]))
        for key, variable in group["variables"].items()
        if variable["shape"] and variable["dtype"] is not None and is_numeric(np.dtype(variable["dtype"]))
    }
    if _CHAIN not in result:
        raise BayesreconError(f"{path}: there is no chain of numbers in it")
    chain = result.pop(_CHAIN)
    steps = group["attributes"].get(_ITERATION, len(chain))
    if not isinstance(steps, int | np.integer) or not 0 < steps <= len(chain):
        raise BayesreconError(f"{path}: it claims {str(steps)[:40]} of {len(chain)} steps")
    density = result.pop(_DENSITY, None)
    steps = int(steps)  # the file has room for steps that were not taken
    return chain[:steps], None if density is None else density[:steps], result, group["attributes"]


def _contents(
    source: EmceeChains | Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    if not isinstance(source, Path):
        blobs, entries = _blobs(_BLOBS, source.get_blobs())
        result = from_named_draws(read_emcee(source, name=name), "emcee", notes=_NOTES, entries=entries, sign="emcee")
        variables = *result.variables, *_densities(np.asarray(source.get_log_prob())), *blobs
        return replace(result, variables=variables)
    with reading(source, "emcee's HDF5 file"), opened(HDF5File, source, trusted) as file:
        chain, density, arrays, attributes = _arrays(source, file, trusted)
        inventory, place = file.inventory(), f"{_GROUP}/{_BLOBS}"
        if any(item[0] == place for item in inventory["found"]):  # of a type with fields or entries
            arrays[_BLOBS] = file.read(place, (slice(None), slice(None)))
        others = [g for g in file.describe([])["groups"] if g != _GROUP]
        attributes = {f"{_GROUP}/{key}": value for key, value in attributes.items()}
    draws = _draws(chain, name or source.stem)
    entries = [entry_of_item(*item) for item in inventory["found"] if item[0] != place]
    blobs, others_of_blobs = _blobs(_BLOBS, arrays.pop(_BLOBS, None), len(chain))
    entries += [Entry(f"{_GROUP}/{key}", "array", values) for key, values in arrays.items() if key != "accepted"]
    entries += others_of_blobs
    entries += [Entry(f"@{where}", "attribute", value) for where, value in attributes.items()]
    unread = [Unread(*item) for item in inventory["unread"]]
    unread += [Unread(group, "a group that emcee did not write; it was not searched") for group in others]
    result = from_named_draws(draws, "emcee HDF5", (stamp(source),), notes=_NOTES, unread=tuple(unread), sign=_DENSITY)
    statistics = *_densities(density), *blobs
    if (accepted := arrays.get("accepted")) is not None:
        statistics = (*statistics, Variable("sample_stats", "accepted", accepted.shape, False, accepted.astype(float)))
    return replace(result, variables=(*result.variables, *statistics), entries=tuple(entries))


def _densities(values: np.ndarray | None) -> tuple[Variable, ...]:
    """Log densities of the parameters as they are, not in coordinates of a sampler: no `lp`."""
    if values is None or values.ndim != 2:
        return ()
    return (Variable("sample_stats", _DENSITY, (), True, values.T.reshape(-1).astype(float)),)


def _blobs(
    name: str, blobs: np.ndarray | None, steps: int | None = None
) -> tuple[tuple[Variable, ...], tuple[Entry, ...]]:
    """Blobs `(steps, walkers, ...)`, what the log density returned for every draw, by field if they have any: those
    that are numbers, and others."""
    variables, entries = list[Variable](), list[Entry]()
    if blobs is not None:
        for field in blobs.dtype.names or ("",):
            values, key = np.asarray(blobs[field] if field else blobs)[:steps], f"{name}/{field}".rstrip("/")
            if values.ndim < 2 or not is_numeric(values.dtype):
                entries.append(Entry(key, "array", values))
                continue
            rows = values.swapaxes(0, 1).reshape(-1, *values.shape[2:])
            variables.append(Variable("posterior", key, values.shape[2:], True, rows))
    return tuple(variables), tuple(entries)


def _holds(source: object) -> bool:
    return type(source).__module__.partition(".")[0] == "emcee" and callable(getattr(source, "get_chain", None))


def _claims(path: Path) -> bool:
    try:
        with opened(HDF5File, path) as file:
            group = file.describe([_GROUP])["contents"].get(_GROUP)
    except (BayesreconError, OSError):  # the reader of the suffix says what is wrong
        return False
    return group is not None and _CHAIN in group["variables"]


FORMAT = Format("emcee HDF5", (".h5", ".hdf5"), read_emcee, _contents, _holds, rank=25, guarded=True, claims=_claims)

"""One reader for whatever draws come in: by the suffix of a path, or by the look of an object."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.arviz import read_arviz
from bayesrecon.posteriors.cmdstan import is_cmdstan_fit, read_cmdstan
from bayesrecon.posteriors.draws import Draws, reading
from bayesrecon.posteriors.npz import LOG_DENSITY, from_arrays, read_npz

SUFFIXES = {
    ".nc": read_arviz,
    ".netcdf": read_arviz,
    ".h5": read_arviz,
    ".zarr": read_arviz,
    ".csv": read_cmdstan,
    ".npz": read_npz,
}
"""File name suffix -> reader."""


def read_draws(source: Any, *, name: str | None = None) -> Draws:
    """Draws from a file or an object.

    Args:
        source: a path ending in `.nc`, `.netcdf`, `.h5`, `.zarr`, `.csv` or `.npz`; a list of CmdStan `.csv`
            paths, one a chain; a dictionary of arrays `(chains, draws, *shape)`; `Draws`; an ArviZ
            InferenceData or xarray DataTree; a CmdStanPy fit; a NumPyro MCMC that has run.
        name: for display; from the file's name unless given.

    Raises:
        BayesreconError: no such file, an unknown suffix or object, or what the reader in question raises.
        MissingExtraError: a `.zarr` directory, and zarr is not installed.

    Example:
        >>> import numpy as np
        >>> read_draws({"beta": np.zeros((4, 100, 3))}).values["beta"].shape
        (4, 100, 3)
    """
    if isinstance(source, Draws):
        return source
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source), name)
    # Before mappings and sequences in general: InferenceData and DataTree are mappings of their groups.
    if type(source) is dict:
        return from_arrays(source, name=name or "draws")
    if isinstance(source, Sequence) and not isinstance(source, bytes):
        return _read_paths(source, name)
    if callable(getattr(source, "get_samples", None)):
        return _read_numpyro(source, name or "draws")
    if is_cmdstan_fit(source):
        return read_cmdstan(source, name=name)
    if hasattr(source, "posterior") or hasattr(source, "data_vars") or hasattr(source, "groups"):
        return read_arviz(source, name=name)
    raise BayesreconError(f"cannot read draws from a {type(source).__name__}")


def _read_path(path: Path, name: str | None) -> Draws:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise BayesreconError(f"{path}: unknown suffix {suffix!r}; known are {', '.join(SUFFIXES)}")
    if not path.exists():
        raise BayesreconError(f"{path}: no such file")
    if path.is_dir() != (suffix == ".zarr"):
        kind = "a directory" if path.is_dir() else "not a directory"
        raise BayesreconError(f"{path} is {kind}")
    return SUFFIXES[suffix](path, name=name)


def _read_paths(source: Sequence[Any], name: str | None) -> Draws:
    if not source or not all(isinstance(path, str | os.PathLike) for path in source):
        raise BayesreconError("a list of draws must be a list of CmdStan .csv paths, one a chain")
    if len(source) == 1:
        return _read_path(Path(source[0]), name)
    if other := [path for path in source if Path(path).suffix.lower() != ".csv"]:
        raise BayesreconError(f"{other[0]}: several files are read as CmdStan chains, which end in .csv")
    return read_cmdstan(source, name=name)


def _read_numpyro(mcmc: Any, name: str) -> Draws:
    with reading("a NumPyro MCMC", "draws (has it run?)"):
        samples = mcmc.get_samples(group_by_chain=True)
        if not isinstance(samples, dict):
            raise BayesreconError("this MCMC ran on a potential function: its draws carry no parameter names")
        energy = mcmc.get_extra_fields(group_by_chain=True).get("potential_energy")
    return from_arrays(samples if energy is None else {**samples, LOG_DENSITY: -energy}, name=name)

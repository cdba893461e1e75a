"""A cleaned copy: the draws of the model's parameters, and nothing else."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_netcdf, write_whole
from bayesrecon.posteriors.contents import Contents
from bayesrecon.results.audit import Audit
from bayesrecon.types import Model

SUFFIXES = (".nc", ".npz")


def clean(
    contents: Contents,
    audit: Audit,
    model: Model | None = None,
    *,
    draws: int | None = None,
    digits: int | None = None,
) -> dict[str, np.ndarray]:
    """The draws that may stay, `{name: (chains, draws, *shape)}`.

    Left out are all groups but the posterior, whatever a finding names, and, with a model, all but its parameters.

    Args:
        draws: keep so many, at even distances in each chain.
        digits: round to so many significant digits.

    Raises:
        BayesreconError: nothing would be left.
    """
    if contents.draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to keep (no group 'posterior')")
    dropped = {where for finding in audit for where in finding.drop}
    names = [name for name in contents.draws.values if f"posterior/{name}" not in dropped]
    if model is not None:
        own = {p.name for p in model.parameters}
        # A model that rebuilds its latents needs the published ones.
        if model.prepare is not None:
            own |= set(names)
        names = [name for name in names if name in own]
    if not names:
        raise BayesreconError(f"{contents.name}: nothing would be left of it")
    kept = {name: _thinned(contents.draws.values[name], draws) for name in names}
    return {name: round_to(v, digits) for name, v in kept.items()} if digits else kept


def _thinned(values: np.ndarray, count: int | None) -> np.ndarray:
    """`count` draws in all, evenly from each chain `(chains, draws, ...)`."""
    if count is None:
        return values
    chains, length = values.shape[:2]
    each = -(-count // chains)
    if not 1 <= each <= length:
        raise BayesreconError(f"{count} draws cannot be kept of {chains * length}")
    return values[:, evenly(length, each)]


def write_clean(values: dict[str, np.ndarray], path: Path) -> Path:
    """Write draws to `.nc` (a group `posterior` that ArviZ opens) or `.npz`, without attributes or labels."""
    if path.suffix == ".npz":
        write_whole(path, lambda t: _write_npz(values, t))
        return path
    import xarray as xr

    chains, length = next(iter(values.values())).shape[:2]
    data: dict[str, Any] = {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(v.ndim - 2))), v) for name, v in values.items()
    }
    dataset = xr.Dataset(data, {"chain": np.arange(chains), "draw": np.arange(length)})
    write_netcdf(path, dataset, "posterior")
    return path


def _write_npz(values: dict[str, np.ndarray], path: Path) -> None:
    """As `numpy.savez`, which takes names for its own arguments where they are "file" or "allow_pickle"."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)

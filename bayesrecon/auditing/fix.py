"""A cleaned copy: draws of which an audit can say what they are, and nothing else."""

import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.auditing.accounts.account import is_drawn, is_public
from bayesrecon.auditing.look import Look
from bayesrecon.diagnostics import evenly
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_netcdf, write_whole
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.formats.npz import ATTRIBUTES
from bayesrecon.results.audit import Audit


@np.errstate(over="ignore", invalid="ignore")  # as an audit
def clean(
    contents: Contents,
    audit: Audit,
    model: Model | None = None,
    *,
    public: Sequence[str] = (),
    draws: int | None = None,
    digits: int | None = None,
) -> dict[str, np.ndarray]:
    """The draws that may stay, `{name: (chains, draws, *shape)}`: an allow-list.

    What stays are the model's parameters, without a model arrays that are drawn and no combination of others, and what
    was declared public, as far as no finding names it. All other groups, labels, attributes and comments are left out.

    Args:
        public: names or places of what may stay, with wildcards.
        draws: keep so many, at even distances in each chain.
        digits: round to so many significant digits.

    Raises:
        BayesreconError: nothing would be left.
    """
    if contents.draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to keep (no group 'posterior')")
    dropped = {where for finding in audit for where in finding.drop}
    look = Look(contents, model)
    allowed = {
        v.name
        for v in contents.group("posterior")
        if (look.is_parameter(v) and is_drawn(v)) or (public and is_public(v.where, public))
    }
    names = [name for name in contents.draws.values if name in allowed and f"posterior/{name}" not in dropped]
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


def write_clean(values: dict[str, np.ndarray], path: Path, attributes: Mapping[str, str] | None = None) -> Path:
    """Write draws to `.nc` (a group `posterior` that ArviZ opens) or `.npz`, without labels and with these attributes
    alone."""
    if path.suffix == ".npz":
        described = {ATTRIBUTES: np.array(json.dumps(dict(attributes)))} if attributes else {}
        write_whole(path, lambda t: _write_npz({**values, **described}, t))
        return path
    import xarray as xr

    chains, length = next(iter(values.values())).shape[:2]
    data: dict[str, Any] = {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(v.ndim - 2))), v) for name, v in values.items()
    }
    dataset = xr.Dataset(data, {"chain": np.arange(chains), "draw": np.arange(length)}, dict(attributes or {}))
    write_netcdf(path, dataset, "posterior")
    return path


def write_audited(
    values: dict[str, np.ndarray],
    path: Path,
    audit: Callable[[Path], Audit],
    attributes: Mapping[str, str] | None = None,
) -> Audit:
    """Write a cleaned copy once it was audited, as the file that it will be.

    Args:
        audit: of the file that is not yet in its place.
        attributes: of the file.

    Returns:
        the audit of the copy.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = write_clean(values, Path(folder) / path.name, attributes)
        found = audit(copy)
        content = copy.read_bytes()
    write_whole(path, lambda temporary: temporary.write_bytes(content))
    return replace(found, files=tuple({**one, "path": str(path)} for one in found.files))


def _write_npz(values: dict[str, np.ndarray], path: Path) -> None:
    """As `numpy.savez`, which takes names for its own arguments where they are "file" or "allow_pickle"."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)

"""A cleaned copy of a file: draws that an audit recognises, and nothing else."""

import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.auditing.accounts.account import is_drawn, is_public
from bayesrecon.auditing.look import Look
from bayesrecon.diagnostics import evenly
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_netcdf, write_whole
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.formats.npz import ATTRIBUTES
from bayesrecon.results.audit import Audit

if TYPE_CHECKING:
    from bayesrecon.model import Model


@np.errstate(over="ignore", invalid="ignore")  # as an audit
def clean(
    contents: Contents,
    audit: Audit,
    model: "Model | None" = None,
    *,
    public: Sequence[str] = (),
    draws: int | None = None,
    digits: int | None = None,
) -> dict[str, np.ndarray]:
    """The draws that may stay, `{name: (chains, draws, *shape)}`. This is an allow-list.

    Parameters of the model stay. Without a model, arrays that vary between draws stay, unless they are combinations of
    others. Items that were declared public stay, too. Items that a finding names are dropped, and so are all other
    groups, labels, attributes and comments.

    Args:
        contents: the file.
        audit: its audit.
        model: the model behind the draws.
        public: names or places of items that may stay, with wildcards.
        draws: number of draws to keep, evenly spaced in each chain.
        digits: number of significant digits to keep.

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
    """`count` draws in all, evenly spaced in each chain of `(chains, draws, ...)`."""
    if count is None:
        return values
    chains, length = values.shape[:2]
    per_chain = -(-count // chains)
    if not 1 <= per_chain <= length:
        raise BayesreconError(f"cannot keep {count} of {chains * length} draws")
    return values[:, evenly(length, per_chain)]


def write_clean(values: dict[str, np.ndarray], path: Path, attributes: Mapping[str, str] | None = None) -> Path:
    """Write draws to `.nc` (with a group `posterior`, as ArviZ expects) or `.npz`, with only these attributes."""
    if path.suffix == ".npz":
        described = {ATTRIBUTES: np.array(json.dumps(dict(attributes)))} if attributes else {}
        write_whole(path, lambda t: _write_npz({**values, **described}, t))
        return path
    import xarray as xr

    chains, length = next(iter(values.values())).shape[:2]
    data: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
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
    """Write a cleaned copy after it was audited: `audited_copy`, moved into place."""
    content, audited = audited_copy(values, path, audit, attributes)
    write_whole(path, lambda temporary: temporary.write_bytes(content))
    return audited


def audited_copy(
    values: dict[str, np.ndarray],
    path: Path,
    audit: Callable[[Path], Audit],
    attributes: Mapping[str, str] | None = None,
) -> tuple[bytes, Audit]:
    """A cleaned copy as bytes, and its audit, before it is there.

    Args:
        values: the draws.
        path: path that the copy will have.
        audit: function that audits a temporary file.
        attributes: attributes of the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = write_clean(values, Path(folder) / path.name, attributes)
        audited = audit(copy)
        content = copy.read_bytes()
    return content, replace(audited, files=tuple({**file, "path": str(path)} for file in audited.files))


def _write_npz(values: dict[str, np.ndarray], path: Path) -> None:
    """Like `numpy.savez`, but with any names: `savez` would treat "file" and "allow_pickle" as its own arguments."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)

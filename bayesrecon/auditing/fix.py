"""A cleaned copy of a file: the draws that are named, and nothing else."""

import json
import tempfile
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.auditing.accounts.account import is_drawn, is_public
from bayesrecon.auditing.sensitive_values import parameters_of
from bayesrecon.auditing.wording import places
from bayesrecon.diagnostics import evenly
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_netcdf, write_whole
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.npz import ATTRIBUTES
from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import DRAWS_OR_RECORDS, SAY_WHICH

if TYPE_CHECKING:
    from bayesrecon.model import Model

Copy = tuple[bytes, Audit]
"""The content of a file, and its audit."""


def named_to_keep(contents: Contents, model: "Model | None", keep: Sequence[str] = ()) -> tuple[set[str], set[str]]:
    """Names of the arrays that a copy keeps: the parameters of the model, and those that the user names.

    That an array varies between draws is no reason to keep it: it can be a function of the parameters and the data.

    Args:
        contents: the file.
        model: the model behind the draws.
        keep: names or places of arrays, with wildcards.

    Raises:
        BayesreconError: there are no draws, it is open whether these are draws, or nothing is named.
    """
    if contents.undecided:
        raise BayesreconError(f"{contents.name}: {DRAWS_OR_RECORDS} {SAY_WHICH}")
    if contents.draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to keep (no group 'posterior')")
    posterior = list(contents.draws.values)
    parameters = set[str]() if model is None else _parameters(contents.draws, model)
    stated = {name for name in posterior if keep and is_public(f"posterior/{name}", keep)}
    if not parameters and not stated:
        raise BayesreconError(
            f"{contents.name}: say what the copy keeps: --keep NAME, which may have wildcards ({places(posterior)}), "
            "or --model for the parameters of the model"
        )
    return parameters, stated


@np.errstate(over="ignore", invalid="ignore")  # as an audit
def clean(
    contents: Contents,
    audit: Audit,
    named: tuple[set[str], set[str]],
    *,
    draws: int | None = None,
    digits: int | None = None,
) -> dict[str, np.ndarray]:
    """The draws of a copy, `{name: (chains, draws, *shape)}`. All other groups, labels and comments are dropped.

    Args:
        contents: the file.
        audit: its audit. Parameters that a finding drops, or that do not vary, are dropped.
        named: from `named_to_keep`.
        draws: number of draws to keep, evenly spaced in each chain.
        digits: number of significant digits to keep.

    Raises:
        BayesreconError: the draws fail the checks of the only model that says that they are draws, or nothing would be
            left.
    """
    if any(n.attack == DRAWS_OR_RECORDS for n in audit.not_run) or contents.draws is None:
        raise BayesreconError(f"{contents.name}: {DRAWS_OR_RECORDS} {SAY_WHICH}")
    dropped = {where for finding in audit for where in finding.drop}
    varying = {v.name for v in contents.group("posterior") if is_drawn(v) and v.where not in dropped}
    names = named[0] & varying | named[1]
    if not names:
        raise BayesreconError(f"{contents.name}: nothing would be left of it")
    kept = {name: _thinned(values, draws) for name, values in contents.draws.values.items() if name in names}
    return {name: round_to(v, digits) for name, v in kept.items()} if digits else kept


def _parameters(draws: Draws, model: "Model") -> set[str]:
    """Names of the arrays that the model reads its parameters from."""
    names = parameters_of(model)
    if names is not None:
        return names & draws.values.keys()
    from bayesrecon.posteriors.sources import accepted_draws

    kept = dict(draws.values)
    theta = np.asarray(accepted_draws(draws, model, ignore_unknown=True)[0].theta)
    for name in draws.values:  # the model computes its parameters from arrays of other names
        fewer = {k: v for k, v in kept.items() if k != name}
        try:
            read = accepted_draws(replace(draws, values=fewer), model, ignore_unknown=True)[0].theta
            same = np.array_equal(read, theta)
        except (BayesreconError, KeyError):
            same = False
        kept = fewer if same else kept
    return set(kept)


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
) -> Copy:
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


@contextmanager
def as_file(content: bytes, name: str) -> Generator[Path]:
    """A temporary file with this content and name."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / name
        copy.write_bytes(content)
        yield copy


def _write_npz(values: dict[str, np.ndarray], path: Path) -> None:
    """Like `numpy.savez`, but with any names: `savez` would treat "file" and "allow_pickle" as its own arguments."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)

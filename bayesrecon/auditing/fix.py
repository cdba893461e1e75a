"""A cleaned copy of a file: the draws that are named, and nothing else."""

import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.auditing.accounts.account import is_drawn, is_public
from bayesrecon.auditing.sensitive_values import parameters_of
from bayesrecon.diagnostics import evenly
from bayesrecon.digits import round_to
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_netcdf, write_whole
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.npz import ATTRIBUTES
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import DRAWS_OR_RECORDS, SAY_WHICH


@np.errstate(over="ignore", invalid="ignore")  # as an audit
def clean(
    contents: Contents,
    audit: Audit,
    model: Model | None = None,
    *,
    keep: Sequence[str] = (),
    draws: int | None = None,
    digits: int | None = None,
) -> dict[str, np.ndarray]:
    """The draws that may stay, `{name: (chains, draws, *shape)}`: parameters of the model, and what is named.

    All other arrays are dropped, and so are groups, labels, attributes and comments. That an array varies between draws
    is no reason to keep it: it can be a function of the parameters and the data.

    Args:
        contents: the file.
        audit: its audit.
        model: the model behind the draws.
        keep: names or places of arrays to keep, with wildcards.
        draws: number of draws to keep, evenly spaced in each chain.
        digits: number of significant digits to keep.

    Raises:
        BayesreconError: it is open whether these are draws, nothing is named, a finding names what is to be kept, or
            nothing would be left.
    """
    if contents.undecided or any(n.attack == DRAWS_OR_RECORDS for n in audit.not_run):
        raise BayesreconError(f"{contents.name}: {DRAWS_OR_RECORDS} {SAY_WHICH}")
    if contents.draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to keep (no group 'posterior')")
    posterior = contents.draws.values
    parameters = set[str]() if model is None else _parameters(contents.draws, model)
    stated = {name for name in posterior if keep and is_public(f"posterior/{name}", keep)}
    if not parameters and not stated:
        listed = ", ".join(list(posterior)[:6]) + (f" and {len(posterior) - 6} more" if len(posterior) > 6 else "")
        raise BayesreconError(
            f"{contents.name}: say what the copy keeps: --keep NAME, which may have wildcards ({listed}), or --model "
            "for the parameters of the model"
        )
    dropped = {where: finding.title for finding in audit for where in finding.drop}
    if refused := next((name for name in stated if f"posterior/{name}" in dropped), None):
        raise BayesreconError(f"--keep {refused}: {dropped[f'posterior/{refused}']}; leave it out")
    varying = {v.name for v in contents.group("posterior") if is_drawn(v)}
    names = [k for k in posterior if k in stated or (k in parameters & varying and f"posterior/{k}" not in dropped)]
    if not names:
        raise BayesreconError(f"{contents.name}: nothing would be left of it")
    kept = {name: _thinned(posterior[name], draws) for name in names}
    return {name: round_to(v, digits) for name, v in kept.items()} if digits else kept


def _parameters(draws: Draws, model: Model) -> set[str]:
    """Names of the arrays that the model reads its parameters from."""
    names = parameters_of(model)
    if names is not None:
        return names & draws.values.keys()
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

"""Draws from CmdStan: CSV files, one per chain, or a CmdStanPy fit."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError, beside, reading
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.columns import (
    check_header,
    is_diagnostic,
    names_of_r,
    sort_columns,
    split_chains,
)
from bayesrecon.untrusted.cmdstan_file import CmdStanFile
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.packed import PACKED


def read_cmdstan(source: object, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws of CmdStan's `sample` method.

    Args:
        source: the path of one CSV file, a list of paths (one per chain), or a CmdStanPy fit.
        name: for display; from the files' names unless given.
        trusted: files of your own, read without limits on time and memory.

    Returns:
        Draws with arrays `(chains, draws, *shape)`; warm-up draws that were saved are dropped, and so are the
        sampler's own columns, whose names end in `__`. `lp__` becomes the log density. Tuples and complex numbers
        are left out.

    Raises:
        BayesreconError: a file that is missing, empty, cut off, not text or not from `sample`; cells that are
            not numbers; chains whose columns or lengths differ.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.csv"
        >>> _ = path.write_text("lp__,beta.1,beta.2\\n-7.1,0.5,1.5\\n-7.3,0.4,1.6\\n")
        >>> read_cmdstan(path).values["beta"].shape
        (1, 2, 2)
    """
    if isinstance(source, str | os.PathLike):
        paths = [Path(source)]
    elif isinstance(source, Sequence):
        paths = [Path(path) for path in source]
    else:
        paths = [Path(path) for path in getattr(getattr(source, "runset", None), "csv_files", [])]
        if not paths or not all(path.is_file() for path in paths):  # a temporary folder that is gone
            return _read_fit(source, name)
    if not paths:
        raise BayesreconError("an empty list of CmdStan files")

    settings, header, matrix, exact = _chain(paths[0], trusted)
    if is_diagnostic(header):
        raise BayesreconError(
            f"{paths[0]}: CmdStan's diagnostic file, whose parameters are unconstrained; pass the sampler's output file"
        )
    chains = [matrix]
    for path in paths[1:]:
        _, other, matrix, _ = _chain(path, trusted)
        if other != header:
            raise BayesreconError(
                f"{path}: its columns differ from those of {paths[0]}: these are not chains of one fit"
            )
        if len(matrix) != len(chains[0]):
            raise BayesreconError(
                f"{path}: {len(matrix)} draws, but {paths[0]} has {len(chains[0])} (chains of unequal length): leave "
                "out the chain that was killed, or truncate all chains to the shortest"
            )
        chains.append(matrix)
    name = name or shared_name(paths)
    with reading(name, "CmdStan draws"):
        by_r = names_of_r(header, settings)
        if len(chains) == 1:
            header, matrix = _in_chains(header, chains[0], name)
        else:
            matrix = np.stack(chains)
        return _convert(header, matrix, name, keep_log_density=not exact, by_r=by_r)


def _in_chains(header: list[str], matrix: np.ndarray, name: str) -> tuple[list[str], np.ndarray]:
    """Chains that follow one another in a table of R, without the columns that count them."""
    check_header(header, name)
    columns = dict(zip(header, matrix.T, strict=True))
    chains, counting = split_chains(columns, len(matrix))
    kept = [k for k, column in enumerate(header) if column not in counting]
    return [header[k] for k in kept], matrix[:, kept].reshape(chains, -1, len(kept))


def is_cmdstan_fit(source: object) -> bool:
    """Whether this looks like a CmdStanPy fit."""
    return hasattr(getattr(source, "runset", None), "csv_files") or hasattr(source, "column_names")


def _read_fit(fit: object, name: str | None) -> Draws:
    draws, header = getattr(fit, "draws", None), getattr(fit, "column_names", None)
    if not callable(draws) or header is None:
        raise BayesreconError(f"a {type(fit).__name__} is not a CmdStanPy fit that holds draws")
    with reading(f"a {type(fit).__name__}", "CmdStanPy draws"):
        matrix = np.asarray(draws(concat_chains=False), np.float64)  # (draws, chains, columns)
        return _convert(list(header), matrix.swapaxes(0, 1), name or "draws", keep_log_density=True)


def _convert(header: list[str], matrix: np.ndarray, name: str, keep_log_density: bool, by_r: bool = False) -> Draws:
    """`matrix` is `(chains, draws, columns)`."""
    approximate = next((c for c in ("log_g__", "log_q__", "lp_approx__") if c in header), None)
    if approximate is not None:
        remedy = "" if approximate == "lp_approx__" else "; posteriors.from_guide reads the file that CmdStan wrote"
        raise BayesreconError(
            f"{name}: the column {approximate} shows that these are draws of an approximation, not of the posterior"
            f"{remedy}"
        )
    check_header(header, name)
    columns = sort_columns({column: matrix[:, :, k] for k, column in enumerate(header)}, by_r)
    if not columns.parameters:
        parts = " except parts of a tuple or a complex number" if columns.aside else ""
        raise BayesreconError(f"{name}: there are no parameters among the columns{parts}")
    log_density = columns.sampler["lp__"].copy() if keep_log_density and "lp__" in columns.sampler else None
    return Draws(columns.arrays(), log_density, name)


def _chain(path: Path, trusted: bool) -> tuple[Mapping[str, str], list[str], np.ndarray, bool]:
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file{beside(path)}")
    with reading(path, "a CmdStan CSV file"), opened(CmdStanFile, path, trusted) as file:
        return file.chain()


def shared_name(paths: list[Path]) -> str:
    """The first file's name, without the chain's number where there are several."""
    first = Path(paths[0].stem) if paths[0].suffix.lower() in PACKED else paths[0]
    return first.stem if len(paths) == 1 else re.sub(r"[-_.][0-9]+$", "", first.stem)

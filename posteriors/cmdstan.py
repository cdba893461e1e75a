"""Draws from CmdStan: CSV files, one a chain, or a CmdStanPy fit."""

import itertools
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.draws import Draws, assemble, check_names

MAX_LINE = 2**26
"""A header line longer than this many characters (millions of columns) is no CmdStan file."""

Settings = dict[str, str]

_INSTEAD = {
    "variational": "; posteriors.from_guide reads it",
    "laplace": "; posteriors.from_guide reads it",
    "optimize": "; posteriors.dirac takes the values of a mode",
    "pathfinder": "; its draws are those of a mixture, which is no posterior and no optimum",
}


def read_cmdstan(source: Any, *, name: str | None = None) -> Draws:
    """Draws of CmdStan's `sample` method.

    Args:
        source: the path of one CSV file, a list of paths (one a chain), or a CmdStanPy fit.
        name: for display; from the files' names unless given.

    Returns:
        Draws with arrays `(chains, draws, *shape)`; warm-up draws that were saved are dropped, and so are the
        sampler's own columns, whose names end in `__`. `lp__` becomes the log density.

    Raises:
        BayesreconError: a file that is missing, empty, cut off, not text or not from `sample`; cells that are
            not numbers; chains whose columns or lengths differ; tuples and complex numbers.

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

    header, matrix, exact = _read_chain(paths[0])
    chains = [matrix]
    for path in paths[1:]:
        other, matrix, _ = _read_chain(path)
        if other != header:
            raise BayesreconError(f"{path}: its columns are not those of {paths[0]}: not chains of one fit")
        if len(matrix) != len(chains[0]):
            raise BayesreconError(
                f"{path}: {len(matrix)} draws, but {paths[0]} has {len(chains[0])} (chains of unequal length)"
            )
        chains.append(matrix)
    name = name or shared_name(paths)
    with reading(name, "CmdStan draws"):
        return _convert(header, np.stack(chains), name, keep_log_density=not exact)


def is_cmdstan_fit(source: Any) -> bool:
    """Whether this looks like a CmdStanPy fit."""
    return hasattr(getattr(source, "runset", None), "csv_files") or hasattr(source, "column_names")


def _read_fit(fit: Any, name: str | None) -> Draws:
    if not callable(getattr(fit, "draws", None)) or not hasattr(fit, "column_names"):
        raise BayesreconError(f"a {type(fit).__name__} is not a CmdStanPy fit that holds draws")
    with reading(f"a {type(fit).__name__}", "CmdStanPy draws"):
        matrix = np.asarray(fit.draws(concat_chains=False), np.float64)  # (draws, chains, columns)
        return _convert(list(fit.column_names), matrix.swapaxes(0, 1), name or "draws", keep_log_density=True)


def _convert(header: list[str], matrix: np.ndarray, name: str, keep_log_density: bool) -> Draws:
    """`matrix` is `(chains, draws, columns)`."""
    approximate = next((c for c in ("log_g__", "log_q__", "lp_approx__") if c in header), None)
    if approximate is not None:
        remedy = "" if approximate == "lp_approx__" else "; posteriors.from_guide reads the file that CmdStan wrote"
        raise BayesreconError(
            f"{name}: the column {approximate} says that these are draws of an approximation, not of the posterior"
            f"{remedy}"
        )
    ((most, times),) = Counter(header).most_common(1)
    if times > 1:
        raise BayesreconError(f"{name}: the column {most[:80]!r} appears {times} times")
    columns = {column: matrix[:, :, k] for k, column in enumerate(header) if not column.endswith("__")}
    if not columns:
        raise BayesreconError(f"{name}: there are no parameters among the columns")
    log_density = None
    if keep_log_density and "lp__" in header:
        log_density = matrix[:, :, header.index("lp__")].copy()
    return Draws(assemble(columns), log_density, name)


def _read_chain(path: Path) -> tuple[list[str], np.ndarray, bool]:
    """Column names, rows `(draws, columns)`, and whether the sampler was fixed_param (it has no density)."""
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file")
    with reading(path, "a CmdStan CSV file"), path.open(encoding="utf-8-sig") as file:
        settings, header = read_header(path, file)
        check_names((re.split(r"[.\[]", column, maxsplit=1)[0] for column in header), path)
        exact = settings.get("algorithm") == "fixed_param"
        first = next((line for line in file if line.split("#")[0].strip()), None)
        if first is None:
            raise BayesreconError(f"{path}: there are no draws after the header")
        # np.loadtxt streams line by line, rounds as Python does (not every version of pandas does) and
        # refuses rows of another length instead of padding them.
        try:
            rows = np.loadtxt(itertools.chain([first], file), delimiter=",", comments="#", ndmin=2)
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            detail = " ".join(str(error).split(";")[0].split())[:200]
            raise BayesreconError(f"{path}: {detail} of the draws (a truncated or edited file?)") from error
    if rows.shape[1] != len(header):
        raise BayesreconError(f"{path}: rows of {rows.shape[1]} fields under a header of {len(header)}")
    warmup = 0 if exact else saved_warmup(path, settings)
    check_complete(path, settings)
    if len(rows) <= warmup:
        raise BayesreconError(f"{path}: holds warm-up draws only ({len(rows)} of {warmup})")
    check_count(path, settings, len(rows) - warmup)
    return header, rows[warmup:], exact


def read_header(path: Path, file: TextIO, methods: tuple[str, ...] = ("sample",)) -> tuple[Settings, list[str]]:
    settings: Settings = {}
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise BayesreconError(f"{path}: a line of {MAX_LINE} characters is not from CmdStan")
        if line.startswith("#"):
            key, equals, value = line[1:].partition("=")
            if equals:
                settings.setdefault(key.strip(), value.strip().removesuffix("(Default)").rstrip())
        elif line.strip():
            break
    method = settings.get("method", "sample")
    if method not in methods:
        remedy = _INSTEAD.get(method, "")
        raise BayesreconError(f"{path}: written by CmdStan's method {method[:40]!r}, not {methods[0]!r}{remedy}")
    if not line:
        raise BayesreconError(f"{path}: the file is empty" + (" but for comments" if settings else ""))
    return settings, [column.strip() for column in line.strip().split(",")]


def saved_warmup(path: Path, settings: Settings) -> int:
    if settings.get("save_warmup", "0").lower() not in ("1", "true"):
        return 0
    return _saved(path, settings, "num_warmup" if "num_warmup" in settings else "warmup")  # as RStan has it


def check_complete(path: Path, settings: Settings) -> None:
    """A chain that stopped early is welcome, but not a last row that may end in half a number."""
    if "num_samples" not in settings:  # not CmdStan's own file, which ends every row
        return
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, 2**16), os.SEEK_END)
        last = file.read().split(b"\n")[-1]
    if last.strip() and not last.startswith(b"#"):
        raise BayesreconError(f"{path}: the last row is cut off")


def check_count(path: Path, settings: Settings, count: int) -> None:
    """Refuse more draws than the sampler was asked for: somebody put them there."""
    if "num_samples" in settings and count > (most := _saved(path, settings, "num_samples")):
        said = f"num_samples = {settings['num_samples']}"
        raise BayesreconError(
            f"{path}: {count} draws, but its comments say {said}, which leaves {most}; several runs in one file?"
        )


def _saved(path: Path, settings: Settings, key: str) -> int:
    """The rows that `key` iterations leave after thinning: the first of every `thin`."""
    counts = []
    for word, default, pattern in (key, "", "[0-9]{1,18}"), ("thin", "1", "0*[1-9][0-9]{0,17}"):
        text = settings.get(word, default)
        if not re.fullmatch(pattern, text):
            raise BayesreconError(f"{path}: {word} = {text[:40]!r} in its comments is not a count")
        counts.append(int(text))
    return -(-counts[0] // counts[1])


def shared_name(paths: list[Path]) -> str:
    """The first file's name, without the chain's number where there are several."""
    return paths[0].stem if len(paths) == 1 else re.sub(r"[-_.][0-9]+$", "", paths[0].stem)

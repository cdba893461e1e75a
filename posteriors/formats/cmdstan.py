"""Draws from CmdStan: CSV files, one per chain, or a CmdStanPy fit."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, Note, beside, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import (
    WIDE,
    WIDE_VALUES,
    Contents,
    Stamp,
    Unread,
    Variable,
    from_named_draws,
    group_of,
    stamp,
    stride,
)
from bayesrecon.posteriors.draws import Draws, check_names
from bayesrecon.posteriors.formats.columns import (
    CHAINS,
    COUNTS,
    check_header,
    is_diagnostic,
    names_of_r,
    sign_of_columns,
    sort_columns,
    split_chains,
)
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.cmdstan_file import COMMENT_LETTERS, METHODS, CmdStanFile, check_count, saved_warmup
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


_MOST_DRAWS = 50_000  # whose parameters are kept
_SETTINGS = {"method", "stan_version_major", "sampler_t", "num_samples"}  # in the comments of CmdStan and of RStan


@dataclass
class _Plan:
    """Which columns are parsed for which draws. Columns are given by position in the file."""

    header: list[str]
    narrow: list[int]
    wide: list[int]
    keep: int  # narrow columns are parsed of every `keep`-th draw
    step: int  # wide columns of every `step`-th draw, a multiple of `keep`
    method: str  # of CmdStan
    by_r: bool  # whether the names are R's
    sign: str  # comments of a sampler; empty if there are none


@dataclass
class _Chain:
    """Content of one file."""

    name: str
    narrow: list[np.ndarray] = field(default_factory=list[np.ndarray])
    wide: list[np.ndarray] = field(default_factory=list[np.ndarray])
    comments: list[str] = field(default_factory=list[str])
    letters: int = 0
    stamp: Stamp | None = None
    rows: int = 0
    cut: bool = False


def read_cmdstan_contents(
    paths: Sequence[Path], *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """All columns and comments of the chains of one fit.

    Raises:
        BayesreconError: as `read_cmdstan`; also naming the first line whose number of fields differs.
    """
    total = sum(path.stat().st_size for path in paths)
    done, plan, chains = 0, None, []
    for path in paths:
        if not path.is_file():
            raise BayesreconError(f"{path}: no such file{beside(path)}")
        with reading(path, "a CmdStan CSV file"), opened(CmdStanFile, path, trusted) as file:
            settings, header = file.heading(METHODS)
            if plan is None:
                unpacked = total * file.size() / max(path.stat().st_size, 1)
                plan = _plan(path, header, unpacked / max(file.first_row(), 1), settings)
            elif header != plan.header or settings.get("method", "sample") != plan.method:
                raise BayesreconError(
                    f"{path}: its columns differ from those of {paths[0]}: these are not chains of one fit"
                )
            skip = 0 if settings.get("algorithm") == "fixed_param" else saved_warmup(path, settings)
            cut = file.is_cut(settings)
            total_bytes = max(file.size(), 1)
            chain = _read(
                path,
                file,
                plan,
                skip,
                cut,
                lambda at, d=done, p=path, w=total_bytes: _report_progress(progress, d, p, at / w, total),
            )
        done += path.stat().st_size
        if chain.rows <= 0 and len(paths) == 1:
            raise BayesreconError(f"{path}: there are no draws after the header")
        check_count(path, settings, chain.rows)
        chains.append(chain)
    assert plan is not None
    title = name or shared_name(list(paths))
    with reading(title, "CmdStan draws"):
        return _contents(plan, chains, title)


def _report_progress(progress: Progress | None, done: int, path: Path, part: float, total: int) -> None:
    if progress is not None:
        progress("reading the file", (done + part * path.stat().st_size) / max(total, 1))


def _plan(path: Path, header: list[str], draws: float, settings: Mapping[str, str]) -> _Plan:
    check_header(header, path)
    check_names(bases := {_base(column) for column in header}, path)
    group = {base: group_of(base) for base in bases}
    wide = [k for k, column in enumerate(header) if group[_base(column)] in WIDE and _base(column) != column]
    marked = set(wide)
    narrow = [k for k in range(len(header)) if k not in marked]
    method = settings.get("method", "sample")
    if method == "sample" and all(header[k].endswith("__") for k in narrow):  # nothing but predictions: its parameters
        narrow, wide = list(range(len(header))), []
    keep = max(1, int(np.ceil(draws * len(narrow) / max(WIDE_VALUES, 1))), int(np.ceil(draws / _MOST_DRAWS)))
    step = keep * max(1, -(-stride(int(draws), len(wide)) // keep))
    by_r = names_of_r(header, settings)
    sign = "the comments of CmdStan" if _SETTINGS & settings.keys() else ""
    return _Plan(header, narrow, wide, keep, step, method, by_r, sign)


def _base(column: str) -> str:
    return column if column in (*CHAINS, *COUNTS) else re.split(r"[.\[:]", column, maxsplit=1)[0]


def _read(path: Path, file: CmdStanFile, plan: _Plan, skip: int, cut: bool, report: Callable[[int], None]) -> _Chain:
    chain = _Chain(path.name, stamp=stamp(path), cut=cut)
    wanted = {
        "columns": len(plan.header),
        "narrow": plan.narrow,
        "wide": plan.wide,
        "keep": plan.keep,
        "step": plan.step,
        "cut": cut,
    }
    at: Json = {}
    while not at.get("end"):
        block = file.block({**wanted, "skip": skip}, at)
        at = block["at"]
        chain.narrow.append(block["narrow"])
        chain.wide.append(block["wide"])
        chain.comments += block["comments"]
        report(at["byte"])
    chain.rows, chain.letters = at["row"], at["letters"]
    return chain


def _contents(plan: _Plan, files: list[_Chain], title: str) -> Contents:
    chains, notes, unread = _common_length(files)
    narrow = np.array([np.concatenate(chain.narrow)[: _thinned(chains, plan)] for chain in chains])
    columns = {plan.header[k]: narrow[:, :, i] for i, k in enumerate(plan.narrow)}  # each (chains, draws kept)
    counting: set[str] = set()
    if len(chains) == 1:
        count, counting = split_chains({name: values[0] for name, values in columns.items()}, narrow.shape[1])
        columns = {name: values.reshape(count, -1) for name, values in columns.items() if name not in counting}
    sorted_columns = sort_columns(columns, plan.by_r)
    variables = [Variable("sample_stats", name, (), True, v.reshape(-1)) for name, v in sorted_columns.sampler.items()]
    variables += [Variable("posterior", name, v.shape[2:], True, _flat(v)) for name, v in sorted_columns.aside.items()]
    if sorted_columns.aside:
        named = ", ".join(list(sorted_columns.aside)[:6])
        notes.append(Note(f"tuples and complex numbers are read as plain columns, not as parameters: {named}"))
    arrays = sorted_columns.arrays() if sorted_columns.parameters else {}
    variables += [Variable("posterior", name, v.shape[2:], True, _flat(v)) for name, v in arrays.items()]
    draws = None
    if is_diagnostic(plan.header):
        unread.append(
            Unread("draws", "they are unconstrained in a diagnostic file; audit the sampler's output file too")
        )
    elif arrays and plan.method in ("sample", "generate_quantities"):
        density = sorted_columns.sampler.get("lp__")
        draws = Draws(arrays, None if density is None else density.copy(), title)
    elif plan.method not in ("sample", "generate_quantities"):
        unread.append(Unread("draws", f"they are from CmdStan's method {plan.method!r} and are not posterior draws"))
    step, length = plan.step // plan.keep, narrow.shape[1]
    rows = np.concatenate([c * length + np.arange(0, length, step) for c in range(len(chains))])
    if plan.wide:
        most = -(-length // step)
        wide = np.concatenate([np.concatenate(chain.wide)[:most] for chain in chains])[None]  # (1, rows, columns)
        others = sort_columns({plan.header[k]: wide[:, :, i] for i, k in enumerate(plan.wide)}, plan.by_r)
        for name, values in (*others.arrays().items(), *others.aside.items()):
            variables.append(Variable(group_of(name), name, values.shape[2:], True, values[0]))
    truncated = any(chain.letters > COMMENT_LETTERS for chain in files)
    return Contents(
        title,
        "CmdStan CSV",
        tuple(chain.stamp for chain in files if chain.stamp),
        tuple(variables),
        coordinates={f"posterior/{base}": names for base, names in sorted_columns.levels().items()},
        comments=tuple(line for chain in files for line in chain.comments),
        draws=draws,
        rows=rows,
        notes=(*notes, *((Note(f"every {plan.keep}th draw was used"),) if plan.keep > 1 else ())),
        unread=(
            *unread,
            *([Unread("comments", f"only the first {COMMENT_LETTERS} characters were read")] if truncated else []),
        ),
        sign=plan.sign or sign_of_columns(plan.header, counting),
    )


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *values.shape[2:])


def _thinned(chains: list[_Chain], plan: _Plan) -> int:
    """Draws of every chain that were parsed."""
    return min(-(-chain.rows // plan.keep) for chain in chains)


def _common_length(files: list[_Chain]) -> tuple[list[_Chain], list[str], list[Unread]]:
    """The chains whose common length keeps the most draws, notes about that, and the draws that are left out."""
    notes = [
        f"{c.name} ends in the middle of a row (was the chain killed?): that row was dropped" for c in files if c.cut
    ]
    lengths = sorted((chain.rows for chain in files), reverse=True)
    if lengths[0] <= 0:
        raise BayesreconError(f"{files[0].name}: there are no draws after the header")
    if lengths[0] == lengths[-1]:
        return files, notes, []
    length = max(lengths, key=lambda n: n * sum(other >= n for other in lengths))
    used = [chain for chain in files if chain.rows >= length]
    listed = ", ".join(str(max(chain.rows, 0)) for chain in files)
    notes.append(f"chains of unequal length ({listed} draws): the first {length} draws of {len(used)} chains were used")
    dropped = [f"{c.name}: {max(c.rows, 0) - (length if c in used else 0)} draws" for c in files if c.rows != length]
    reason = f"after the first {length} draws, which all chains have; audit the file alone to search them"
    return used, notes, [Unread(where, reason) for where in dropped]


def _contents_of(
    source: object, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Files of chains, or a fit with or without its files."""
    if isinstance(source, list):
        return read_cmdstan_contents(source, name=name, progress=progress, trusted=trusted)
    written = [Path(p) for p in getattr(getattr(source, "runset", None), "csv_files", [])]
    if written and all(p.is_file() for p in written):
        return read_cmdstan_contents(written, name=name, progress=progress)
    fit = type(source).__name__
    return from_named_draws(read_cmdstan(source, name=name), fit, sign=fit)


FORMAT = Format(
    "CmdStan CSV",
    (".csv", *(f".csv{packed}" for packed in PACKED)),
    read_cmdstan,
    _contents_of,
    is_cmdstan_fit,
    rank=30,
    several=True,
    guarded=True,
)

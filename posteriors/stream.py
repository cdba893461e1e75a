"""CmdStan CSV files of any size, read once in bounded memory.

One pass reads, hashes and checks every line (its number of fields); numbers are parsed only where they are needed: the
sampler's and the model's columns of every draw, or of evenly spaced ones beyond a limit, and the columns with a value
for every record at evenly spaced draws.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.model import Progress
from bayesrecon.posteriors.cmdstan import is_cmdstan_fit, read_cmdstan, shared_name
from bayesrecon.posteriors.contents import (
    WIDE,
    WIDE_VALUES,
    Contents,
    Entry,
    Stamp,
    Unread,
    Variable,
    from_named_draws,
    group_of,
    stamp,
    stride,
)
from bayesrecon.posteriors.draws import Draws, assemble, check_names
from bayesrecon.posteriors.format import Format
from bayesrecon.untrusted.cmdstan_file import (
    COMMENT_LETTERS,
    CmdStanFile,
    check_complete,
    check_count,
    saved_warmup,
)
from bayesrecon.untrusted.guarded import opened

_MOST_DRAWS = 50_000  # whose parameters are kept
_MOST_NARROW = 4096  # columns that are parsed for every draw


@dataclass
class _Plan:
    """Which columns are parsed when. Positions are columns of the file."""

    header: list[str]
    narrow: list[int]
    wide: list[int]
    keep: int  # every which draw's narrow columns
    step: int  # every which draw's wide columns, a multiple of `keep`


@dataclass
class _Chain:
    """What one file gave."""

    narrow: list[Any] = field(default_factory=list)
    wide: list[Any] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    letters: int = 0
    stamp: Stamp | None = None
    rows: int = 0


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
            raise BayesreconError(f"{path}: no such file")
        with reading(path, "a CmdStan CSV file"), opened(CmdStanFile, path, trusted) as file:
            settings, header = file.heading()
            if plan is None:
                plan = _plan(path, header, total / max(file.first_row(), 1))
            elif header != plan.header:
                raise BayesreconError(f"{path}: its columns are not those of {paths[0]}: not chains of one fit")
            skip = 0 if settings.get("algorithm") == "fixed_param" else saved_warmup(path, settings)
            check_complete(path, settings)
            chain = _read(path, file, plan, skip, lambda bytes_, done=done: _tell(progress, done + bytes_, total))
        done += path.stat().st_size
        if chain.rows <= 0:
            raise BayesreconError(f"{path}: there are no draws after the header")
        check_count(path, settings, chain.rows)
        if chains and chain.rows != chains[0].rows:
            raise BayesreconError(
                f"{path}: {chain.rows} draws, but {paths[0]} has {chains[0].rows} (chains of unequal length)"
            )
        chains.append(chain)
    assert plan is not None
    title = name or shared_name(list(paths))
    with reading(title, "CmdStan draws"):
        return _contents(plan, chains, title)


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress("reading", done / max(total, 1))


def _plan(path: Path, header: list[str], draws: float) -> _Plan:
    ((most, times),) = Counter(header).most_common(1)
    if times > 1:
        raise BayesreconError(f"{path}: the column {most[:80]!r} appears {times} times")
    check_names(bases := {_base(column) for column in header}, path)
    group = {base: group_of(base) for base in bases}
    wide = [k for k, column in enumerate(header) if group[_base(column)] in WIDE and _base(column) != column]
    marked = set(wide)
    narrow = [k for k in range(len(header)) if k not in marked]
    if all(header[k].endswith("__") for k in narrow):  # a file of nothing but predictions: these are its parameters
        narrow, wide = list(range(len(header))), []
    if len(narrow) > _MOST_NARROW:
        wide = narrow[_MOST_NARROW:] + wide
        narrow = narrow[:_MOST_NARROW]
    keep = max(1, int(np.ceil(draws * len(narrow) / max(WIDE_VALUES, 1))), int(np.ceil(draws / _MOST_DRAWS)))
    step = keep * max(1, -(-stride(int(draws), len(wide)) // keep))
    return _Plan(header, narrow, sorted(wide), keep, step)


def _base(column: str) -> str:
    return re.split(r"[.\[]", column, maxsplit=1)[0]


def _read(path: Path, file: CmdStanFile, plan: _Plan, skip: int, tell: Any) -> _Chain:
    chain = _Chain(stamp=stamp(path))
    wanted = {
        "columns": len(plan.header),
        "narrow": plan.narrow,
        "wide": plan.wide,
        "keep": plan.keep,
        "step": plan.step,
    }
    at: dict[str, Any] = {}
    while not at.get("end"):
        found = file.block({**wanted, "skip": skip}, at)
        at = found["at"]
        chain.narrow.append(found["narrow"])
        chain.wide.append(found["wide"])
        chain.comments += found["comments"]
        tell(at["byte"])
    chain.rows, chain.letters = at["row"], at["letters"]
    return chain


def _contents(plan: _Plan, chains: list[_Chain], title: str) -> Contents:
    narrow = np.array([np.concatenate(chain.narrow) for chain in chains])  # (chains, draws kept, columns)
    length = narrow.shape[1]
    columns = {plan.header[k]: narrow[:, :, i] for i, k in enumerate(plan.narrow)}
    own = {name: values for name, values in columns.items() if not name.endswith("__")}
    sampler = {name: values for name, values in columns.items() if name.endswith("__")}
    variables = [Variable("sample_stats", name, (), True, values.reshape(-1)) for name, values in sampler.items()]
    density = columns.get("lp__")
    draws = Draws(assemble(own), None if density is None else density.copy(), title) if own else None
    if draws is not None:
        for name, values in draws.values.items():
            flat = values.reshape(-1, *values.shape[2:])
            variables.append(Variable("posterior", name, values.shape[2:], True, flat))
    each = plan.step // plan.keep
    rows = np.concatenate([c * length + np.arange(0, length, each) for c in range(len(chains))])
    if plan.wide:
        wide = np.concatenate([block for chain in chains for block in chain.wide])[None]  # (1, rows, columns)
        groups = assemble({plan.header[k]: wide[:, :, i] for i, k in enumerate(plan.wide)})
        for name, values in groups.items():
            at = values[0]
            variables.append(Variable(group_of(name), name, at.shape[1:], True, at))
    comments = [line for chain in chains for line in chain.comments]
    stamps = tuple(chain.stamp for chain in chains if chain.stamp)
    notes = (f"every {plan.keep}th draw was used",) if plan.keep > 1 else ()
    entries = [] if sampler or comments else [Entry(title, "text", "a table without columns or comments of CmdStan")]
    over = [c for c in chains if c.letters > COMMENT_LETTERS]
    return Contents(
        title,
        "CmdStan CSV",
        stamps,
        tuple(variables),
        comments=tuple(comments),
        draws=draws,
        rows=rows,
        notes=notes,
        entries=tuple(entries),
        unread=tuple(Unread("comments", f"only the first {COMMENT_LETTERS} letters were read") for _ in over[:1]),
    )


def _contents_of(
    source: Any, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Files of chains, or a fit with or without its files."""
    if isinstance(source, list):
        return read_cmdstan_contents(source, name=name, progress=progress, trusted=trusted)
    written = [Path(p) for p in getattr(getattr(source, "runset", None), "csv_files", [])]
    if written and all(p.is_file() for p in written):
        return read_cmdstan_contents(written, name=name, progress=progress)
    return from_named_draws(read_cmdstan(source, name=name), type(source).__name__)


FORMAT = Format(
    "CmdStan CSV", (".csv",), read_cmdstan, _contents_of, is_cmdstan_fit, rank=30, several=True, guarded=True
)

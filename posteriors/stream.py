"""CmdStan CSV files of any size, read once in bounded memory.

One pass reads, hashes and checks every line (its number of fields); numbers are parsed only where they are needed: the
sampler's and the model's columns of every draw, or of evenly spaced ones beyond a limit, and the columns with a value
for every record at evenly spaced draws.
"""

import codecs
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.model import Progress
from bayesrecon.posteriors.cmdstan import (
    check_complete,
    check_count,
    is_cmdstan_fit,
    read_cmdstan,
    read_header,
    saved_warmup,
    shared_name,
)
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
    stride,
)
from bayesrecon.posteriors.draws import Draws, assemble, check_names
from bayesrecon.posteriors.format import Format

_BLOCK = 2**23  # bytes read at once
_MOST_DRAWS = 50_000  # whose parameters are kept
_MOST_NARROW = 4096  # columns that are parsed for every draw
_COMMENT_LETTERS = 2**24  # that are kept of all comments of a file; what is beyond is said not to have been read


@dataclass
class _Plan:
    """Which columns are parsed when. Positions are columns of the file."""

    header: list[str]
    narrow: list[int]
    wide: list[int]
    keep: int  # every which draw's narrow columns
    step: int  # every which draw's wide columns, a multiple of `keep`
    prefix: int  # columns to split off a line to reach the last narrow one


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
    paths: Sequence[Path], *, name: str | None = None, progress: Progress | None = None
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
        with reading(path, "a CmdStan CSV file"):
            with path.open(encoding="utf-8-sig") as file:
                settings, header = read_header(path, file)
            if plan is None:
                plan = _plan(path, header, settings, total)
            elif header != plan.header:
                raise BayesreconError(f"{path}: its columns are not those of {paths[0]}: not chains of one fit")
            skip = 0 if settings.get("algorithm") == "fixed_param" else saved_warmup(path, settings)
            check_complete(path, settings)
            chain = _read(path, plan, skip, lambda bytes_, done=done: _tell(progress, done + bytes_, total))
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


def _plan(path: Path, header: list[str], settings: dict[str, str], total: int) -> _Plan:
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
    with path.open("rb") as file:
        line = next((one for one in _after_header(file) if not one.startswith(b"#")), b"")
    draws = total / max(len(line), 1)
    keep = max(1, int(np.ceil(draws * len(narrow) / max(WIDE_VALUES, 1))), int(np.ceil(draws / _MOST_DRAWS)))
    step = keep * max(1, -(-stride(int(draws), len(wide)) // keep))
    return _Plan(header, narrow, sorted(wide), keep, step, max(narrow) + 1)


def _after_header(file: Any) -> Iterator[bytes]:
    for line in file:
        if line.strip() and not line.startswith(b"#"):
            break
    yield from file


def _base(column: str) -> str:
    return re.split(r"[.\[]", column, maxsplit=1)[0]


def _read(path: Path, plan: _Plan, skip: int, tell: Any) -> _Chain:
    chain, digest, size = _Chain(), hashlib.sha256(), 0
    commas, number, seen_header = len(plan.header) - 1, 0, False
    row = -skip
    for lines in _line_blocks(path, digest):
        for line in lines:
            number += 1
            size += len(line) + 1
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if not line or line[0] == 35:  # '#'
                if chain.letters < _COMMENT_LETTERS and line:
                    chain.comments.append(line.decode("utf-8", "replace").lstrip("# ").rstrip())
                chain.letters += len(line)
                continue
            if not seen_header:
                seen_header = bool(line.strip())
                continue
            if line.count(b",") != commas:
                raise BayesreconError(
                    f"{path}: line {number} has {line.count(b',') + 1} fields under a header of {commas + 1} "
                    "(a truncated or edited file?)"
                )
            if row >= 0 and row % plan.keep == 0:
                wide = row % plan.step == 0
                _parse(chain, plan, line, wide, f"{path}: line {number}")
            row += 1
        tell(size)
    chain.rows = row
    chain.stamp = Stamp(str(path), path.stat().st_size, digest.hexdigest())
    return chain


def _line_blocks(path: Path, digest: Any) -> Iterator[list[bytes]]:
    """Lines without their ends, block by block."""
    rest = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            cut = block.rfind(b"\n")
            if cut < 0:
                rest += block
                if len(rest) > 2**30:
                    raise BayesreconError(f"{path}: a line of more than 1 GiB is not from CmdStan")
                continue
            lines = (rest + block[:cut]).split(b"\n")
            rest = block[cut + 1 :]
            yield [line[:-1] if line.endswith(b"\r") else line for line in lines]
    if rest:
        yield [rest]


def _parse(chain: _Chain, plan: _Plan, line: bytes, wide: bool, where: str) -> None:
    try:
        if wide and plan.wide:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                values = np.fromstring(line.decode("ascii"), sep=",")
            if len(values) != len(plan.header):
                raise ValueError
            chain.wide.append(values[plan.wide].astype(float))
        parts = line.split(b",", plan.prefix)
        chain.narrow.append([float(parts[k]) for k in plan.narrow])
    except (ValueError, DeprecationWarning):
        raise BayesreconError(f"{where} holds something that is not a number (a truncated or edited file?)") from None


def _contents(plan: _Plan, chains: list[_Chain], title: str) -> Contents:
    narrow = np.array([chain.narrow for chain in chains])  # (chains, draws kept, columns)
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
        wide = np.concatenate([np.array(chain.wide) for chain in chains])[None]  # (1, rows, columns)
        groups = assemble({plan.header[k]: wide[:, :, i] for i, k in enumerate(plan.wide)})
        for name, values in groups.items():
            at = values[0]
            variables.append(Variable(group_of(name), name, at.shape[1:], True, at))
    comments = [line for chain in chains for line in chain.comments]
    stamps = tuple(chain.stamp for chain in chains if chain.stamp)
    notes = (f"every {plan.keep}th draw was used",) if plan.keep > 1 else ()
    entries = [] if sampler or comments else [Entry(title, "text", "a table without columns or comments of CmdStan")]
    over = [c for c in chains if c.letters > _COMMENT_LETTERS]
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
        unread=tuple(Unread("comments", f"only the first {_COMMENT_LETTERS} letters were read") for _ in over[:1]),
    )


def _contents_of(source: Any, *, name: str | None = None, progress: Progress | None = None) -> Contents:
    """Files of chains, or a fit with or without its files."""
    if isinstance(source, list):
        return read_cmdstan_contents(source, name=name, progress=progress)
    written = [Path(p) for p in getattr(getattr(source, "runset", None), "csv_files", [])]
    if written and all(p.is_file() for p in written):
        return read_cmdstan_contents(written, name=name, progress=progress)
    return from_named_draws(read_cmdstan(source, name=name), type(source).__name__)


FORMAT = Format("CmdStan CSV", (".csv",), read_cmdstan, _contents_of, is_cmdstan_fit, rank=30, several=True)

"""Chains as plain text: of getdist and cobaya, with weights, of CODA as BUGS and JAGS write it, of programs for
phylogenies (BEAST's and RevBayes' `.log`, MrBayes' `.p`), and tables of R."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, Note, reading
from bayesrecon.posteriors.contents import Contents, Entry, Variable, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.columns import check_header, sign_of_columns, sort_columns, split_chains
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.roles import STRUCTURE
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.text_table import TextRows, read_lines, read_text_rows

_LABEL = re.compile(r"(?!(.*\d){4})[\w\\^{}$()\[\]|/*+,' -]{0,48}")  # of a parameter: three digits at most

WEIGHT, DENSITY = "weight", "minuslogpost"
"""The first two columns of cobaya and getdist: how often a draw counts, and minus its log density.

The density is that of the named parameters, not of a sampler's own coordinates."""

_EXPORT = (
    "its columns have no names. getdist stores them in a .paramnames file, CODA in CODAindex.txt; or add a "
    "first line of names"
)


def read_text_chains(
    source: str | Path | Sequence[str | Path], *, name: str | None = None, trusted: bool = False
) -> Draws:
    """Draws of one file or of several that belong together.

    The names come from `ROOT.paramnames` beside `ROOT_1.txt` (getdist), from the comment before the numbers (cobaya),
    from `CODAindex.txt` beside `CODAchain1.txt` (BUGS, JAGS), or from a first line (R). Of getdist and cobaya the first
    columns are the variables `weight` and `minuslogpost`. Chains of unequal length follow one another as one.

    Raises:
        BayesreconError: no names, or another number of them than of columns; rows that are not numbers.
    """
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(path) for path in source]
    return _read(paths, name, trusted)[0]


def _read(
    paths: Sequence[Path], name: str | None, trusted: bool
) -> tuple[Draws, tuple[str, ...], list[str], list[Variable], list[Path], str]:
    """Draws, notes, comments, names of rows, the files of names, and what says that these are draws."""
    chains: list[tuple[list[str], np.ndarray]] = []
    comments: list[str] = []
    labels: list[Variable] = []
    name_files: list[Path] = []
    for path in paths:
        with reading(path, "a text of chains"):
            table = asked(read_text_rows, path, trusted=trusted)
        comments += table["comments"]
        if table["rows"] and table["rows"] != [str(k + 1) for k in range(len(table["rows"]))]:
            texts = np.array(table["rows"])
            labels.append(Variable("columns", f"names of rows of {path.name}", texts.shape, False, texts))
        index = index_of(path)
        header, values, listed = _coda(path, index, table["values"]) if index else _named(path, table, trusted)
        name_files += listed
        chains.append((header, values))
    header = chains[0][0]
    title = name or re.sub(r"[-_.]?[0-9]+$", "", paths[0].stem)
    check_header(header, title)
    for path, (other, _) in zip(paths[1:], chains[1:], strict=True):
        if other != header:
            raise BayesreconError(
                f"{path}: its columns differ from those of {paths[0]}: these are not chains of one fit"
            )
    lengths = {len(values) for _, values in chains}
    alike = len(lengths) == 1
    matrix = np.stack([v for _, v in chains]) if alike else np.concatenate([v for _, v in chains])[None]
    notes = () if alike else (Note(f"{len(chains)} chains of unequal length were concatenated into one chain"),)
    columns = {column: matrix[:, :, k] for k, column in enumerate(header)}
    counting = split_chains({key: column.ravel() for key, column in columns.items()}, matrix[:, :, 0].size)[1]
    sign = "the index of CODA" if all(map(index_of, paths)) else sign_of_columns(header, counting)
    if WEIGHT in columns and not np.ptp(columns[WEIGHT]):  # all weights are equal
        del columns[WEIGHT]
    arrays = sort_columns(columns, by_r=True)
    return (
        Draws(arrays.arrays() | arrays.sampler, None, title),
        notes,
        comments,
        labels,
        list(dict.fromkeys(name_files)),
        sign,
    )


def _named(path: Path, table: TextRows, trusted: bool) -> tuple[list[str], np.ndarray, list[Path]]:
    """The names of columns that getdist, cobaya or a first line gives."""
    count = table["values"].shape[1]
    for listed in names_beside(path):
        with reading(listed, "a list of names"):
            names = [line.split()[0].rstrip("*") for line in asked(read_lines, listed, trusted=trusted)]
        header = [WEIGHT, DENSITY, *names]
        break
    else:
        listed = None
        header = table["names"] or next((c.split() for c in table["comments"] if len(c.split()) == count), [])
    if not header:
        raise BayesreconError(f"{path}: {_EXPORT}")
    if len(header) != count:
        raise BayesreconError(f"{path}: {count} columns under {len(header)} names")
    return header, table["values"], [listed] if listed else []


def _coda(path: Path, index: Path, values: np.ndarray) -> tuple[list[str], np.ndarray, list[Path]]:
    """One parameter after another, each value behind the number of its iteration."""
    if values.shape[1] != 2:
        raise BayesreconError(f"{path}: a chain of CODA has two columns, not {values.shape[1]}")
    with reading(index, "an index of CODA"):
        lines = [line.rsplit(None, 2) for line in asked(read_lines, index)]
    if not lines or any(len(line) != 3 or not (line[1] + line[2]).isdecimal() for line in lines):
        raise BayesreconError(f"{index}: each line of CODA's index must have a name, its first row and its last row")
    places = [(name.strip('"'), int(first), int(last)) for name, first, last in lines]
    lengths = {last - first for _, first, last in places}
    ends = [0, *(last for _, _, last in places)]
    if (
        len(lengths) > 1
        or min(lengths) < 0
        or any(first != end + 1 for (_, first, _), end in zip(places, ends, strict=False))
    ):
        raise BayesreconError(f"{index}: its parameters must be consecutive blocks of equally many rows")
    if ends[-1] != len(values):
        raise BayesreconError(f"{path}: {len(values)} rows, but {index.name} declares {ends[-1]}")
    blocks = values.reshape(len(places), -1, 2)
    if (blocks[:, :, 0] != blocks[0, :, 0]).any():
        raise BayesreconError(f"{path}: the parameters have different iterations")
    return [name for name, _, _ in places], blocks[:, :, 1].T, [index]


def index_of(path: Path) -> Path | None:
    """The index of a chain of CODA beside it, if it is there."""
    name = path.with_suffix(".ind") if path.suffix.lower() == ".out" else path.with_name(
        re.sub(r"(?i)chain\d*", "index", path.name)
    )  # fmt: skip
    return name if name != path and name.is_file() else None


def names_beside(path: Path) -> list[Path]:
    """The list of names that getdist keeps beside its chains, if it is there."""
    roots = dict.fromkeys((path.stem, re.sub(r"[-_.][0-9]+$", "", path.stem)))
    listed = (path.with_name(f"{root}.paramnames") for root in roots)
    return [path for path in listed if path.is_file()]


def _contents(
    source: str | Path | Sequence[str | Path],
    *,
    name: str | None = None,
    progress: Progress | None = None,
    trusted: bool = False,
) -> Contents:
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(path) for path in source]
    draws, notes, comments, labels, name_files, sign = _read(paths, name, trusted)
    stamps = tuple(stamp(path) for path in (*paths, *name_files))
    result = from_named_draws(draws, "text of chains", stamps, notes=notes, comments=tuple(comments), sign=sign)
    levels = {f"posterior/{base}": names for base, names in _levels(draws).items()}
    texts = {p.name: p.read_text("utf-8", "replace")[: 2**16] for p in name_files if p.suffix != ".txt"}
    listed = [Entry(k, "text", text, STRUCTURE if _are_names(text) else "") for k, text in texts.items()]
    return replace(result, variables=(*result.variables, *labels), entries=tuple(listed), coordinates=levels)


def _are_names(text: str) -> bool:
    """Whether each line is only a column name and a short LaTeX label.

    >>> _are_names("omega_m Omega_m"), _are_names("omega_m P4711, 41.5 years")
    (True, False)
    """
    return all(_LABEL.fullmatch("".join(line.split(None, 1)[1:])) for line in text.splitlines())


def _levels(draws: Draws) -> dict[str, np.ndarray]:
    return sort_columns(draws.values, by_r=True).levels()


FORMAT = Format(
    "text of chains", (".txt", ".out", ".log", ".p"), read_text_chains, _contents, several=True, guarded=True
)
